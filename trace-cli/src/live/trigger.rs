//! `ringtrace trigger`: what is to be done when something happens.

use std::io::Write as _;

use serde_json::json;
use trace_control::protocol::{Firing, Request, Saved, SessionState, Status, TriggerState, Triggered, Triggers, Untrigger};

use super::process::Process;
use super::session::DEFAULT;
use super::target::Target;
use super::text::{self, Nanoseconds};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Adds, lists and removes triggers: conditions on events, and what is done when they hold.
///
/// when CONDITION then ACTION {, ACTION} [debounce T] [max N/s] [times N] [as NAME]
///
/// keep EVENT [if EXPRESSION] by KEY [wait T], or keep latency(A, B by KEY) > T: of the events that carry the key, traces and
/// snapshots get only those for whose key it holds.
///
/// Conditions: EVENT [if EXPRESSION]; max(EVENT.FIELD) [> N]; latency(A, B by KEY) > T; max(latency(A, B by KEY)) [> T];
/// count(EVENT [by KEY]) >= N within T; missing(A, B by KEY) within T; signal NAME.
///
/// Actions: snapshot [before T] [after T] [frozen]; stop; start; enable "RULES"; disable "RULES"; notify ["TEXT"], which
/// `ringtrace watch` shows. Snapshots are taken of sessions in overwrite mode.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Adds triggers to a session.
    Add(Add),
    /// Shows triggers, with what each has done so far.
    List(List),
    /// Removes a trigger.
    Remove(Remove),
}

#[derive(Debug, clap::Args)]
struct Add {
    /// Triggers, such as 'when request if us > 5000 then snapshot before 10s'; several are separated by `;` or given as several
    /// arguments.
    #[arg(required = true, value_name = "TRIGGER")]
    triggers: Vec<String>,

    /// Session.
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT)]
    session: String,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Session; all without it.
    #[arg(short, long, value_name = "NAME")]
    session: Option<String>,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Remove {
    /// Name of the trigger.
    name: String,

    /// Session.
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT)]
    session: String,

    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    match &arguments.verb {
        Verb::Add(add) => add.target.each(|process| {
            let wanted = Triggers { session: add.session.clone(), triggers: add.triggers.join("; ") };
            let done: Triggered = process.demand(&Request::Trigger(wanted))?;
            failure::warnings(&done.warnings);
            report(process, &done, "added", common)
        }),
        Verb::Remove(remove) => remove.target.each(|process| {
            let wanted = Untrigger { session: remove.session.clone(), name: remove.name.clone() };
            let done: Triggered = process.demand(&Request::Untrigger(wanted))?;
            report(process, &done, "removed", common)
        }),
        Verb::List(list) => list.target.each(|process| {
            let Status { mut sessions, .. } = process.demand(&Request::Status)?;
            sessions.retain(|s| list.session.as_ref().is_none_or(|name| *name == s.name));
            if let (Some(name), true) = (&list.session, sessions.is_empty()) {
                return Err(Failure::Wrong(format!("{}: no session is called `{name}`", process.name())));
            }
            show(process, &sessions, common)
        }),
    }
}

fn report(process: &Process, done: &Triggered, what: &str, common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if common.json {
        writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, what: done })))?;
    } else {
        let noun = if done.triggers.len() == 1 { "trigger" } else { "triggers" };
        writeln!(out, "{}: {noun} {} {what}, session {}", process.name(), done.triggers.join(", "), done.session)?;
    }
    Ok(())
}

fn show(process: &Process, sessions: &[SessionState], common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if common.json {
        for session in sessions {
            for trigger in &session.triggers {
                let line = process.line(json!({ "pid": process.is.pid, "session": session.name, "trigger": trigger }));
                writeln!(out, "{line}")?;
            }
        }
    } else if sessions.iter().all(|s| s.triggers.is_empty()) {
        writeln!(out, "{}: no trigger", process.name())?;
    } else {
        for session in sessions {
            for trigger in &session.triggers {
                writeln!(out, "{}: session {}: {}", process.name(), session.name, state(trigger))?;
                writeln!(out, "  {}", trigger.trigger)?;
                if let Some(last) = &trigger.last {
                    receipt(last).iter().try_for_each(|line| writeln!(out, "  {line}"))?;
                }
            }
        }
    }
    Ok(out.flush()?)
}

/// `slow fired 3 times, 17 folded`.
pub(super) fn state(trigger: &TriggerState) -> String {
    let keeps = trigger.trigger.starts_with("keep ");
    let mut text = match trigger.fired {
        keys if keeps => format!("{} kept {keys} keys", trigger.name),
        0 => format!("{} has not fired", trigger.name),
        1 => format!("{} fired once", trigger.name),
        times => format!("{} fired {times} times", trigger.name),
    };
    if trigger.folded > 0 {
        text.push_str(&format!(", {} folded", trigger.folded));
    }
    if trigger.lost > 0 {
        text.push_str(&format!(", {} events lost to it", trigger.lost));
    }
    if trigger.exhausted {
        text.push_str(", and will not again");
    }
    text
}

/// What was done, and what of it was not.
pub(super) fn receipt(firing: &Firing) -> Vec<String> {
    let mut lines = vec![format!("{}, {} later", firing.what, Nanoseconds(firing.delay_ns))];
    if let Some(message) = firing.message.as_ref().filter(|message| !message.is_empty()) {
        lines[0].push_str(&format!(": {message}"));
    }
    if firing.lost > 0 {
        lines.push(format!("{} events that it waits for were lost before", firing.lost));
    }
    if let Some(ns) = firing.frozen_ns {
        lines.push(format!("recording stood still for {}", Nanoseconds(ns)));
    }
    if let Some(saved) = &firing.saved {
        lines.push(format!("{}: {} events, {}", saved.receipt.path.display(), saved.receipt.events, covered(saved)));
    }
    lines.extend(firing.failures.iter().map(|failure| format!("failed: {failure}")));
    lines
}

fn covered(saved: &Saved) -> String {
    let (before, after) = (Nanoseconds(saved.covered_before_ns), Nanoseconds(saved.covered_after_ns));
    let covers = format!("from {before} before to {after} after");
    if !saved.has_moment {
        return format!("{covers}; what happened then was overwritten");
    }
    match saved.before_ns.filter(|ns| *ns > saved.covered_before_ns) {
        Some(ns) => format!("{covers}; of the {} before, older events were overwritten or not recorded", Nanoseconds(ns)),
        None if saved.covered_after_ns < saved.after_ns => format!("{covers}; the session ended then"),
        None => covers,
    }
}
