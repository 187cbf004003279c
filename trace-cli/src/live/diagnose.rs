//! `ringtrace why` and `ringtrace doctor`.

use std::io::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;
use trace_control::place::Image;
use trace_control::protocol::{self, Diagnosis, Finding, Request, SessionState, Status, Verdict};
use trace_registry::units;

use super::process::Process;
use super::target::{self, Target};
use super::text;
use super::written::{Unread, Written};
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

/// Says why an event, or a traced function, is recorded or not: whether it is declared, its probe linked, which rules match it, and
/// whether it happens.
///
/// Its hits are counted for a while, so its probe runs meanwhile even where no session records it. Those before are counted in the
/// traces of the sessions that record it, where these have at most 256 MiB.
#[derive(Debug, clap::Args)]
pub(crate) struct Why {
    /// Name of the event or of the traced function, or the unique end of it.
    event: String,

    /// For how long to watch whether it happens.
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    time: Duration,

    #[command(flatten)]
    target: Target,
}

/// Examines tracing in a process: what is linked, the clock, the sessions, losses, and which event takes more than half of a trace, if
/// that has at most 256 MiB. Says what to do about what is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn why(arguments: &Why, common: &Common) -> Result<Outcome, Failure> {
    let ms = u64::try_from(arguments.time.as_millis()).unwrap_or(u64::MAX);
    let request = Request::Why(protocol::Why { event: arguments.event.clone(), ms });
    examine(&arguments.target, &request, common, |process, found| {
        if found.events.is_empty() {
            return Ok(());
        }
        let Status { sessions, .. } = process.demand(&Request::Status)?;
        let in_traces: Vec<Finding> = sessions.iter().flat_map(|session| in_trace(session, &found.events)).collect();
        if in_traces.iter().any(|finding| finding.verdict == Verdict::Good) {
            // It does happen.
            let is_without = |f: &&mut Finding| f.about == "hits" && f.verdict == Verdict::Bad;
            found.findings.iter_mut().filter(is_without).for_each(|f| f.verdict = Verdict::Note);
        }
        found.findings.extend(in_traces);
        Ok(())
    })
}

fn finding(about: &str, verdict: Verdict, says: String, remedy: String) -> Finding {
    Finding { about: about.to_owned(), verdict, says, remedy }
}

fn name_of(session: &SessionState) -> String {
    format!("session {}", session.name)
}

/// How often events are in the trace that a session writes, and when they were there last. Empty: there is no trace, or nothing of
/// the events in it.
fn in_trace(session: &SessionState, events: &[String]) -> Vec<Finding> {
    let Some(output) = session.output.as_deref() else { return Vec::new() };
    let about = name_of(session);
    let written = match Written::read(output) {
        Ok(written) => written,
        Err(Unread::Missing) => return Vec::new(),
        Err(Unread::TooLarge) => {
            let remedy = format!("ringtrace stats --event '{}' {}", events[0], output.display());
            let says = "its trace is large, so that it is not looked through for how often the event is in it".to_owned();
            return vec![finding(&about, Verdict::Note, says, remedy)];
        }
    };
    let of_one = |event: &String| {
        let class = written.of(event)?;
        let last = Timestamp::from_nanosecond(class.last?.into()).ok()?.to_zoned(TimeZone::system());
        let what = if events.len() == 1 { "it" } else { event };
        let says =
            format!("{} of {what} are in its trace so far, the last of {}", class.events, last.strftime("%Y-%m-%d %H:%M:%S%.3f"));
        Some(finding(&about, Verdict::Good, says, String::new()))
    };
    events.iter().filter_map(of_one).collect()
}

/// Says which event takes most of the trace that a session writes, if one does.
fn heaviest(session: &SessionState) -> Option<Finding> {
    let written = Written::read(session.output.as_deref()?).ok()?;
    let (event, says) = written.heaviest()?;
    let name = &session.name;
    let remedy =
        format!("if it matters less: ringtrace disable -s {name} '{event}', or ringtrace enable -s {name} '{event} 1 in 100'");
    Some(finding(&name_of(session), Verdict::Note, format!("{says} of its trace"), remedy))
}

