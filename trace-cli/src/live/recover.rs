//! `ringtrace recover` and `ringtrace clean`: what was left by processes that have ended, and by commands that were killed.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;
use trace_control::place::{self, Image};
use trace_control::protocol::Losses;
use trace_registry::units;
use trace_runtime::recovery::{Recovered, Remains};

use super::target::Target;
use super::text::{self, Bytes, Stdout};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Builds the traces of processes that ended without delivering: killed, crashed, or out of disk space.
///
/// What they had recorded lies in memory, in the files of their rings. Their traces are continued from there, where they lie,
/// and the files are removed. Nothing is touched that is still recorded into. The same of sessions whose consumer, `record
/// --external`, was killed.
#[derive(Debug, clap::Args)]
#[command(after_help = "A session's directory, or a process's, is one that `ringtrace ps --dead` shows.")]
pub(crate) struct Recover {
    #[command(flatten)]
    what: What,

    /// Build the trace in this new directory, beside a copy of what the process wrote, and leave that as it is. With several
    /// sessions, each has a directory in it.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Removes what processes left that have ended, without recovering it.
#[derive(Debug, clap::Args)]
pub(crate) struct Clean {
    #[command(flatten)]
    what: What,

    /// Only what was last written to at least so long ago: 30m, 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    older_than: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct What {
    /// Which: a directory of a session or of a process, one that was given as `rings`, or a process's number.
    #[arg(value_name = "DIR|PID", required_unless_present = "all", conflicts_with = "all")]
    which: Vec<String>,

