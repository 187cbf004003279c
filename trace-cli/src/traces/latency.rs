//! `ringtrace latency`: the time from one event to another.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::json;
use trace_ctf::reader::{Event, Field};

use super::columns::Column;
use super::distribution::Distribution;
use super::hist::by;
use super::names::{Names, Thread, Who};
use super::open::why_no_trace;
use super::slices::{began, own_duration};
use super::source::{Class, Item, Opened, Source};
use super::summary::{Count, Summary};
use super::time::{self, span};
use super::whole::Whole;
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;
use crate::live::text::{out, table};

/// Begins that wait for their ends, at most. Where there are more, the trace is read several times, each time for some of the keys.
const WAITING: usize = 1 << 17;

/// How many times a trace is read at most; then the begins that waited longest are forgotten.
const READINGS: u64 = 1 << 10;

/// What the words are.
const WORDS: &str = "The event at which time begins, or a traced function: its name, the end of it, or a pattern. The event at which it \
                     ends. `by FIELD`: what both have in common, instead of the thread. The directory of a trace, or one above it; \
                     without one, the newest *.ringtrace here";

/// Pairs two events, and shows how much time lies between them: percentiles, and the slowest pairs with their time.
///
/// With one name, the time of a traced function, of which the trace has entry and exit, or of a span.
///
/// An event B belongs to the last A before it in the same thread, or, with `by FIELD`, with the same value of that field in
/// both. Where events are lost between them, it may belong to another: such pairs are counted and left out. A call of a function
/// or a span takes as long as its exit says, whatever was lost. Times are in nanoseconds; percentiles are within 1 %.
///
/// Example: ringtrace latency shop:request_begin shop:request_end by id
#[derive(Debug, clap::Args)]
#[command(mut_arg("words", |words| words.required(true).value_name("A [B] [by FIELD] [DIRECTORY]").help(WORDS).long_help(WORDS)))]
pub(crate) struct Arguments {
    /// How many of the slowest are shown.
    #[arg(long, value_name = "N", default_value_t = 5)]
    slowest: usize,

    /// Also pairs that may be false, since events are missing between the two.
    #[arg(long)]
    across_losses: bool,

    #[command(flatten)]
    source: Source,
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
    /// What the exit of a call says of it.
    duration: Option<u64>,
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
    /// Pairs that may be false.
    doubtful: u64,
    /// Begins whose end did not come.
    open: u64,
}

/// Begins that wait for their ends: time and thread, by what they have in common with them.
#[derive(Default)]
struct Waiting {
    begun: HashMap<Key, Vec<(i64, Thread)>>,
    count: usize,
}

impl Waiting {
    fn push(&mut self, key: Key, begin: (i64, Thread)) {
        self.count += 1;
        // There is one of nearly every key.
        self.begun.entry(key).or_insert_with(|| Vec::with_capacity(1)).push(begin);
    }

    /// The last begin with a key.
    fn last(&mut self, key: &Key) -> Option<&mut (i64, Thread)> {
        self.begun.get_mut(key)?.last_mut()
    }

    fn pop(&mut self, key: &Key) -> Option<(i64, Thread)> {
        let all = self.begun.get_mut(key)?;
        let last = all.pop();
        if all.is_empty() {
            self.begun.remove(key);
        }
        self.count -= 1;
        last
    }

    /// Forgets the older half. Returns how many those are.
    fn forget(&mut self) -> u64 {
        let mut times: Vec<i64> = self.begun.values().flatten().map(|(time, _)| *time).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        self.begun.retain(|_, begun| {
            begun.retain(|(time, _)| *time > median);
            !begun.is_empty()
        });
        let left = self.begun.values().map(Vec::len).sum();
        (core::mem::replace(&mut self.count, left) - left) as u64
    }
}

/// Which keys a reading of the trace is for: those whose hash, divided by the one number, leaves the other.
#[derive(Clone, Copy)]
struct Part {
    of: u64,
    number: u64,
}

