//! `cargo xtask instructions`: instructions of an event, counted by callgrind and compared with those of `benches/instructions.txt`.

use crate::process::{Cmd, Tally};
use crate::stress;
use crate::workspace::{host, root};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;

const FILE: &str = "benches/instructions.txt";
const OPERATIONS: u32 = 20_000;
/// What is counted in both ways: as a thread has it, and as one without rseq does.
const ROWS: [&str; 10] = [
    "gate/off",
    "event/empty",
    "event/u64",
    "event/mix",
    "event/u64/2_sessions",
    "filter/reject/integer",
    "append/u64/noclock",
    "gate/off/fallback",
    "event/u64/fallback",
    "event/mix/fallback",
];
/// Above the committed figure, in percent, with the compiler that it was counted with, and with another one.
const TOLERANCE: [f64; 2] = [2.0, 15.0];
/// And so many instructions.
const SLACK: f64 = 0.5;

/// Counts; with `bless`, writes the file. One test for each row.
pub(crate) fn run(bless: bool) -> Result<Tally> {
    let program = build()?;
    let compiler = Cmd::new("rustc").args(["--version"]).read()?.trim().to_owned();
    let path = root().join(FILE);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let is_same = committed.lines().any(|line| line.strip_prefix("# ") == Some(&compiler));
    let tolerance = TOLERANCE[usize::from(!is_same)];
    let mut text = format!(
        "# Instructions of one operation, its loop included, without clock and context; counted by `cargo xtask instructions`.\n\
         # {compiler}\n"
    );
    let mut tally = Tally::default();
    for row in ROWS {
        let now = count(&program, row)?;
        let before = committed.lines().find_map(|line| line.strip_prefix(row)?.trim().parse::<f64>().ok());
        writeln!(text, "{row:<24} {now:8.2}")?;
        if bless {
            println!("{row:<24} {now:8.2}");
            continue;
        }
        let before = before.with_context(|| format!("{FILE} has no row {row}: run `cargo xtask instructions --bless`"))?;
        let limit = before * (1.0 + tolerance / 100.0) + SLACK;
        let is_right = now <= limit;
        println!("{row:<24} {now:8.2}, committed {before:8.2}, at most {limit:8.2}{}", if is_right { "" } else { ": too many" });
        tally += Tally::of(is_right);
    }
    if bless {
        std::fs::write(&path, text).with_context(|| FILE.to_owned())?;
        tally += Tally::of(true);
    }
    Ok(tally)
}

/// Builds the program that is counted. Returns its path.
fn build() -> Result<String> {
    let build = ["bench", "--quiet", "--package", "ringtrace", "--bench", "instructions", "--no-run", "--message-format", "json"];
    // With the stress test, so that what they share is built once.
    let messages = Cmd::cargo().args(build).args(stress::PACKAGES).args(["--target", &host()?]).dir(root()).read()?;
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(message.get("executable")?.as_str()?.to_owned())
    });
    executables.next_back().context("cargo built no program")
}

/// Instructions of one operation.
fn count(program: &str, row: &str) -> Result<f64> {
    let directory = tempfile::tempdir()?;
    let out = directory.path().join("out");
    let toggle = ["--quiet", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=ringtrace_measured"];
    let command = Cmd::new("valgrind").args(toggle).arg(format!("--callgrind-out-file={}", out.display()));
    let command = command.arg(program).arg(row).arg(OPERATIONS.to_string()).dir(directory.path());
    let shown = command.to_string();
    if !command.passes_unshown()? {
        bail!("failed: {shown}");
    }
    // `totals: N`, or `summary: N`: of the one kind of event that is counted.
    let counted = std::fs::read_to_string(&out).with_context(|| out.display().to_string())?;
    let total = counted.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let total: f64 = total.context("callgrind counted nothing")?.trim().parse().context("callgrind's total")?;
    Ok(total / f64::from(OPERATIONS))
}
