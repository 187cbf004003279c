//! `ringtrace snapshot`.

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use trace_control::protocol::{Receipt, Request, Snapshot, Status};
use trace_registry::units;

use super::process::Process;
use super::target::Target;
use super::text::{self, Bytes};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Writes what flight recorders hold now as traces of their own, while they record on.
///
/// A flight recorder is a session in overwrite mode: `ringtrace session create --overwrite`, or `overwrite` in RINGTRACE. Its
/// snapshots lie beside its trace, in SESSION.snapshots/TIME-REASON.ringtrace.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Session; every one in overwrite mode without it.
    session: Option<String>,

    /// Only what happened in this time before now: 500ms, 10s. Whole sub-buffers are written, so it is rather more.
    #[arg(short, long, value_name = "TIME", value_parser = units::duration)]
    last: Option<Duration>,

    /// Why: becomes a part of the trace, and of its name.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    reason: String,

    /// How many of the newest snapshots stay. Without it as many as the session says, ten for most.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,

    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    arguments.target.each(|process| {
        let sessions = match &arguments.session {
            Some(session) => vec![session.clone()],
            None => flight_recorders(process)?,
        };
        for session in sessions {
            let last_ms = arguments.last.map(|last| u64::try_from(last.as_millis()).unwrap_or(u64::MAX));
            let (reason, keep) = (arguments.reason.clone(), arguments.keep.map(|keep| keep as usize));
            let receipt: Receipt = process.demand(&Request::Snapshot(Snapshot { session, reason, last_ms, keep }))?;
            show(process, &receipt, common)?;
        }
        Ok(())
    })
}

fn flight_recorders(process: &mut Process) -> Result<Vec<String>, Failure> {
    let Status { sessions, .. } = process.demand(&Request::Status)?;
    let names: Vec<String> = sessions.into_iter().filter(|s| s.mode == "overwrite" && s.recording).map(|s| s.name).collect();
    if names.is_empty() {
        let problem = format!(
            "{}: no session is in overwrite mode, which snapshots are taken of; make one: ringtrace session create flight \
             --overwrite -r RULE -p {}",
            process.name(),
            process.is.pid
        );
        return Err(Failure::Wrong(problem));
    }
    Ok(names)
}

fn show(process: &Process, receipt: &Receipt, common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if common.json {
        writeln!(out, "{}", process.line(json!({ "process": process.is.pid, "snapshot": receipt })))?;
        return Ok(out.flush()?);
    }
    writeln!(out, "{}", receipt.path.display())?;
    out.flush()?;
    // What all rings cover: from the last that begins to the first that ends.
    let begin = receipt.rings.iter().map(|ring| ring.begin_ns).max().unwrap_or(0);
    let end = receipt.rings.iter().map(|ring| ring.end_ns).max().unwrap_or(0);
    let mut text = format!(
        "{} of {}: {} events ({}), the last {:.3} s of every CPU",
        receipt.session,
        process.name(),
        receipt.events,
        Bytes(receipt.bytes),
        end.saturating_sub(begin) as f64 / 1e9
    );
    if receipt.overwritten > 0 {
        text.push_str(&format!("; {} older ones were overwritten meanwhile", receipt.overwritten));
    }
    if receipt.lost > 0 {
        text.push_str(&format!("; {} lost in between", receipt.lost));
    }
    if receipt.not_kept > 0 {
        text.push_str(&format!("; {} of other keys were not kept", receipt.not_kept));
    }
    if receipt.keys_gone > 0 {
        text.push_str(&format!("; of {} kept keys nothing was there any more", receipt.keys_gone));
    }
    if receipt.state_late {
        text.push_str("; a state dump had not returned within a second, its rest is missing");
    }
    failure::note(format_args!("{text}"));
    Ok(())
}
