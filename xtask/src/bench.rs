//! `cargo xtask bench`.

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
