//! `ringtrace status`: what is recorded and lost.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use trace_control::protocol::{NotKept, Request, SessionState, Status};
use trace_registry::units;

use super::process::Process;
use super::target::Target;
use super::text::{self, Bytes, Rate, age, line, table};
use super::trigger;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Shows what each session records and loses: events, rates, bytes, memory, and losses by cause.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Time over which rates are measured.
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = units::duration)]
    over: Duration,

    /// Show it again and again, until the process ends or this command is interrupted.
    #[arg(long)]
    follow: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut processes = arguments.target.chosen()?;
    let mut before = ask(&mut processes)?;
    loop {
        let has_sessions = before.iter().any(|status| !status.sessions.is_empty());
        if has_sessions || arguments.follow {
            std::thread::sleep(arguments.over);
        }
        let now = match ask(&mut processes) {
            Ok(now) => now,
            Err(Failure::Process { error, .. }) if arguments.follow && Process::has_ended(&error) => {
                return Ok(Outcome::Complete);
            }
            Err(failure) => return Err(failure),
        };
        for ((before, now), process) in before.iter().zip(&now).zip(&processes) {
            show(process, before, now, common)?;
        }
        if !arguments.follow {
            return Ok(Outcome::Complete);
        }
        before = now;
    }
}

fn ask(processes: &mut [Process]) -> Result<Vec<Status>, Failure> {
    processes.iter_mut().map(|process| process.demand(&Request::Status)).collect()
}

/// Events and bytes per second between two looks.
fn rates(before: &Status, now: &Status, session: &SessionState) -> Option<(f64, f64)> {
    let earlier = before.sessions.iter().find(|s| s.name == session.name && s.age_ns <= session.age_ns)?;
    let seconds = now.now_ns.checked_sub(before.now_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
    let of = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    Some((of(session.events, earlier.events), of(session.bytes, earlier.bytes)))
}

fn show(process: &Process, before: &Status, now: &Status, common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if common.json {
        if now.sessions.is_empty() {
            writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, "now_ns": now.now_ns, "session": null })))?;
        }
        for session in &now.sessions {
            let (events, bytes) = rates(before, now, session).unwrap_or_default();
            let object = process.line(json!({
                "pid": process.is.pid, "now_ns": now.now_ns, "session": session,
                "events_per_second": events, "bytes_per_second": bytes,
            }));
            writeln!(out, "{object}")?;
        }
        out.flush()?;
        return Ok(());
    }
    let memory = format!("{} of {}", Bytes(now.process.memory), Bytes(now.process.memory_ceiling));
    writeln!(out, "{}: {} tracepoints, {memory} ring memory mapped", process.name(), now.process.tracepoints)?;
    if now.sessions.is_empty() {
        writeln!(out, "no session: `ringtrace record`, `ringtrace enable` and `ringtrace session create` make one")?;
        return Ok(());
    }
    let row = |session: &SessionState| {
        let rate = rates(before, now, session).map_or_else(|| "-".to_owned(), |(events, _)| Rate(events).to_string());
        vec![
            session.name.clone(),
            state(session).to_owned(),
            session.events.to_string(),
            rate,
            Bytes(session.written).to_string(),
            format!("{} / {}", Bytes(session.resident), Bytes(session.memory)),
            session.lost.total.to_string(),
        ]
    };
    let headings = ["SESSION", "STATE", ">EVENTS", ">RATE", ">WRITTEN", ">RESIDENT / MAPPED", "LOST"];
    write!(out, "{}", table(&headings, now.sessions.iter().map(row).collect()))?;
    for session in &now.sessions {
        if session.lost.total > 0 {
            line(&mut out, format_args!("events of {}: {}", session.name, session.lost))?;
        }
        if let Some(snapshots) = &session.snapshots {
            line(&mut out, format_args!("of {}: {snapshots}", session.name))?;
        }
        session
            .triggers
            .iter()
            .try_for_each(|t| line(&mut out, format_args!("trigger of {}: {}", session.name, trigger::state(t))))?;
        if session.filtered + session.limited > 0 {
            line(
                &mut out,
                format_args!("rules of {}: {} filtered, {} limited", session.name, session.filtered, session.limited),
            )?;
        }
        if !session.not_kept.is_none() {
            line(&mut out, format_args!("trace of {}: {}", session.name, NotKeptInWords(&session.not_kept)))?;
        }
    }
    out.flush()?;
    for session in &now.sessions {
        if let Some(failure) = &session.failure {
            failure::note(format_args!("session {}: {failure}", session.name));
        }
    }
    Ok(())
}

