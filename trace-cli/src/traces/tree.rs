//! `ringtrace tree`: what happened inside of what, and how long it took.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::ControlFlow;

use jiff::tz::TimeZone;
use serde_json::json;
use trace_ctf::reader::{Event, Value};

use super::json::ValueJson;
use super::names::{Names, Thread};
use super::slices::{Future, Open, Phase, Slices};
use super::source::{Item, Source};
use super::summary::Summary;
use super::time::{self, span};
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

/// Lines that wait for the end of what they belong to.
const WAITING: usize = 100_000;

/// Shows pairs of events, such as request_begin and request_end, as a call tree with durations, and the events inside them.
///
/// A pair has the same name but for one word: begin and end, entry and exit, enter and leave, start and stop, end, done or
/// finish. Each tree is shown when it is complete, with its thread; what has no end in the trace has `…` for its duration.
/// A traced async function is one line, on whatever threads it was polled, with what happened while it was.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// Only trees that take at least so long, such as 5ms.
    #[arg(long, value_name = "DURATION", value_parser = trace_control::units::duration)]
    min: Option<std::time::Duration>,
}

struct Line {
    parent: Option<usize>,
    thread: Thread,
    time: i64,
    name: String,
    fields: String,
    kind: Kind,
    /// A future, which ends by an event of its own.
    is_future: bool,
    children: Vec<usize>,
}

enum Kind {
    Instant,
    /// Not ended yet.
    Open,
    /// Ended after so many nanoseconds, with these fields.
    Ended(u64, String),
}

/// A future, in one of the traces.
type Number = (Option<[u8; 16]>, u64);

/// Trees that are not complete.
#[derive(Default)]
struct Trees {
    /// By number; lines that were shown are gone.
    lines: HashMap<usize, Line>,
    next: usize,
    /// What is open on each thread, the innermost last: the lines that are begun, and those that are polled.
    open: Open<usize>,
    threads: HashMap<Thread, Vec<usize>>,
    futures: HashMap<Number, usize>,
    /// Futures in each tree that have not ended, by the number of its first line.
    pending: HashMap<usize, usize>,
}

impl Trees {
    /// Adds a line inside of what is open on its thread. Returns its number.
    fn add(&mut self, mut line: Line) -> usize {
        let number = self.next;
        self.next += 1;
        line.parent = self.threads.get(&line.thread).and_then(|open| open.last().copied()).filter(|p| self.lines.contains_key(p));
        if let Some(parent) = line.parent.and_then(|parent| self.lines.get_mut(&parent)) {
            parent.children.push(number);
        }
        self.lines.insert(number, line);
        number
    }

    /// The first line of the tree that a line is in.
    fn root(&self, mut number: usize) -> usize {
        while let Some(parent) = self.lines.get(&number).and_then(|line| line.parent) {
            number = parent;
        }
        number
    }

    fn end(&mut self, number: usize, event: &Event<'_>, fields: &str) {
        if let Some(line) = self.lines.get_mut(&number) {
            line.kind = Kind::Ended(event.timestamp().unwrap_or_default().abs_diff(line.time), fields.to_owned());
        }
    }

    /// The tree of a line, if nothing in it is open.
    fn complete(&self, number: usize) -> Option<usize> {
        let root = self.root(number);
        let is_open = self.lines.get(&root).is_none_or(|line| matches!(line.kind, Kind::Open));
        (!is_open && self.pending.get(&root).is_none_or(|pending| *pending == 0)).then_some(root)
    }

    /// Takes a tree out: its lines with their depths.
    fn take(&mut self, root: usize) -> Vec<(usize, Line)> {
        let (mut taken, mut next) = (Vec::new(), vec![(0, root)]);
        while let Some((depth, number)) = next.pop() {
            if let Some(line) = self.lines.remove(&number) {
                next.extend(line.children.iter().rev().map(|child| (depth + 1, *child)));
                taken.push((depth, line));
            }
        }
        self.pending.remove(&root);
        taken
    }

