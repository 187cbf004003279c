//! How counts become nanoseconds.

use trace_registry::sync::{AtomicU64, Ordering, fence};

/// Counts that lie between the origin of a line and the moment it is published; CL-2.
pub(super) const LEAD: u64 = 1 << 32;

/// A line from counter values to nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) counter0: u64,
    /// Nanoseconds for each count, times 2³².
    pub(super) scale: u64,
    pub(super) ns0: u64,
}

impl Line {
    /// Returns the nanoseconds at `count`. The same arithmetic as in the sequences.
    #[inline(always)]
    pub(super) fn at(self, count: u64) -> u64 {
        // CL-5: signed.
        let scaled = i128::from(count.wrapping_sub(self.counter0) as i64) * i128::from(self.scale);
        ((scaled >> 32) as u64).wrapping_add(self.ns0)
    }

    /// Returns the line with this `scale` that has `ns` at `count`.
    pub(super) fn through(count: u64, ns: u64, scale: u64) -> Line {
        // LEAD × scale >> 32 = scale.
        Line { counter0: count.wrapping_sub(LEAD), scale, ns0: ns.wrapping_sub(scale) }
    }
}

/// A line as sequences read it.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Calibration {
    pub(crate) counter0: AtomicU64,
    pub(crate) scale: AtomicU64,
    pub(crate) ns0: AtomicU64,
    /// Grows with each rewrite; odd during one.
    version: AtomicU64,
}

impl Calibration {
    /// CL-1: while it is not current.
    pub(super) fn write(&self, line: Line) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // Release fence: the version comes before the stores below. Pairs with the Acquire fence in `Clock::read`.
        fence(Ordering::Release);
        self.counter0.store(line.counter0, Ordering::Relaxed);
        self.scale.store(line.scale, Ordering::Relaxed);
        self.ns0.store(line.ns0, Ordering::Relaxed);
        // Release: the content comes before the version. Pairs with the Acquire load in `Clock::read`.
        self.version.store(version + 2, Ordering::Release);
    }

    pub(super) fn version(&self, ordering: Ordering) -> u64 {
        self.version.load(ordering)
    }

    /// Reads the line; whole where the version is the same before and after.
    #[inline(always)]
    pub(super) fn line(&self) -> Line {
        // Relaxed: ordered by the version's loads in `Clock::read`.
        Line {
            counter0: self.counter0.load(Ordering::Relaxed),
            scale: self.scale.load(Ordering::Relaxed),
            ns0: self.ns0.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_goes_through_its_point_and_is_monotone(
            count in any::<u64>(), ns in 0_u64..1 << 62, scale in 1_u64 << 28..1 << 34, step in 0_u64..1 << 40,
        ) {
            let line = Line::through(count, ns, scale);
            prop_assert_eq!(line.at(count), ns);
            let later = line.at(count.wrapping_add(step));
            prop_assert_eq!(u128::from(later - ns), (u128::from(step) * u128::from(scale)) >> 32);
            // CL-2: a counter value from before the switch is a time before it.
            prop_assert!(line.at(count.wrapping_sub(step.min(LEAD))) <= ns);
        }
    }
}
