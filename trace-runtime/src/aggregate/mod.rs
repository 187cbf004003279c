//! Aggregations: figures of events, kept where they happen.
//!
//! An aggregation is attached like a session, by a rule, but records nothing: each event adds to the figures of its group, on its
//! CPU. It takes no clock, no ring and no consumer.
//!
//! | Room | Does |
//! | --- | --- |
//! | `spec` | what it is about: parsed and looked up |
//! | `measure` | the event path: an event on its way into the figures |
//! | `projection` | what is wanted of it, value and key, and where that is |
//! | `carrier` | how it comes: in bytes, or to be asked |
//! | `key` | what events are grouped by, in 32 bytes |
//! | `table` | the figures, and the protocol by which they are changed and read |
//!
//! # Invariants
//!
//! - AG-1: What a list of an aggregation reaches is its [`Inner`]'s, which is retired behind the last such list.
#![expect(unsafe_code, reason = "a target reaches what its events are added to by address")]

mod carrier;
mod key;
mod measure;
mod projection;
mod spec;
mod table;

pub use key::KeyValue;

use crate::attach::{self, NamedProbe, probes};
use crate::builder::CEILING;
use crate::condition::Misfits;
use crate::consumer;
use crate::error::{Error, Kind as Problem, Result};
use crate::follow;
use crate::process;
use crate::rcu::{self, lock};
use measure::{Buckets, Measure, Plan, State, VALUELESS};
use projection::Projection;
use spec::Spec;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use table::{Shape, Table};
use trace_registry::EventClass;
use trace_registry::condition::{Condition, Conditional, FILTERED, LIMITED};
use trace_registry::sync::{AtomicBool, AtomicU64, Ordering};

/// Keys that are told apart, where nothing else is said.
const KEYS: u32 = 1000;
/// The same, of a histogram.
const HISTOGRAM_KEYS: u32 = 100;
/// Events of modules that are loaded later find room.
const LATER: usize = 64;
/// Most steps of a linear histogram.
const STEPS: u64 = 1000;

/// Figures of events: how many there were of each kind, their sums, least and greatest values, and histograms, for each value of
/// one or more fields. Nothing is recorded. Dropping it ends it.
///
/// What it is about is a rule with a field and keys: `EVENT[.FIELD] [by FIELD, …] [if EXPRESSION]`. Events are told apart by their
/// name, and then by their keys. What is left out of it comes behind: `storage:* by table; !storage:noise`.
///
/// ```no_run
/// # fn main() -> Result<(), trace_runtime::Error> {
/// // Of `#[tracepoint(record)] fn read(table: &str, bytes: u64);`
/// let sizes = trace_runtime::Aggregation::of("read.bytes by table").start()?;
/// // … the program runs …
/// for group in sizes.read().groups {
///     println!("{group}"); // read table=users: count 2, sum 400, min 100, avg 200, max 300
/// }
/// # Ok(()) }
/// ```
///
/// Each event costs some nanoseconds. It changes figures of its own CPU, in one restartable sequence, and is async-signal-safe and
/// wait-free like a recorded one; where sequences are not possible, it takes a lock that is free, or is counted as lost.
pub struct Aggregation {
    pub(crate) inner: Arc<Inner>,
}

/// What an [`Aggregation`] is to be.
#[derive(Clone, Debug)]
#[must_use = "an aggregation begins with `start`"]
pub struct AggregationBuilder {
    what: String,
    histogram: Histogram,
    keys: Option<u32>,
    sensitive: bool,
}

#[derive(Clone, Debug)]
enum Histogram {
    None,
    Powers,
    Steps(Range<i64>, u64),
}

impl Aggregation {
    /// Describes an aggregation of events: `EVENT`, or of the values of a field: `EVENT.FIELD`. Then, as wanted, `by FIELD, …` (at
    /// most four), and what a rule may say: `level L`, `1 in N`, `max N/s`, `for DURATION`, `if EXPRESSION`. Where its time is over,
    /// the figures stay.
    pub fn of(what: &str) -> AggregationBuilder {
        AggregationBuilder { what: what.to_owned(), histogram: Histogram::None, keys: None, sensitive: false }
    }