    /// Takes an event into account. Returns the tree that is complete now.
    fn step(&mut self, slices: &Slices, event: &Event<'_>, thread: Thread, fields: &str) -> Option<usize> {
        let time = event.timestamp().unwrap_or_default();
        let line = |kind, name: &str| Line {
            parent: None,
            thread,
            time,
            name: name.escape_debug().to_string(),
            fields: fields.to_owned(),
            kind,
            is_future: false,
            children: Vec::new(),
        };
        let own = slices.name(event.class()).unwrap_or(event.name());
        let trace = event.trace().uuid;
        let of = |number| (trace, number);
        let polled = match slices.future(event) {
            Some(Future::Begin(number)) => {
                let added = self.add(Line { is_future: true, ..line(Kind::Open, own) });
                self.futures.insert(of(number), added);
                *self.pending.entry(self.root(added)).or_default() += 1;
                return None;
            }
            Some(Future::End(number)) => {
                let ended = self.futures.remove(&of(number))?;
                self.end(ended, event, fields);
                if let Some(pending) = self.pending.get_mut(&self.root(ended)) {
                    *pending = pending.saturating_sub(1);
                }
                return self.complete(ended);
            }
            // The future's line stands for its polls.
            Some(Future::Poll(number)) => self.futures.get(&of(number)).copied(),
            None => None,
        };
        let next = self.next;
        let mut ended = Vec::new();
        match self.open.step(slices, event.class(), thread, || polled.unwrap_or(next), |number| ended.push(number)) {
            Phase::Begin => {
                let number = polled.unwrap_or_else(|| self.add(line(Kind::Open, own)));
                self.threads.entry(thread).or_default().push(number);
                None
            }
            Phase::End(count) => {
                let open = self.threads.entry(thread).or_default();
                open.truncate(open.len().saturating_sub(count));
                // What its end was missing in it stays open.
                let number = ended.last().copied()?;
                if !self.lines.get(&number).is_some_and(|line| line.is_future) {
                    self.end(number, event, fields);
                }
                self.complete(number)
            }
            Phase::Instant => {
                let number = self.add(line(Kind::Instant, event.name()));
                self.lines.get(&number).is_some_and(|line| line.parent.is_none()).then_some(number)
            }
        }
    }
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
    let mut printer = Printer { out, zone: opened.zone.clone(), json: common.json, min, names: Names::default(), width: 16 };
    opened.traces.iter().for_each(|trace| printer.names.read(trace));
    let mut trees = Trees::default();
    opened.each(
        &mut summary,
        || fields,
        |item| {
            let Item::Event(event, (), fields) = item else { return Ok(ControlFlow::Continue(())) };
            let thread = printer.names.thread(event);
            if let Some(root) = trees.step(&slices, event, thread, &String::from_utf8_lossy(fields)) {
                printer.show(&trees.take(root))?;
            }
            if trees.lines.len() >= WAITING {
                printer.rest(&mut trees)?;
            }
            Ok(ControlFlow::Continue(()))
        },
    )?;
    printer.rest(&mut trees)?;
    printer.out.flush()?;
    Ok(opened.close(&summary))
}

/// The payload as `name=value`, values as in JSON.
fn fields(event: &Event<'_>, text: &mut Vec<u8>) {
    let Value::Structure(members) = event.payload() else { return };
    let mut between = "";
    for (name, value) in &members {
        // Nothing of it can fail in memory.
        let _ = write!(text, "{between}{name}=");
        let _ = serde_json::to_writer(&mut *text, &ValueJson(value));
        between = " ";
    }
}

struct Printer {
    out: io::BufWriter<io::StdoutLock<'static>>,
    zone: TimeZone,
    json: bool,
    /// The least duration of trees, in nanoseconds.
    min: u64,
    names: Names,
    /// Characters of the longest name of a thread so far.
    width: usize,
}

impl Printer {
    /// Shows the trees that are left, as far as they go.
    fn rest(&mut self, trees: &mut Trees) -> io::Result<()> {
        let is_root = |(number, line): (&usize, &Line)| line.parent.is_none().then_some(*number);
        let mut roots: Vec<usize> = trees.lines.iter().filter_map(is_root).collect();
        roots.sort_unstable();
        // Futures have lost their lines.
        trees.futures.clear();
        roots.into_iter().try_for_each(|root| self.show(&trees.take(root)))
    }

    /// Shows a tree.
    fn show(&mut self, tree: &[(usize, Line)]) -> io::Result<()> {
        let is_long = |line: &Line| matches!(line.kind, Kind::Ended(duration, _) if duration >= self.min);
        if self.min > 0 && !tree.first().is_some_and(|(_, line)| is_long(line)) {
            return Ok(());
        }
        for (depth, line) in tree {
            let thread = &line.thread;
            let (duration, end) = match &line.kind {
                Kind::Instant | Kind::Open => (None, ""),
                Kind::Ended(duration, fields) => (Some(*duration), fields.as_str()),
            };
            if self.json {
                let is_slice = !matches!(line.kind, Kind::Instant);
                let row = json!({ "time_ns": line.time, "duration_ns": duration, "depth": depth, "name": line.name,
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
            let (indent, name) = ("  ".repeat(*depth), self.names.show(thread));
            self.width = self.width.max(name.chars().count());
            write!(self.out, "{time} {duration:>9}  {name:<width$} {indent}{}", line.name, width = self.width)?;
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
