//! The time stamp counter, read and nothing else: the floor of every event that has a time stamp.

use compare::Tracer;
use std::hint::black_box;

struct Clock;

impl Tracer for Clock {
    type Thread<'a> = ();

    fn thread(&self) {}

    #[inline(always)]
    fn number((): &mut (), _: u64) {
        // SAFETY: x86-64 always has the instruction.
        #[cfg(target_arch = "x86_64")]
        black_box(unsafe { core::arch::x86_64::_rdtsc() });
        #[cfg(not(target_arch = "x86_64"))]
        black_box(std::time::Instant::now());
    }

    #[inline(always)]
    fn mix(thread: &mut (), _: u32, large: u64, _: &str) {
        Self::number(thread, large);
    }

    fn arrived(&self, _: u64) -> Option<u64> {
        None
    }
}

fn main() {
    compare::serve(&Clock);
}
