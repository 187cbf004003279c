//! What was lost, by cause.

use super::layout::{COUNTERS, Control};
use std::fmt;
use trace_control::protocol;
use trace_registry::sync::{AtomicU64, Ordering};

/// Which word of a control page counts what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Counter {
    Full = 0,
    TooLarge = 1,
    Nested = 2,
    NoBuffer = 3,
    Panicked = 4,
    /// Stamps that were below the one before and were raised to it. No loss.
    Clamped = 5,
    /// Records that went to the fallback region. No loss.
    Diverted = 6,
    /// Appends whose sequence was aborted (preemption, migration, a signal) and tried again. No loss.
    Restarted = 7,
}

impl Control {
    /// Adds 1.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free: a locked addition. Only cold paths count.
    pub(super) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds several, as [`count`](Self::count).
    pub(super) fn add(&self, counter: Counter, events: u64) {
        // Relaxed: a sum that orders nothing; what a descriptor carries of it is published by the commit of its close.
        self.counters[counter as usize].fetch_add(events, Ordering::Relaxed);
    }

    /// Returns the counters.
    pub(super) fn sample(&self) -> [u64; COUNTERS] {
        // Relaxed: see `count`.
        self.counters.each_ref().map(|c| c.load(Ordering::Relaxed))
    }
}

/// Events that were lost, by cause, and the records that were not but deserve a note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Discard mode: the ring was full.
    pub full: u64,
    /// Overwrite mode: recorded, and overwritten before they were consumed.
    pub overwritten: u64,
    /// Larger than a record may be.
    pub too_large: u64,
    /// Nested too deeply.
    pub nested: u64,
    /// Neither a ring buffer nor a fallback region for them.
    pub no_buffer: u64,
    /// Their probe panicked.
    pub panicked: u64,
    /// Fallback region: reserved, and never committed, because the thread died; or written over by a lap.
    pub uncommitted: u64,
    /// Not lost: recorded with the stamp before theirs, because the clock was behind it.
    pub clamped: u64,
    /// Not lost: recorded in the fallback region.
    pub diverted: u64,
    /// Not lost: recorded after their sequence was aborted.
    pub restarted: u64,
}

impl Losses {
    pub(super) fn from_counters(counters: [u64; COUNTERS], overwritten: u64) -> Losses {
        let of = |counter: Counter| counters[counter as usize];
        Losses {
            full: of(Counter::Full),
            overwritten,
            too_large: of(Counter::TooLarge),
            nested: of(Counter::Nested),
            no_buffer: of(Counter::NoBuffer),
            panicked: of(Counter::Panicked),
            uncommitted: 0,
            clamped: of(Counter::Clamped),
            diverted: of(Counter::Diverted),
            restarted: of(Counter::Restarted),
        }
    }

    /// Returns the number of events that never became records: all causes but overwriting.
    pub fn discarded(&self) -> u64 {
        [self.full, self.too_large, self.nested, self.no_buffer, self.panicked, self.uncommitted]
            .into_iter()
            .fold(0, u64::wrapping_add)
    }

    /// Returns the number of events lost by all causes.
    pub fn total(&self) -> u64 {
        self.discarded().wrapping_add(self.overwritten)
    }

    /// Returns the sum of two sets, cause by cause.
    #[must_use]
    pub fn plus(&self, other: &Losses) -> Losses {
        Losses {
            full: self.full.wrapping_add(other.full),
            overwritten: self.overwritten.wrapping_add(other.overwritten),
            too_large: self.too_large.wrapping_add(other.too_large),
            nested: self.nested.wrapping_add(other.nested),
            no_buffer: self.no_buffer.wrapping_add(other.no_buffer),
            panicked: self.panicked.wrapping_add(other.panicked),
            uncommitted: self.uncommitted.wrapping_add(other.uncommitted),
            clamped: self.clamped.wrapping_add(other.clamped),
            diverted: self.diverted.wrapping_add(other.diverted),
            restarted: self.restarted.wrapping_add(other.restarted),
        }
    }
}

/// In the words of the control protocol, so that everybody says it alike.
impl From<Losses> for protocol::Losses {
    fn from(lost: Losses) -> protocol::Losses {
        protocol::Losses {
            total: lost.total(),
            full: lost.full,
            overwritten: lost.overwritten,
            too_large: lost.too_large,
            nested: lost.nested,
            no_buffer: lost.no_buffer,
            panicked: lost.panicked,
            uncommitted: lost.uncommitted,
        }
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&protocol::Losses::from(*self), f)
    }
}

/// Returns the sum of the counters that are losses, for descriptors.
pub(super) fn discarded(counters: &[u64; COUNTERS]) -> u64 {
    Losses::from_counters(*counters, 0).discarded()
}

const _: () = assert!((Counter::Restarted as usize) < COUNTERS);

/// Loads the words of a descriptor's copy of the counters.
pub(super) fn load(words: &[AtomicU64; COUNTERS]) -> [u64; COUNTERS] {
    // Relaxed: the reader has loaded, with Acquire, the commit word behind the close that stored them.
    words.each_ref().map(|w| w.load(Ordering::Relaxed))
}
