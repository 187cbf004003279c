//! The words of the [read side](read_side), as its writer uses them.
//!
//! `benches/events/lists.rs` compiles this file too, with a barrier of its own.
#![expect(unsafe_code, reason = "turns the phase, as the one writer")]

use super::barrier;
use super::grace::Words;
use trace_registry::read_side::{self, PhaseCounters};

pub(super) struct ReadSide;

impl Words for ReadSide {
    fn phase(&self) -> usize {
        read_side::phase()
    }

    fn flip(&self) -> usize {
        // SAFETY: WR-1.
        unsafe { read_side::flip_phase() }
    }

    fn left(&self, phase: usize) -> u64 {
        sum(phase, PhaseCounters::left)
    }

    fn entered(&self, phase: usize) -> u64 {
        sum(phase, PhaseCounters::entered)
    }

    fn barrier(&self) -> bool {
        barrier()
    }
}

fn sum(phase: usize, count: impl Fn(&PhaseCounters) -> u64) -> u64 {
    read_side::counters().iter().map(|cpu| count(&cpu.phases[phase])).fold(0, u64::wrapping_add)
}
