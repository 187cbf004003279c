//! `ringtrace why` and `ringtrace doctor`.

use std::io::{self, Write as _};
use std::time::Duration;

use serde_json::json;
use trace_control::protocol::{self, Diagnosis, Finding, Request, Verdict};
use trace_control::units;

use super::process::Process;
use super::target::Target;
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

/// Says why an event is recorded or not: whether it is declared, its probe linked, which rules match it, and whether it happens.
///
/// Its hits are counted for a while, so its probe runs meanwhile even where no session records it.
#[derive(Debug, clap::Args)]
pub(crate) struct Why {
    /// Name of the event, or the unique end of it.
    event: String,

    /// For how long to watch whether it happens.
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    time: Duration,

    #[command(flatten)]
    target: Target,
}

/// Examines tracing in a process: what is linked, the clock, the sessions, losses. Says what to do about what is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn why(arguments: &Why, common: &Common) -> Result<Outcome, Failure> {
    let ms = u64::try_from(arguments.time.as_millis()).unwrap_or(u64::MAX);
    let request = Request::Why(protocol::Why { event: arguments.event.clone(), ms });
    examine(&arguments.target, &request, common, |_| None)
}

pub(crate) fn doctor(arguments: &Doctor, common: &Common) -> Result<Outcome, Failure> {
    let images = arguments.target.images()?;
    examine(&arguments.target, &Request::Doctor, common, |process| {
        let of_process = |i: &&trace_control::place::Image| {
            (i.name.pid, i.name.start_time) == (process.is.pid, process.is.start_time) && !i.is_dead()
        };
        // A plugin with a run time of its own, or another version of ringtrace.
        (images.iter().filter(of_process).count() > 1).then(|| Finding {
            about: "process".to_owned(),
            verdict: Verdict::Note,
            says: "it has more than one copy of ringtrace; each lists its own tracepoints".to_owned(),
            remedy: "cargo tree --duplicates; shared objects have copies of their own".to_owned(),
        })
    })
}

fn examine(
    target: &Target,
    request: &Request,
    common: &Common,
    more: impl Fn(&Process) -> Option<Finding>,
) -> Result<Outcome, Failure> {
    let mut is_well = true;
    let outcome = target.each(|process| {
        let mut found: Diagnosis = process.demand(request)?;
        found.findings.extend(more(process));
        is_well &= found.findings.iter().all(|f| f.verdict != Verdict::Bad);
        show(process, &found, common)
    })?;
    Ok(if outcome == Outcome::Complete && !is_well { Outcome::Unwell } else { outcome })
}

fn show(process: &Process, found: &Diagnosis, common: &Common) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if common.json {
        for finding in &found.findings {
            writeln!(out, "{}", json!({ "pid": process.is.pid, "finding": finding }))?;
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
        writeln!(out, "  {word}  {about}: {says}")?;
        if !remedy.is_empty() {
            writeln!(out, "        → {remedy}")?;
        }
    }
    Ok(())
}
