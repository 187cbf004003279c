//! Switching tracepoints, and what a general-purpose pointer would cost in the place of the read side.

use super::{Options, show};
use arc_swap::ArcSwap;
use ringtrace::Session;
use std::hint::black_box;
use std::time::Instant;

const REPETITIONS: usize = 31;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    if options.takes("toggle/1") || options.takes("toggle/1000") {
        let directory = tempfile::tempdir()?;
        let session =
            Session::builder("toggled").enable("*::number").memory(16 << 20).output(directory.path().join("t")).start()?;
        for (name, rule) in [("toggle/1", "*:sites::a::a::a::site"), ("toggle/1000", "*:sites:*")] {
            let (mut on, mut off) = (Vec::new(), Vec::new());
            for _ in 0..REPETITIONS {
                let begin = Instant::now();
                session.enable(rule)?;
                on.push(begin.elapsed().as_nanos() as f64 / 1e3);
                let begin = Instant::now();
                session.disable(rule)?;
                off.push(begin.elapsed().as_nanos() as f64 / 1e3);
            }
            if options.takes(name) {
                show(options, name, 1, &[("us_enable", median(on)), ("us_disable", median(off))]);
            }
        }
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
