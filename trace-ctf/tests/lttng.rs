//! Traces that LTTng records open here, and babeltrace2 says the same of them.
//!
//! Needs Debian's `lttng-tools` and `liblttng-ust-dev`, and a C compiler.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{assert_agreement, convert};
use trace_ctf::declared::Level;
use trace_ctf::metadata::Format;
use trace_ctf::reader::{LossKind, Trace, discover};

const CONTEXTS: [&str; 6] = ["vpid", "vtid", "procname", "pthread_id", "ip", "vuid"];

/// A session daemon and a program with tracepoints.
struct Lttng {
    home: tempfile::TempDir,
    program: PathBuf,
    /// The daemon that was started here; one that ran before is used.
    daemon: Option<PathBuf>,
}

impl Lttng {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lttng");
        // One daemon records all programs of a user: the name tells whose this one is.
        let program = home.path().join(format!("p{}", std::process::id()));
        let mut cc = Command::new("cc");
        cc.arg("-I").arg(&sources).arg("-o").arg(&program).arg(sources.join("main.c")).args(["-llttng-ust", "-ldl"]);
        succeed(&mut cc, "apt-get install gcc liblttng-ust-dev");
        let mut lttng = Self { home, program, daemon: None };
        let is_running =
            lttng.command("lttng").args(["--no-sessiond", "list"]).output().is_ok_and(|output| output.status.success());
        if !is_running {
            let pid_file = lttng.home.path().join("sessiond.pid");
            // It returns when the daemon is ready, which keeps what it is given to write to.
            let mut daemon = lttng.command("lttng-sessiond");
            daemon.args(["--background", "--no-kernel", "--pidfile"]).arg(&pid_file);
            let status = daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            assert!(status.expect("apt-get install lttng-tools").success(), "the session daemon does not start");
            lttng.daemon = Some(pid_file);
        }
        lttng
    }

    fn command(&self, name: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(name);
        // A program waits until the daemon knows it.
        command.env("LTTNG_HOME", self.home.path()).env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
        command
    }

    fn lttng(&self, arguments: &[&str]) -> Output {
        succeed(self.command("lttng").args(["--no-sessiond"]).args(arguments), "apt-get install lttng-tools")
    }

    /// Records the program and gives the directory of the only trace.
    fn record(&self, name: &str, channel: &[&str], contexts: &[&str], count: u32) -> PathBuf {
        let output = self.record_with(name, &[], channel, contexts, |_| self.run(count));
        let mut found = discover(&output, 8).unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    fn run(&self, count: u32) {
        succeed(self.command(&self.program).arg(count.to_string()), "it is part of this test");
    }

    /// Records what happens meanwhile, which gets the session's name, and gives the session's directory.
    fn record_with(&self, name: &str, create: &[&str], channel: &[&str], contexts: &[&str], meanwhile: impl Fn(&str)) -> PathBuf {
        let session = format!("ringtrace-{}-{name}", std::process::id());
        let output = self.home.path().join(name);
        self.lttng(&[&["create", &session, "--output", output.to_str().unwrap()], create].concat());
        self.lttng(&[&["enable-channel", "--userspace", "--session", &session, "c"], channel].concat());
        self.lttng(&["enable-event", "--userspace", "--session", &session, "--channel", "c", "--all"]);
        for context in contexts {
            self.lttng(&["add-context", "--userspace", "--session", &session, "--channel", "c", "--type", context]);
        }
        self.lttng(&["start", &session]);
        meanwhile(&session);
        self.lttng(&["stop", &session]);
        self.lttng(&["destroy", &session]);
        output
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        let pid = self.daemon.as_ref().and_then(|file| fs::read_to_string(file).ok());
        if let Some(pid) = pid {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
}

fn succeed(command: &mut Command, remedy: &str) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: {remedy}"));
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

#[test]
fn traces_of_lttng_ust() {
    let lttng = Lttng::new();
    let name = format!("procname = \"p{}\"", std::process::id());
    let is_of_program = |line: &&str| line.contains(" probe:all: ") && line.contains(&name);

    // Everything fits; each buffer scheme writes its own metadata.
    for (name, scheme) in [("uid", "--buffers-uid"), ("pid", "--buffers-pid")] {
        let directory = lttng.record(name, &[scheme, "--subbuf-size", "1M", "--num-subbuf", "8"], &CONTEXTS, 1000);
        let ours = assert_agreement(&directory);
        // Texts of a fixed length may end inside a character.
        let text = String::from_utf8_lossy(&ours.text);
        assert_eq!(text.lines().filter(is_of_program).count(), 1000);
        assert!(text.contains("\"bu sy\\\"\""), "contexts and labels");
        assert!(ours.losses.is_empty());
        convert(&directory, Format::Ctf2);
        convert(&directory, Format::Ctf18);
        assert_agreement(&directory);
        let trace = Trace::open(&directory).unwrap();
        let all = trace.declarations().events().into_iter().find(|class| class.name == "probe:all").unwrap();
        assert_eq!((all.level, all.fields.as_ref().unwrap().structure.members.len()), (Some(Level::Warning), 21));
    }

    // Large IDs and headers do not come with few event classes, but discarded events do with little memory.
    let small = ["--discard", "--subbuf-size", "4096", "--num-subbuf", "2"];
    let directory = lttng.record("small", &small, &[], 20_000);
    let ours = assert_agreement(&directory);
    let lost: u64 = ours.losses.iter().filter(|loss| loss.kind == LossKind::DiscardedEvents).filter_map(|loss| loss.count).sum();
    let kept = String::from_utf8_lossy(&ours.text).lines().filter(|line| line.contains(" probe:")).count() as u64;
    assert!(lost > 0 && kept + lost >= 40_000, "{kept} kept, {lost} lost");

    // In overwrite mode, the oldest packets are gone.
    let overwrite = ["--overwrite", "--subbuf-size", "4096", "--num-subbuf", "4"];
    assert_agreement(&lttng.record("overwrite", &overwrite, &["vtid"], 20_000));

    // What was rotated lies in directories of its own; snapshots overlap.
    let rotated = lttng.record_with("rotated", &[], &["--subbuf-size", "64K"], &["procname"], |session| {
        lttng.run(500);
        lttng.lttng(&["rotate", session]);
        lttng.run(300);
    });
    let lines =
        |directory: &Path| String::from_utf8_lossy(&assert_agreement(directory).text).lines().filter(is_of_program).count();
    assert_eq!((discover(&rotated, 8).unwrap().len(), lines(&rotated)), (2, 800));
    let snapshots = lttng.record_with(
        "snapshots",
        &["--snapshot"],
        &["--subbuf-size", "64K", "--num-subbuf", "64"],
        &["procname"],
        |session| {
            lttng.run(200);
            lttng.lttng(&["snapshot", "record", "--session", session]);
            lttng.run(100);
            lttng.lttng(&["snapshot", "record", "--session", session]);
        },
    );
    assert_eq!((discover(&snapshots, 8).unwrap().len(), lines(&snapshots)), (2, 300));
}
