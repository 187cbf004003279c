//! How the calibration follows the OS clock: pure arithmetic on samples.

use super::calibration::Line;
use crate::sys::counter;
use std::collections::VecDeque;
use std::time::Duration;

/// Largest deliberate deviation of the rate, in millionths; CL-4.
pub(super) const SLEW_PPM: i128 = 500;
/// An error above this is removed by a step forward.
const STEP_NS: i64 = 1_000_000_000;
/// Segments that are kept apart.
const SEGMENTS: usize = 256;
/// A measured rate is believed if it differs from the present one by at most this, in millionths; CL-6.
const TRUST_PPM: u64 = 10_000;
const MILLION: i128 = 1_000_000;

/// One calibration of the clock, as the metadata describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First stamp.
    pub from_ns: u64,
    /// First stamp of the next segment; `u64::MAX`: it is the present one.
    pub until_ns: u64,
    /// Counter value at `from_ns`.
    pub count: u64,
    /// Nanoseconds for each count, times 2³².
    pub scale: u64,
    /// Largest distance from `CLOCK_MONOTONIC`: measured, or for the present segment expected.
    pub error_ns: u64,
}

/// A counter value and the OS clock's time at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) count: u64,
    pub(super) ns: u64,
    /// Counts by which the moment is uncertain, in both directions together.
    pub(super) width: u64,
}

impl Sample {
    /// Takes the sharpest of some samples.
    pub(super) fn take() -> Sample {
        (0..8)
            .map(|_| {
                let before = counter::read_ordered();
                let ns = counter::os_ns();
                let after = counter::read_ordered();
                let width = after.wrapping_sub(before);
                Sample { count: before.wrapping_add(width / 2), ns, width }
            })
            .min_by_key(|s| s.width)
            .unwrap_or(Sample { count: 0, ns: 0, width: u64::MAX })
    }

    fn uncertainty_ns(&self, scale: u64) -> u64 {
        scaled(self.width, scale) / 2 + 1
    }
}

fn scaled(counts: u64, scale: u64) -> u64 {
    u64::try_from((u128::from(counts) * u128::from(scale)) >> 32).unwrap_or(u64::MAX)
}

/// Returns nanoseconds for each count, times 2³², from two samples.
fn rate(from: &Sample, to: &Sample) -> Option<u64> {
    let counts = to.count.wrapping_sub(from.count);
    let ns = to.ns.checked_sub(from.ns)?;
    let scale = (u128::from(ns) << 32).checked_div(u128::from(counts))?;
    // Between 0.1 and 100 GHz.
    u64::try_from(scale).ok().filter(|s| (1 << 25..1 << 36).contains(s))
}

/// Whether two rates differ by no more than oscillators, and the OS clock's own discipline, can explain.
fn agree(a: u64, b: u64) -> bool {
    u128::from(a.abs_diff(b)) * MILLION.unsigned_abs() <= u128::from(b) * u128::from(TRUST_PPM)
}

/// The clock's history and present calibration.
#[derive(Debug)]
pub(super) struct Discipline {
    last: Sample,
    line: Line,
    /// The last rate that was believed, without its slew.
    rate: u64,
    /// A measured rate that was not believed, if the last one was not.
    refused: Option<u64>,
    refinements: u32,
    finished: VecDeque<Segment>,
    from_ns: u64,
    from_count: u64,
    error_at_start_ns: u64,
    expected_error_ns: u64,
}

