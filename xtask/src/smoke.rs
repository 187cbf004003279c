//! `cargo xtask smoke`: the verbs that CI does not run in full, each in its short form.

use crate::process::{Cmd, Tally};
use crate::tools;
use anyhow::{Context, Result};

/// What a verb writes to its standard output.
#[derive(PartialEq)]
enum Output {
    /// One object for each row, with the row's name.
    Rows,
    Text,
}

/// Each as it is called. `link-matrix --full`, `stress --long`, `crash --endings` and `fuzz --seconds` only do more of what CI does;
/// `bench-compare` would build all of ringtrace in a workspace of its own, which takes minutes.
const VERBS: [(&str, Output); 6] = [
    ("bench --json", Output::Rows),
    ("bench-read --json", Output::Rows),
    ("bench-control --json", Output::Rows),
    ("memory", Output::Text),
    ("environments", Output::Text),
    ("browser", Output::Text),
];

pub(crate) fn run() -> Result<Tally> {
    let mut tally = Tally::default();
    for (verb, output) in VERBS {
        if verb == "browser" && !tools::is_there("chromium") {
            println!("browser: left out; `apt-get install chromium` makes it possible");
            continue;
        }
        let xtask = Cmd::new(std::env::current_exe()?).args(verb.split(' ')).arg("--short");
        let passed = match output {
            Output::Rows => rows(xtask),
            Output::Text => xtask.passes(),
        };
        if let Err(error) = &passed {
            println!("failed: {error:#}");
        }
        tally += Tally::of(passed.unwrap_or(false));
    }
    Ok(tally)
}

/// Returns whether every line is a row.
fn rows(xtask: Cmd) -> Result<bool> {
    println!("$ {xtask}");
    let lines = xtask.read()?;
    for line in lines.lines() {
        let row: serde_json::Value = serde_json::from_str(line).with_context(|| format!("not a row: {line}"))?;
        row["name"].as_str().with_context(|| format!("a row without a name: {line}"))?;
    }
    println!("{} rows", lines.lines().count());
    Ok(!lines.is_empty())
}
