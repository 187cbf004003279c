//! `ringtrace tree`: what happened inside of what, and how long it took.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::ops::ControlFlow;

use jiff::tz::TimeZone;
use serde_json::json;
use trace_ctf::reader::Event;
use trace_ctf::text::Readable;
use trace_registry::Glob;
use trace_registry::registry;

use super::json::ValueJson;
use super::names::{Names, Thread};
use super::slices::{Begin, End, Future, Open, Phase, Slices, began};
use super::source::{Item, Source, one_of};
use super::summary::Summary;
use super::time::{self, span};
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;
use crate::live::text::{Out, out};

/// Lines that wait for the end of what they belong to.
const WAITING: usize = 100_000;

/// Shows pairs of events, such as request_begin and request_end, as a call tree with durations, and the events inside them.
///
/// A pair has the same name but for one word: begin and end, entry and exit, enter and leave, start and stop, end, done or
/// finish. Each tree is shown when it is complete, with its thread; what has no end in the trace has `…` for its duration.
/// Where events were lost, a begin without its end and an end without its begin say so.
/// A traced async function is one line, on whatever threads it was polled, with what happened while it was, and below the async
/// function that called or spawned it, if it was spawned `with_current_keys`. So is a span that is
/// held across an `.await`, with what happened in it before its task was first interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// Only calls that take at least so long, such as 5ms; in a tree, how many shorter ones there are is told.
    #[arg(long, value_name = "DURATION", value_parser = trace_registry::units::duration)]
    min: Option<std::time::Duration>,

    /// Only so many levels: 1 are the outermost calls alone.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    depth: Option<u64>,

    /// Only calls of this name, with what is in them, wherever they are: a whole name, the end of one, or a pattern. May be given
    /// several times.
    #[arg(long, value_name = "PATTERN")]
    function: Vec<String>,

    /// Only the first N trees.
    #[arg(long, value_name = "N")]
    head: Option<u64>,
}

struct Line {
    parent: Option<usize>,
    thread: Thread,
    time: i64,
    name: String,
    fields: String,
    kind: Kind,
    /// Its begin is lost.
    is_alone: bool,
    /// A future, which ends by an event of its own.
    is_future: bool,
    /// Its tree waits for its end: it is a span that is of no thread any more, or is open in one that has ended elsewhere.
    is_awaited: bool,
    children: Vec<usize>,
}

enum Kind {
    Instant,
    /// Not ended yet.
    Open,
    /// Ended by an event at this time, after so many nanoseconds, where that is known, with these fields.
    Ended(i64, Option<u64>, String),
    /// Its end is lost.
    Lost,
}

/// A future, in one of the traces.
type Number = (Option<[u8; 16]>, u64);

/// Trees that are not complete, and those that are complete now.
struct Trees {
    /// By number; lines that were shown are gone.
    lines: HashMap<usize, Line>,
    next: usize,
    /// What is open on each thread, the innermost last: the lines that are begun, and those that are polled.
    open: Open<usize>,
    threads: HashMap<Thread, Vec<usize>>,
    futures: HashMap<Number, usize>,
    /// Futures and others in each tree that it waits for, by the number of its first line.
    pending: HashMap<usize, usize>,
    /// The first lines of trees that are complete.
    complete: Vec<usize>,
}

impl Trees {
    fn new(open: Open<usize>) -> Self {
        let (lines, threads, futures, pending) = Default::default();
        Self { lines, next: 0, open, threads, futures, pending, complete: Vec::new() }
    }

    /// Adds a line inside of what is open on its thread. Returns its number.
    fn add(&mut self, line: Line) -> usize {
        self.add_in(None, line)
    }

