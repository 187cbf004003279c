//! `ringtrace latency`: the time from one event to another.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, Write as _};
use std::ops::ControlFlow;

use serde_json::json;

use super::columns::Column;
use super::distribution::Distribution;
use super::hist::by;
use super::names::{Names, Thread, Who};
use super::source::{Class, Item, SourceOption};
use super::summary::Summary;
use super::time::{self, span};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{Failure, complain};
use crate::live::text::table;

/// Events that wait for their partner; beyond that, new ones are not paired.
const WAITING: usize = 1_000_000;

/// Pairs two events, and shows how much time lies between them: percentiles, and the slowest pairs with their time.
///
/// With one name, the time of a traced function, of which the trace has entry and exit, or of a span.
///
/// An event B belongs to the last A before it in the same thread, or, with `by FIELD`, with the same value of that field in
/// both. Times are in nanoseconds; percentiles are within 1 %.
///
/// Example: ringtrace latency shop:request_begin shop:request_end by id
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The event at which time begins: its name, the end of it, or a pattern. Or a traced function.
    #[arg(value_name = "A")]
    begin: String,

    /// The event at which it ends.
    #[arg(value_name = "B")]
    end: Option<String>,

    /// `by FIELD`: what both events have in common, instead of the thread.
    #[arg(value_name = "by FIELD", num_args = 2)]
    by: Vec<String>,

    /// How many of the slowest are shown.
    #[arg(long, value_name = "N", default_value_t = 5)]
    slowest: usize,

    #[command(flatten)]
    source: SourceOption,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Thread(Thread),
    Value(String),
}

