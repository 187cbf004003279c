//! A program of `benches/compare`, and the conversation with it.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Stopped, except while it answers: its threads disturb nobody.
pub(super) struct Program {
    child: Child,
    /// Taken at the end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    most: u64,
}

/// Of one repetition.
pub(super) struct Answer {
    /// For each event.
    pub(super) ns: f64,
    pub(super) fired: u64,
    /// Where the tracer lets one count.
    pub(super) arrived: Option<u64>,
}

impl Program {
    pub(super) fn start(command: &mut Command) -> Result<Program> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut program = Program { input: child.stdin.take(), child, output, most: 0 };
        program.most = program.line()?.trim().strip_prefix("ready ").context("it does not start")?.parse()?;
        Ok(program)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Most events in one repetition.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    pub(super) fn ask(&mut self, verb: &str, payload: &str, threads: usize, events: u64) -> Result<Answer> {
        self.signal(Signal::CONT);
        let input = self.input.as_mut().context("it is running")?;
        writeln!(input, "{verb} {payload} {threads} {events}").context("it ended early")?;
        let line = self.line()?;
        self.signal(Signal::STOP);
        let [ns, fired, arrived] = line.split_whitespace().collect::<Vec<_>>()[..] else { bail!("it says `{line}`") };
        Ok(Answer { ns: ns.parse()?, fired: fired.parse()?, arrived: arrived.parse().ok() })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            bail!("it ended early: {status}");
        }
        Ok(line)
    }

    /// One that has ended gets no signal: nobody else has its ID before `wait`.
    fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The end of its input is the end of its work, and its files and buffers go with it.
        self.input = None;
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::CONT);
        }
        let _ = self.child.wait();
    }
}