    /// The same, inside of a future, on whatever thread that is polled.
    fn add_in(&mut self, future: Option<usize>, mut line: Line) -> usize {
        let number = self.next;
        self.next += 1;
        let open = self.threads.get(&line.thread).and_then(|open| open.last().copied()).filter(|p| self.lines.contains_key(p));
        let is_in = |future: usize, open| std::iter::successors(Some(open), |n| self.lines.get(n)?.parent).any(|n| n == future);
        line.parent = match future {
            Some(future) if !open.is_some_and(|open| is_in(future, open)) => Some(future),
            _ => open,
        };
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

    /// Ends a line. A call was as long as its exit says, which leaves out what recording its events took.
    fn end(&mut self, number: usize, slices: &Slices, event: &Event<'_>, fields: &str) {
        if let Some(line) = self.lines.get_mut(&number) {
            let time = event.timestamp().unwrap_or_default();
            let duration = slices.duration(event).unwrap_or_else(|| time.abs_diff(line.time));
            line.kind = Kind::Ended(time, Some(duration), fields.to_owned());
        }
    }

    /// Notes the tree of a line, if nothing in it is open.
    fn finish(&mut self, number: usize) {
        let root = self.root(number);
        let is_open = self.lines.get(&root).is_none_or(|line| matches!(line.kind, Kind::Open));
        if !is_open && self.pending.get(&root).is_none_or(|pending| *pending == 0) {
            self.complete.push(root);
        }
    }

    /// Lets the tree of a line wait for its end.
    fn wait_for(&mut self, number: usize) {
        let is_open = |line: &&mut Line| matches!(line.kind, Kind::Open) && !line.is_future && !line.is_awaited;
        if let Some(line) = self.lines.get_mut(&number).filter(is_open) {
            line.is_awaited = true;
            *self.pending.entry(self.root(number)).or_default() += 1;
        }
    }

    /// The tree of a line that has ended waits for it no more.
    fn wait_no_more(&mut self, number: usize) {
        if !self.lines.get_mut(&number).is_some_and(|line| core::mem::take(&mut line.is_awaited)) {
            return;
        }
        if let Some(pending) = self.pending.get_mut(&self.root(number)) {
            *pending = pending.saturating_sub(1);
        }
        self.finish(number);
    }

    /// Takes a span that has ended from the thread on which it is open. What is open in it there ends later.
    fn leave(&mut self, number: usize) {
        let mut inner = Vec::new();
        for open in self.threads.values_mut() {
            if let Some(place) = open.iter().rposition(|line| *line == number) {
                open.remove(place);
                inner.extend_from_slice(&open[place..]);
            }
        }
        inner.into_iter().for_each(|line| self.wait_for(line));
    }

    /// Ends a line whose end is lost, at some time: what came later is not in it.
    fn cut(&mut self, number: usize, at: i64) {
        let Some(line) = self.lines.get_mut(&number).filter(|line| !line.is_future) else { return };
        line.kind = Kind::Lost;
        let (parent, children) = (line.parent, core::mem::take(&mut line.children));
        let (inner, outer): (Vec<_>, Vec<_>) =
            children.into_iter().partition(|child| self.lines.get(child).is_some_and(|child| child.time < at));
        if let Some(line) = self.lines.get_mut(&number) {
            line.children = inner;
        }
        if parent.is_none() {
            for child in &outer {
                // What is awaited in it is awaited by a tree of its own.
                let moved = self.awaited(*child);
                self.pending.entry(number).and_modify(|pending| *pending = pending.saturating_sub(moved));
                *self.pending.entry(*child).or_default() += moved;
            }
            self.finish(number);
        }
        for child in outer {
            self.lines.entry(child).and_modify(|line| line.parent = parent);
            match parent.and_then(|parent| self.lines.get_mut(&parent)) {
                Some(parent) => parent.children.push(child),
                None => self.finish(child),
            }
        }
    }

    /// How many lines of those in one, and of itself, a tree waits for.
    fn awaited(&self, number: usize) -> usize {
        let (mut count, mut next) = (0, vec![number]);
        while let Some(number) = next.pop() {
            let Some(line) = self.lines.get(&number) else { continue };
            count += usize::from(line.is_awaited || line.is_future && matches!(line.kind, Kind::Open));
            next.extend(&line.children);
        }
        count
    }

    /// Puts the lines around a new one into it that came after it had begun.
    fn adopt(&mut self, number: usize) {
        let Some((time, parent)) = self.lines.get(&number).and_then(|line| Some((line.time, line.parent?))) else { return };
        let is_in = |child: &usize| *child != number && self.lines.get(child).is_some_and(|child| child.time >= time);
        let Some(children) = self.lines.get(&parent).map(|parent| parent.children.clone()) else { return };
        let (inner, outer): (Vec<_>, Vec<_>) = children.into_iter().partition(is_in);
        for child in &inner {
            self.lines.entry(*child).and_modify(|line| line.parent = Some(number));
        }
        self.lines.entry(parent).and_modify(|line| line.children = outer);
        self.lines.entry(number).and_modify(|line| line.children = inner);
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

    /// Takes an event into account.
    fn step(&mut self, slices: &Slices, event: &Event<'_>, thread: Thread, fields: &str) {
        let time = event.timestamp().unwrap_or_default();
        let line = |kind, name: &str| Line {
            parent: None,
            thread,
            time,
            name: name.to_owned(),
            fields: fields.to_owned(),
            kind,
            is_alone: false,
            is_future: false,
            is_awaited: false,
            children: Vec::new(),
        };
        let own = slices.name(event.class()).unwrap_or(event.name());
        let alone = |begin: Begin| Line {
            time: begin.at,
            fields: String::new(),
            is_alone: true,
            ..line(Kind::Ended(time, begin.is_known.then(|| time.abs_diff(begin.at)), fields.to_owned()), own)
        };
        let trace = event.trace().uuid;
        let of = |number| (trace, number);
        let polled = match slices.future(event) {
            Some(Future::Begin(number)) => {
                let parent = Slices::parent_future(event).and_then(|parent| self.futures.get(&of(parent)).copied());
                let added = self.add_in(parent, Line { is_future: true, ..line(Kind::Open, own) });
                self.futures.insert(of(number), added);
                *self.pending.entry(self.root(added)).or_default() += 1;
                return;
            }
            Some(Future::End(number)) => {
                let Some(ended) = self.futures.remove(&of(number)) else {
                    // What was polled in it is shown already.
                    let duration = slices.duration(event);
                    let begin = Begin { at: began(time, duration), is_known: duration.is_some() };
                    let added = self.add(Line { is_future: true, ..alone(begin) });
                    return self.finish(added);
                };
                self.end(ended, slices, event, fields);
                if let Some(pending) = self.pending.get_mut(&self.root(ended)) {
                    *pending = pending.saturating_sub(1);
                }
                return self.finish(ended);
            }
            // The future's line stands for its polls.
            Some(Future::Poll(number)) => self.futures.get(&of(number)).copied(),
            None => None,
        };
        let next = self.next;
        let mut ended = Vec::new();
        let keep = || polled.unwrap_or(next);
        let phase = self.open.step(slices, event, thread, keep, |number, end| ended.push((number, end)));
        let open = self.threads.entry(thread).or_default();
        let mut inner = Vec::new();
        for (number, end) in &ended {
            if let Some(place) = open.iter().rposition(|open| open == number) {
                open.remove(place);
                inner.extend_from_slice(if let End::Left(_) | End::Apart = end { &open[place..] } else { &[] });
            }
        }
        // What is still open in a span here may end later than that.
        inner.into_iter().for_each(|line| self.wait_for(line));
        for (number, end) in &ended {
            match end {
                End::Lost(at) => self.cut(*number, *at),
                End::Left(_) => self.wait_for(*number),
                End::Apart => self.leave(*number),
                End::Own | End::Around => {}
            }
        }
        match phase {
            Phase::Begin => {
                let number = polled.unwrap_or_else(|| self.add(line(Kind::Open, own)));
                self.threads.entry(thread).or_default().push(number);
            }
            Phase::End | Phase::Apart => {
                // What its end was missing in it stays open.
                let Some((number, _)) = ended.last().copied() else { return };
                if !self.lines.get(&number).is_some_and(|line| line.is_future) {
                    self.end(number, slices, event, fields);
                }
                self.finish(number);
            }
            Phase::Alone(begin) => {
                let number = self.add(alone(begin));
                self.adopt(number);
                if self.lines.get(&number).is_some_and(|line| line.parent.is_none()) {
                    self.finish(number);
                }
            }
            Phase::Instant => {
                let number = self.add(line(Kind::Instant, event.name()));
                if self.lines.get(&number).is_some_and(|line| line.parent.is_none()) {
                    self.finish(number);
                }
            }
        }
        let is_over = |(_, end): &&(usize, End)| !matches!(end, End::Left(_));
        ended.iter().filter(is_over).for_each(|(number, _)| self.wait_no_more(*number));
    }

    /// Ends what has lost its end when the trace ends.
    fn close(&mut self) {
        let mut lost = self.open.finish_apart();
        self.open.finish(|_, number, end| {
            if let End::Lost(at) = end {
                lost.push((number, at));
            }
        });
        lost.into_iter().for_each(|(number, at)| self.cut(number, at));
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
    let mut printer = Printer {
        arguments,
        out: io::BufWriter::with_capacity(1 << 16, out(common.json)),
        zone: opened.zone.clone(),
        json: common.json,
        min: arguments.min.map_or(0, |min| u64::try_from(min.as_nanos()).unwrap_or(u64::MAX)),
        functions: functions(&arguments.function, &slices)?,
        shown: 0,
        names: Names::default(),
        width: 16,
    };
    opened.traces.iter().for_each(|trace| printer.names.read(trace));
    let mut trees = Trees::new(Open::new(opened.whole()));
    opened.each(
        &mut summary,
        || fields(common.json),
        |item| {
            let Item::Event(event, (), fields) = item else { return Ok(ControlFlow::Continue(())) };
            let thread = printer.names.thread(event);
            trees.step(&slices, event, thread, &String::from_utf8_lossy(fields));
            printer.complete(&mut trees)?;
            if printer.is_done() {
                return Ok(ControlFlow::Break(()));
            }
            if trees.lines.len() >= WAITING {
                printer.rest(&mut trees)?;
            }
            Ok(ControlFlow::Continue(()))
        },
    )?;
    trees.close();
    printer.complete(&mut trees)?;
    printer.rest(&mut trees)?;
    printer.out.flush()?;
    Ok(opened.close(&summary))
}

/// The names of calls that patterns stand for; `None`: all.
fn functions(patterns: &[String], slices: &Slices) -> Result<Option<HashSet<String>>, Failure> {
    let names = || slices.names();
    let find = |pattern: &String| {
        let found = registry::find(&Glob::new(pattern), names(), |name| (*name).to_owned());
        Ok(one_of(pattern, found, "call", names())?.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let found: Vec<Vec<String>> = patterns.iter().map(find).collect::<Result<_, Failure>>()?;
    Ok((!patterns.is_empty()).then(|| found.into_iter().flatten().collect()))
}

/// Makes what shows the payload: as `view` does, or as JSON.
fn fields(is_json: bool) -> impl FnMut(&Event<'_>, &mut Vec<u8>) {
    let mut readable = Readable::utc();
    move |event, text| {
        if is_json {
            // Nothing of it can fail in memory.
            let _ = serde_json::to_writer(text, &ValueJson(&event.payload()));
        } else {
            readable.fields(event, text);
        }
    }
}

struct Printer<'a> {
    arguments: &'a Arguments,
    out: io::BufWriter<Out<io::StdoutLock<'static>>>,
    zone: TimeZone,
    json: bool,
    /// The least duration, in nanoseconds.
    min: u64,
    /// What calls that are shown by themselves are called; `None`: whole trees are.
    functions: Option<HashSet<String>>,
    /// Trees so far.
    shown: u64,
    names: Names,
    /// Characters of the longest name of a thread so far.
    width: usize,
}

impl Printer<'_> {
    /// Whether all trees are shown that are wanted.
    fn is_done(&self) -> bool {
        self.arguments.head.is_some_and(|head| self.shown >= head)
    }

    /// Shows the trees that are complete.
    fn complete(&mut self, trees: &mut Trees) -> io::Result<()> {
        while !trees.complete.is_empty() {
            let roots = core::mem::take(&mut trees.complete);
            roots.into_iter().try_for_each(|root| self.chosen(&trees.take(root)))?;
        }
        Ok(())
    }

    /// Shows the trees that are left, as far as they go.
    fn rest(&mut self, trees: &mut Trees) -> io::Result<()> {
        let is_root = |(number, line): (&usize, &Line)| line.parent.is_none().then_some(*number);
        let mut roots: Vec<usize> = trees.lines.iter().filter_map(is_root).collect();
        roots.sort_unstable();
        // Futures have lost their lines.
        trees.futures.clear();
        roots.into_iter().try_for_each(|root| self.chosen(&trees.take(root)))
    }

    /// Shows a tree, or the calls in it that are wanted by themselves.
    fn chosen(&mut self, tree: &[(usize, Line)]) -> io::Result<()> {
        let Some(functions) = &self.functions else { return self.show(tree) };
        let is_wanted = |line: &Line| !matches!(line.kind, Kind::Instant) && functions.contains(&line.name);
        let mut calls = Vec::new();
        let mut rest = tree;
        while let Some(start) = rest.iter().position(|(_, line)| is_wanted(line)) {
            let outer = rest[start].0;
            let inside = rest[start + 1..].iter().take_while(|(depth, _)| *depth > outer).count();
            let (call, behind) = rest[start..].split_at(inside + 1);
            calls.push(call);
            rest = behind;
        }
        calls.into_iter().try_for_each(|call| self.show(call))
    }

    /// Shows a tree, of which the first line is the call that all others are in.
    fn show(&mut self, tree: &[(usize, Line)]) -> io::Result<()> {
        let Some((root, first)) = tree.first() else { return Ok(()) };
        let min = self.min;
        let is_long = matches!(first.kind, Kind::Ended(_, Some(duration), _) if duration >= min);
        if self.is_done() || min > 0 && !is_long {
            return Ok(());
        }
        self.shown += 1;
        let is_short = |line: &Line| matches!(line.kind, Kind::Ended(_, Some(duration), _) if duration < min);
        let deepest = self.arguments.depth.map_or(usize::MAX, |depth| depth as usize);
        // What lies deeper than this is left out.
        let mut hidden = usize::MAX;
        for (place, (depth, line)) in tree.iter().enumerate() {
            if *depth > hidden {
                continue;
            }
            let (level, is_left_out) = (depth - root, is_short(line));
            let is_deepest = level + 1 == deepest;
            hidden = if is_left_out || is_deepest { *depth } else { usize::MAX };
            if is_left_out {
                continue;
            }
            let inside = tree[place + 1..].iter().take_while(|(inner, _)| min > 0 && !is_deepest && inner > depth);
            let shorter = inside.filter(|(inner, line)| *inner == depth + 1 && is_short(line)).count();
            self.line(level, line, shorter)?;
        }
        Ok(())
    }

    /// Shows a line, in which so many calls are too short to be shown.
    fn line(&mut self, depth: usize, line: &Line, shorter: usize) -> io::Result<()> {
        let thread = &line.thread;
        let (ended, duration, end) = match &line.kind {
            Kind::Instant | Kind::Open | Kind::Lost => (None, None, ""),
            Kind::Ended(time, duration, fields) => (Some(time), *duration, fields.as_str()),
        };
        let is_lost = matches!(line.kind, Kind::Lost);
        if self.json {
            let is_slice = !matches!(line.kind, Kind::Instant);
            let row = json!({ "time_ns": line.time, "end_ns": ended, "duration_ns": duration, "depth": depth, "name": line.name,
                              "slice": is_slice, "thread": self.names.of(thread), "tid": thread.tid, "cpu": thread.cpu,
                              "begin_lost": line.is_alone, "end_lost": is_lost, "shorter": shorter });
            let row = row.to_string();
            // They are JSON already.
            let [fields, end] = [&*line.fields, end].map(|fields| if fields.is_empty() { "{}" } else { fields });
            let row = row.strip_suffix('}').unwrap_or(&row);
            return writeln!(self.out, "{row},\"fields\":{fields},\"end_fields\":{end}}}");
        }
        let duration = match (&line.kind, duration) {
            (Kind::Instant, _) => String::new(),
            (_, None) => "…".to_owned(),
            (_, Some(duration)) => span(duration as f64),
        };
        let time = time::show(line.time, &self.zone).split_off("2026-01-01 ".len());
        let (indent, name) = ("  ".repeat(depth), self.names.show(thread));
        self.width = self.width.max(name.chars().count());
        let own = line.name.escape_debug();
        write!(self.out, "{time} {duration:>9}  {name:<width$} {indent}{own}", width = self.width)?;
        let begin = if line.is_alone { "(begin lost)" } else { line.fields.as_str() };
        for (before, fields) in [("  ", begin), (" → ", if is_lost { "(end lost)" } else { end })] {
            if !fields.is_empty() {
                write!(self.out, "{before}{fields}")?;
            }
        }
        match shorter {
            0 => writeln!(self.out),
            1 => writeln!(self.out, "  (1 shorter call)"),
            count => writeln!(self.out, "  ({count} shorter calls)"),
        }
    }
}
