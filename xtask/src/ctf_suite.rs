//! `cargo xtask ctf-suite`: traces that others wrote to test readers of CTF.

use crate::crash;
use crate::process::{Cmd, Tally};
use crate::workspace::Metadata;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

/// Names of directories of good traces, and of bad ones, in the suites there are. Traces in others are what the reference reader
/// takes them for.
const GOOD: [&str; 5] = ["succeed", "pass", "intersection", "packet-seq-num", "packet_seq_num"];
const BAD: [&str; 1] = ["fail"];

/// How long a reader may take for a trace.
const LIMIT: Duration = Duration::from_secs(60);

/// Exit codes of `ringtrace`: all of it was read, and metadata or a part of a stream could not be.
const READ: i32 = 0;
const REFUSED: i32 = 1;
const DAMAGED: i32 = 3;

/// The release whose babeltrace2 is the reference, as are its traces.
const RELEASE: &str = "bookworm";

/// Reads every trace at or below a directory, or those of Debian's source package of babeltrace2.
pub(crate) fn run(directory: Option<&Path>) -> Result<Tally> {
    let fetched;
    let directory = match directory {
        Some(directory) => directory,
        None => match fetch() {
            Ok(directory) => {
                fetched = directory;
                &fetched
            }
            Err(error) => {
                println!("left out; it needs a network and apt (Debian: apt, bzip2): {error:#}");
                return Ok(Tally::default());
            }
        },
    };
    let mut traces = Vec::new();
    find(directory, &mut traces)?;
    if traces.is_empty() {
        bail!("{}: no trace in it", directory.display());
    }
    let readers = Readers {
        ours: crash::command()?,
        newer: Some(Metadata::of_workspace()?.target("debian-13")).filter(|root| root.join("installed").exists()),
    };
    let (mut tally, mut left_out) = (Tally::default(), 0);
    for trace in traces {
        match readers.judge(&trace)? {
            Judgement::Right => tally += Tally::of(true),
            Judgement::LeftOut => left_out += 1,
            Judgement::Wrong(what) => {
                println!("failed: {}: {what}", trace.display());
                tally += Tally::of(false);
            }
        }
    }
    if left_out > 0 {
        println!("{left_out} traces in CTF 2 are left out: `cargo xtask ctf2` installs a reference reader for them");
    }
    Ok(tally)
}

/// Unpacks the traces of babeltrace2's source package into the target directory, once.
fn fetch() -> Result<PathBuf> {
    let place = Metadata::of_workspace()?.target("ctf-suite");
    let traces = place.join("babeltrace2/tests/data/ctf-traces");
    if traces.exists() {
        return Ok(traces);
    }
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(place.join("lists/partial"))?;
    fs::write(place.join("sources.list"), format!("deb-src http://deb.debian.org/debian {RELEASE} main\n"))?;
    // Beside the machine's own package sources and lists, so that they stay as they are.
    let apt = || {
        let set = |name: &str, value: &Path| format!("{name}={}", value.display());
        let options = [
            set("Dir::Etc::SourceList", &place.join("sources.list")),
            set("Dir::Etc::SourceParts", Path::new("/dev/null")),
            set("Dir::State::Lists", &place.join("lists")),
            set("Dir::Cache", &place),
            "APT::Sandbox::User=root".to_owned(),
        ];
        Cmd::new("apt-get").arg("-q").args(options.iter().flat_map(|option| ["-o", option])).dir(&place)
    };
    apt().arg("update").read()?;
    apt().args(["source", "--download-only", "babeltrace2"]).read()?;
    let archive = fs::read_dir(&place)?.flatten().map(|entry| entry.path());
    let archive = archive
        .filter(|path| path.to_string_lossy().contains(".orig.tar."))
        .find(|path| path.extension().is_some_and(|end| end != "asc"));
    let unpacked = place.join("unpacked");
    fs::create_dir_all(&unpacked)?;
    let tar =
        Cmd::new("tar").args(["--extract", "--strip-components=1", "--file"]).arg(archive.context("no archive of the source")?);
    tar.arg("--directory").arg(&unpacked).read()?;
    fs::rename(unpacked, place.join("babeltrace2"))?;
    if traces.exists() { Ok(traces) } else { bail!("the source has no {}", traces.display()) }
}

fn find(directory: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if directory.join("metadata").is_file() {
        found.push(directory.to_owned());
    }
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut directories: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    directories.sort();
    directories.iter().try_for_each(|directory| find(directory, found))
}

enum Judgement {
    Right,
    Wrong(String),
    /// The reference reader for it is not there.
    LeftOut,
}

struct Readers {
    ours: PathBuf,
    /// The system of a reference reader that knows CTF 2.
    newer: Option<PathBuf>,
}

