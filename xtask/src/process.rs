//! Commands that this program runs, and the count of what passed.

use crate::workspace::root;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

/// How long one run of tests may take, compilation included.
const TESTS_LIMIT: Duration = Duration::from_secs(40 * 60);

/// How many checks passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Tally {
    /// One check.
    pub(crate) fn of(passed: bool) -> Tally {
        Tally { passed: usize::from(passed), failed: usize::from(!passed) }
    }

    /// Prints the closing line of a verb, and returns whether all passed.
    pub(crate) fn close(self) -> bool {
        println!("{self}");
        self.failed == 0
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// A command line, shown before it runs.
pub(crate) struct Cmd {
    command: Command,
    /// What was added to the environment, for display.
    environment: Vec<String>,
    limit: Duration,
}

impl Cmd {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Cmd {
        Cmd { command: Command::new(program), environment: Vec::new(), limit: Duration::MAX }
    }

    /// The cargo that runs this program.
    pub(crate) fn cargo() -> Cmd {
        Cmd::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Cmd {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Cmd {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Cmd {
        self.environment.push(format!("{key}='{}'", value.as_ref().to_string_lossy()));
        self.command.env(key, value);
        self
    }

    /// Has Cargo compile the crates of this workspace with `--cfg` and a name for which there is a compiler in `xtask/rustc`.
    pub(crate) fn cfg(self, name: &str) -> Cmd {
        self.env("RUSTC_WORKSPACE_WRAPPER", root().join("xtask/rustc").join(name))
    }

    pub(crate) fn env_remove(mut self, key: &str) -> Cmd {
        self.command.env_remove(key);
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Cmd {
        self.command.current_dir(dir);
        self
    }

    /// Kills the command after that time.
    pub(crate) fn limit(mut self, limit: Duration) -> Cmd {
        self.limit = limit;
        self
    }

    /// Runs it with its output passed through. Returns whether it succeeded.
    pub(crate) fn passes(self) -> Result<bool> {
        println!("$ {self}");
        self.passes_unshown()
    }

    /// As [`passes`](Cmd::passes), without showing the command line.
    pub(crate) fn passes_unshown(self) -> Result<bool> {
        Ok(self.status()? == Some(0))
    }

    /// Runs it with its output passed through. Returns its exit status; `None`: a signal ended it.
    pub(crate) fn status(mut self) -> Result<Option<i32>> {
        let mut child = self.command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot run {self}"))?;
        let _watch = Watch::over(child.id(), self.limit);
        Ok(child.wait()?.code())
    }

    /// Runs it as one check.
    pub(crate) fn check(self) -> Result<Tally> {
        let name = self.to_string();
        let passed = self.passes()?;
        if !passed {
            println!("failed: {name}");
        }
        Ok(Tally::of(passed))
    }

    /// Runs test programs with their output passed through, and adds up what they report.
    pub(crate) fn tests(mut self) -> Result<Tally> {
        println!("$ {self}");
        let mut child =
            self.command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {self}"))?;
        let stdout = child.stdout.take().context("the pipe that was asked for")?;
        let _watch = Watch::over(child.id(), self.limit.min(TESTS_LIMIT));
        let mut tally = Tally::default();
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            tally += test_result(&line).unwrap_or_default();
        }
        // What did not compile reports no result.
        if !child.wait()?.success() && tally.failed == 0 {
            tally.failed = 1;
        }
        if tally.failed > 0 {
            println!("failed: {self}");
        }
        Ok(tally)
    }

    /// Runs it and returns what it wrote and how it ended, which is up to the caller to judge.
    pub(crate) fn output(mut self) -> Result<Output> {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.command.spawn().with_context(|| format!("cannot run {self}"))?;
        let _watch = Watch::over(child.id(), self.limit);
        Ok(child.wait_with_output()?)
    }

    /// Runs it and returns its standard output; an error with its standard error where it fails.
    pub(crate) fn read(mut self) -> Result<String> {
        let output = self.command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {self}"))?;
        if !output.status.success() {
            bail!("{self}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Ends a command that takes too long, and all that it started, so that a test that hangs fails and does not stop the rest.
struct Watch {
    /// Dropped when the command has ended.
    _ended: Sender<()>,
}

impl Watch {
    fn over(process: u32, limit: Duration) -> Watch {
        let (sender, receiver) = mpsc::channel::<()>();
        if limit < Duration::MAX {
            std::thread::spawn(move || {
                if receiver.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    println!("killed: it did not end within {} s", limit.as_secs());
                    let processes = descendants(process);
                    let _ = Command::new("bash").args(["-c", "kill -KILL \"$@\"", "kill"]).args(processes).status();
                }
            });
        }
        Watch { _ended: sender }
    }
}

/// A process and those that it started, directly or not.
fn descendants(process: u32) -> Vec<String> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // `pid (name) state parent`; a name may hold anything, parentheses too.
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, parent))
        })
        .collect();
    let mut found = vec![process];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.iter().map(u32::to_string).collect()
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for variable in &self.environment {
            write!(f, "{variable} ")?;
        }
        let program = Path::new(self.command.get_program());
        write!(f, "{}", program.file_name().unwrap_or(program.as_os_str()).to_string_lossy())?;
        for arg in self.command.get_args() {
            let arg = arg.to_string_lossy();
            let quote = if arg.contains(char::is_whitespace) { "'" } else { "" };
            write!(f, " {quote}{arg}{quote}")?;
        }
        Ok(())
    }
}

/// Reads `test result: ok. 3 passed; 0 failed; …`.
fn test_result(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| counts.split(';').find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok());
    Some(Tally { passed: count("passed")?, failed: count("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_killed_with_all_it_started() {
        let hanging = Cmd::new("bash").args(["-c", "sleep 1000 | sleep 1000"]).limit(Duration::from_millis(100));
        assert!(!hanging.passes_unshown().expect("bash"));
        assert!(Cmd::new("true").limit(Duration::from_secs(100)).passes_unshown().expect("true"));
    }

    #[test]
    fn results_of_test_programs() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(test_result(line), Some(Tally { passed: 12, failed: 3 }));
        assert_eq!(test_result("test a ... ok"), None);
    }
}
