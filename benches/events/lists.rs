//! Switching tracepoints, and what a general-purpose pointer would cost in the place of the read side.

use super::{Options, show};
use arc_swap::ArcSwap;
use ringtrace::Session;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const REPETITIONS: usize = 31;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    const TOGGLES: [(&str, &str); 2] = [("toggle/1", "*:sites::a::a::a::site"), ("toggle/1000", "*:sites::*")];
    if TOGGLES.iter().any(|(name, _)| options.takes(name)) {
        let directory = tempfile::tempdir()?;
        let session =
            Session::builder("toggled").enable("*::number").memory(16 << 20).output(directory.path().join("t")).start()?;
        for (name, rule) in TOGGLES.into_iter().filter(|(name, _)| options.takes(name)) {
            let (mut on, mut off) = (Vec::new(), Vec::new());
            for _ in 0..REPETITIONS {
                let begin = Instant::now();
                session.enable(rule)?;
                on.push(begin.elapsed().as_nanos() as f64 / 1e3);
                let begin = Instant::now();
                session.disable(rule)?;
                off.push(begin.elapsed().as_nanos() as f64 / 1e3);
            }
            show(options, name, 1, &[("us_enable", median(on)), ("us_disable", median(off))]);
        }
    }
    if options.takes("toggle/grace_period") {
        grace_periods(options)?;
    }
    if options.takes("read_side/arc_swap") {
        const LOADS: u64 = 200_000;
        let shared = ArcSwap::from_pointee(7_u64);
        let pass = |_| {
            let begin = Instant::now();
            for _ in 0..LOADS {
                black_box(**shared.load());
            }
            begin.elapsed().as_nanos() as f64 / LOADS as f64
        };
        show(options, "read_side/arc_swap", 1, &[("ns", median((0..REPETITIONS).map(pass).collect()))]);
    }
    Ok(())
}

/// Stopping a session: its lists are swapped, a grace period is awaited, its rings, which are empty, are delivered. While nothing
/// fires, and while two threads do.
fn grace_periods(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    for firing in [0, 2] {
        let session = |name: &str, rules: &str| {
            Session::builder(name).enable(rules).overwrite().memory(1 << 20).output(directory.path().join(name)).start()
        };
        let fired = session(&format!("fired-{firing}"), "*::number")?;
        let stopped = session(&format!("stopped-{firing}"), "*:sites::a::a::a::site")?;
        let over = AtomicBool::new(false);
        let times = std::thread::scope(|scope| {
            for _ in 0..firing {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        super::rows::fire_numbers(1000);
                    }
                });
            }
            let stop = |_| {
                let begin = Instant::now();
                stopped.stop()?;
                let us = begin.elapsed().as_nanos() as f64 / 1e3;
                stopped.start().map(|()| us)
            };
            let times: Result<Vec<f64>, _> = (0..REPETITIONS).map(stop).collect();
            over.store(true, Ordering::Relaxed);
            times
        });
        drop(fired);
        show(options, "toggle/grace_period", 1 + firing, &[("us_stop", median(times?))]);
    }
    Ok(())
}
