//! What the tests of the live verbs share: a program that can be told what to do, and the command.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use trace_control::place::{Image, images};

/// A run-time directory of its own, in memory, so that rings can be in it, and a directory to work in.
pub struct Place {
    runtime: tempfile::TempDir,
    here: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let runtime = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        // Here already, so that looking for programs does not depend on who is first.
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700).create(runtime.path().join("ringtrace")).expect("it is made");
        Place { runtime, here: tempfile::tempdir().expect("a directory") }
    }

    /// Where programs put their directories.
    pub fn runtime(&self) -> PathBuf {
        self.runtime.path().join("ringtrace")
    }

    pub fn here(&self) -> &Path {
        self.here.path()
    }

    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.here()).env("RINGTRACE_DIR", self.runtime());
        command.env_remove("RINGTRACE").env_remove("NO_COLOR").env("RUST_BACKTRACE", "0");
        command
    }

    pub fn ringtrace(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_ringtrace"));
        // Only the programs of this test.
        let is_live = !matches!(arguments.first(), Some(&"core" | &"view" | &"convert" | &"completions" | &"man" | &"run"));
        command.args(arguments);
        if is_live {
            command.arg("--dir").arg(self.runtime.path());
        }
        command
    }

    /// Runs the command.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.ringtrace(arguments).output().expect("the command starts")
    }

    /// Runs the command, which must succeed, and returns what it prints.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {}\n{out}{err}", output.status);
        out
    }

    /// Runs the command with `--json`, and returns its lines.
    pub fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let lines = self.succeed(&[arguments, &["--json"]].concat());
        lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
    }

    /// Runs the command, which must fail, and returns its exit code and what it says.
    pub fn fail(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
        (output.status.code().unwrap_or(-1), text(&output.stderr))
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// This test binary, run again as the program `name` in it: a test that does nothing unless it is such a child.
pub struct Program {
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

const CHILD: &str = "RINGTRACE_TEST_CHILD";

/// The file of this test binary.
pub fn this() -> PathBuf {
    std::env::current_exe().expect("the test binary has a path")
}

/// Has a command that runs this test binary be the program `name` in it.
pub fn as_program<'c>(command: &'c mut Command, name: &str) -> &'c mut Command {
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, name)
}

/// Waits until the agent of any program answers: its number may be one of another namespace.
pub fn an_agent_answers(place: &Place) {
    eventually("an agent answers", || images(&place.runtime()).expect("the base").iter().any(|image| image.connect().is_ok()));
}

/// Whether root runs this test. Otherwise it says what root is needed for.
pub fn is_root(needed_for: &str) -> bool {
    // SAFETY: geteuid(2) always succeeds.
    #[expect(unsafe_code, reason = "geteuid(2)")]
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        eprintln!("not tested: this needs {needed_for}, so it needs to be run by root");
    }
    is_root
}

/// Whether this process is the program `name`.
pub fn is_program(name: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|v| v == name)
}

impl Program {
    /// Starts it. It must say `ready`, and its agent answers, unless it is off.
    pub fn start(place: &Place, name: &str) -> Program {
        Program::start_with(place, name, &[])
    }

    /// The same, with this environment.
    pub fn start_with(place: &Place, name: &str, environment: &[(&str, &str)]) -> Program {
        let mut command = place.command(this());
        command.envs(environment.iter().copied());
        let program = Program::spawn(command, name);
        // `init()` waits for nothing, so the agent may come later.
        let answers = |image: &Image| image.name.pid == program.pid() && image.connect().is_ok();
        if !environment.contains(&("RINGTRACE", "off")) {
            eventually("the agent answers", || images(&place.runtime()).expect("the base").iter().any(answers));
        }
        program
    }

    /// Starts it by `command`, which runs this test binary with the arguments that follow. It must say `ready`.
    pub fn spawn(mut command: Command, name: &str) -> Program {
        let mut child =
            as_program(&mut command, name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output"));
        let mut program = Program { child, input, output: BufReader::new(output) };
        program.expect("ready");
        program
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads lines until one ends in `word`, and returns it. The test harness may print in front of it.
    pub fn expect(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let count = self.output.read_line(&mut line).expect("text");
            assert!(count > 0, "the program ended before it said `{word}`");
            if line.trim_end().ends_with(word) {
                return line;
            }
        }
    }

    /// Tells the program to do something, and waits until it has.
    pub fn tell(&mut self, what: &str) -> String {
        let input = self.input.as_mut().expect("it is listening");
        writeln!(input, "{what}").and_then(|()| input.flush()).expect("it reads");
        self.expect("done")
    }

    /// Has it end by SIGABRT. Returns its number.
    pub fn abort(mut self) -> u32 {
        let input = self.input.as_mut().expect("it is listening");
        writeln!(input, "abort now").and_then(|()| input.flush()).expect("it reads");
        let status = self.child.wait().expect("it ends");
        assert!(!status.success(), "{status}");
        self.pid()
    }

    /// Lets it end, and expects it to end well.
    pub fn end(mut self) {
        self.input = None;
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the program is told, line by line, until its input ends.
pub fn orders() -> impl Iterator<Item = String> {
    println!("ready");
    std::io::stdin().lines().map(|line| line.expect("text"))
}

/// Asks again and again until it is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("never: {what}");
}
