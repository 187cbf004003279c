//! Counters that threads add to without meeting each other: one cache line for each CPU.
//!
//! # Invariants
//!
//! - PC-1: A word is changed either by restartable sequences on its own CPU or by locked additions, never by both (as RS-1 of
//!   the read side): of each pair, the first word is the former, the second the latter.
#![expect(unsafe_code, reason = "counts by restartable sequences, which take an address")]

use crate::sync::{AtomicU64, Ordering};
use crate::sys;
use alloc::boxed::Box;

/// What is counted: pairs of words.
const WORDS: usize = 8;
/// How often a sequence is tried before a locked addition.
const TRIES: usize = 3;

#[repr(C, align(64))]
#[derive(Default)]
struct Line([AtomicU64; WORDS]);

static_assertions::const_assert_eq!(core::mem::size_of::<Line>(), 64);

/// Counters for each CPU: `P` is the pair, 0 to 3.
pub struct PerCpu {
    lines: Box<[Line]>,
}

impl core::fmt::Debug for PerCpu {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PerCpu").field("cpus", &self.lines.len()).finish_non_exhaustive()
    }
}

impl PerCpu {
    /// Makes counters for CPUs below `cpus`, at least one. On others, threads add to those of CPU 0.
    pub fn new(cpus: u32) -> PerCpu {
        sys::init(); // SYS-2: sequences need to know where the thread's area is
        PerCpu { lines: (0..cpus.max(1)).map(|_| Line::default()).collect() }
    }

    /// Adds 1 to the pair `P`.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free: a sequence that was aborted is tried again, at last a locked addition.
    #[inline]
    pub fn count<const P: usize>(&self) {
        if !self.try_count::<P>() {
            self.count_slow::<P>();
        }
    }

    #[inline(always)]
    fn try_count<const P: usize>(&self) -> bool {
        let base = self.lines.as_ptr().cast::<AtomicU64>().wrapping_add(const { first(P) });
        // SAFETY: PC-1. As many lines of 64 bytes as the limit says; the word lies in each.
        unsafe { sys::count_on_cpu::<0>(sys::rseq_offset(), base, self.lines.len() as u32) }
    }

    #[cold]
    fn count_slow<const P: usize>(&self) {
        if !(1..TRIES).any(|_| self.try_count::<P>()) {
            // Relaxed: a count.
            self.locked(const { first(P) + 1 }).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns true in every `n`th call, the first one included: on each CPU by itself, where that can count by sequences, else
    /// over all such calls together. `n` is not 0.
    ///
    /// # Signal safety
    ///
    /// As for [`count`](Self::count).
    #[inline]
    pub fn is_turn<const P: usize>(&self, n: u64) -> bool {
        for _ in 0..TRIES {
            let base = self.lines.as_ptr().cast::<AtomicU64>().wrapping_add(const { first(P) });
            // SAFETY: as in `try_count`.
            let position = unsafe { sys::turn_on_cpu(sys::rseq_offset(), base, self.lines.len() as u32, n) };
            if let Some(position) = position {
                return position == 0;
            }
        }
        self.locked(const { first(P) + 1 }).fetch_add(1, Ordering::Relaxed).checked_rem(n) == Some(0)
    }

    /// Returns how often the pair `P` was counted.
    pub fn sum<const P: usize>(&self) -> u64 {
        let of = |line: &Line| line.0[const { first(P) }..].iter().take(2).map(|w| w.load(Ordering::Relaxed)).sum::<u64>();
        self.lines.iter().map(of).sum()
    }

    fn locked(&self, word: usize) -> &AtomicU64 {
        let cpu = sys::cpu_id() as usize;
        let line = self.lines.get(cpu).or(self.lines.first());
        match line.and_then(|line| line.0.get(word)) {
            Some(word) => word,
            // There is at least one line, and `word` is one of its words.
            None => &NOWHERE,
        }
    }
}

static NOWHERE: AtomicU64 = AtomicU64::new(0);

/// The first word of a pair.
const fn first(pair: usize) -> usize {
    assert!(pair < WORDS / 2);
    pair * 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const THREADS: u64 = 4;
    const EACH: u64 = 100_000;

    #[test]
    fn nothing_is_lost_between_threads() {
        sys::init();
        for cpus in [1024, 1] {
            let counters = PerCpu::new(cpus);
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        for i in 0..EACH {
                            counters.count::<1>();
                            if i % 1000 == 0 {
                                thread::yield_now();
                            }
                        }
                    });
                }
            });
            assert_eq!((counters.sum::<0>(), counters.sum::<1>(), counters.sum::<2>()), (0, THREADS * EACH, 0));
        }
    }

    #[test]
    fn every_nth_is_exact_on_each_cpu() {
        sys::init();
        for n in [1, 7, 1000] {
            let counters = PerCpu::new(1024);
            let taken = AtomicU64::new(0);
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let mine = (0..EACH).filter(|_| counters.is_turn::<2>(n)).count();
                        taken.fetch_add(mine as u64, Ordering::Relaxed);
                    });
                }
            });
            let (taken, all) = (taken.into_inner(), THREADS * EACH);
            // Each CPU, and the locked position, takes its first call and then each nth: at most one more than its share.
            let positions = 2 * thread::available_parallelism().map_or(1024, |p| p.get() as u64 + 62);
            assert!(taken >= all / n && taken <= all / n + positions, "{taken} of {all}, 1 in {n}");
        }
    }
}