    /// Everything that was left by processes of this user.
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    target: Target,
}

impl What {
    /// Returns the directories of the sessions that are meant. With `--all`, those of processes that run are left out.
    fn sessions(&self) -> Result<Vec<PathBuf>, Failure> {
        if self.all {
            return Ok(left(&self.target.images()?));
        }
        let mut found = Vec::new();
        for which in &self.which {
            let before = found.len();
            match which.parse::<u32>() {
                Ok(pid) => found.extend(self.target.images()?.iter().filter(|i| i.name.pid == pid).flat_map(sessions_of)),
                Err(_) => found.extend(below(Path::new(which))),
            }
            if found.len() == before {
                let problem = format!("{which}: no rings of a session are there; `ringtrace ps --dead` shows what there is");
                return Err(Failure::Wrong(problem));
            }
        }
        Ok(found)
    }
}

fn sessions_of(image: &Image) -> Vec<PathBuf> {
    image.sessions().into_iter().map(|session| image.path.join(session)).collect()
}

/// The directories of sessions that nobody records into any more: those of processes that have ended, and of those that run, the
/// ones that lost their consumer. Directories of ended processes that have none are removed.
pub(super) fn left(images: &[Image]) -> Vec<PathBuf> {
    let of_image = |image: &Image| {
        let mut sessions = sessions_of(image);
        if image.is_gone() {
            image.remove_if_empty();
        } else {
            sessions.retain(|session| Remains::open(session).is_ok());
        }
        sessions
    };
    images.iter().flat_map(of_image).collect()
}

/// The directories with rings: this one, or those in it. In a run-time directory, or one that sessions keep their rings in, those
/// of processes that have ended.
fn below(directory: &Path) -> Vec<PathBuf> {
    // Whatever that is: what is no file is refused with the reason.
    let has_rings = |path: &Path| path.join(place::RINGS).symlink_metadata().is_ok();
    if has_rings(directory) {
        return vec![directory.to_owned()];
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path()).collect();
    found.retain(|path| has_rings(path));
    found.sort();
    if found.is_empty() {
        found = super::target::images_in(directory).map_or(found, |images| left(&images));
    }
    found
}

pub(crate) fn recover(arguments: &Recover, common: &Common) -> Result<Outcome, Failure> {
    let sessions = arguments.what.sessions()?;
    let output = |session: &Path| {
        let output = arguments.output.as_ref()?;
        let image = Image::of_session(session).map_or_else(String::new, |image| format!("-{}", image.name.pid));
        let name = session.file_name().unwrap_or_default().to_string_lossy();
        Some(if sessions.len() == 1 { output.clone() } else { output.join(format!("{name}{image}")) })
    };
    each(&sessions, common, |session, out| {
        let recovered = Remains::open(session).and_then(|r| r.recover(output(session).as_deref()));
        show(session, &recovered.map_err(|error| Failure::Runtime(Box::new(error)))?, common, out)
    })
}

pub(super) fn show(session: &Path, recovered: &Recovered, common: &Common, out: &mut impl io::Write) -> Result<(), Failure> {
    let Recovered { path, events, bytes, cut, lost, unfinished, is_of_earlier_boot, .. } = recovered;
    let trace = (!path.as_os_str().is_empty()).then_some(path);
    if common.json {
        let line = json!({
            "session": session, "trace": trace, "events": events, "bytes": bytes, "cut": cut,
            "unfinished_snapshots": unfinished, "earlier_boot": is_of_earlier_boot,
            "lost": Losses::from(*lost),
        });
        writeln!(out, "{line}")?;
        return Ok(());
    }
    match trace {
        None => writeln!(out, "{}: its process ended before it recorded anything", session.display())?,
        Some(trace) => {
            let cut = if *cut > 0 { format!("; {cut} bytes of a partial packet were cut off") } else { String::new() };
            let unfinished = match unfinished {
                0 => String::new(),
                n => format!("; {n} unfinished snapshot{} removed", if *n == 1 { "" } else { "s" }),
            };
            writeln!(out, "{events} events ({}) recovered into {}; {lost}{cut}{unfinished}", Bytes(*bytes), trace.display())?;
        }
    }
    if *is_of_earlier_boot {
        failure::note(format_args!(
            "{}: its rings are from before the machine was last started; if that was not an orderly shutdown, `ringtrace check` says \
             whether the trace is whole",
            session.display()
        ));
    }
    Ok(())
}

pub(crate) fn clean(arguments: &Clean, common: &Common) -> Result<Outcome, Failure> {
    let mut sessions = arguments.what.sessions()?;
    if arguments.what.all && arguments.older_than.is_none() {
        arguments.what.target.bases().iter().for_each(|base| place::forget_removed(base));
    }
    if let Some(age) = arguments.older_than {
        let written = |path: &Path| path.join(place::JOURNAL).symlink_metadata().and_then(|m| m.modified()).ok();
        let is_older = |at: SystemTime| at.elapsed().is_ok_and(|elapsed| elapsed >= age);
        let all = sessions.len();
        sessions.retain(|path| written(path).is_some_and(is_older));
        if sessions.is_empty() && all > 0 {
            failure::note(format_args!("nothing that old was left; {all} younger"));
            return Ok(Outcome::Complete);
        }
    }
    each(&sessions, common, |session, out| {
        Remains::open(session).map_err(|error| Failure::Runtime(Box::new(error)))?.remove();
        if common.json {
            writeln!(out, "{}", json!({ "session": session }))?;
        } else {
            writeln!(out, "removed {}", session.display())?;
        }
        Ok(())
    })
}

/// Does something with each. Where there are several, one that fails does not keep the others from it.
fn each(
    sessions: &[PathBuf],
    common: &Common,
    mut work: impl FnMut(&Path, &mut Stdout) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let mut out = text::out(common.json);
    if sessions.is_empty() {
        failure::note(format_args!("nothing was left"));
    }
    let mut failed = 0;
    for session in sessions {
        // Looked at before the work: later the path may lead elsewhere.
        let image = Image::of_session(session);
        match work(session, &mut out) {
            // What its process left besides goes with its last session. Of another PID namespace, only its agent tells.
            Ok(()) => drop(image.map(|image| image.remove_if_empty())),
            Err(failure) if sessions.len() > 1 && !failure.is_output() => {
                failure::error(format_args!("{failure}"));
                failed += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
    out.flush()?;
    match failed {
        0 => Ok(Outcome::Complete),
        n if n == sessions.len() => Err(Failure::Wrong("nothing could be done".to_owned())),
        _ => Ok(Outcome::Partial),
    }
}
