//! `cargo xtask bench-control`: how long control from outside takes.

use crate::bench::Form;
use crate::process::Cmd;
use crate::workspace::{Metadata, root};
use anyhow::{Context, Result, bail};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Threads that must see a change.
const THREADS: &str = "4";

/// One figure, a median in milliseconds.
struct Figure {
    name: String,
    ms: f64,
    says: &'static str,
}

pub(crate) fn run(json: bool, form: Form) -> Result<bool> {
    let metadata = Metadata::of_workspace()?;
    eprintln!("$ cargo build --release --package trace-cli, and a program with 1 000 tracepoints");
    if !Cmd::cargo()
        .args(["build", "--quiet", "--profile", form.profile(), "--package", "trace-cli"])
        .dir(root())
        .passes_unshown()?
    {
        bail!("it does not build");
    }
    let ringtrace = metadata.target(form.directory()).join("ringtrace");
    let bench = Bench { ringtrace, program: program(form)?, place: tempfile::tempdir_in("/dev/shm")?, form };
    let figures = bench.figures()?;
    for Figure { name, ms, says } in figures {
        if json {
            println!("{}", serde_json::json!({ "name": name, "ms": (ms * 1000.0).round() / 1000.0 }));
        } else {
            println!("{name:24} {ms:9.3} ms  {says}");
        }
    }
    Ok(true)
}

/// The program with 1 000 tracepoints.
fn program(form: Form) -> Result<PathBuf> {
    let build = [
        "bench",
        "--profile",
        form.profile(),
        "--package",
        "ringtrace",
        "--bench",
        "control",
        "--no-run",
        "--message-format",
        "json",
    ];
    let messages = Cmd::cargo().args(build).dir(root()).read()?;
    let mut executable = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executable.next_back().context("cargo names no executable")
}

struct Bench {
    ringtrace: PathBuf,
    program: PathBuf,
    place: tempfile::TempDir,
    form: Form,
}

impl Bench {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.place.path()).env("XDG_RUNTIME_DIR", self.place.path()).env_remove("RINGTRACE");
        command
    }

    fn figures(&self) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for (name, says, memory) in [
            ("enable_1000", "from the start of `ringtrace enable` until 4 threads see 1 000 tracepoints on", None),
            ("enable_1000_and_create", "the same, where the command makes the session too", Some("16M")),
        ] {
            figures.push(Figure { name: name.to_owned(), ms: self.enable(memory)?, says });
        }
        for memory in ["64M", "1G"] {
            let name = if memory == "64M" { "first_event".to_owned() } else { format!("first_event_{memory}") };
            let says = "from the start of `ringtrace record` until an event is recorded";
            figures.push(Figure { name, ms: self.first_event(memory)?, says });
        }
        for threads in ["0", "8"] {
            let name = if threads == "0" { "startup_1000".to_owned() } else { format!("startup_1000_{threads}_threads") };
            let says = "how much longer a process takes that calls `init()`, from its start to its end";
            figures.push(Figure { name, ms: self.startup(threads)?, says });
        }
        Ok(figures)
    }

    fn ringtrace(&self, arguments: &[&str]) -> Result<()> {
        let output = self.command(&self.ringtrace).args(arguments).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            bail!("ringtrace {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// `memory`: the command makes the session; otherwise it is there.
    fn enable(&self, memory: Option<&str>) -> Result<f64> {
        let mut program = Watching::start(self)?;
        let mut times = Vec::new();
        for round in 0..self.form.rounds(21) {
            let trace = format!("enable-{round}-{}", memory.is_some());
            if memory.is_none() {
                self.ringtrace(&["session", "create", "bench", "-o", &trace])?;
            }
            program.watch("all")?;
            let begin = monotonic_ns();
            match memory {
                None => self.ringtrace(&["enable", "-s", "bench", "control:*"])?,
                Some(memory) => self.ringtrace(&["session", "create", "bench", "-o", &trace, "-r", "control:*", "-m", memory])?,
            }
            times.push(program.seen()?.saturating_sub(begin) as f64 / 1e6);
            self.ringtrace(&["session", "destroy", "bench"])?;
            program.watch("none")?;
            program.seen()?;
        }
        Ok(median(times))
    }

    fn first_event(&self, memory: &str) -> Result<f64> {
        let mut program = Watching::start(self)?;
        let mut times = Vec::new();
        for round in 0..self.form.rounds(11) {
            program.watch("one")?;
            let begin = monotonic_ns();
            let trace = format!("first-{memory}-{round}");
            // 1 GiB is the ceiling of a process; a session's control pages are within its memory.
            let arguments = ["record", "control:a::a::a::fired", "--for", "20ms", "-m", memory, "-o", &trace];
            self.ringtrace(&arguments)?;
            times.push(program.seen()?.saturating_sub(begin) as f64 / 1e6);
            let contents = std::fs::read_dir(self.place.path().join(&trace))?.count();
            if contents < 2 {
                bail!("{trace} holds no events");
            }
            std::fs::remove_dir_all(self.place.path().join(&trace))?;
        }
        Ok(median(times))
    }

    /// The difference of medians, taken in turns.
    fn startup(&self, threads: &str) -> Result<f64> {
        let once = |init: bool| -> Result<f64> {
            let mut command = self.command(&self.program);
            command.args(["start", "--threads", threads]).args(init.then_some("--init"));
            let begin = Instant::now();
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
            let time = begin.elapsed().as_secs_f64() * 1e3;
            if !status.success() {
                bail!("the program failed: {status}");
            }
            Ok(time)
        };
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..self.form.rounds(101) {
            with.push(once(true)?);
            without.push(once(false)?);
        }
        Ok(median(with) - median(without))
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// CLOCK_MONOTONIC, as the program tells it.
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0));
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// The program, telling when it sees something.
struct Watching {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Watching {
    fn start(bench: &Bench) -> Result<Watching> {
        let mut child =
            bench.command(&bench.program).args(["watch", THREADS]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take().context("a pipe")?, child.stdout.take().context("a pipe")?);
        let mut watching = Watching { child, input, output: BufReader::new(output) };
        watching.line()?;
        while !bench.command(&bench.ringtrace).args(["status"]).output()?.status.success() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(watching)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the program ended");
        }
        Ok(line.trim().to_owned())
    }

    fn watch(&mut self, what: &str) -> Result<()> {
        writeln!(self.input, "{what}")?;
        self.line().map(drop)
    }

    fn seen(&mut self) -> Result<u64> {
        Ok(self.line()?.parse()?)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
