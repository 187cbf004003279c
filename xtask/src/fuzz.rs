//! `cargo xtask fuzz`.

use crate::process::{Cmd, Tally};
use crate::workspace::root;
use anyhow::Result;
use std::time::Duration;

const TARGETS: [&str; 3] = ["tsdl", "json", "packets"];

/// Seconds for each target in the short form, which is part of `cargo xtask ci`.
const SHORT_S: u64 = 5;

/// Fuzzes each target for some seconds; with `guided`, by cargo-fuzz, which needs a nightly compiler.
pub(crate) fn run(seconds: u64, guided: bool) -> Result<Tally> {
    let directory = root().join("fuzz");
    let limit = Duration::from_secs(seconds + 120);
    let mut tally = Tally::default();
    if !guided && !Cmd::cargo().args(["build", "--quiet", "--release", "--bin", "mutate"]).dir(&directory).passes()? {
        return Ok(Tally::of(false));
    }
    for target in TARGETS {
        let seconds = seconds.to_string();
        let mutate = || Cmd::new(directory.join("target/release/mutate")).arg(target);
        tally += if guided {
            let corpus = directory.join("corpus").join(target);
            if !mutate().arg("--write").arg(&corpus).passes()? {
                return Ok(Tally::of(false));
            }
            let time = format!("-max_total_time={seconds}");
            let fuzz = Cmd::new("cargo").args(["+nightly", "fuzz", "run", "--features", "libfuzzer", target, "--"]);
            fuzz.args([time.as_str(), "-max_len=65536", "-timeout=10", "-rss_limit_mb=1024"])
                .dir(&directory)
                .limit(limit)
                .check()?
        } else {
            mutate().args(["--seconds", &seconds]).limit(limit).check()?
        };
    }
    Ok(tally)
}

/// A few seconds for each target.
pub(crate) fn short() -> Result<Tally> {
    run(SHORT_S, false)
}