impl Discipline {
    /// Takes the first sample and the nominal rate. Without a counter, a history of one segment without error.
    pub(super) fn start(has_counter: bool) -> (Discipline, Line) {
        let first = Sample::take();
        // What the hardware names is within 100 ppm of what the kernel uses; a measurement says how good it is.
        let nominal =
            has_counter.then(counter::nominal_hz).flatten().map(|hz| ((1_000_000_000_u128 << 32) / u128::from(hz)) as u64);
        let (last, scale, ppm) = match nominal {
            Some(scale) => (first, scale, 100),
            None if has_counter => {
                while counter::os_ns() < first.ns + 150_000 {
                    std::hint::spin_loop();
                }
                let second = Sample::take();
                let scale = rate(&first, &second).unwrap_or(1 << 32);
                let off = first.uncertainty_ns(scale) + second.uncertainty_ns(scale);
                (second, scale, off * 1_000_000 / second.ns.saturating_sub(first.ns).max(1) + 1)
            }
            None => (first, 1 << 32, 0),
        };
        let line = Line::through(last.count, last.ns, scale);
        let error_at_start_ns = if has_counter { last.uncertainty_ns(scale) } else { 0 };
        let discipline = Discipline {
            last,
            line,
            rate: scale,
            refused: None,
            refinements: 0,
            finished: VecDeque::new(),
            from_ns: last.ns,
            from_count: last.count,
            error_at_start_ns,
            // Until the first refinement, which may be late: 100 ms.
            expected_error_ns: error_at_start_ns + 100_000_000 / 1_000_000 * ppm,
        };
        (discipline, line)
    }

    /// After how long to refine again.
    pub(super) fn next(&self) -> Duration {
        match self.refinements {
            0 => Duration::from_millis(10),
            1 => Duration::from_millis(100),
            2 => Duration::from_secs(1),
            _ => Duration::from_secs(10),
        }
    }

    /// Returns the line to be published from now on. `None`: the sample is too close to the last one, or too blurred.
    pub(super) fn refine(&mut self, now: Sample) -> Option<Line> {
        if now.ns < self.last.ns + 5_000_000 || scaled(now.width, self.line.scale) > 100_000 {
            return None;
        }
        let elapsed = now.ns - self.last.ns;
        let measured = rate(&self.last, &now);
        let is_believed = |rate: &u64| agree(*rate, self.rate) || self.refused.is_some_and(|refused| agree(*rate, refused));
        let believed = measured.filter(is_believed);
        let rate = believed.unwrap_or(self.rate);
        // The counter stood or ran alone for a while, or the present rate is wrong: the next sample tells.
        let doubt = measured.filter(|_| believed.is_none()).map_or(0, |m| m.abs_diff(rate));
        let error = now.ns.wrapping_sub(self.line.at(now.count)) as i64;
        // How far stamps may have come: CL-3. A counter that was reset says nothing about those before.
        let is_reset = (now.count.wrapping_sub(self.last.count) as i64) < 0;
        let reached = if is_reset { self.from_ns + elapsed + elapsed / 1000 } else { self.line.at(now.count) };
        let behind = now.ns.wrapping_sub(reached) as i64;
        let blur = now.uncertainty_ns(rate);
        self.refinements += u32::from(believed.is_some());
        self.refused = if believed.is_some() { None } else { measured };
        let horizon = i128::try_from(self.next().as_nanos()).unwrap_or(i128::MAX);
        let (line, left) = if behind > STEP_NS {
            (Line::through(now.count, now.ns, rate), 0)
        } else {
            // CL-3: 1 ns above, because the old line was truncated.
            (Line::through(now.count, reached + 1, slewed(rate, behind, horizon)), behind.unsigned_abs() + 1)
        };
        self.finish(line.at(now.count), error.unsigned_abs().saturating_add(blur));
        // The rate is known to the blur of two samples over their distance, if it is not in doubt altogether.
        let drift = u128::from(blur + self.last.uncertainty_ns(rate)) * horizon.unsigned_abs() / u128::from(elapsed)
            + u128::from(doubt) * horizon.unsigned_abs() / u128::from(rate.max(1));
        self.error_at_start_ns = left.saturating_add(blur);
        self.expected_error_ns = self.error_at_start_ns.saturating_add(u64::try_from(drift).unwrap_or(u64::MAX));
        self.last = now;
        self.line = line;
        self.rate = rate;
        self.from_ns = line.at(now.count);
        self.from_count = now.count;
        Some(line)
    }

    fn finish(&mut self, until_ns: u64, error_at_end_ns: u64) {
        let segment = Segment {
            from_ns: self.from_ns,
            until_ns,
            count: self.from_count,
            scale: self.line.scale,
            // Both are lines over a segment: the distance is largest at an end.
            error_ns: error_at_end_ns.max(self.error_at_start_ns),
        };
        self.finished.push_back(segment);
        if self.finished.len() > SEGMENTS {
            if let Some(oldest) = self.finished.pop_front() {
                if let Some(next) = self.finished.front_mut() {
                    next.from_ns = oldest.from_ns;
                    next.error_ns = next.error_ns.max(oldest.error_ns);
                }
            }
        }
    }