impl Readers {
    fn judge(&self, trace: &Path) -> Result<Judgement> {
        let is_below = |names: &[&str]| trace.components().any(|part| names.iter().any(|name| part.as_os_str() == *name));
        let ours = Cmd::new(&self.ours).args(["view", "--babeltrace", "--utc"]).arg(trace).limit(LIMIT).output()?;
        if is_below(&BAD) {
            return Ok(refused(&ours, trace));
        }
        let Some(theirs) = self.reference(trace)? else { return Ok(Judgement::LeftOut) };
        Ok(match theirs.status.success() {
            true => read_alike(&ours, &theirs),
            // What it says is good, and cannot read itself, is to be read, unless it is known to be beyond us as well.
            false if is_below(&GOOD) && String::from_utf8_lossy(&ours.stderr).contains(" is not supported") => Judgement::Right,
            false if is_below(&GOOD) => read_alike(&ours, &Output { stdout: common(&ours, &theirs).to_vec(), ..theirs }),
            false => refused(&ours, trace),
        })
    }

    /// What the reference reader makes of a trace.
    fn reference(&self, trace: &Path) -> Result<Option<Output>> {
        let options = ["--color=never", "--clock-gmt"];
        let is_newer = fs::read(trace.join("metadata"))?.first() == Some(&0x1E);
        if !is_newer {
            return Cmd::new("babeltrace2").args(options).arg(trace).limit(LIMIT).output().map(Some);
        }
        let Some(system) = &self.newer else { return Ok(None) };
        let copy = tempfile::tempdir_in(system.join("tmp"))?;
        Cmd::new("cp").arg("--recursive").arg(trace).arg(copy.path().join("trace")).read()?;
        let inside = Path::new("/").join(copy.path().strip_prefix(system)?).join("trace");
        Cmd::new("chroot").arg(system).arg("babeltrace2").args(options).arg(inside).limit(LIMIT).output().map(Some)
    }
}

/// What the reference reader could show, where ours shows it too and goes on.
fn common<'o>(ours: &'o Output, theirs: &Output) -> &'o [u8] {
    if ours.stdout.starts_with(&theirs.stdout) { &ours.stdout } else { &[] }
}

fn read_alike(ours: &Output, theirs: &Output) -> Judgement {
    if ours.status.code() != Some(READ) {
        return Judgement::Wrong(format!("{}, though it is good: {}", ours.status, String::from_utf8_lossy(&ours.stderr)));
    }
    let [ours, theirs] = [ours, theirs].map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if ours == theirs {
        return Judgement::Right;
    }
    let (mut of_ours, mut of_theirs) = (ours.lines(), theirs.lines());
    let mut number = 0;
    let (one, two) = loop {
        number += 1;
        match (of_ours.next(), of_theirs.next()) {
            (one, two) if one == two && one.is_some() => {}
            other => break other,
        }
    };
    Judgement::Wrong(format!(
        "line {number} differs\n  ours:        {}\n  babeltrace2: {}",
        one.unwrap_or("none"),
        two.unwrap_or("none")
    ))
}

/// Whether a bad trace is refused, with the place in it.
fn refused(ours: &Output, trace: &Path) -> Judgement {
    let said = String::from_utf8_lossy(&ours.stderr);
    let has_place = said.contains(&*trace.to_string_lossy()) && (said.contains(": line ") || said.contains(": packet "));
    match ours.status.code() {
        Some(REFUSED | DAMAGED) if has_place => Judgement::Right,
        Some(REFUSED | DAMAGED) => Judgement::Wrong(format!("refused without its place: {said}")),
        _ => Judgement::Wrong(format!("{}, though it is bad: {said}", ours.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    fn output(code: i32, stdout: &str, stderr: &str) -> Output {
        Output { status: std::process::ExitStatus::from_raw(code << 8), stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn what_is_right() {
        let trace = Path::new("/suite/fail/x");
        let is_refused = |code, said: &str| matches!(refused(&output(code, "", said), trace), Judgement::Right);
        assert!(is_refused(1, "ringtrace: error: /suite/fail/x/metadata: line 3: no type y"));
        assert!(is_refused(3, "ringtrace: error: /suite/fail/x/stream: packet 0, byte 4: truncated"));
        assert!(!is_refused(0, "ringtrace: error: /suite/fail/x/stream: packet 0, byte 4: truncated"));
        assert!(!is_refused(1, "ringtrace: error: something is wrong"));
        assert!(!is_refused(101, "panicked at /suite/fail/x: line 3"));
        let alike = |one: Output, two: Output| match read_alike(&one, &two) {
            Judgement::Wrong(what) => what,
            _ => String::new(),
        };
        assert_eq!(alike(output(0, "a\nb\n", ""), output(0, "a\nb\n", "")), "");
        assert!(alike(output(0, "a\nb\n", ""), output(0, "a\nc\n", "")).starts_with("line 2 differs"));
        assert!(alike(output(0, "a\n", ""), output(0, "a\nc\n", "")).contains("ours:        none"));
        assert!(alike(output(3, "a\n", "damaged"), output(0, "a\n", "")).contains("damaged"));
    }
}