    /// Returns the figures of all events so far. Events of other threads that come meanwhile are in them or not, each as a whole.
    pub fn read(&self) -> Aggregates {
        self.inner.read()
    }

    /// Returns what is questionable about it, such as events that lack its fields.
    pub fn warnings(&self) -> Vec<String> {
        lock(&self.inner.warnings).clone()
    }
}

impl fmt::Debug for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aggregation").field("of", &self.inner.spec.text).finish_non_exhaustive()
    }
}

impl AggregationBuilder {
    /// Keeps a histogram of the field's values: a bucket for each power of two.
    pub fn quantize(mut self) -> Self {
        self.histogram = Histogram::Powers;
        self
    }

    /// Keeps a histogram of the field's values: equal steps within `range`, one bucket below and one above. At most 1000 steps.
    pub fn lquantize(mut self, range: Range<i64>, step: u64) -> Self {
        self.histogram = Histogram::Steps(range, step);
        self
    }

    /// How many keys are told apart; those that come later belong to the others of their event. Else 1000, with a histogram 100.
    pub fn keys(mut self, keys: u32) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Takes fields that are marked as sensitive.
    pub fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }

    /// Begins: every event from now on is in the figures.
    ///
    /// # Errors
    ///
    /// [`Error::is_rule`] for a wrong rule, or a field that none of its events has, with the place in the text;
    /// [`Error::is_memory`] where it needs more than is left of the process's ceiling; [`Error::is_off`] where tracing is off.
    pub fn start(self) -> Result<Aggregation> {
        let process = process::current()?;
        rcu::admit()?;
        consumer::ensure_running()?;
        let mut warnings = Vec::new();
        let redact = !self.sensitive;
        let spec = Spec::parse(&self.what, redact, &mut warnings)?;
        let buckets = self.buckets(&spec)?;
        let taken = check(&spec, &self.what, redact, &mut warnings)?;
        let keys = match (spec.by.is_empty(), buckets) {
            (true, _) => 0,
            (_, Buckets::One) => self.keys.unwrap_or(KEYS),
            _ => self.keys.unwrap_or(HISTOGRAM_KEYS),
        };
        let events = u32::try_from(taken + LATER).unwrap_or(u32::MAX).min(u16::MAX.into());
        let shape = Shape { events, keys, buckets: buckets.count(), cpus: process.cpu_limit };
        let memory = shape.memory(process.cpus.len());
        let mut control = attach::control();
        let (ceiling, used) = (CEILING.load(Ordering::Relaxed), control.memory());
        if used.saturating_add(memory) > ceiling {
            return Err(Problem::Memory(format!(
                "this aggregation may need {memory} bytes: {events} events and {keys} keys, {} buckets of 64 bytes each, on {} CPUs; \
                 the process has {used} in use, of {ceiling}; tell fewer keys apart, use a narrower rule, or raise the ceiling by \
                 `ringtrace::set_memory_ceiling`", shape.buckets, process.cpus.len()
            ))
            .into());
        }
        let table = Table::new(shape, &process.cpus)
            .map_err(|source| Error::io("cannot allocate the memory of", "an aggregation", source))?;
        let count = || AtomicU64::new(0);
        let state = Arc::new(State { table, busy: count(), nested: count(), panicked: count() });
        let (events, warnings) = (Mutex::default(), Mutex::new(warnings));
        let is_over = AtomicBool::new(false);
        let inner = Arc::new(Inner { spec, redact, buckets, shape, memory, state, is_over, events, warnings });
        control.add_aggregation(inner.clone());
        drop(control);
        Ok(Aggregation { inner })
    }

    fn buckets(&self, spec: &Spec) -> Result<Buckets> {
        let wrong = |text: &str, problem: &str, remedy: &str| Error::rule(text, 0..text.len(), problem, remedy);
        match &self.histogram {
            Histogram::None => Ok(Buckets::One),
            _ if spec.field.is_none() => Err(wrong(&self.what, "a histogram is of a field's values", "name it: EVENT.FIELD")),
            Histogram::Powers => Ok(Buckets::Powers),
            Histogram::Steps(range, step) => {
                let span = i128::from(range.end) - i128::from(range.start);
                let steps = span.checked_add(i128::from(*step) - 1).and_then(|sum| sum.checked_div(i128::from(*step)));
                match steps.and_then(|steps| u64::try_from(steps).ok()).filter(|steps| (1..=STEPS).contains(steps)) {
                    Some(steps) => Ok(Buckets::Steps { low: range.start, step: *step, count: steps as u32 }),
                    None => {
                        let steps = format!("{}:{}:{step}", range.start, range.end);
                        Err(wrong(&steps, "these steps make no histogram", "it has 1 to 1000, each of at least 1: LOW:HIGH:STEP"))
                    }
                }
            }
        }
    }
}

