//! `ringtrace ps`: which processes can be traced.

use std::io::Write as _;

use serde_json::json;
use trace_control::place::{self, OfOther, Removed};
use trace_runtime::recovery::Remains;

use super::process::Process;
use super::target::Target;
use super::text::{self, Bytes, table};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Lists the processes that can be traced, their sessions and the memory of those.
///
/// A process with several copies of ringtrace, such as two versions that its dependencies use, has a line for each: each has
/// tracepoints, rings and traces of its own.
///
/// Those are this user's. Where it may look into the directories of other users, as root may, it says which of them have processes, and
/// connects to none: every verb takes such a directory by --dir.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,

    /// Only what was left without being removed, by processes that have ended and consumers that were killed: rings that can be
    /// recovered.
    #[arg(long)]
    dead: bool,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    if arguments.dead {
        return dead(arguments, common);
    }
    let mut silent = Vec::new();
    let processes = if arguments.target.is_named() {
        arguments.target.chosen()?
    } else {
        arguments.target.all(|image, error| silent.push((image, error)))?
    };
    let mut out = text::out(common.json);
    if common.json {
        for process in &processes {
            writeln!(out, "{}", process.line(json!({ "process": process.is, "directory": process.image.path })))?;
        }
    } else {
        let row = |p: &Process| {
            vec![
                p.is.pid.to_string(),
                p.is.program.clone(),
                p.version().to_owned(),
                p.is.tracepoints.to_string(),
                Bytes(p.is.memory).to_string(),
                if p.is.sessions.is_empty() { "-".to_owned() } else { p.is.sessions.join(", ") },
                p.is.command.join(" "),
            ]
        };
        let headings = [">PID", "PROGRAM", "RINGTRACE", ">TRACEPOINTS", ">MEMORY", "SESSIONS", "COMMAND"];
        if !processes.is_empty() {
            write!(out, "{}", table(&headings, processes.iter().map(row).collect()))?;
        }
    }
    out.flush()?;
    for (place, process) in processes.iter().enumerate() {
        let is_first = !processes[..place].iter().any(|other| other.is_beside(process));
        if process.copy.is_some() && is_first && !common.json {
            let (pid, one) = (process.is.pid, process.chosen_by());
            failure::note(format_args!(
                "process {pid} has several copies of ringtrace: -p {pid} means all of them, -p {one} only that one"
            ));
        }
    }
    for (image, error) in silent {
        if !Process::is_absent(&image, &error) {
            failure::note(format_args!("process {}: {error}", image.name.pid));
        }
    }
    if processes.is_empty() {
        failure::note(format_args!(
            "no process can be traced: a program can be if it calls ringtrace::init(); those of a container are found by --dir DIR, \
             its run-time directory"
        ));
    }
    if !arguments.target.is_given() {
        for OfOther { user, path, images } in place::of_others() {
            let them = if images == 1 { "a process, or what one left" } else { "processes, or what they left" };
            failure::note(format_args!("user {user} has {them}: ringtrace ps --dir {}", path.display()));
        }
    }
    let left = super::recover::left(&arguments.target.images()?).len();
    if left > 0 {
        let sessions = if left == 1 { "1 session was".to_owned() } else { format!("{left} sessions were") };
        failure::note(format_args!("{sessions} left by processes that have ended, or by killed consumers: ringtrace ps --dead"));
    }
    Ok(Outcome::Complete)
}

/// What was left.
fn dead(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut out = text::out(common.json);
    let mut rows = Vec::new();
    for image in arguments.target.images()? {
        let is_gone = image.is_gone();
        if is_gone && image.remove_if_empty() {
            continue;
        }
        for session in image.sessions() {
            let directory = image.path.join(&session);
            let rings = directory.join(place::RINGS).symlink_metadata().map_or(0, |m| m.len());
            let remains = Remains::open(&directory);
            if !is_gone && remains.is_err() {
                continue; // it is recorded into
            }
            let (left, trace) = remains.as_ref().map_or((None, None), |r| (Some(r.bytes()), r.output()));
            let problem = remains.err().map(|error| error.to_string());
            if common.json {
                let line = json!({
                    "pid": image.name.pid, "start_time": image.name.start_time, "session": session, "bytes": rings,
                    "recoverable": left, "trace": trace, "problem": problem, "directory": directory, "running": !is_gone,
                });
                writeln!(out, "{line}")?;
            } else {
                let left = left.map_or_else(|| "?".to_owned(), |left| Bytes(left).to_string());
                let trace = problem.or(trace.map(|t| t.display().to_string())).unwrap_or_else(|| "-".to_owned());
                let place = directory.display().to_string();
                rows.push(vec![image.name.pid.to_string(), session, Bytes(rings).to_string(), left, place, trace]);
            }
        }
    }
    if !rows.is_empty() {
        write!(out, "{}", table(&[">PID", "SESSION", ">RINGS", ">RECOVERABLE", "DIRECTORY", "TRACE"], rows))?;
    } else if !common.json {
        failure::note(format_args!("nothing was left"));
    }
    out.flush()?;
    for base in arguments.target.bases() {
        let Removed { sessions, bytes } = place::removed(&base);
        if sessions > 0 {
            let were = if sessions == 1 { "session was" } else { "sessions were" };
            failure::note(format_args!(
                "{}: {sessions} {were} removed unrecovered ({}), the oldest, to make room for new ones; `ringtrace clean --all` \
                 forgets that",
                base.display(),
                Bytes(bytes)
            ));
        }
    }
    Ok(Outcome::Complete)
}
