//! The clock: nanoseconds of `CLOCK_MONOTONIC`, computed from the time stamp counter (TSC) where that can be trusted.
//!
//! # Design
//!
//! ```text
//! Clock ── current ──▶ Calibration { counter0, scale, ns0 }        ns = ((tsc − counter0) × scale >> 32) + ns0
//!                      one of 8; the others are spare             published by [`Clock::refine`], reused in turn
//! ```
//!
//! One calibration serves the whole process, so that stamps of different CPUs and channels compare. The consumer thread
//! refines it: it compares the counter with the OS clock, and publishes a new calibration that continues the old one at the
//! moment of the switch and runs up to 500 ppm faster or slower until the error is gone. What a calibration was and how far
//! it strayed is kept as a [`Segment`] for the trace's metadata.
//!
//! | State | Actor | Transition |
//! | --- | --- | --- |
//! | nominal rate (CPUID or a 150 µs measurement) | [`Clock::process`], once | → refined, at the first [`refine`](Clock::refine) |
//! | refined | consumer thread, after 10 ms, 100 ms, 1 s, then every 10 s | → refined |
//! | stepped forward: more than a second behind | consumer thread | → refined |
//! | in doubt: the counter was reset by a suspend, or ran while `CLOCK_MONOTONIC` stood | consumer thread | → refined, with the rate from before, at the next refinement |
//!
//! # Invariants
//!
//! - CL-1: `current` points to one of the clock's records, and that record is not written while it is current. A record is
//!   written again after seven others were current (more than ten seconds), so a reader that is interrupted between pointer
//!   and record still reads one calibration; [`Clock::now_ns`] checks its version besides.
//! - CL-2: `counter0` lies 2³² counts before the switch, so that a counter value read just before the switch, by a CPU that
//!   runs ahead of the load of `current`, does not go below it.
//! - CL-3: At the switch the new line lies at or above the old one, by at most 1 ns: stamps taken one after the other on one
//!   CPU do not go backwards.
//!   Where the counter was reset, the new line lies at or above all that the old one can have said before.
//! - CL-4: The rate of a calibration differs from the measured rate by at most 500 ppm.
//! - CL-5: Distances from `counter0` are signed: a counter that was reset yields stamps of the past, which a ring buffer raises to
//!   the stamp before, and no stamps of the far future, which it could never get below.
//! - CL-6: A measured rate that differs from the present one by more than 1 % is not believed until it is measured twice in
//!   succession: it spans a moment at which counter and OS clock went different ways. Such a segment's error says how far.
//!
//! # Guarantees
//!
//! Reading is wait-free in a sequence and lock-free elsewhere, and never makes a system call where the TSC is used. Stamps are
//! monotone per CPU. The distance from `CLOCK_MONOTONIC` is at most [`Segment::error_ns`] in a finished segment.
//!
//! # Where the TSC is not used
//!
//! The processor does not say that it is invariant, or the kernel's clock source is another (it watches the TSC and gives it up
//! when it drifts), or `/sys` cannot be read. Then [`Clock::is_counter`] is false and the OS clock is read.
//!
//! # References
//!
//! Intel SDM volume 3, 18.17 (invariant TSC) and CPUID leaf 15H; clock_gettime(2); `Documentation/timers/timekeeping.rst`.

mod calibration;
mod discipline;

pub use calibration::Calibration;
pub use discipline::Segment;

use crate::per_image::PerImage;
use crate::sys::counter;
use calibration::Line;
use discipline::{Discipline, Sample};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use trace_registry::sync::{AtomicPtr, Ordering, fence};

/// Number of calibration records; CL-1.
const RECORDS: usize = 8;

/// A clock of the process.
pub struct Clock {
    /// The present calibration.
    current: AtomicPtr<Calibration>,
    source: Source,
    records: &'static [Calibration; RECORDS],
    discipline: Mutex<Discipline>,
}

/// Blocks whoever comes while it is made: it takes a moment.
static PROCESS: PerImage<OnceLock<&'static Clock>> = PerImage::new(OnceLock::new);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Counter,
    Os,
    /// A line that a test sets; its OS clock is the same.
    Fixed,
}