fn state(session: &SessionState) -> &'static str {
    match session {
        SessionState { failure: Some(_), .. } => "failed",
        SessionState { recording: true, .. } => "records",
        _ => "stopped",
    }
}

/// `1 probe matched`, `2 probes and 1 state dump matched`.
pub(super) fn probes(probes: usize, state_dumps: usize, verb: &str) -> String {
    let some = |count: usize, what: &str| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    match state_dumps {
        0 => format!("{} {verb}", some(probes, "probe")),
        _ => format!("{} and {} {verb}", some(probes, "probe"), some(state_dumps, "state dump")),
    }
}

/// What stands behind the place of a session's trace: where its snapshots are, if there are any.
pub(super) fn saved(state: &SessionState) -> String {
    state.snapshots.as_ref().map_or_else(String::new, |snapshots| format!("; {snapshots}"))
}

/// What a session has recorded so far, in words.
pub(super) struct Count<'a>(pub(super) &'a SessionState);

impl fmt::Display for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(state) = self;
        write!(f, "{} events, {}, {}", state.events, Bytes(state.bytes), state.lost)?;
        if state.cut > 0 {
            write!(f, ", {} with a value cut", state.cut)?;
        }
        if state.filtered > 0 {
            write!(f, ", {} filtered", state.filtered)?;
        }
        if state.limited > 0 {
            write!(f, ", {} limited", state.limited)?;
        }
        if !state.not_kept.is_none() {
            write!(f, ", {}", NotKeptInWords(&state.not_kept))?;
        }
        Ok(())
    }
}

/// What a trace did not get.
struct NotKeptInWords<'a>(&'a NotKept);

impl fmt::Display for NotKeptInWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotKept { events, hurried, late_keys, forgotten_keys } = self.0;
        write!(f, "{events} not kept")?;
        for (count, what) in
            [(hurried, "of them decided early"), (late_keys, "keys kept too late"), (forgotten_keys, "kept keys forgotten")]
        {
            if *count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Sessions with their rules, one paragraph each.
pub(super) fn show_sessions(process: &Process, sessions: &[SessionState], common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if sessions.is_empty() && !common.json {
        writeln!(out, "{}: no session", process.name())?;
    }
    for session in sessions {
        if common.json {
            writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, "session": session })))?;
            continue;
        }
        let bound = if session.bound { ", ends with the command that made it" } else { "" };
        line(&mut out, format_args!("{}: session {}, {}{bound}", process.name(), session.name, state(session)))?;
        line(&mut out, format_args!("  rules:    {}", probes(session.probes, session.state_dumps, "matched")))?;
        session.rules.iter().try_for_each(|rule| line(&mut out, format_args!("    {rule}")))?;
        let context = if session.context.is_empty() { "none".to_owned() } else { session.context.join(", ") };
        line(&mut out, format_args!("  records:  {} mode, {} headers, context {context}", session.mode, session.header))?;
        let (resident, mapped) = (Bytes(session.resident), Bytes(session.memory));
        line(&mut out, format_args!("  memory:   {resident} resident of {mapped} mapped, {} ring buffers", session.buffers))?;
        line(&mut out, format_args!("  recorded: {} in {}", Count(session), age(Duration::from_nanos(session.age_ns))))?;
        match &session.output {
            Some(output) => line(&mut out, format_args!("  trace:    {}", output.display()))?,
            None if session.external => line(&mut out, format_args!("  trace:    written by another process"))?,
            None => line(&mut out, format_args!("  trace:    printed on the process's standard error stream"))?,
        }
        if let Some(snapshots) = &session.snapshots {
            line(&mut out, format_args!("  saved:    {snapshots}"))?;
        }
        session
            .triggers
            .iter()
            .try_for_each(|t| line(&mut out, format_args!("  trigger:  {}: {}", trigger::state(t), t.trigger)))?;
        for warning in &session.warnings {
            line(&mut out, format_args!("  warning:  {warning}"))?;
        }
        if let Some(failure) = &session.failure {
            line(&mut out, format_args!("  failure:  {failure}"))?;
        }
    }
    out.flush()?;
    Ok(())
}
