//! The events of a recording for tests, and what tests ask of them.

use super::value::{self, FromValue, Value};
use crate::attach::NamedProbe;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use trace_registry::field::{HEADROOM, MAX_PIECES, MAX_STAGED, Storage};
use trace_registry::{EventClass, Glob, Level};

/// An event as it was recorded.
pub(super) struct Raw {
    pub(super) named: &'static NamedProbe,
    pub(super) bytes: Vec<u8>,
    pub(super) tid: u32,
    pub(super) time_ns: u64,
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("name", &self.named.name).finish_non_exhaustive()
    }
}

/// An event.
#[derive(Clone)]
pub struct Event {
    name: &'static str,
    level: Level,
    class: &'static EventClass,
    fields: Vec<(String, Value)>,
    bytes: Vec<u8>,
    tid: u32,
    time_ns: u64,
}

impl Event {
    fn new(raw: Raw) -> Option<Event> {
        let class = raw.named.probe.class?;
        let fields = value::fields(class.fields, &raw.bytes);
        let Raw { named, bytes, tid, time_ns } = raw;
        Some(Event { name: &named.name, level: named.probe.level, class, fields, bytes, tid, time_ns })
    }

    /// Returns the name of the event.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns its level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the thread that recorded it.
    pub fn thread(&self) -> u32 {
        self.tid
    }

    /// Returns its time, in nanoseconds of the process's clock.
    pub fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// Returns the fields, in order.
    pub fn fields(&self) -> &[(String, Value)] {
        &self.fields
    }

    /// Returns a field; `None`: the event has none of that name.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns the value of a field as a `T`: an integer, `f64`, `bool`, or a `String`, which a variant's name is too; an `Option` of
    /// one where the field is optional.
    ///
    /// # Panics
    ///
    /// There is no such field, or it is no `T`.
    #[track_caller]
    pub fn get<T: FromValue>(&self, name: &str) -> T {
        let Some(value) = self.field(name) else { panic!("no field `{name}` in {self}") };
        let Some(value) = T::from_value(value) else { panic!("field `{name}` is no {}: {self}", std::any::type_name::<T>()) };
        value
    }

    /// Whether this is what recording `event` makes.
    fn is<E: trace_registry::Event>(&self, event: &E) -> bool {
        let mut storage = Storage::<{ HEADROOM + MAX_STAGED }, MAX_PIECES>::new();
        let mut payload = storage.begin(u16::MAX.into(), E::SIZES, false);
        event.write(&mut payload);
        let bytes = payload.finish().map(|mut encoded| encoded.finished().to_bytes());
        self.class == E::DESCRIPTION && bytes.is_some_and(|bytes| bytes == self.bytes)
    }

    fn is_called(&self, name: &str) -> bool {
        let glob = Glob::new(name);
        match glob.is_exact() {
            true => self.name == name || self.name.strip_suffix(name).is_some_and(|head| head.ends_with(':')),
            false => glob.names(self.name),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut event = f.debug_struct("Event");
        event.field("name", &self.name).field("level", &self.level).field("fields", &self.fields);
        event.field("thread", &self.tid).field("time_ns", &self.time_ns).finish()
    }
}

/// As `ringtrace view` shows an event, but for its time, thread and context, and with all integers in decimal.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.level, self.name)?;
        self.fields.iter().zip(self.class.fields).try_for_each(|((name, value), field)| {
            let unit = if field.unit.is_empty() { "" } else { " " };
            write!(f, " {name}={value}{unit}{}", field.unit)
        })
    }
}

/// What a piece of code recorded, in the order in which it did.
///
/// If a test panics that has them, the last of them are printed, behind what was questionable about the rules.
#[derive(Debug)]
pub struct Events {
    events: Vec<Event>,
    lost: u64,
    warnings: Vec<String>,
}

impl Events {
    pub(super) fn new(raw: Vec<Raw>, lost: u64, warnings: Vec<String>) -> Events {
        Events { events: raw.into_iter().filter_map(Event::new).collect(), lost, warnings }
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many events are missing: too large, too deep, of a probe that panicked, or of an allocator inside of another event.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns what was questionable about the rules: patterns that match nothing, tracepoints without a probe.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the events.
    pub fn iter(&self) -> std::slice::Iter<'_, Event> {
        self.events.iter()
    }