/// Checks that the fields of `spec` fit events that it matches. Returns how many it matches.
fn check(spec: &Spec, text: &str, redact: bool, warnings: &mut Vec<String>) -> Result<usize> {
    let (mut taken, mut misfits, mut first) = (0, Misfits::default(), None);
    for named in probes().filter(|p| spec.matches(p)) {
        let Some(class) = named.probe.class else { continue };
        match Plan::new(spec, class, redact) {
            Ok(_) => taken += 1,
            Err((error, at)) => {
                misfits.add(&named.name, "event", format!("not in the figures: {}", error.problem()));
                first = first.or(Some((named, error, at)));
            }
        }
    }
    match first {
        Some((named, error, at)) if taken == 0 => Err(Error::from_filter(error.about(&named.name), text, at)),
        _ => {
            warnings.extend(misfits.lines());
            Ok(taken)
        }
    }
}

/// What an aggregation is inside.
pub(crate) struct Inner {
    spec: Spec,
    redact: bool,
    buckets: Buckets,
    shape: Shape,
    pub(crate) memory: u64,
    state: Arc<State>,
    /// Whether the time of its rule has come.
    is_over: AtomicBool,
    /// By number.
    events: Mutex<Vec<Numbered>>,
    warnings: Mutex<Vec<String>>,
}

/// An event that has a number.
struct Numbered {
    name: String,
    class: &'static EventClass,
    measure: Arc<Measure>,
}

impl Inner {
    /// Whether it takes the events of a probe, until its time is over.
    pub(crate) fn takes(&self, named: &NamedProbe) -> bool {
        named.probe.class.is_some() && self.spec.matches(named)
    }

    /// The same, now.
    pub(crate) fn wants(&self, named: &NamedProbe) -> bool {
        // Relaxed: changed under the control lock, which whoever makes lists has.
        !self.is_over.load(Ordering::Relaxed) && self.takes(named)
    }

    /// Opens the next second of its limit. Returns whether its time is over since the last call.
    pub(crate) fn tick(&self, now: Instant) -> bool {
        let Some(progress) = &self.spec.rule.progress else { return false };
        progress.refill(now);
        self.spec.rule.is_over(now) && !self.is_over.swap(true, Ordering::Relaxed)
    }

    /// Makes the target for the events of a probe; `None`: they do not fit, which was told.
    pub(crate) fn conditional(&self, named: &NamedProbe) -> Option<Conditional> {
        let class = named.probe.class?;
        let rule = &self.spec.rule;
        let progress = rule.progress.as_ref()?;
        let made = progress.made(rule, class, self.redact).ok()?;
        let plan = Plan::new(&self.spec, class, self.redact).ok()?;
        let measure = self.numbered(named, class, |event| {
            let projection = Projection::new(&plan, event, class);
            let (state, counts, inner) = (self.state.clone(), progress.counts.clone(), made.condition.clone());
            Measure { state, counts, inner, event, plan, buckets: self.buckets, projection }
        })?;
        // SAFETY: AG-1.
        let conditional = progress.conditional(&made, unsafe { measure.target(self.redact) });
        let condition = if measure.projection.is_asked { Some(measure as Arc<dyn Condition>) } else { conditional.condition };
        Some(Conditional { condition, ..conditional })
    }

