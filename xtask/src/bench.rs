//! `cargo xtask bench`, `cargo xtask bench-read` and `cargo xtask memory`.

use crate::bench_compare::matches;
use crate::process::Cmd;
use crate::workspace::{Metadata, root};
use anyhow::Result;

/// How a benchmark is built, and how long it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Optimised, and as long as a figure needs.
    Full,
    /// As the tests are built, so that little is compiled anew, and for seconds: only that it runs.
    Short,
}

impl Form {
    pub(crate) fn new(is_short: bool) -> Form {
        if is_short { Form::Short } else { Form::Full }
    }

    pub(crate) fn profile(self) -> &'static str {
        if self == Form::Short { "dev" } else { "release" }
    }

    /// The directory of what is built, below cargo's target directory.
    pub(crate) fn directory(self) -> &'static str {
        if self == Form::Short { "debug" } else { "release" }
    }

    /// Repetitions of what the full form repeats `full` times.
    pub(crate) fn rounds(self, full: usize) -> usize {
        if self == Form::Short { 2 } else { full }
    }

    /// `cargo bench` of a benchmark, whose own arguments come next.
    fn bench(self, package: &str, bench: &str) -> Cmd {
        let cargo = Cmd::cargo().args(["bench", "--quiet", "--profile", self.profile()]).dir(root());
        let short = (self == Form::Short).then_some("--short");
        cargo.args(["--package", package, "--bench", bench, "--"]).args(short)
    }
}

/// Returns whether the benchmark ran to its end.
pub(crate) fn run(only: Option<String>, json: bool, form: Form, rest: Vec<String>) -> Result<bool> {
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
    let bench = form.bench("ringtrace", "events").args(args);
    eprintln!("$ {bench}");
    Ok(bench.passes_unshown()? && (!many || ten_thousand(json)?) && (!modules || loaded_probe(json, form)?))
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
fn loaded_probe(json: bool, form: Form) -> Result<bool> {
    // `--quiet` once: cargo hands its own on to the test program, which takes it a single time.
    let test = ["--test", "modules", "--", "--ignored", "--nocapture", "what_a_loaded_probe_costs"];
    let mut test = Cmd::cargo().args(["test", "--quiet", "--package", "ringtrace"]).args(test).dir(root());
    test = test.env("RINGTRACE_BENCH_PROFILE", form.profile());
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
pub(crate) fn read(json: bool, form: Form, rest: Vec<String>) -> Result<bool> {
    let json = json.then(|| "--json".to_string());
    let bench = form.bench("trace-ctf", "read").args(json).args(rest);
    eprintln!("$ {bench}");
    bench.passes_unshown()
}

/// Returns whether no command takes more for a larger trace.
pub(crate) fn memory(megabytes: u64, form: Form) -> Result<bool> {
    let test = Cmd::cargo().args(["test", "--profile", form.profile(), "--quiet", "--package", "trace-cli", "--test", "memory"]);
    let test = test.args(["--", "--ignored", "--nocapture"]).env("RINGTRACE_MEMORY_MB", megabytes.to_string());
    test.dir(root()).passes()
}