/// Where the clock's zero lies in the time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Seconds from 1970-01-01 00:00:00 UTC.
    pub offset_s: i64,
    /// Nanoseconds to be added.
    pub offset_ns: u32,
    /// How far this may be off, in ns.
    pub precision_ns: u32,
}

impl Clock {
    /// Returns the clock of this process, calibrated at the first call (which takes up to about 200 µs).
    pub fn process() -> &'static Clock {
        PROCESS.get().get_or_init(|| {
            let source = if counter::is_usable() { Source::Counter } else { Source::Os };
            Clock::leak(source, Discipline::start(source == Source::Counter))
        })
    }

    /// Leaves the parent's clock behind, whose lock may be held for ever; for a forked child.
    pub(crate) fn renew() {
        PROCESS.renew();
    }

    /// Returns a clock that stands still at `ns` until [`set_fixed`](Self::set_fixed). For tests; never freed.
    #[doc(hidden)]
    pub fn fixed(ns: u64) -> &'static Clock {
        Clock::leak(Source::Fixed, (Discipline::start(false).0, Line { counter0: 0, scale: 0, ns0: ns }))
    }

    /// Sets a [fixed](Self::fixed) clock.
    #[doc(hidden)]
    pub fn set_fixed(&self, ns: u64) {
        if self.source == Source::Fixed {
            let _discipline = self.discipline.lock().unwrap_or_else(PoisonError::into_inner);
            self.publish(Line { counter0: 0, scale: 0, ns0: ns });
        }
    }

    fn leak(source: Source, (discipline, line): (Discipline, Line)) -> &'static Clock {
        let records: &'static [Calibration; RECORDS] = Box::leak(Box::default());
        records[0].write(line);
        let current = AtomicPtr::new(std::ptr::from_ref(&records[0]).cast_mut());
        Box::leak(Box::new(Clock { current, source, records, discipline: Mutex::new(discipline) }))
    }

    /// Whether stamps come from the time stamp counter (or, in tests, from a fixed line), so that channels may use
    /// [`ClockKind::Raw`](crate::ring_buffer::ClockKind) and `Ordered`.
    pub fn is_counter(&self) -> bool {
        self.source != Source::Os
    }

    /// Where the present calibration is pointed to, for sequences.
    pub(crate) fn current(&self) -> &AtomicPtr<Calibration> {
        &self.current
    }

    /// Returns the time, in ns of `CLOCK_MONOTONIC`.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and lock-free. Where the OS clock is read, as safe as clock_gettime(2).
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self.source {
            Source::Os => counter::os_ns(),
            _ => self.read(counter::read),
        }
    }

    /// Returns the time, ordered after every load that comes before in program order.
    ///
    /// # Signal safety
    ///
    /// As for [`now_ns`](Self::now_ns).
    #[inline]
    pub fn now_ordered_ns(&self) -> u64 {
        match self.source {
            Source::Os => counter::os_ns(),
            _ => self.read(counter::read_ordered),
        }
    }

    /// Returns the OS clock's time, in ns.
    #[inline]
    pub(crate) fn os_ns(&self) -> u64 {
        match self.source {
            Source::Fixed => self.read(counter::read),
            _ => counter::os_ns(),
        }
    }

    #[inline]
    fn read(&self, count: impl Fn() -> u64) -> u64 {
        loop {
            // Acquire: orders the record's content before its publication; pairs with the Release store in `publish`.
            let current = self.current.load(Ordering::Acquire);
            let Some(record) = self.records.iter().find(|r| std::ptr::eq(*r, current)) else { return counter::os_ns() };
            let version = record.version(Ordering::Acquire);
            let line = record.line();
            let ns = line.at(count());
            // CL-1. Acquire fence: the loads of the record come before the second look at its version; pairs with the
            // Release fence in `Calibration::write`.
            //  - If the version is the same, no store of a rewrite was read.
            //  - If it is not, the record was reused meanwhile, and a newer one is current.
            fence(Ordering::Acquire);
            if version == record.version(Ordering::Relaxed) {
                return ns;
            }
        }
    }

    /// Compares with the OS clock and publishes a new calibration. Returns after how long to call again.
    ///
    /// To be called by one thread of the tracer's own: first 10 ms after start, then as told. Not signal-safe.
    pub fn refine(&self) -> Duration {
        if self.source != Source::Counter {
            return Duration::from_secs(3600);
        }
        let mut discipline = self.discipline.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = discipline.refine(Sample::take()) {
            self.publish(line);
        }
        discipline.next()
    }

    /// Makes a line the present calibration. The caller holds the lock of `discipline`, or is alone.
    fn publish(&self, line: Line) {
        let current = self.current.load(Ordering::Relaxed);
        let at = self.records.iter().position(|r| std::ptr::eq(r, current)).unwrap_or(0);
        let next = &self.records[(at + 1) % RECORDS];
        next.write(line); // CL-1: it is not current
        // Release: orders the record before its address. Pairs with the Acquire load in `read`, and with the loads of the
        // sequences, which depend on it.
        self.current.store(std::ptr::from_ref(next).cast_mut(), Ordering::Release);
    }

    /// Returns the segments of the clock's history, oldest first; the last one is the present calibration.
    ///
    /// Beyond 256 segments, the oldest are merged into one that carries their largest error.
    pub fn segments(&self) -> Vec<Segment> {
        self.discipline.lock().unwrap_or_else(PoisonError::into_inner).segments()
    }

    /// Returns how far stamps may be from `CLOCK_MONOTONIC`, in ns: the largest error of the last minute or so.
    pub fn error_ns(&self) -> u64 {
        self.segments().iter().rev().take(8).map(|s| s.error_ns).max().unwrap_or(0)
    }

    /// Returns where the clock's zero lies in the time of day, now: steps of the system's clock change it.
    pub fn origin(&self) -> Origin {
        let (offset, precision_ns) = (0..5)
            .map(|_| {
                let before = counter::os_ns();
                let real = counter::real_ns();
                let after = counter::os_ns();
                (real - i128::from(before) - i128::from(after - before) / 2, after - before)
            })
            .min_by_key(|(_, width)| *width)
            .unwrap_or((0, u64::MAX));
        const SECOND: i128 = 1_000_000_000;
        Origin {
            offset_s: offset.div_euclid(SECOND) as i64,
            offset_ns: offset.rem_euclid(SECOND) as u32,
            precision_ns: u32::try_from(precision_ns).unwrap_or(u32::MAX),
        }
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("source", &self.source).field("now_ns", &self.now_ns()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_os_clock_within_its_error_and_never_goes_backwards_across_refinements() {
        let clock =
            Clock::leak(if counter::is_usable() { Source::Counter } else { Source::Os }, Discipline::start(counter::is_usable()));
        let mut last = clock.now_ns();
        for _ in 0..20 {
            let until = counter::os_ns() + 6_000_000;
            loop {
                let before = counter::os_ns();
                let now = clock.now_ns();
                let after = counter::os_ns();
                assert!(now >= last, "{now} after {last}");
                last = now;
                // The bracket is wide where the thread lost its CPU in it.
                let error = clock.segments().last().map_or(0, |s| s.error_ns) + 2;
                let outside = before.saturating_sub(now).max(now.saturating_sub(after));
                assert!(outside <= error, "{outside} ns off, bound {error}");
                if after > until {
                    break;
                }
            }
            clock.refine();
        }
        let segments = clock.segments();
        assert_eq!(segments.windows(2).filter(|w| w[0].until_ns != w[1].from_ns).count(), 0);
    }

    #[test]
    fn a_fixed_clock_stands_still() {
        let clock = Clock::fixed(7);
        assert_eq!([clock.now_ns(), clock.now_ordered_ns(), clock.os_ns()], [7; 3]);
        for ns in 0..20 {
            clock.set_fixed(ns);
            assert_eq!(clock.now_ns(), ns);
        }
    }

    #[test]
    fn the_origin_is_the_time_of_day() {
        let origin = Clock::process().origin();
        let now = Duration::new(origin.offset_s as u64, origin.offset_ns) + Duration::from_nanos(Clock::process().now_ns());
        let other = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        assert!(now.abs_diff(other) < Duration::from_secs(1), "{now:?} and {other:?}");
    }
}
