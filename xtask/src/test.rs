//! `cargo xtask test`.

use crate::process::{Cmd, Tally};
use crate::workspace::{Metadata, root};
use anyhow::Result;
use std::time::Duration;

/// Examples end by themselves.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(120);
const VALGRIND_LIMIT: Duration = Duration::from_secs(600);

pub(crate) fn run() -> Result<Tally> {
    let metadata = Metadata::of_workspace()?;
    let mut tally = Tally::default();
    // Documentation tests are part of it.
    tally += cargo(["test", "--workspace", "--exclude", "ui-tests", "--no-fail-fast"]).tests()?;
    tally += examples(&metadata)?;

    // With what the tests of the facade need, so that nothing is built twice.
    let libraries = ["test", "--package", "trace-registry", "--package", "trace-runtime", "--features", "trace-runtime/tokio"];
    let tests = ["--lib", "--tests", "--no-fail-fast"];
    // Without assembly: what other systems run.
    tally += cargo(libraries).args(tests).cfg("ringtrace_portable").tests()?;
    tally += cargo(libraries).args(["--package", "ringtrace", "--test", "first_hit"]).cfg("ringtrace_portable").tests()?;

    // Without the C library's rseq areas: what old C libraries have.
    tally += cargo(libraries).args(tests).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").tests()?;

    tally += memory_checks()?;
    tally += debugger(&metadata)?;
    Ok(tally)
}

/// Lists and sessions that come and go under load, in valgrind: nothing is used after it was freed. A short form, since one
/// thread runs at a time there; it also is what a program without restartable sequences does.
fn memory_checks() -> Result<Tally> {
    let build = ["test", "--test", "toggle", "--test", "closures", "--no-run", "--message-format", "json"];
    let messages = cargo(build).read()?;
    let executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(message.get("executable")?.as_str()?.to_owned())
    });
    let mut tally = Tally::default();
    for executable in executables {
        tally += Cmd::new("valgrind")
            // Fair: threads that fire without a pause would keep the one that delivers from running.
            .args(["--quiet", "--error-exitcode=9", "--fair-sched=yes"])
            .arg(&executable)
            .env("RINGTRACE_TOGGLES", "400")
            .limit(VALGRIND_LIMIT)
            .check()?;
    }
    Ok(tally)
}

/// Steps instruction by instruction through appends of an example, which aborts their sequences; the example then checks that each
/// of its records is there.
fn debugger(metadata: &Metadata) -> Result<Tally> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(Tally::default());
    }
    let commands = [
        "set debuginfod enabled off",
        "rbreak ^ringtrace_append.*_os_.*_cpu",
        "run",
        "delete",
        "set scheduler-locking on",
        "stepi 2000",
        "set scheduler-locking off",
        "continue",
    ];
    let dir = tempfile::tempdir()?;
    Cmd::new("gdb")
        .args(["-nx", "-batch", "-return-child-result"])
        .args(commands.iter().flat_map(|command| ["-ex", command]))
        .arg(metadata.target("debug/examples/ring_buffer"))
        .dir(dir.path())
        .limit(EXAMPLE_LIMIT)
        .check()
}

fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Cmd {
    Cmd::cargo().args(args).dir(root())
}

/// Runs each example in a directory of its own, where its recordings go.
fn examples(metadata: &Metadata) -> Result<Tally> {
    let mut tally = Tally::default();
    for (package, example) in metadata.targets("example") {
        // Built first, so that the limit is for the run alone.
        if !cargo(["build", "--quiet", "--package", package, "--example", example]).passes()? {
            tally += Tally::of(false);
            continue;
        }
        let dir = tempfile::tempdir()?;
        tally += Cmd::new(metadata.target("debug/examples").join(example)).dir(dir.path()).limit(EXAMPLE_LIMIT).check()?;
    }
    Ok(tally)
}
