//! Switching tracepoints: whole calls, and their parts.

use super::{Options, show};
use grace::GracePeriod;
use ringtrace::__private::{Entry, Gate};
use ringtrace::Session;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Instant;
#[cfg(target_os = "linux")]
use trace_registry::read_side;
use words::ReadSide;

#[path = "../../trace-runtime/src/rcu/grace.rs"]
mod grace;
#[path = "../../trace-runtime/src/rcu/words.rs"]
mod words;

const REPETITIONS: usize = 31;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn us_since(begin: Instant) -> f64 {
    begin.elapsed().as_nanos() as f64 / 1e3
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    const TOGGLES: [(&str, &str); 2] = [("toggle/1", "*:sites::a::a::a::site"), ("toggle/1000", "*:sites::*")];
    if TOGGLES.iter().any(|(name, _)| options.takes(name)) {
        let directory = tempfile::tempdir()?;
        let session =
            Session::builder("toggled").enable("*::number").memory(16 << 20).output(directory.path().join("t")).start()?;
        for (name, rule) in TOGGLES.into_iter().filter(|(name, _)| options.takes(name)) {
            let (mut on, mut off) = (Vec::new(), Vec::new());
            for _ in 0..options.rounds(REPETITIONS) {
                let begin = Instant::now();
                session.enable(rule)?;
                on.push(us_since(begin));
                let begin = Instant::now();
                session.disable(rule)?;
                off.push(us_since(begin));
            }
            show(options, name, 1, &[("us_enable", median(on)), ("us_disable", median(off))]);
        }
    }
    for (name, gates) in [("toggle/swap/1", 1), ("toggle/swap/1000", 1000), ("toggle/swap/10000", 10_000)] {
        if options.takes(name) {
            show(options, name, 1, &[("us", swaps(options, gates))]);
        }
    }
    if options.takes("toggle/grace_period") || options.takes("toggle/stop") {
        while_some_fire(options)?;
    }
    Ok(())
}

/// Lists that are ready are put in the place of others, of as many tracepoints: microseconds.
fn swaps(options: &Options, gates: usize) -> f64 {
    const SWAPS: usize = 100_000;
    let gates: Vec<Gate> = (0..gates).map(|_| Gate::new()).collect();
    let lists: [*mut Entry; 2] = [64, 128].map(std::ptr::without_provenance_mut);
    let turns = SWAPS / gates.len();
    let pass = |_| {
        let begin = Instant::now();
        for turn in 0..turns {
            for gate in &gates {
                // SAFETY: nobody follows them.
                #[expect(unsafe_code, reason = "publishes what is no list")]
                let before = unsafe { gate.publish(lists[turn % 2]) };
                _ = black_box(before);
            }
        }
        us_since(begin) / turns as f64
    };
    median((0..options.rounds(REPETITIONS)).map(pass).collect())
}

/// As the run time's own.
fn barrier() -> bool {
    fence(Ordering::SeqCst);
    #[cfg(target_os = "linux")]
    if read_side::is_sequenced() {
        const PRIVATE_EXPEDITED: libc::c_int = 8;
        // SAFETY: membarrier(2) touches no memory of its caller.
        #[expect(unsafe_code, reason = "membarrier")]
        return unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) == 0 };
    }
    true
}

/// What waits for readers, while nothing fires, and while two threads do.
fn while_some_fire(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let rounds = options.rounds(REPETITIONS);
    for firing in [0, 2] {
        let session = |name: &str, rules: &str| {
            Session::builder(name).enable(rules).overwrite().memory(1 << 20).output(directory.path().join(name)).start()
        };
        let fired = session(&format!("fired-{firing}"), "*::number")?;
        let stopped = session(&format!("stopped-{firing}"), "*:sites::a::a::a::site")?;
        let over = AtomicBool::new(false);
        // Stopping a session: its lists are swapped, a grace period is awaited, its rings, which are empty, are delivered.
        let stop = |_| {
            let begin = Instant::now();
            stopped.stop()?;
            let us = us_since(begin);
            stopped.start().map(|()| us)
        };
        let grace_period = |_| {
            let begin = Instant::now();
            let mut period = GracePeriod::begin(&ReadSide);
            while !period.poll(&ReadSide) {
                spin_loop();
            }
            us_since(begin)
        };
        let measured = std::thread::scope(|scope| {
            for _ in 0..firing {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        super::rows::fire_numbers(1000);
                    }
                });
            }
            let measured = || -> ringtrace::Result<[Vec<f64>; 2]> {
                // One grace period at a time (WR-1): stopping leaves the run time nothing to reclaim.
                stopped.stop()?;
                let periods = (0..10 * rounds).map(grace_period).collect();
                stopped.start()?;
                let stops: Result<Vec<f64>, _> = (0..rounds).map(stop).collect();
                Ok([periods, stops?])
            };
            let measured = measured();
            over.store(true, Ordering::Relaxed);
            measured
        });
        drop(fired);
        for ((name, unit), times) in [("toggle/grace_period", "us"), ("toggle/stop", "us_stop")].into_iter().zip(measured?) {
            if options.takes(name) {
                show(options, name, 1 + firing, &[(unit, median(times))]);
            }
        }
    }
    Ok(())
}
