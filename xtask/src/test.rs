//! `cargo xtask test`.

use crate::process::{Cmd, Tally};
use crate::workspace::{Metadata, root};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Examples end by themselves.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(120);
const VALGRIND_LIMIT: Duration = Duration::from_secs(600);

/// Tests of the whole workspace. What is run again, is run as this builds it.
const WORKSPACE: [&str; 4] = ["test", "--workspace", "--exclude", "ui-tests"];

pub(crate) fn run() -> Result<Tally> {
    let metadata = Metadata::of_workspace()?;
    let mut tally = Tally::default();
    // Documentation tests are part of it.
    tally += cargo(WORKSPACE).arg("--no-fail-fast").tests()?;
    tally += examples(&metadata)?;

    // Without assembly: what other systems run.
    let portable = |packages: &[&str]| cargo(["test"]).args(packages).args(["--features", "trace-runtime/tokio"]);
    let libraries = ["--package", "trace-registry", "--package", "trace-runtime", "--lib", "--tests", "--no-fail-fast"];
    tally += portable(&libraries).cfg("ringtrace_portable").tests()?;
    tally += portable(&["--package", "ringtrace", "--test", "first_hit"]).cfg("ringtrace_portable").tests()?;

    let programs = programs()?;
    ensure!(programs.len() > 50, "{} test programs", programs.len());
    // Without the C library's rseq areas: what old C libraries have.
    for program in programs.iter().filter(|p| p.directory.ends_with("trace-registry") || p.directory.ends_with("trace-runtime")) {
        tally += program.run("").env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").tests()?;
    }
    tally += memory_checks(&programs)?;
    tally += debugger(&metadata)?;
    Ok(tally)
}

/// A test program that was built.
struct Program {
    /// Of its package.
    directory: PathBuf,
    name: String,
    path: PathBuf,
}

impl Program {
    /// Runs it as cargo does, or by `under` and its arguments.
    fn run(&self, under: &str) -> Cmd {
        let mut words = under.split_whitespace();
        let command = match words.next() {
            Some(program) => Cmd::new(program).args(words).arg(&self.path),
            None => Cmd::new(&self.path),
        };
        command.dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory)
    }
}

fn programs() -> Result<Vec<Program>> {
    let messages = cargo(WORKSPACE).args(["--no-run", "--message-format", "json"]).read()?;
    let program = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"] == true;
        Some(Program {
            path: message["executable"].as_str().filter(|_| is_test)?.into(),
            name: message["target"]["name"].as_str()?.to_owned(),
            directory: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        })
    };
    Ok(messages.lines().filter_map(program).collect())
}

/// Lists and sessions that come and go under load, in valgrind: nothing is used after it was freed. A short form, since one
/// thread runs at a time there; it also is what a program without restartable sequences does.
fn memory_checks(programs: &[Program]) -> Result<Tally> {
    let mut tally = Tally::default();
    for program in programs.iter().filter(|p| p.directory == root() && ["toggle", "closures"].contains(&&*p.name)) {
        // Fair: threads that fire without a pause would keep the one that delivers from running.
        let valgrind = program.run("valgrind --quiet --error-exitcode=9 --fair-sched=yes");
        tally += valgrind.env("RINGTRACE_TOGGLES", "400").limit(VALGRIND_LIMIT).check()?;
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