/// What came out.
#[derive(Debug, Default)]
struct Found {
    all: Distribution,
    /// The slowest, the quickest of them first: duration, begin, key, thread.
    slowest: BinaryHeap<Reverse<(u64, i64, Key, Thread)>>,
    /// Begins that were begun anew, and ends without a begin.
    unpaired: (u64, u64),
    /// Events of one of the two classes that lack the field.
    keyless: u64,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let opened = arguments.source.open(&mut summary)?;
    let (begin, end) = match &arguments.end {
        Some(end) => (arguments.begin.clone(), end.clone()),
        None => (format!("{}::entry", arguments.begin), format!("{}::exit", arguments.begin)),
    };
    let (begins, ends) = (opened.named(&begin)?, opened.named(&end)?);
    // Calls of a function nest, and those of an async one are told apart by their future.
    let nests = arguments.end.is_none();
    let of_future = |(_, class): &(_, &trace_ctf::declared::EventClass)| super::slices::is_of_future(class);
    let by = match by(&arguments.by)? {
        None if nests && begins.iter().all(of_future) && ends.iter().all(of_future) => Some("future"),
        by => by,
    };
    let mut key = match by {
        Some(name) => {
            Column::new(name, &begins)?;
            Column::new(name, &ends)?;
            Some(Column::anywhere(name, &[&begins[..], &ends[..]].concat()))
        }
        None => None,
    };
    let classes = |of: &[(_, &trace_ctf::declared::EventClass)]| of.iter().map(|(_, class)| Class::of(class)).collect::<Vec<_>>();
    let (begins, ends) = (classes(&begins), classes(&ends));
    let (mut found, mut names, mut who) = (Found::default(), Names::default(), Who::default());
    let (mut waiting, mut open): (HashMap<Key, Vec<(i64, Thread)>>, usize) = (HashMap::new(), 0);
    opened.each(&mut summary, |item| {
        let event = match item {
            Item::Event(event) => event,
            Item::Name(event) => {
                names.learn(event);
                return Ok(ControlFlow::Continue(()));
            }
            Item::Loss(_) => return Ok(ControlFlow::Continue(())),
        };
        names.learn(event);
        let class = Class::of(event.class());
        let (is_begin, is_end) = (begins.contains(&class), ends.contains(&class));
        let (Some(timestamp), true) = (event.timestamp(), is_begin || is_end) else { return Ok(ControlFlow::Continue(())) };
        let thread = who.thread(event);
        let value = match &mut key {
            Some(column) => match column.text(event) {
                Some(value) => Key::Value(value),
                None => {
                    found.keyless += 1;
                    return Ok(ControlFlow::Continue(()));
                }
            },
            None => Key::Thread(thread),
        };
        // One event may be both: the end of one time and the begin of the next.
        if is_end {
            match waiting.get_mut(&value).and_then(Vec::pop) {
                Some((begin, thread)) => {
                    open -= 1;
                    found.pair(timestamp.abs_diff(begin), begin, &value, thread, arguments.slowest);
                }
                None if !is_begin => found.unpaired.1 += 1,
                None => {}
            }
            if waiting.get(&value).is_some_and(Vec::is_empty) {
                waiting.remove(&value);
            }
        }
        if is_begin {
            let is_full = open >= WAITING;
            let begun = waiting.get_mut(&value).filter(|_| !nests).and_then(|begun| begun.last_mut());
            match begun {
                Some(place) => {
                    found.unpaired.0 += 1;
                    *place = (timestamp, thread);
                }
                None if is_full => found.unpaired.0 += 1,
                None => {
                    open += 1;
                    waiting.entry(value).or_default().push((timestamp, thread));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    show(arguments, common, &opened.zone, &found, open as u64, &names)?;
    complain(format_args!("{summary}"));
    Ok(summary.outcome())
}

impl Found {
    fn pair(&mut self, duration: u64, begin: i64, key: &Key, thread: Thread, shown: usize) {
        self.all.add(duration as f64);
        let is_slow = self.slowest.len() < shown || self.slowest.peek().is_some_and(|Reverse((least, ..))| *least < duration);
        if is_slow && shown > 0 {
            self.slowest.push(Reverse((duration, begin, key.clone(), thread)));
            if self.slowest.len() > shown {
                self.slowest.pop();
            }
        }
    }
}

fn show(
    arguments: &Arguments,
    common: &Common,
    zone: &jiff::tz::TimeZone,
    found: &Found,
    open: u64,
    names: &Names,
) -> Result<(), Failure> {
    let mut slowest: Vec<_> = found.slowest.iter().map(|Reverse(pair)| pair).collect();
    slowest.sort_by_key(|(duration, begin, ..)| (Reverse(*duration), *begin));
    let mut out = io::BufWriter::new(io::stdout().lock());
    let by = arguments.by.get(1);
    if common.json {
        let pair = |(duration, begin, key, thread): &&(u64, i64, Key, Thread)| {
            let mut row = json!({ "duration_ns": duration, "begin_ns": begin, "tid": thread.tid, "thread": names.of(thread) });
            if let (Key::Value(value), Some(by)) = (key, by) {
                row["by"] = json!({ by: value });
            }
            row
        };
        let row = json!({ "a": arguments.begin, "b": arguments.end, "latency_ns": found.all.json(),
            "unpaired": { "a": found.unpaired.0, "b": found.unpaired.1, "open": open, "without_field": found.keyless },
            "slowest": slowest.iter().map(pair).collect::<Vec<_>>() });
        writeln!(out, "{row}")?;
        return Ok(out.flush()?);
    }
    if let Some((least, most)) = found.all.span() {
        let quantile = |share| span(found.all.quantile(share));
        let rows = [
            ("min", span(least)),
            ("p50", quantile(0.5)),
            ("p90", quantile(0.9)),
            ("p99", quantile(0.99)),
            ("p99.9", quantile(0.999)),
            ("max", span(most)),
            ("mean", span(found.all.mean())),
        ];
        writeln!(out, "{} pairs", found.all.count())?;
        write!(out, "{}", table(&["", ">latency"], rows.map(|(name, value)| vec![name.to_owned(), value]).to_vec()))?;
        let row = |(duration, begin, key, thread): &&(u64, i64, Key, Thread)| {
            let value = match key {
                Key::Value(value) => value.clone(),
                Key::Thread(_) => String::new(),
            };
            vec![span(*duration as f64), time::show(*begin, zone), names.show(thread), value]
        };
        if !slowest.is_empty() {
            let headings = [">slowest", "began", "thread", by.map_or("", |by| by.as_str())];
            write!(out, "\n{}", table(&headings, slowest.iter().map(row).collect()))?;
        }
    } else {
        writeln!(out, "no pairs")?;
    }
    let (again, alone) = found.unpaired;
    if again + alone + open + found.keyless > 0 {
        let end = arguments.end.as_ref().unwrap_or(&arguments.begin);
        let (a, b) = (&arguments.begin, end);
        let keyless = if found.keyless > 0 { format!(", {} without the field", found.keyless) } else { String::new() };
        writeln!(
            out,
            "\nnot paired: {again} {a} that were followed by another, {alone} {b} without one, {open} {a} at the end{keyless}"
        )?;
    }
    Ok(out.flush()?)
}