impl Part {
    const ALL: Self = Self { of: 1, number: 0 };

    fn has(self, key: &Key) -> bool {
        self.of == 1 || {
            // The same in each reading.
            let mut hasher = std::hash::DefaultHasher::new();
            key.hash(&mut hasher);
            hasher.finish() % self.of == self.number
        }
    }
}

/// What is to be paired.
#[derive(Clone, Copy)]
struct Asked<'a> {
    begin: &'a str,
    /// The second event, if the first is no function.
    end: Option<&'a str>,
    /// The field behind `by`.
    by: Option<&'a str>,
}

impl<'a> Asked<'a> {
    fn new(words: &'a [String]) -> Result<Self, Failure> {
        let Some((begin, rest)) = words.split_first().filter(|(begin, _)| *begin != "by") else {
            return Err(Failure::Wrong("name the event at which time begins, or a function: ringtrace latency A B".to_owned()));
        };
        match rest {
            [end, rest @ ..] if end != "by" => Ok(Self { begin, end: Some(end), by: by(rest)? }),
            rest => Ok(Self { begin, end: None, by: by(rest)? }),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let (words, opened) = arguments.source.open_by_name(&mut summary)?;
    // A word that is no event may be meant as the directory of a trace.
    let is_event = |word: &str| word == "by" || opened.named(word).is_ok();
    let told = |failure| words.iter().filter(|word| !is_event(word)).find_map(|word| why_no_trace(word)).unwrap_or(failure);
    let asked = Asked::new(&words).map_err(&told)?;
    let (begin, end) = match asked.end {
        Some(end) => (asked.begin.to_owned(), end.to_owned()),
        None => (format!("{}::entry", asked.begin), format!("{}::exit", asked.begin)),
    };
    let (begins, ends) = match (opened.named(&begin), opened.named(&end)) {
        (Ok(begins), Ok(ends)) => (begins, ends),
        (Err(_), _) if asked.end.is_none() && opened.named(asked.begin).is_ok() => {
            let begin = asked.begin;
            return Err(Failure::Wrong(format!(
                "{begin}: an event, and no function: name the event at which time ends too\n  such as `ringtrace latency {begin} B`, where \
                 B may be the same"
            )));
        }
        // Of a function, what was asked for is told, and not the names of its events.
        (Err(failure), _) | (_, Err(failure)) => {
            let own = asked.end.map_or_else(|| opened.named(asked.begin).err(), |_| None);
            return Err(told(own.unwrap_or(failure)));
        }
    };
    // Calls of a function nest; those of an async one are told apart by their future, and spans by their number.
    let nests = asked.end.is_none();
    let of_future = |(_, class): &(_, &trace_ctf::declared::EventClass)| super::slices::is_of_future(class);
    let of_span = |(_, class): &(_, &trace_ctf::declared::EventClass)| super::slices::is_of_span(class);
    let by = match asked.by {
        None if nests && begins.iter().all(of_future) && ends.iter().all(of_future) => Some("future"),
        None if nests && begins.iter().all(of_span) && ends.iter().all(of_span) => Some("span"),
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
    // The exit of a call says how long it was: nothing that is missing makes that wrong.
    let durations: Vec<_> =
        ends.iter().filter_map(|(stream, class)| Some((Class::of(class), own_duration(stream, class)?))).collect();
    let has_durations = nests && asked.by.is_none() && durations.len() == ends.len();
    let classes = |of: &[(_, &trace_ctf::declared::EventClass)]| of.iter().map(|(_, class)| Class::of(class)).collect::<Vec<_>>();
    let reading = Reading {
        arguments,
        opened: &opened,
        begins: classes(&begins),
        ends: classes(&ends),
        durations: if has_durations { durations } else { Vec::new() },
        whole: opened.whole(),
        key,
        nests,
    };
    let mut names = Names::default();
    let found = reading.all(&mut names, &mut summary)?;
    show(common, &opened.zone, &found, &Shown { asked, by, has_durations, names: &names })?;
    Ok(opened.close(&summary))
}

/// What pairs are found by.
struct Reading<'r> {
    arguments: &'r Arguments,
    opened: &'r Opened,
    begins: Vec<Class>,
    ends: Vec<Class>,
    /// Where the ends say how long they took.
    durations: Vec<(Class, Field)>,
    whole: Arc<Whole>,
    /// What both have in common, if not the thread.
    key: Option<Column>,
    /// Of several begins, the last is the first to end.
    nests: bool,
}

impl Reading<'_> {
    /// Finds all pairs, in as many readings as memory needs.
    fn all(&self, names: &mut Names, summary: &mut Summary) -> Result<Found, Failure> {
        let before = summary.clone();
        let mut of = Part::ALL.of;
        loop {
            let mut found = Found::default();
            let mut parts = (0..of).map(|number| Part { of, number });
            let is_complete = parts.try_fold(true, |is_complete, part| {
                *summary = before.again(summary);
                Ok::<_, Failure>(is_complete && self.part(part, names, summary, &mut found)?)
            })?;
            if is_complete {
                return Ok(found);
            }
            of *= 4;
        }
    }

    /// Finds the pairs with some of the keys; `false`: of these, too many wait at once.
    fn part(&self, part: Part, names: &mut Names, summary: &mut Summary, found: &mut Found) -> Result<bool, Failure> {
        let mapper = || {
            let (mut key, mut who) = (self.key.clone(), Who::default());
            let (begins, ends, durations) = (&self.begins, &self.ends, &self.durations);
            move |event: &Event<'_>, _: &mut Vec<u8>| {
                let class = Class::of(event.class());
                let (is_begin, is_end) = (begins.contains(&class), ends.contains(&class));
                let timestamp = event.timestamp().filter(|_| is_begin || is_end)?;
                let thread = who.thread(event);
                let key = match &mut key {
                    Some(column) => column.text(event).map(Key::Value),
                    None => Some(Key::Thread(thread)),
                };
                if key.as_ref().is_some_and(|key| !part.has(key)) {
                    return None;
                }
                let duration =
                    durations.iter().find(|(known, _)| *known == class).and_then(|(_, field)| event.get(field)?.as_u64());
                Some(Mark { is_begin, is_end, timestamp, duration, thread, key })
            }
        };
        let mut waiting = Waiting::default();
        let mut is_complete = true;
        self.opened.each(summary, mapper, |item| {
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
            let Some(Mark { is_begin, is_end, timestamp, duration, thread, key }) = mark else {
                return Ok(ControlFlow::Continue(()));
            };
            let Some(value) = key else {
                // Each reading comes across them.
                found.keyless += u64::from(part.number == 0);
                return Ok(ControlFlow::Continue(()));
            };
            if !self.durations.is_empty() {
                match duration {
                    Some(duration) => {
                        found.pair(duration, began(timestamp, Some(duration)), &value, thread, self.arguments.slowest);
                        found.open = found.open.saturating_sub(1);
                    }
                    None => found.open += 1,
                }
                return Ok(ControlFlow::Continue(()));
            }
            // One event may be both: the end of one time and the begin of the next.
            if is_end {
                match waiting.pop(&value) {
                    Some((begin, thread)) if self.arguments.across_losses || self.are_pair(begin, timestamp, &value) => {
                        found.pair(timestamp.abs_diff(begin), begin, &value, thread, self.arguments.slowest);
                    }
                    Some(_) => found.doubtful += 1,
                    None if !is_begin => found.unpaired.1 += 1,
                    None => {}
                }
            }
            if is_begin {
                match waiting.last(&value).filter(|_| !self.nests) {
                    Some(place) => {
                        found.unpaired.0 += 1;
                        *place = (timestamp, thread);
                    }
                    None => waiting.push(value, (timestamp, thread)),
                }
                if waiting.count > WAITING {
                    if part.of < READINGS {
                        is_complete = false;
                        return Ok(ControlFlow::Break(()));
                    }
                    found.forgotten += waiting.forget();
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        found.open += waiting.count as u64;
        Ok(is_complete)
    }

    /// Whether nothing is missing between two events.
    fn are_pair(&self, begin: i64, end: i64, key: &Key) -> bool {
        let holes = match key {
            Key::Thread(thread) => self.whole.of_trace(thread.trace),
            Key::Value(_) => self.whole.of_all(),
        };
        holes.are_pair(begin, end, None)
    }
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

/// What is shown besides what was found.
struct Shown<'s> {
    asked: Asked<'s>,
    /// What pairs have in common, if not the thread.
    by: Option<&'s str>,
    /// Each figure is what an exit says.
    has_durations: bool,
    names: &'s Names,
}

fn show(
    common: &Common,
    zone: &jiff::tz::TimeZone,
    found: &Found,
    &Shown { asked: Asked { begin, end, .. }, by, has_durations, names }: &Shown<'_>,
) -> Result<(), Failure> {
    let mut slowest: Vec<_> = found.slowest.iter().map(|Reverse(pair)| pair).collect();
    slowest.sort_by_key(|(duration, begin, ..)| (Reverse(*duration), *begin));
    let mut out = io::BufWriter::new(out(common.json));
    if common.json {
        let pair = |(duration, begin, key, thread): &&(u64, i64, Key, Thread)| {
            let mut row = json!({ "duration_ns": duration, "begin_ns": begin, "tid": thread.tid, "thread": names.of(thread) });
            if let (Key::Value(value), Some(by)) = (key, by) {
                row["by"] = json!({ by: value });
            }
            row
        };
        let row = json!({ "a": begin, "b": end, "latency_ns": found.all.json(), "across_losses": found.doubtful,
            "unpaired": { "a": found.unpaired.0, "b": found.unpaired.1, "open": found.open, "forgotten": found.forgotten,
                "without_field": found.keyless },
            "slowest": slowest.iter().map(pair).collect::<Vec<_>>() });
        writeln!(out, "{row}")?;
        return Ok(out.flush()?);
    }
    let what = if has_durations { "call" } else { "pair" };
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
        writeln!(out, "{}", Count(found.all.count(), what))?;
        write!(out, "{}", table(&["", ">latency"], rows.map(|(name, value)| vec![name.to_owned(), value]).to_vec()))?;
        let headings = [">slowest", "began", "thread"].into_iter().chain(by).collect::<Vec<_>>();
        let row = |(duration, begin, key, thread): &&(u64, i64, Key, Thread)| {
            let value = match key {
                Key::Value(value) => Some(value.clone()),
                Key::Thread(_) => None,
            };
            [span(*duration as f64), time::show(*begin, zone), names.show(thread)].into_iter().chain(value).collect()
        };
        if !slowest.is_empty() {
            write!(out, "\n{}", table(&headings, slowest.iter().map(row).collect()))?;
        }
    } else {
        writeln!(out, "no {what}s")?;
    }
    if found.doubtful > 0 {
        let pairs = Count(found.doubtful, "pair");
        writeln!(out, "\n{pairs} may span lost events and are left out; --across-losses includes them")?;
    }
    let (again, alone) = found.unpaired;
    if again + alone + found.open + found.forgotten + found.keyless > 0 {
        let (a, b) = (begin, end.unwrap_or(begin));
        let more = |count: u64, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
        let forgotten = more(found.forgotten, &format!("{a} that waited too long, while {WAITING} others began"));
        let keyless = more(found.keyless, "without the field");
        let open = found.open;
        if has_durations {
            writeln!(out, "\nnot paired: {open} {a} without an exit{keyless}")?;
        } else {
            writeln!(
                out,
                "\nnot paired: {again} {a} that were followed by another, {alone} {b} without one, {open} {a} at the end{forgotten}{keyless}"
            )?;
        }
    }
    Ok(out.flush()?)
}