    pub(super) fn segments(&self) -> Vec<Segment> {
        let present = Segment {
            from_ns: self.from_ns,
            until_ns: u64::MAX,
            count: self.from_count,
            scale: self.line.scale,
            error_ns: self.expected_error_ns,
        };
        self.finished.iter().copied().chain([present]).collect()
    }
}

/// Returns the rate that removes `error` ns within `horizon` ns, as far as CL-4 lets it.
fn slewed(rate: u64, error: i64, horizon: i128) -> u64 {
    let rate_wide = i128::from(rate);
    let most = rate_wide * SLEW_PPM / MILLION;
    let correction = rate_wide * i128::from(error) / horizon.max(1);
    u64::try_from(rate_wide + correction.clamp(-most, most)).unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_slew_is_limited_and_in_the_right_direction(
            rate in 1_u64 << 28..1 << 34, error in any::<i64>(), horizon in 1_i128..20_000_000_000,
        ) {
            let slewed = i128::from(slewed(rate, error, horizon));
            let difference = slewed - i128::from(rate);
            prop_assert!(difference.abs() * MILLION <= i128::from(rate) * SLEW_PPM);
            prop_assert!(difference.signum() * i128::from(error.signum()) >= 0);
        }

        /// An oscillator that is off by some ppm, and an OS clock that is itself slewed: the clock continues at each switch,
        /// stays within each segment's bound and comes to rest near the OS clock.
        #[test]
        fn a_wrong_start_is_slewed_away(ppm in -400_i64..400, jitter in prop::collection::vec(0_u64..60, 12)) {
            let count_of = |ns: u64| ns * 5 / 2; // 2.5 GHz
            let nominal = (1_u128 << 32) as u64 * 2 / 5;
            let wrong = (i128::from(nominal) * (MILLION + i128::from(ppm)) / MILLION) as u64;
            let start = Sample { count: count_of(1_000_000), ns: 1_000_000, width: 100 };
            let line = Line::through(start.count, start.ns, wrong);
            let mut discipline = Discipline {
                last: start, line, rate: wrong, refused: None, refinements: 0, finished: VecDeque::new(), from_ns: start.ns, from_count: start.count,
                error_at_start_ns: 0, expected_error_ns: 0,
            };
            let mut ns = start.ns;
            for jitter in jitter {
                ns += discipline.next().as_nanos() as u64;
                let before = discipline.line.at(count_of(ns));
                let sample = Sample { count: count_of(ns) + jitter, ns, width: 120 };
                let old = discipline.line.at(sample.count);
                let new = discipline.refine(sample);
                prop_assert!(new.is_some());
                prop_assert_eq!(discipline.line.at(sample.count), old + 1);
                let bound = discipline.finished.back().map_or(0, |s| s.error_ns);
                prop_assert!(before.abs_diff(ns) <= bound, "{} off, bound {}", before.abs_diff(ns), bound);
            }
            prop_assert!(discipline.line.at(count_of(ns)).abs_diff(ns) <= 100);
        }
    }

    const COUNTS_PER_US: u64 = 2500;
    const NOMINAL: u64 = ((1_u128 << 32) * 2 / 5) as u64;
    const SECOND: u64 = 1_000_000_000;

    /// A discipline of 2.5 GHz that has settled, its last sample, and how it got there is forgotten.
    fn settled(scale: u64) -> (Discipline, Sample) {
        let mut sample = Sample { count: 1000 * SECOND, ns: 400 * SECOND, width: 100 };
        let mut discipline = Discipline {
            last: sample,
            line: Line::through(sample.count, sample.ns, scale),
            rate: scale,
            refused: None,
            refinements: 0,
            finished: VecDeque::new(),
            from_ns: sample.ns,
            from_count: sample.count,
            error_at_start_ns: 0,
            expected_error_ns: 0,
        };
        for _ in 0..6 {
            sample = after(sample, discipline.next().as_nanos() as u64);
            assert!(discipline.refine(sample).is_some());
        }
        (discipline, sample)
    }

    fn after(sample: Sample, ns: u64) -> Sample {
        Sample { count: sample.count + ns / 1000 * COUNTS_PER_US, ns: sample.ns + ns, ..sample }
    }

    fn distance(discipline: &Discipline, sample: Sample) -> i128 {
        i128::from(discipline.line.at(sample.count)) - i128::from(sample.ns)
    }

    #[test]
    fn a_counter_that_was_reset_is_followed_again() {
        for count in [0, 5 * SECOND, 999 * SECOND] {
            let (mut discipline, last) = settled(NOMINAL);
            let reset = Sample { count, ns: last.ns + 10 * SECOND, width: 100 };
            // CL-5: nobody gets a stamp from the far future meanwhile.
            let between = discipline.line.at(reset.count);
            assert!((between as i64) < last.ns as i64, "{between}");
            let reached = discipline.line.at(last.count) + 10 * SECOND;
            assert!(discipline.refine(reset).is_some());
            // Not behind what the old line may have said, nor far ahead.
            assert!(discipline.line.at(reset.count) > reached);
            assert!(distance(&discipline, reset) < 20_000_000);
            assert!(agree(discipline.line.scale, NOMINAL));
            let error = discipline.finished.back().expect("a segment").error_ns;
            assert!(error >= reset.ns.wrapping_sub(between), "{error}");
            let mut sample = reset;
            for _ in 0..6 {
                sample = after(sample, 10 * SECOND);
                assert!(discipline.refine(sample).is_some());
            }
            assert!(distance(&discipline, sample).abs() < 100, "{}", distance(&discipline, sample));
        }
    }

    #[test]
    fn a_suspend_that_only_the_counter_ran_through_leaves_the_rate() {
        for suspended in [SECOND / 2, 480 * SECOND] {
            let (mut discipline, last) = settled(NOMINAL);
            let awake = Sample { ns: last.ns + 10 * SECOND, ..after(last, 10 * SECOND + suspended) };
            let old = discipline.line.at(awake.count);
            assert!(discipline.refine(awake).is_some());
            assert_eq!(discipline.line.at(awake.count), old + 1);
            assert!(i128::from(discipline.line.scale.abs_diff(NOMINAL)) * MILLION <= i128::from(NOMINAL) * SLEW_PPM);
            let segments = discipline.segments();
            let [.., finished, present] = segments.as_slice() else { panic!("two segments") };
            assert!(finished.error_ns >= suspended && present.error_ns >= suspended);
            // The next measurement is of one piece again.
            let sample = after(awake, 10 * SECOND);
            let before = distance(&discipline, sample);
            assert!(discipline.refine(sample).is_some());
            assert!(before < suspended.into() && discipline.refused.is_none());
            assert!(agree(discipline.rate, NOMINAL));
        }
    }

    #[test]
    fn a_rate_that_is_measured_twice_is_believed() {
        let (mut discipline, last) = settled(NOMINAL);
        discipline.rate = NOMINAL / 10 * 9;
        discipline.line = Line::through(last.count, last.ns, discipline.rate);
        discipline.from_ns = last.ns;
        let first = after(last, SECOND);
        assert!(discipline.refine(first).is_some());
        assert_eq!(discipline.rate, NOMINAL / 10 * 9);
        // Either may be right.
        assert!(discipline.expected_error_ns > SECOND / 10);
        assert!(discipline.refine(after(first, SECOND)).is_some());
        assert!(agree(discipline.rate, NOMINAL));
    }

    #[test]
    fn old_segments_are_merged() {
        let (mut discipline, _) = Discipline::start(false);
        for k in 0..600 {
            discipline.finish(discipline.from_ns + 10, u64::from(k == 3) * 77);
            discipline.from_ns += 10;
        }
        let segments = discipline.segments();
        assert_eq!(segments.len(), SEGMENTS + 1);
        assert_eq!(segments[0].error_ns, 77);
        assert_eq!(segments.windows(2).filter(|w| w[0].until_ns != w[1].from_ns).count(), 0);
    }
}
