//! `cargo xtask bench`, `cargo xtask bench-read` and `cargo xtask memory`.

use crate::bench_compare::matches;
use crate::process::Cmd;
use crate::workspace::{Metadata, root};
use anyhow::Result;

/// Returns whether the benchmark ran to its end.
pub(crate) fn run(only: Option<String>, json: bool, rest: Vec<String>) -> Result<bool> {
    // Of programs of their own: a module is built apart.
    let is_wanted = |name| only.as_deref().is_none_or(|only| matches(only, name));
    let modules = ["probe/linked", "probe/loaded"].into_iter().any(is_wanted);
    // A program of its own too, which takes a minute to compile.
    let is_long = rest.iter().any(|word| word == "--long");
    let many = only.as_deref() == Some("toggle/10000") || is_wanted("toggle/10000") && is_long;
    let mut args = Vec::new();
    if let Some(glob) = only {
        args.extend(["--only".to_string(), glob]);
    }
    if json {
        args.push("--json".to_string());
    }
    args.extend(rest);
    // To standard error: with `--json`, standard output is the benchmark's alone.
    let bench =
        Cmd::cargo().args(["bench", "--quiet", "--package", "ringtrace", "--bench", "events", "--"]).args(args).dir(root());
    eprintln!("$ {bench}");
    Ok(bench.passes_unshown()? && (!many || ten_thousand(json)?) && (!modules || loaded_probe(json)?))
}

/// A program with 10 000 tracepoints.
fn ten_thousand(json: bool) -> Result<bool> {
    let many = Cmd::cargo().args(["run", "--quiet", "--release", "--manifest-path"]).arg(root().join("benches/many/Cargo.toml"));
    let many = many.arg("--target-dir").arg(Metadata::of_workspace()?.target("many"));
    let many = many.args(json.then_some(["--", "--json"]).into_iter().flatten());
    eprintln!("$ {many}");
    many.passes_unshown()
}

/// What an event costs whose probe was loaded, beside one whose probe is linked in.
fn loaded_probe(json: bool) -> Result<bool> {
    let test = ["--test", "modules", "--", "--ignored", "--nocapture", "--quiet", "what_a_loaded_probe_costs"];
    let mut test = Cmd::cargo().args(["test", "--quiet", "--package", "ringtrace"]).args(test).dir(root());
    eprintln!("$ {test}");
    if json {
        test = test.env("RINGTRACE_BENCH_JSON", "1");
    }
    // Without what the test says of itself.
    let output = test.read()?;
    let rows: Vec<&str> = output.lines().filter(|line| line.starts_with(if json { "{" } else { "probe/" })).collect();
    rows.iter().for_each(|row| println!("{row}"));
    Ok(!rows.is_empty())
}

/// The reader's benchmark; returns whether it ran to its end.
pub(crate) fn read(json: bool, rest: Vec<String>) -> Result<bool> {
    let json = json.then(|| "--json".to_string());
    let bench = Cmd::cargo().args(["bench", "--quiet", "--package", "trace-ctf", "--bench", "read", "--"]).args(json).args(rest);
    let bench = bench.dir(root());
    eprintln!("$ {bench}");
    bench.passes_unshown()
}

/// Returns whether no command takes more for a larger trace.
pub(crate) fn memory(megabytes: u64) -> Result<bool> {
    let test = Cmd::cargo().args(["test", "--release", "--quiet", "--package", "trace-cli", "--test", "memory"]);
    let test = test.args(["--", "--ignored", "--nocapture"]).env("RINGTRACE_MEMORY_MB", megabytes.to_string());
    test.dir(root()).passes()
}