    /// What is done with an event: the same each time, as is its number. It is made for the first one.
    fn numbered(
        &self,
        named: &NamedProbe,
        class: &'static EventClass,
        make: impl FnOnce(u16) -> Measure,
    ) -> Option<Arc<Measure>> {
        let mut events = lock(&self.events);
        if let Some(known) = events.iter().find(|e| e.name == named.name && std::ptr::eq(e.class, class)) {
            return Some(known.measure.clone());
        }
        let number = events.len();
        let Some(event) = u16::try_from(number).ok().filter(|_| number < self.shape.events as usize) else {
            lock(&self.warnings).push(format!("{} is not in the figures: there are {number} events already", named.name));
            return None;
        };
        let measure = Arc::new(make(event));
        events.push(Numbered { name: named.name.clone(), class, measure: measure.clone() });
        Some(measure)
    }

    pub(crate) fn read(&self) -> Aggregates {
        let events = lock(&self.events);
        let names = |paths: &[crate::rule::Placed<trace_filter::Key>]| paths.iter().map(|p| p.part.as_str().to_owned()).collect();
        let mut groups: Vec<Group> = Vec::new();
        let mut places = HashMap::new();
        let table = &self.state.table;
        let mut add = |place, event: &Numbered, keys: Option<Vec<KeyValue>>, group| {
            let at = *places.entry(place).or_insert_with(|| {
                groups.push(Group { event: event.name.clone(), by: names(&self.spec.by), keys, ..Group::default() });
                groups.len() - 1
            });
            table.read(group, |bucket, count, [sum, min, max]| {
                let mut figures = Figures { count, ..Figures::default() };
                if let Some(kind) = event.measure.plan.kind {
                    figures = Figures { count, sum: kind.sum(sum), min: Some(kind.number(min)), max: Some(kind.number(max)) };
                }
                groups[at].add(self.buckets, bucket, &figures);
            });
        };
        for event in &*events {
            let number = event.measure.event;
            add((number.into(), [0; 4]), event, self.spec.by.is_empty().then(Vec::new), table.of_event(number));
        }
        for (key, group) in table.keys() {
            let (event, values) = key::decode(&key, self.spec.by.len());
            let Some(event) = events.get(usize::from(event)) else { continue };
            let values = values.into_iter().zip(&event.measure.plan.shown).map(|(value, shown)| shown.name(value)).collect();
            add((key.head, key.bytes), event, Some(values), group);
        }
        groups.retain(|group| group.figures.count > 0);
        groups.iter_mut().for_each(|group| group.buckets.sort_by_key(|bucket| bucket.low));
        groups.sort_by(|a, b| {
            let place = |group: &Group| (group.keys.is_none(), std::cmp::Reverse(group.figures.count));
            place(a)
                .cmp(&place(b))
                .then_with(|| a.event.cmp(&b.event))
                .then_with(|| a.keys.partial_cmp(&b.keys).unwrap_or(std::cmp::Ordering::Equal))
        });
        let counts = self.spec.rule.progress.as_ref().map(|p| &p.counts);
        Aggregates {
            field: self.spec.field.as_ref().map(|path| path.part.as_str().to_owned()),
            by: names(&self.spec.by),
            groups,
            valueless: counts.map_or(0, |c| c.sum::<VALUELESS>()),
            filtered: counts.map_or(0, |c| c.sum::<FILTERED>()),
            limited: counts.map_or(0, |c| c.sum::<LIMITED>()),
            lost: Lost {
                busy: self.state.busy.load(Ordering::Relaxed),
                nested: self.state.nested.load(Ordering::Relaxed),
                panicked: self.state.panicked.load(Ordering::Relaxed),
            },
        }
    }
}

impl Drop for Aggregation {
    fn drop(&mut self) {
        // In a forked child a lock may have been held when it was forked; its lists are not this one's.
        if !follow::is_child() {
            attach::control().remove_aggregation(&self.inner);
        }
    }
}

/// A number of a field's class.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Number {
    /// Of an integer field.
    Integer(i128),
    /// Of a floating point field.
    Float(f64),
}

impl Number {
    fn as_f64(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    fn plus(self, other: Number) -> Number {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => Number::Integer(a + b),
            (a, b) => Number::Float(a.as_f64() + b.as_f64()),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
        }
    }
}

