//! `cargo xtask ci`.

use crate::process::Tally;
use crate::{check, crash, ctf_suite, ctf2, fuzz, golden, instructions, readme, stress, test, tidy, ui};
use anyhow::Result;
use std::time::{Duration, Instant};

type Step = fn() -> Result<Tally>;

/// Cheap steps first. The short link matrix is one of the workspace's tests.
const STEPS: [(&str, Step); 13] = [
    ("tidy", tidy::run),
    ("check", check::run),
    ("test", test::run),
    ("ctf2", ctf2::run),
    ("ctf-suite", || ctf_suite::run(None)),
    ("fuzz", fuzz::short),
    ("ui", || ui::run(false)),
    ("stress", stress::ci),
    ("crash", crash::ci),
    ("soak", crash::soak_ci),
    ("golden", || golden::run(false)),
    ("instructions", || instructions::run(false)),
    ("readme", readme::run),
];

pub(crate) fn run() -> Result<Tally> {
    let mut results: Vec<(&str, Tally, Duration)> = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let start = Instant::now();
        let tally = step().unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Tally::of(false)
        });
        results.push((name, tally, start.elapsed()));
    }
    println!("\n== summary");
    let mut total = Tally::default();
    for (name, tally, time) in results {
        println!("{name:10} {:6.1} s  {tally}", time.as_secs_f64());
        total += tally;
    }
    Ok(total)
}
