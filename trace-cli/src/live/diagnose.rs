//! `ringtrace why` and `ringtrace doctor`.

use std::io::{self, Write as _};
use std::time::Duration;

use serde_json::json;
use trace_control::place::Image;
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
    examine(&arguments.target, &request, common, |_| Vec::new())
}

pub(crate) fn doctor(arguments: &Doctor, common: &Common) -> Result<Outcome, Failure> {
    let images = arguments.target.images()?;
    let note =
        |about: &str, says: String, remedy: String| Finding { about: about.to_owned(), verdict: Verdict::Note, says, remedy };
    examine(&arguments.target, &Request::Doctor, common, |process| {
        let is_of_process = |i: &&Image| (i.name.pid, i.name.start_time) == (process.is.pid, process.is.start_time);
        let own: Vec<Image> = images.iter().filter(is_of_process).cloned().collect();
        let mut found = Vec::new();
        // A plugin with a run time of its own, or another version of ringtrace.
        if own.iter().filter(|i| i.connect().is_ok()).count() > 1 {
            let says = "it has more than one copy of ringtrace; each lists its own tracepoints";
            found.push(note(
                "process",
                says.to_owned(),
                "cargo tree --duplicates; shared objects have copies of their own".to_owned(),
            ));
        }
        for session in super::recover::left(&own) {
            let says =
                format!("its consumer was killed, or its trace could not be written: rings are kept in {}", session.display());
            let about = format!("session {}", session.file_name().unwrap_or_default().to_string_lossy());
            found.push(note(&about, says, format!("ringtrace recover {}", session.display())));
        }
        found
    })
}

fn examine(
    target: &Target,
    request: &Request,
    common: &Common,
    more: impl Fn(&Process) -> Vec<Finding>,
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