/// Figures of some events.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// How many.
    pub count: u64,
    /// The sum of their values; `None`: without a field, or where it took more than 64 bits on one CPU.
    pub sum: Option<Number>,
    /// The least value; `None`: without a field.
    pub min: Option<Number>,
    /// The greatest value; `None`: without a field.
    pub max: Option<Number>,
}

impl Figures {
    /// Returns the mean of the values.
    pub fn avg(&self) -> Option<f64> {
        self.sum.map(|sum| sum.as_f64() / self.count as f64)
    }

    fn merge(&mut self, other: &Figures) {
        if self.count == 0 {
            *self = other.clone();
            return;
        }
        self.count += other.count;
        self.sum = self.sum.zip(other.sum).map(|(a, b)| a.plus(b));
        self.min = self.min.zip(other.min).map(|(a, b)| if b < a { b } else { a });
        self.max = self.max.zip(other.max).map(|(a, b)| if b > a { b } else { a });
    }
}

/// Events with the same name and keys.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// Name of the event.
    pub event: String,
    /// Names of its keys.
    pub by: Vec<String>,
    /// Its keys; `None`: those of this event that found no room for keys of their own.
    pub keys: Option<Vec<KeyValue>>,
    /// All of its events.
    pub figures: Figures,
    /// Those of a histogram, the lowest first, without empty ones.
    pub buckets: Vec<Bucket>,
}

impl Group {
    fn add(&mut self, buckets: Buckets, bucket: u32, figures: &Figures) {
        self.figures.merge(figures);
        if buckets == Buckets::One {
            return;
        }
        let (low, high) = buckets.bounds(bucket);
        match self.buckets.iter_mut().find(|b| (b.low, b.high) == (low, high)) {
            Some(bucket) => bucket.figures.merge(figures),
            None => self.buckets.push(Bucket { low, high, figures: figures.clone() }),
        }
    }
}

/// `read table=users: count 2, sum 400, min 100, avg 200, max 300`
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.event)?;
        match &self.keys {
            Some(keys) => self.by.iter().zip(keys).try_for_each(|(name, value)| write!(f, " {name}={value}"))?,
            None => f.write_str(" (others)")?,
        }
        write!(f, ": count {}", self.figures.count)?;
        let Figures { sum, min, max, .. } = &self.figures;
        let shown = [("sum", *sum), ("min", *min), ("avg", self.figures.avg().map(Number::Float)), ("max", *max)];
        shown
            .iter()
            .filter_map(|(name, value)| Some((name, (*value)?)))
            .try_for_each(|(name, value)| write!(f, ", {name} {value}"))
    }
}

/// One bucket of a histogram.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bucket {
    /// Values are not below; `None`: the bucket below a linear histogram's range.
    pub low: Option<i128>,
    /// Values are below; `None`: the bucket above a linear histogram's range.
    ///
    /// Powers of two of negative values mirror those of positive ones: the bucket from -4 to -2 holds -2 and not -4. Of floating
    /// point values, the bucket from 0 to 1 holds those between -1 and 1.
    pub high: Option<i128>,
    /// Its events.
    pub figures: Figures,
}

/// What an [`Aggregation`] found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Aggregates {
    /// The field whose values are aggregated.
    pub field: Option<String>,
    /// Names of the keys.
    pub by: Vec<String>,
    /// The groups: those with most events first, the others of events last.
    pub groups: Vec<Group>,
    /// Events whose field had no value, or no finite one: they are in no figure.
    pub valueless: u64,
    /// Events that the rule's expression rejected.
    pub filtered: u64,
    /// Events that the rule's limit did not let through.
    pub limited: u64,
    /// Events that are in no figure though they should be.
    pub lost: Lost,
}

/// Events that an aggregation lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Without restartable sequences, and every lock was held.
    pub busy: u64,
    /// Nested too deeply.
    pub nested: u64,
    /// The probe panicked, or a field of the event.
    pub panicked: u64,
}

impl Lost {
    /// Returns their sum.
    pub fn total(&self) -> u64 {
        self.busy + self.nested + self.panicked
    }
}
