//! The words of the [read side](read_side), as its writer uses them.
//!
//! `benches/events/lists.rs` compiles this file too, with a barrier of its own.

use super::barrier;
use super::grace::Words;
use trace_registry::read_side::{self, CpuCounters};
use trace_registry::sync::{AtomicU64, Ordering};

pub(super) struct ReadSide;

impl Words for ReadSide {
    fn phase(&self) -> usize {
        read_side::phase()
    }

    fn flip(&self) -> usize {
        read_side::flip_phase()
    }

    fn left(&self, phase: usize) -> u64 {
        sum(|cpu| [&cpu.phases[phase].leave, &cpu.phases[phase].leave_locked])
    }

    fn entered(&self, phase: usize) -> u64 {
        sum(|cpu| [&cpu.phases[phase].enter, &cpu.phases[phase].enter_locked])
    }

    fn barrier(&self) -> bool {
        barrier()
    }
}

fn sum(words: impl Fn(&CpuCounters) -> [&AtomicU64; 2]) -> u64 {
    // Acquire: orders what a reader did before its leave. Pairs with the addition in `Section::leave`.
    let all = read_side::counters().iter().flat_map(|cpu| words(cpu).map(|w| w.load(Ordering::Acquire)));
    all.fold(0, u64::wrapping_add)
}
