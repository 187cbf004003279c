//! `cargo xtask bench` and `cargo xtask bench-read`.

use crate::process::Cmd;
use crate::workspace::root;
use anyhow::Result;

/// Returns whether the benchmark ran to its end.
pub(crate) fn run(only: Option<String>, json: bool, rest: Vec<String>) -> Result<bool> {
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
    bench.passes_unshown()
}

/// The reader's benchmark; returns whether it ran to its end.
pub(crate) fn read(json: bool, rest: Vec<String>) -> Result<bool> {
    let json = json.then(|| "--json".to_string());
    let bench = Cmd::cargo().args(["bench", "--quiet", "--package", "trace-ctf", "--bench", "read", "--"]).args(json).args(rest);
    let bench = bench.dir(root());
    eprintln!("$ {bench}");
    bench.passes_unshown()
}