    /// Returns the names of the events, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(Event::name).collect()
    }

    /// Returns the events of a name: the whole of it, its end, or a pattern.
    pub fn named<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Event> {
        self.events.iter().filter(move |event| event.is_called(name))
    }

    /// Returns the events of a class, to be compared with values of it: `assert_eq!(events.of::<Evicted<'_>>(), [Evicted { … }])`.
    ///
    /// A recorded event is bytes, and its class may borrow; so events are not made into values again, but the values of a test
    /// into bytes.
    pub fn of<E: trace_registry::Event>(&self) -> Of<'_, E> {
        Of { events: self.events.iter().filter(|event| event.class == E::DESCRIPTION).collect(), class: PhantomData }
    }

    /// Checks that events of these names (wholes, ends, or patterns) come in this order, with any others between them.
    ///
    /// # Panics
    ///
    /// They do not.
    #[track_caller]
    pub fn assert_order(&self, names: &[&str]) {
        let mut events = self.events.iter();
        for (place, name) in names.iter().enumerate() {
            let behind = if place == 0 { String::new() } else { format!(" behind `{}`", names[place - 1]) };
            assert!(events.any(|event| event.is_called(name)), "no `{name}`{behind}; expected in this order: {names:?}");
        }
    }

    /// Checks that each `…::entry` has its `…::exit`, that calls nest in each thread, and that each future and each span
    /// that began has ended.
    ///
    /// # Panics
    ///
    /// They do not.
    #[track_caller]
    pub fn assert_pairs(&self) {
        // By thread, or by future or span, which are of no thread.
        let mut open: HashMap<(Option<&str>, u64), Vec<&str>> = HashMap::new();
        for event in &self.events {
            let number = |field| Some((Some(field), event.field(field).and_then(u64::from_value)?));
            let own = number("future").filter(|_| !event.name.contains("::poll::")).or_else(|| number("span"));
            let open = open.entry(own.unwrap_or((None, event.tid.into()))).or_default();
            if let Some(name) = event.name.strip_suffix("::entry") {
                open.push(name);
            } else if let Some(name) = event.name.strip_suffix("::exit") {
                assert_eq!(open.pop(), Some(name), "an exit that is not that of what was entered last: {event}");
            }
        }
        let left: Vec<_> = open.into_values().flatten().collect();
        assert!(left.is_empty(), "entered and never left: {left:?}");
    }
}

impl std::ops::Index<usize> for Events {
    type Output = Event;

    fn index(&self, index: usize) -> &Event {
        &self.events[index]
    }
}

impl<'e> IntoIterator for &'e Events {
    type Item = &'e Event;
    type IntoIter = std::slice::Iter<'e, Event>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.iter()
    }
}

/// What is questionable or missing, and an event in each line.
impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(usize::MAX, f)
    }
}

/// How many events a test that fails prints.
const SHOWN: usize = 20;

impl Events {
    /// Shows the last events, at most so many.
    fn show(&self, most: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // First, since it may be the reason why events are missed.
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))?;
        if self.lost > 0 {
            writeln!(f, "lost: {}", self.lost)?;
        }
        let first = self.events.first().map_or(0, |event| event.time_ns);
        let left_out = self.events.len().saturating_sub(most);
        if left_out > 0 {
            writeln!(f, "… {left_out} events before these; print the `Events`, or a part of them, to see all")?;
        }
        for event in &self.events[left_out..] {
            writeln!(f, "{:>12} ns  {event}  [vtid {}]", event.time_ns.saturating_sub(first), event.tid)?;
        }
        Ok(())
    }
}

/// As a test that fails shows them.
struct Failed<'e>(&'e Events);

impl fmt::Display for Failed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => writeln!(f, "the test recorded no event")?,
            1 => writeln!(f, "the test recorded 1 event:")?,
            n => writeln!(f, "the test recorded {n} events:")?,
        }
        self.0.show(SHOWN, f)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Not to where output of tests is captured only if it is written by `print!`.
            eprintln!("{}", Failed(self));
        }
    }
}

/// The events of one class.
pub struct Of<'e, E> {
    events: Vec<&'e Event>,
    class: PhantomData<fn(E)>,
}

impl<'e, E> Of<'e, E> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns them.
    pub fn iter(&self) -> impl Iterator<Item = &'e Event> + use<'e, '_, E> {
        self.events.iter().copied()
    }
}

impl<E: trace_registry::Event> PartialEq<[E]> for Of<'_, E> {
    fn eq(&self, values: &[E]) -> bool {
        self.events.len() == values.len() && self.events.iter().zip(values).all(|(event, value)| event.is(value))
    }
}

impl<E: trace_registry::Event, const N: usize> PartialEq<[E; N]> for Of<'_, E> {
    fn eq(&self, values: &[E; N]) -> bool {
        *self == values[..]
    }
}

impl<E> fmt::Debug for Of<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.events.iter().map(ToString::to_string)).finish()
    }
}
