//! `ringtrace why` and `ringtrace doctor`.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;
use trace_control::place::Image;
use trace_control::protocol::{self, Diagnosis, Finding, Request, SessionState, Status, Verdict};
use trace_ctf::reader::{Trace, discover};
use trace_registry::units;

use super::process::Process;
use super::target::Target;
use super::text;
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

/// Says why an event is recorded or not: whether it is declared, its probe linked, which rules match it, and whether it happens.
///
/// Its hits are counted for a while, so its probe runs meanwhile even where no session records it. Those before are counted in the
/// traces of the sessions that record it, where these have at most 256 MiB.
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
    examine(&arguments.target, &request, common, |process, found| {
        let Some(event) = &found.event else { return Ok(()) };
        let Status { sessions, .. } = process.demand(&Request::Status)?;
        let in_traces: Vec<Finding> = sessions.iter().filter_map(|session| in_trace(session, event)).collect();
        if in_traces.iter().any(|finding| finding.verdict == Verdict::Good) {
            // It does happen.
            let is_without = |f: &&mut Finding| f.about == "hits" && f.verdict == Verdict::Bad;
            found.findings.iter_mut().filter(is_without).for_each(|f| f.verdict = Verdict::Note);
        }
        found.findings.extend(in_traces);
        Ok(())
    })
}

/// Traces that are larger are not read through.
const LARGEST: u64 = 256 << 20;

/// How often an event is in the trace that a session writes, and when it was there last. `None`: there is no trace, or nothing of
/// the event in it.
fn in_trace(session: &SessionState, event: &str) -> Option<Finding> {
    let output = session.output.as_deref()?;
    let traces: Vec<Trace> = discover(output, 1).ok()?.iter().filter_map(|path| Trace::open(path).ok()).collect();
    let about = format!("session {}", session.name);
    let streams = || traces.iter().flat_map(|trace| trace.streams().iter().map(move |stream| (trace, stream)));
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    if streams().flat_map(|(_, stream)| stream.files()).map(size).sum::<u64>() > LARGEST {
        let remedy = format!("ringtrace stats --event '{event}' {}", output.display());
        let says = "its trace is large, so that it is not looked through for how often the event is in it".to_owned();
        return Some(Finding { about, verdict: Verdict::Note, says, remedy });
    }
    let (mut count, mut last) = (0_u64, None);
    for (trace, stream) in streams() {
        // What is being written just now may not be whole.
        for (packet, _) in trace.packets(stream).map_while(Result::ok) {
            let mut events = packet.events();
            while let Some(Ok(one)) = events.next_event() {
                if one.name() == event {
                    (count, last) = (count + 1, last.max(one.timestamp()));
                }
            }
        }
    }
    let last = Timestamp::from_nanosecond(last?.into()).ok()?.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f");
    let says = format!("{count} of it are in its trace so far, the last of {last}");
    Some(Finding { about, verdict: Verdict::Good, says, remedy: String::new() })
}

pub(crate) fn doctor(arguments: &Doctor, common: &Common) -> Result<Outcome, Failure> {
    let images = arguments.target.images()?;
    let note =
        |about: &str, says: String, remedy: String| Finding { about: about.to_owned(), verdict: Verdict::Note, says, remedy };
    examine(&arguments.target, &Request::Doctor, common, |process, diagnosis| {
        let is_of_process = |i: &&Image| (i.name.pid, i.name.start_time) == (process.is.pid, process.is.start_time);
        let own: Vec<Image> = images.iter().filter(is_of_process).cloned().collect();
        let found = &mut diagnosis.findings;
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
        Ok(())
    })
}

fn examine(
    target: &Target,
    request: &Request,
    common: &Common,
    more: impl Fn(&mut Process, &mut Diagnosis) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let mut is_well = true;
    let outcome = target.each(|process| {
        let mut found: Diagnosis = process.demand(request)?;
        more(process, &mut found)?;
        is_well &= found.findings.iter().all(|f| f.verdict != Verdict::Bad);
        show(process, &found, common)
    })?;
    Ok(if outcome == Outcome::Complete && !is_well { Outcome::Unwell } else { outcome })
}

fn show(process: &Process, found: &Diagnosis, common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
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
        out.write_own(&format!("  {word}  "))?;
        writeln!(out, "{about}: {says}")?;
        if !remedy.is_empty() {
            writeln!(out, "        → {remedy}")?;
        }
    }
    Ok(())
}
