//! LTTng-UST: a program in C, and a session for each way of recording it.

use super::tracers::Tracer;
use crate::workspace::root;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const INSTALL: &str = "LTTng is not installed: apt-get install lttng-tools liblttng-ust-dev babeltrace2 gcc";

pub(super) struct Lttng {
    place: PathBuf,
    /// Of the daemon that was started here; one that ran before is used.
    daemon: Option<PathBuf>,
}

impl Lttng {
    pub(super) fn new(place: &Path) -> Result<Lttng> {
        let sources = root().join("benches/compare/lttng");
        let mut lttng = Lttng { place: place.to_owned(), daemon: None };
        eprintln!("building lttng-ust");
        for tool in ["lttng", "lttng-sessiond", "babeltrace2"] {
            Command::new(tool).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().context(INSTALL)?;
        }
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"]).arg(lttng.place.join("lttng")).arg("-I").arg(&sources).arg(sources.join("main.c"));
        run(cc.args(["-llttng-ust", "-ldl", "-pthread"])).context(INSTALL)?;
        let is_running = lttng.command("lttng").args(["--no-sessiond", "list"]).output()?.status.success();
        if !is_running {
            let pid_file = lttng.place.join("sessiond.pid");
            // It returns when the daemon is ready, which keeps what it is given to write to.
            let mut daemon = lttng.command("lttng-sessiond");
            daemon.args(["--background", "--no-kernel", "--pidfile"]).arg(&pid_file);
            if !daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
                bail!("the session daemon does not start");
            }
            lttng.daemon = Some(pid_file);
        }
        Ok(lttng)
    }

    /// The program in C.
    pub(super) fn program(&self) -> Command {
        self.command(self.place.join("lttng"))
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        // A program waits until the daemon knows it.
        command.env("LTTNG_HOME", &self.place).env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
        command
    }

    fn lttng(&self, arguments: &[&str]) -> Result<String> {
        run(self.command("lttng").args(["--no-sessiond"]).args(arguments))
    }

    /// Starts a session that records this process only, into buffers that keep the newest.
    pub(super) fn record(&self, tracer: &Tracer, process: u32) -> Result<()> {
        let session = session(tracer);
        let of_it = ["--userspace", "--session", &session];
        let output = self.place.join(&session);
        self.lttng(&["create", &session, "--snapshot", "--output", &output.to_string_lossy()])?;
        // Each snapshot ends a sub-buffer: more of them than snapshots.
        let channel = ["enable-channel", "compare", "--overwrite", "--subbuf-size", "256K", "--num-subbuf", "32"];
        self.lttng(&[&channel[..], &of_it].concat())?;
        self.lttng(&[&["track", "--vpid", &process.to_string()], &of_it[..]].concat())?;
        self.lttng(&[&["enable-event", "compare:*", "--channel", "compare"], &of_it[..]].concat())?;
        if let Some(context) = tracer.variant {
            self.lttng(&[&["add-context", "--channel", "compare", "--type", context], &of_it[..]].concat())?;
        }
        self.lttng(&["start", &session]).map(drop)
    }

    /// How many events of `begin` or later a snapshot holds. The buffers are full of what was measured before; emptied by `lttng
    /// clear`, a snapshot finds nothing in them at all.
    pub(super) fn recorded(&self, tracer: &Tracer, begin: SystemTime) -> Result<u64> {
        let begin = begin.duration_since(UNIX_EPOCH)?.as_secs_f64();
        let output = self.place.join("snapshot");
        std::fs::create_dir_all(&output)?;
        let url = format!("file://{}", output.display());
        self.lttng(&["snapshot", "record", "--session", &session(tracer), &url])?;
        let text = run(Command::new("babeltrace2").arg("--clock-seconds").arg(&output)).context(INSTALL)?;
        std::fs::remove_dir_all(&output)?;
        // [SECONDS] (…) HOST compare:NAME: …
        let seconds = |line: &str| line.strip_prefix('[')?.split_once(']')?.0.parse::<f64>().ok();
        let is_of_it = |line: &&str| line.contains(" compare:") && seconds(line).is_some_and(|seconds| seconds >= begin);
        Ok(text.lines().filter(is_of_it).count() as u64)
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        for tracer in super::TRACERS.iter().filter(|t| t.feature == super::LTTNG) {
            let _ = self.lttng(&["destroy", &session(tracer)]);
        }
        let pid = self.daemon.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        if let Some(pid) = pid {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
}

fn session(tracer: &Tracer) -> String {
    format!("{}-{}", tracer.name.replace('/', "-"), std::process::id())
}

/// Its standard output; an error with all it said where it fails.
fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}
