//! `ringtrace latency`: the time from one event to another.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, Write as _};
use std::ops::ControlFlow;

use serde_json::json;
use trace_ctf::reader::Event;

use super::columns::Column;
use super::distribution::Distribution;
use super::hist::by;
use super::names::{Names, Thread, Who};
use super::source::{Class, Item, SourceOption};
use super::summary::Summary;
use super::time::{self, span};
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;
use crate::live::text::table;

/// Events that wait for their partner. When there are so many new ones, those that waited when there were last as many are forgotten.
const WAITING: usize = 1 << 16;

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

    /// The event at which it ends; and `by FIELD`: what both have in common, instead of the thread.
    #[arg(value_name = "B] [by FIELD", num_args = 0..=3)]
    rest: Vec<String>,

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

/// An event of one of the two classes, or of both.
struct Mark {
    is_begin: bool,
    is_end: bool,
    timestamp: i64,
    thread: Thread,
    key: Option<Key>,
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
    /// Begins that waited too long.
    forgotten: u64,
}

/// Begins that wait for their ends: time and thread, by what they have in common with them.
#[derive(Default)]
struct Waiting {
    young: HashMap<Key, Vec<(i64, Thread)>>,
    old: HashMap<Key, Vec<(i64, Thread)>>,
    /// How many are in `young`.
    count: usize,
}

impl Waiting {
    /// Adds a begin. Returns how many are forgotten for it.
    fn push(&mut self, key: Key, begin: (i64, Thread)) -> u64 {
        let mut forgotten = 0;
        if self.count >= WAITING {
            forgotten = self.old.values().map(|begun| begun.len() as u64).sum();
            (self.old, self.count) = (core::mem::take(&mut self.young), 0);
        }
        self.count += 1;
        // There is one of nearly every key.
        self.young.entry(key).or_insert_with(|| Vec::with_capacity(1)).push(begin);
        forgotten
    }

    /// The last begin with a key.
    fn last(&mut self, key: &Key) -> Option<&mut (i64, Thread)> {
        [&mut self.young, &mut self.old].into_iter().find_map(|begun| begun.get_mut(key)?.last_mut())
    }

    fn pop(&mut self, key: &Key) -> Option<(i64, Thread)> {
        let is_young = self.young.contains_key(key);
        let begun = if is_young { &mut self.young } else { &mut self.old };
        let all = begun.get_mut(key)?;
        let last = all.pop();
        if all.is_empty() {
            begun.remove(key);
        }
        self.count -= usize::from(is_young);
        last
    }

    fn len(&self) -> u64 {
        [&self.young, &self.old].into_iter().flat_map(HashMap::values).map(|begun| begun.len() as u64).sum()
    }
}