pub(crate) fn doctor(arguments: &Doctor, common: &Common) -> Result<Outcome, Failure> {
    let images = arguments.target.images()?;
    examine(&arguments.target, &Request::Doctor, common, |process, diagnosis| {
        let is_of_process = |i: &&Image| (i.name.pid, i.name.start_time) == (process.is.pid, process.is.start_time);
        let own: Vec<Image> = images.iter().filter(is_of_process).cloned().collect();
        let found = &mut diagnosis.findings;
        // A plugin with a run time of its own, or another version of ringtrace.
        if own.iter().filter(|i| i.connect().is_ok()).count() > 1 {
            let says = "it has more than one copy of ringtrace; each has tracepoints, sessions and traces of its own".to_owned();
            let remedy = "cargo tree --duplicates; shared objects have copies of their own".to_owned();
            found.push(finding("process", Verdict::Note, says, remedy));
        }
        let Status { sessions, .. } = process.demand(&Request::Status)?;
        found.extend(sessions.iter().filter_map(heaviest));
        for session in super::recover::left(&own) {
            let says =
                format!("its consumer was killed, or its trace could not be written: rings are kept in {}", session.display());
            let about = format!("session {}", session.file_name().unwrap_or_default().to_string_lossy());
            // It is not well then, whatever the program knows.
            found.retain(|f| f.about != about || f.verdict != Verdict::Good);
            found.push(finding(&about, Verdict::Note, says, format!("ringtrace recover {}", session.display())));
        }
        Ok(())
    })
}

fn examine(
    target: &Target,
    request: &Request,
    common: &Common,
    more: impl Fn(&mut Process, &mut Diagnosis) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let mut processes = target.chosen()?;
    let mut all = Vec::new();
    let outcome = target::each(&mut processes, |process| {
        let mut found: Diagnosis = process.demand(request)?;
        more(process, &mut found)?;
        all.push((process.image.name, found));
        Ok(())
    })?;
    let of = |process: &Process| all.iter().find(|(name, _)| *name == process.image.name).map(|(_, found)| found);
    let is_known_beside = |process: &Process| {
        processes.iter().any(|other| other.is_beside(process) && of(other).is_some_and(|found| !found.events.is_empty()))
    };
    let mut is_well = true;
    for process in &processes {
        // Where another copy of ringtrace in the process has the event, this one has nothing to say of it.
        let Some(found) = of(process).filter(|found| !found.events.is_empty() || !is_known_beside(process)) else { continue };
        is_well &= found.findings.iter().all(|f| f.verdict != Verdict::Bad);
        show(process, found, common)?;
    }
    Ok(if outcome == Outcome::Complete && !is_well { Outcome::Unwell } else { outcome })
}

fn show(process: &Process, found: &Diagnosis, common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if common.json {
        for finding in &found.findings {
            writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, "finding": finding })))?;
        }
        return Ok(());
    }
    writeln!(out, "{}:", process.name())?;
    for Finding { about, verdict, says, remedy } in &found.findings {
        let (word, color) = match verdict {
            Verdict::Good => ("ok  ", "32"),
            Verdict::Note => ("note", "33"),
            Verdict::Bad => ("BAD ", "31"),
        };
        let word = if common.is_colored() { format!("\x1b[{color}m{word}\x1b[0m") } else { word.to_owned() };
        out.write_own(&format!("  {word}  "))?;
        // Further lines stand below it, where no verdict is.
        writeln!(out, "{}: {}", text::one_line(about), says.replace('\n', "\n        "))?;
        if !remedy.is_empty() {
            writeln!(out, "        → {}", text::one_line(remedy))?;
        }
    }
    Ok(())
}
