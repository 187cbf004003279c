//! `ringtrace ps`: which processes can be traced.

use std::io::{self, Write as _};

use serde_json::json;
use trace_control::place::Image;
use trace_runtime::recovery::Remains;

use super::target::Target;
use super::text::{Bytes, table};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{Failure, complain};

/// Lists the processes that can be traced, their sessions and the memory of those.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,

    /// Only what processes left that have ended without removing it: rings that can be recovered.
    #[arg(long)]
    dead: bool,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    if arguments.dead {
        return dead(arguments, common);
    }
    let mut silent = Vec::new();
    let processes = arguments.target.all(|image, error| silent.push((image, error)))?;
    let mut out = io::stdout().lock();
    if common.json {
        for process in &processes {
            writeln!(out, "{}", json!({ "process": process.is, "directory": process.image.path }))?;
        }
    } else {
        let row = |p: &super::process::Process| {
            vec![
                p.is.pid.to_string(),
                p.is.program.clone(),
                p.is.tracepoints.to_string(),
                Bytes(p.is.memory).to_string(),
                if p.is.sessions.is_empty() { "-".to_owned() } else { p.is.sessions.join(", ") },
                p.is.command.join(" "),
            ]
        };
        let headings = [">PID", "PROGRAM", ">TRACEPOINTS", ">MEMORY", "SESSIONS", "COMMAND"];
        if !processes.is_empty() {
            write!(out, "{}", table(&headings, processes.iter().map(row).collect()))?;
        }
    }
    out.flush()?;
    let mut left = 0;
    for (image, error) in silent {
        if image.is_gone() {
            left += usize::from(!image.remove_if_empty() && !image.sessions().is_empty());
        } else if !has_no_agent(&image) {
            complain(format_args!("process {}: {error}", image.name.pid));
        }
    }
    if processes.is_empty() {
        complain(format_args!("no process can be traced: a program can be if it calls ringtrace::init()"));
    }
    if left > 0 {
        complain(format_args!("{left} processes have ended and left rings: ringtrace ps --dead"));
    }
    Ok(Outcome::Complete)
}

fn has_no_agent(image: &Image) -> bool {
    image.connect().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// What is left of processes that have ended.
fn dead(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut out = io::stdout().lock();
    let mut rows = Vec::new();
    for image in arguments.target.images()? {
        if !image.is_gone() || image.remove_if_empty() {
            continue;
        }
        for session in image.sessions() {
            let directory = image.path.join(&session);
            let rings = std::fs::metadata(directory.join("rings")).map_or(0, |m| m.len());
            let remains = Remains::open(&directory);
            let (left, trace) = remains.as_ref().map_or((None, None), |r| (Some(r.bytes()), r.output()));
            let problem = remains.err().map(|error| format!("{error:?}"));
            if common.json {
                let line = json!({
                    "pid": image.name.pid, "start_time": image.name.start_time, "session": session, "bytes": rings,
                    "recoverable": left, "trace": trace, "problem": problem, "directory": directory,
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
        complain(format_args!("nothing was left by processes that have ended"));
    }
    out.flush()?;
    Ok(Outcome::Complete)
}