impl Arguments {
    /// The second event, and the field behind `by`.
    fn parts(&self) -> Result<(Option<&str>, Option<&str>), Failure> {
        match &self.rest[..] {
            [] => Ok((None, None)),
            [end] if end != "by" => Ok((Some(end), None)),
            [end, rest @ ..] if end != "by" => Ok((Some(end), by(rest)?)),
            rest => Ok((None, by(rest)?)),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let opened = arguments.source.open(&mut summary)?;
    let (end, by) = arguments.parts()?;
    let (begin, end) = match end {
        Some(end) => (arguments.begin.clone(), end.to_owned()),
        None => (format!("{}::entry", arguments.begin), format!("{}::exit", arguments.begin)),
    };
    let (begins, ends) = match (opened.named(&begin), opened.named(&end)) {
        (Ok(begins), Ok(ends)) => (begins, ends),
        (Err(_), _) if arguments.parts()?.0.is_none() && opened.named(&arguments.begin).is_ok() => {
            return Err(Failure::Wrong(format!(
                "{}: an event, and no function: name the event at which time ends too\n  such as `ringtrace latency {} B`, where B may be \
                 the same",
                arguments.begin, arguments.begin
            )));
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    // Calls of a function nest, and those of an async one are told apart by their future.
    let nests = arguments.parts()?.0.is_none();
    let of_future = |(_, class): &(_, &trace_ctf::declared::EventClass)| super::slices::is_of_future(class);
    let by = match by {
        None if nests && begins.iter().all(of_future) && ends.iter().all(of_future) => Some("future"),
        by => by,
    };
    let key = match by {
        Some(name) => {
            Column::new(name, &begins)?;
            Column::new(name, &ends)?;
            Some(Column::anywhere(name, &[&begins[..], &ends[..]].concat()))
        }
        None => None,
    };
    let classes = |of: &[(_, &trace_ctf::declared::EventClass)]| of.iter().map(|(_, class)| Class::of(class)).collect::<Vec<_>>();
    let (begins, ends) = (classes(&begins), classes(&ends));
    let (mut found, mut names) = (Found::default(), Names::default());
    let mut waiting = Waiting::default();
    let mapper = || {
        let (mut key, mut who) = (key.clone(), Who::default());
        let (begins, ends) = (&begins, &ends);
        move |event: &Event<'_>, _: &mut Vec<u8>| {
            let class = Class::of(event.class());
            let (is_begin, is_end) = (begins.contains(&class), ends.contains(&class));
            let timestamp = event.timestamp().filter(|_| is_begin || is_end)?;
            let thread = who.thread(event);
            let key = match &mut key {
                Some(column) => column.text(event).map(Key::Value),
                None => Some(Key::Thread(thread)),
            };
            Some(Mark { is_begin, is_end, timestamp, thread, key })
        }
    };
    opened.each(&mut summary, mapper, |item| {
        let mark = match item {
            Item::Event(event, mark, _) => {
                names.learn(event);
                mark
            }
            Item::Name(event) => {
                names.learn(event);
                None
            }
            Item::Loss(_) => None,
        };
        let Some(Mark { is_begin, is_end, timestamp, thread, key }) = mark else { return Ok(ControlFlow::Continue(())) };
        let Some(value) = key else {
            found.keyless += 1;
            return Ok(ControlFlow::Continue(()));
        };
        // One event may be both: the end of one time and the begin of the next.
        if is_end {
            match waiting.pop(&value) {
                Some((begin, thread)) => found.pair(timestamp.abs_diff(begin), begin, &value, thread, arguments.slowest),
                None if !is_begin => found.unpaired.1 += 1,
                None => {}
            }
        }
        if is_begin {
            match waiting.last(&value).filter(|_| !nests) {
                Some(place) => {
                    found.unpaired.0 += 1;
                    *place = (timestamp, thread);
                }
                None => found.forgotten += waiting.push(value, (timestamp, thread)),
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    show(arguments, common, &opened.zone, &found, waiting.len(), &names)?;
    Ok(opened.close(&summary))
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
    let (end, by) = arguments.parts()?;
    if common.json {
        let pair = |(duration, begin, key, thread): &&(u64, i64, Key, Thread)| {
            let mut row = json!({ "duration_ns": duration, "begin_ns": begin, "tid": thread.tid, "thread": names.of(thread) });
            if let (Key::Value(value), Some(by)) = (key, by) {
                row["by"] = json!({ by: value });
            }
            row
        };
        let row = json!({ "a": arguments.begin, "b": end, "latency_ns": found.all.json(),
            "unpaired": { "a": found.unpaired.0, "b": found.unpaired.1, "open": open, "forgotten": found.forgotten,
                "without_field": found.keyless },
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
            let headings = [">slowest", "began", "thread", by.unwrap_or_default()];
            write!(out, "\n{}", table(&headings, slowest.iter().map(row).collect()))?;
        }
    } else {
        writeln!(out, "no pairs")?;
    }
    let (again, alone) = found.unpaired;
    if again + alone + open + found.forgotten + found.keyless > 0 {
        let (a, b) = (&arguments.begin, end.unwrap_or(&arguments.begin));
        let more = |count: u64, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
        let forgotten = more(found.forgotten, &format!("{a} that waited too long, while {WAITING} others began"));
        let keyless = more(found.keyless, "without the field");
        writeln!(
            out,
            "\nnot paired: {again} {a} that were followed by another, {alone} {b} without one, {open} {a} at the end{forgotten}{keyless}"
        )?;
    }
    Ok(out.flush()?)
}
