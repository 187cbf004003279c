//! Prints what an append costs beside a bare read of the counter; asserts only that the events arrive.
//!
//! `cargo test --release -p trace-runtime --test ring_cost -- --nocapture`
#![expect(unsafe_code, reason = "appends by address, reads the counter")]

mod ring_support;

use ring_support::{BY_CID, BY_CPU, NO_CLOCK, ORDERED, Of, RAW, cpus, has_sequences, pin};
use std::hint::black_box;
use std::time::Instant;
use trace_registry::field::Piece;
use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{Config, Geometry, Outcome};

const REPETITIONS: usize = 200;
const EVENTS: usize = 5_000;

/// Returns the median of the time that `work` takes, in ns for each of its events.
fn cost(name: &str, mut work: impl FnMut()) -> f64 {
    let mut costs: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos() as f64 / EVENTS as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("{name:<44} {:7.2} ns", costs[REPETITIONS / 2]);
    costs[REPETITIONS / 2]
}

fn append_cost<C: Config>(name: &str, lengths: &[usize]) -> f64 {
    let geometry = Geometry { buffers: cpus(), sub_buffer: 64 << 10, sub_buffers: 16, fallback: 1 << 20 };
    let cpus: Vec<u32> = (0..geometry.buffers).collect();
    let channel = ring_support::create::<C>(ring_support::file(), geometry, &cpus, Clock::process()).expect("a channel");
    channel.core().populate(geometry.sub_buffers);
    let appender = channel.core().appender(channel.core().generation(), 1, false, 0);
    let bytes = [0x5a_u8; 64];
    let pieces: Vec<Piece> = lengths.iter().map(|len| Piece { start: bytes.as_ptr(), len: *len }).collect();
    let total = lengths.iter().sum();
    let cost = cost(&format!("append {name}, {lengths:?} bytes"), || {
        for _ in 0..EVENTS {
            // SAFETY: `C` made the channel; the pieces name `bytes`, and `total` is their sum.
            let outcome = unsafe { appender.append::<C>(black_box(&pieces), total) };
            assert_eq!(outcome, Outcome::Recorded);
        }
    });
    assert_eq!(channel.core().records(), (REPETITIONS * EVENTS) as u64);
    cost
}

#[test]
fn an_append_costs_about_the_stamp() {
    pin();
    if !Clock::process().is_counter() || !has_sequences() {
        append_cost::<Of<true, { ring_support::OS }, false, BY_CPU>>("by the OS clock", &[8]);
        return;
    }
    #[cfg(target_arch = "x86_64")]
    {
        let counter = cost("counter", || {
            for _ in 0..EVENTS {
                #[allow(unused_unsafe, reason = "newer toolchains declare it safe")]
                // SAFETY: every x86-64 has it.
                black_box(unsafe { core::arch::x86_64::_rdtsc() });
            }
        });
        let raw = append_cost::<Of<true, RAW, false, BY_CPU>>("raw", &[8]);
        println!("{:<44} {:7.2}", "ratio", raw / counter);
    }
    if trace_runtime::ring_buffer::Placement::MmCid.is_available() {
        append_cost::<Of<true, RAW, false, BY_CID>>("raw, by concurrency ID", &[8]);
    }
    append_cost::<Of<true, RAW, true, BY_CPU>>("raw, large header", &[8]);
    append_cost::<Of<true, RAW, false, BY_CPU>>("raw", &[12, 35]);
    append_cost::<Of<true, ORDERED, false, BY_CPU>>("ordered", &[8]);
    append_cost::<Of<true, NO_CLOCK, false, BY_CPU>>("without a clock", &[8]);
}
