//! `ringtrace tree`: what happened inside of what, and how long it took.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::ControlFlow;

use jiff::tz::TimeZone;
use serde_json::json;
use trace_ctf::reader::{Event, Value};

use super::json::ValueJson;
use super::names::{Names, Thread, Who};
use super::slices::{Open, Phase, Slices};
use super::source::{Item, Source};
use super::summary::Summary;
use super::time::{self, span};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{Failure, complain};

/// Lines of one thread that wait for the end of what they belong to.
const WAITING: usize = 100_000;

/// Shows pairs of events, such as request_begin and request_end, as a call tree with durations, and the events inside them.
///
/// A pair has the same name but for one word: begin and end, entry and exit, enter and leave, start and stop, end, done or
/// finish. Each tree is shown when it is complete, with its thread; what has no end in the trace has `…` for its duration.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// Only trees that take at least so long, such as 5ms.
    #[arg(long, value_name = "DURATION", value_parser = trace_control::units::duration)]
    min: Option<std::time::Duration>,
}

struct Line {
    depth: usize,
    time: i64,
    name: String,
    fields: String,
    kind: Kind,
}

enum Kind {
    Instant,
    /// Not ended yet.
    Open,
    /// Ended after so many nanoseconds, with these fields.
    Ended(u64, String),
}

/// The lines of a thread.
#[derive(Default)]
struct Waiting {
    lines: Vec<Line>,
    /// How many lines were shown before those.
    shown: usize,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let opened = arguments.source.open(&mut summary)?;
    let slices = Slices::new(&opened.classes());
    if slices.is_empty() {
        return Err(Failure::Wrong(
            "no two events of this trace begin and end something\n  names of such events differ in one word: begin and end, entry and \
             exit, enter and leave, start and stop; `ringtrace latency A B` pairs events of any name"
                .to_owned(),
        ));
    }
    let out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let min = arguments.min.map_or(0, |min| u64::try_from(min.as_nanos()).unwrap_or(u64::MAX));
    let mut printer = Printer { out, zone: opened.zone.clone(), json: common.json, min, names: Names::default() };
    opened.traces.iter().for_each(|trace| printer.names.read(trace));
    let (mut who, mut open) = (Who::default(), Open::<usize>::default());
    let mut threads: HashMap<Thread, Waiting> = HashMap::new();
    opened.each(&mut summary, |item| {
        let Item::Event(event) = item else { return Ok(ControlFlow::Continue(())) };
        let thread = who.thread(event);
        let depth = open.depth(&thread);
        let time = event.timestamp().unwrap_or_default();
        let waiting = threads.entry(thread).or_default();
        let next = waiting.shown + waiting.lines.len();
        let (lines, shown) = (&mut waiting.lines, waiting.shown);
        let mut outermost = None;
        let phase = open.step(&slices, event.class(), thread, || next, |place| outermost = Some(place));
        if let (Phase::End(_), Some(place)) = (phase, outermost) {
            // What its end was missing in it stays open.
            if let Some(line) = place.checked_sub(shown).and_then(|place| lines.get_mut(place)) {
                line.kind = Kind::Ended(time.abs_diff(line.time), fields(event));
            }
            if open.depth(&thread) == 0 {
                printer.show(&thread, waiting)?;
            }
            return Ok(ControlFlow::Continue(()));
        }
        let (name, kind) = match phase {
            Phase::Begin => (slices.name(event.class()).unwrap_or(event.name()), Kind::Open),
            _ => (event.name(), Kind::Instant),
        };
        lines.push(Line { depth, time, name: name.escape_debug().to_string(), fields: fields(event), kind });
        let is_alone = depth == 0 && phase != Phase::Begin;
        if is_alone || lines.len() >= WAITING {
            printer.show(&thread, waiting)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut rest: Vec<_> = threads.into_iter().collect();
    rest.sort_by_key(|(thread, _)| *thread);
    for (thread, mut waiting) in rest {
        printer.show(&thread, &mut waiting)?;
    }
    printer.out.flush()?;
    complain(format_args!("{summary}"));
    Ok(summary.outcome())
}

/// The payload as `name=value`, values as in JSON.
fn fields(event: &Event<'_>) -> String {
    let Value::Structure(members) = event.payload() else { return String::new() };
    let member = |(name, value): &(String, Value<'_>)| {
        let value = serde_json::to_string(&ValueJson(value)).unwrap_or_default();
        format!("{name}={value}")
    };
    members.iter().map(member).collect::<Vec<_>>().join(" ")
}

struct Printer {
    out: io::BufWriter<io::StdoutLock<'static>>,
    zone: TimeZone,
    json: bool,
    /// The least duration of trees, in nanoseconds.
    min: u64,
    names: Names,
}

impl Printer {
    fn show(&mut self, thread: &Thread, waiting: &mut Waiting) -> io::Result<()> {
        let lines = core::mem::take(&mut waiting.lines);
        waiting.shown += lines.len();
        let is_long = |line: &Line| matches!(line.kind, Kind::Ended(duration, _) if duration >= self.min);
        if self.min > 0 && !lines.first().is_some_and(is_long) {
            return Ok(());
        }
        let name = self.names.show(thread);
        for line in &lines {
            let (duration, end) = match &line.kind {
                Kind::Instant => (None, ""),
                Kind::Open => (None, ""),
                Kind::Ended(duration, fields) => (Some(*duration), fields.as_str()),
            };
            if self.json {
                let is_slice = !matches!(line.kind, Kind::Instant);
                let row = json!({ "time_ns": line.time, "duration_ns": duration, "depth": line.depth, "name": line.name,
                                  "slice": is_slice, "thread": self.names.of(thread), "tid": thread.tid, "cpu": thread.cpu,
                                  "fields": line.fields, "end_fields": end });
                writeln!(self.out, "{row}")?;
                continue;
            }
            let duration = match (&line.kind, duration) {
                (Kind::Instant, _) => String::new(),
                (_, None) => "…".to_owned(),
                (_, Some(duration)) => span(duration as f64),
            };
            let time = time::show(line.time, &self.zone).split_off("2026-01-01 ".len());
            let indent = "  ".repeat(line.depth);
            write!(self.out, "{time} {duration:>9}  {name:<16} {indent}{}", line.name)?;
            for (before, fields) in [("  ", line.fields.as_str()), (" → ", end)] {
                if !fields.is_empty() {
                    write!(self.out, "{before}{fields}")?;
                }
            }
            writeln!(self.out)?;
        }
        Ok(())
    }
}
