//! Keeping: of the events that carry a key, an output gets those whose key was marked.
//!
//! ```text
//! rings      hold all events, as ever: the store
//! trigger    `keep answered if us > 5000 by id` marks the keys of the events that satisfy it          [trigger]
//! output     records of other keys are left out of its packets, and counted                           [Sieve]
//! ```
//!
//! In overwrite mode that is decided when a snapshot is taken, or when recording ends. In discard mode the consumer holds
//! packets back, in the rings, for as long as the rule says; or shorter, when a ring is half full.
//!
//! # Invariants
//!
//! - KE-1: An event is left out only where it carries a key by which something is to be kept, and none of its keys is marked.
//! - KE-2: What is left out is counted before the output gets what came behind it.

use crate::error::{Error, Result};
use crate::metadata;
use crate::output::{Packet, Sink, StreamId};
use crate::rcu::lock;
use crate::transfer::Told;
use crate::trigger::Key;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trace_ctf::packet::HEADER_LEN;
use trace_ctf::reader::{Decoder, Event, Field, Scalar};
use trace_ctf::schema as ctf;

/// Most keys of a field that are marked, and most that are remembered as left out. The oldest are forgotten.
const MOST_KEYS: usize = 1 << 16;

/// What was left out of an output, and what is known of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotKept {
    /// Events that carry a key which nothing marked in time.
    pub events: u64,
    /// Those of them that were decided before the wait was over, since a ring was half full.
    pub hurried: u64,
    /// Keys that were marked after events of theirs had been left out.
    pub late: u64,
    /// Marked keys that were forgotten, since there were too many.
    pub forgotten: u64,
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} not kept", self.events)?;
        for (count, what) in
            [(self.hurried, "of them decided early"), (self.late, "keys kept too late"), (self.forgotten, "kept keys forgotten")]
        {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl NotKept {
    fn since(&self, earlier: &NotKept) -> NotKept {
        NotKept {
            events: self.events - earlier.events,
            hurried: self.hurried - earlier.hurried,
            late: self.late - earlier.late,
            forgotten: self.forgotten - earlier.forgotten,
        }
    }
}

/// The keys of a session that are marked. Empty where nothing is to be kept by a key: then everything is.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    fields: Vec<Keys>,
    /// Changes with `fields`.
    generation: u64,
    counts: NotKept,
}

/// The keys that one field holds.
#[derive(Debug)]
struct Keys {
    field: String,
    /// Triggers that mark them.
    triggers: usize,
    wait: Duration,
    marked: Recent,
    /// Those of which the consumer left events out.
    passed: Recent,
}

/// The newest of many numbers.
#[derive(Debug, Default)]
struct Recent {
    all: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Recent {
    /// Returns whether it was new, and whether the oldest had to go.
    fn add(&mut self, number: u64) -> (bool, bool) {
        let is_new = self.all.insert(number);
        if is_new {
            self.order.push_back(number);
        }
        let oldest = if self.order.len() > MOST_KEYS { self.order.pop_front() } else { None };
        (is_new, oldest.is_some_and(|oldest| self.all.remove(&oldest)))
    }
}

/// Keys are told apart by 64 bits of a hash: of two that have the same, both are kept.
fn hash(key: &Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl Kept {
    /// From now on events are kept by this field.
    pub(crate) fn add(&self, field: &str, wait: Duration) {
        let mut state = lock(&self.0);
        state.generation += 1;
        match state.fields.iter_mut().find(|keys| keys.field == field) {
            Some(keys) => (keys.triggers, keys.wait) = (keys.triggers + 1, keys.wait.max(wait)),
            None => {
                let field = field.to_owned();
                state.fields.push(Keys { field, triggers: 1, wait, marked: Recent::default(), passed: Recent::default() });
            }
        }
    }

    /// A trigger that marked keys of this field is gone.
    pub(crate) fn remove(&self, field: &str) {
        let mut state = lock(&self.0);
        state.generation += 1;
        if let Some(keys) = state.fields.iter_mut().find(|keys| keys.field == field) {
            keys.triggers -= 1;
        }
        state.fields.retain(|keys| keys.triggers > 0);
    }

    /// Marks a key. Returns false where it was marked before.
    pub(crate) fn mark(&self, field: &str, key: &Key) -> bool {
        let mut state = lock(&self.0);
        let State { fields, counts, .. } = &mut *state;
        let Some(keys) = fields.iter_mut().find(|keys| keys.field == field) else { return false };
        let key = hash(key);
        let (is_new, is_full) = keys.marked.add(key);
        counts.forgotten += u64::from(is_full);
        counts.late += u64::from(is_new && keys.passed.all.remove(&key));
        is_new
    }

    /// How long the consumer is to hold packets back; `None`: nothing is decided by a key.
    pub(crate) fn wait(&self) -> Option<Duration> {
        lock(&self.0).fields.iter().map(|keys| keys.wait).max()
    }

    pub(crate) fn not_kept(&self) -> NotKept {
        lock(&self.0).counts
    }

    /// Runs deliveries whose wait was cut short.
    pub(crate) fn hurried<T>(&self, deliver: impl FnOnce() -> T) -> T {
        let before = self.not_kept().events;
        let result = deliver();
        let mut state = lock(&self.0);
        state.counts.hurried += state.counts.events - before;
        result
    }
}

/// What a snapshot left out.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Events left out of each stream.
    pub(crate) left_out: BTreeMap<StreamId, u64>,
    /// Bytes of their records.
    pub(crate) left_out_bytes: u64,
    /// Keys that were kept and found: of which field, and which.
    found: HashSet<(usize, u64)>,
    /// Keys that were marked.
    marked: usize,
}

impl Tally {
    /// Keys that were marked, and of which there was nothing.
    pub(crate) fn gone(&self) -> u64 {
        self.marked.saturating_sub(self.found.len()) as u64
    }
}

/// An output that gets only what is kept.
pub(crate) struct Sieve {
    inner: Box<dyn Sink>,
    decoder: Decoder,
    kept: Arc<Kept>,
    /// Time after which the shortest stamps of the rings' records begin anew, in ns.
    period: u64,
    /// Where each class has each of the fields, by stream class and ID; of this generation.
    places: HashMap<(u64, u64), Vec<Option<Field>>>,
    generation: u64,
    /// What each stream was told to have lost.
    told: HashMap<StreamId, u64>,
    /// `None`: a session's own output.
    tally: Option<Arc<Mutex<Tally>>>,
}

impl Sieve {
    /// In front of `inner`, to which `classes` were described.
    pub(crate) fn new(
        inner: Box<dyn Sink>,
        kept: Arc<Kept>,
        trace: &ctf::Trace,
        classes: &[ctf::EventClass],
        tally: Option<Arc<Mutex<Tally>>>,
    ) -> Result<Sieve> {
        let mut decoder = ctf::Schema::new(trace.clone()).and_then(|schema| Decoder::new(&schema)).map_err(unreadable)?;
        classes.iter().try_for_each(|class| decoder.add(class)).map_err(unreadable)?;
        let rings = trace.streams.iter().find(|stream| stream.id == metadata::RINGS);
        let period = match rings.map(|stream| stream.header) {
            Some(ctf::EventHeader::Compact) => 1 << 27,
            Some(ctf::EventHeader::Large) => 1 << 32,
            _ => u64::MAX,
        };
        let (places, told) = (HashMap::new(), HashMap::new());
        Ok(Sieve { inner, decoder, kept, period, places, generation: 0, told, tally })
    }

    /// Puts it in front of another output.
    pub(crate) fn put_before(&mut self, inner: Box<dyn Sink>) {
        self.inner = inner;
    }

    /// Finds the runs of records to be kept: where each lies in the content, and the times of its first and last. Returns with
    /// them how many were left out.
    fn sift(&mut self, packet: &Packet<'_>) -> Result<(Vec<Run>, u64)> {
        let decoded = self.decoder.packet(&packet.header(), packet.content).map_err(unreadable)?;
        let mut state = lock(&self.kept.0);
        if std::mem::replace(&mut self.generation, state.generation) != state.generation {
            self.places.clear();
        }
        let State { fields, counts, .. } = &mut *state;
        let mut tally = self.tally.as_deref().map(lock);
        let mut runs: Vec<Run> = Vec::new();
        let (mut is_open, mut left_out) = (false, 0);
        let mut events = decoded.events();
        while let Some(event) = events.next_event() {
            let event = event.map_err(unreadable)?;
            let (at, ns) = (event.place() - HEADER_LEN, event.cycles());
            if let Some(run) = runs.last_mut().filter(|_| is_open) {
                run.bytes.end = at;
            }
            let is_kept = is_kept(&event, fields, &mut self.places, tally.as_deref_mut());
            if !is_kept {
                left_out += 1;
            } else if let Some(run) = runs.last_mut().filter(|_| is_open) {
                run.end_ns = ns;
            } else {
                runs.push(Run { bytes: at..at, begin_ns: if at == 0 { packet.begin_ns } else { ns }, end_ns: ns });
            }
            is_open = is_kept;
        }
        if let Some(run) = runs.last_mut().filter(|_| is_open) {
            run.bytes.end = packet.content.len();
        }
        match &mut tally {
            None => counts.events += left_out, // KE-2
            // A snapshot leaves the rings as they are: the same events will be decided again.
            Some(tally) => {
                *tally.left_out.entry(packet.stream).or_default() += left_out;
                let kept: usize = runs.iter().map(|run| run.bytes.len()).sum();
                tally.left_out_bytes += (packet.content.len() - kept) as u64;
                tally.marked = fields.iter().map(|keys| keys.marked.all.len()).sum();
            }
        }
        Ok((runs, left_out))
    }
}

/// Records that lie together.
struct Run {
    bytes: Range<usize>,
    begin_ns: u64,
    end_ns: u64,
}

/// KE-1.
fn is_kept(
    event: &Event<'_>,
    fields: &mut [Keys],
    places: &mut HashMap<(u64, u64), Vec<Option<Field>>>,
    mut tally: Option<&mut Tally>,
) -> bool {
    let stream = event.packet().stream_class();
    let find = || fields.iter().map(|keys| place_of(&keys.field, stream, event)).collect();
    let places = &*places.entry((stream.id, event.class().id)).or_insert_with(find);
    let key = |place: &Option<Field>| Some(hash(&key_at(place.as_ref()?, event)?));
    let (mut has_key, mut is_marked) = (false, false);
    for (number, (keys, place)) in fields.iter().zip(places).enumerate() {
        let Some(key) = key(place) else { continue };
        has_key = true;
        if keys.marked.all.contains(&key) {
            is_marked = true;
            if let Some(tally) = &mut tally {
                tally.found.insert((number, key));
            }
        }
    }
    let is_kept = !has_key || is_marked;
    if !is_kept && tally.is_none() {
        for (keys, place) in fields.iter_mut().zip(places) {
            if let Some(key) = key(place) {
                keys.passed.add(key);
            }
        }
    }
    is_kept
}

/// Where an event's class has a key, by its name: a field, or `$ctx.` and a context field.
pub(crate) fn place_of(name: &str, stream: &trace_ctf::declared::StreamClass, event: &Event<'_>) -> Option<Field> {
    Field::find(stream, event.class(), name.strip_prefix("$ctx.").unwrap_or(name))
}

/// The key that an event has there; `None`: it has no value, so it belongs to no other.
pub(crate) fn key_at(place: &Field, event: &Event<'_>) -> Option<Key> {
    Some(match event.get(place)? {
        Scalar::Unsigned(value) | Scalar::Flags(_, value) => Key::Integer(value.into()),
        Scalar::Signed(value) => Key::Integer(value.into()),
        Scalar::Boolean(value) => Key::Integer(value.into()),
        Scalar::Enumeration(_, value) => Key::Integer(value),
        Scalar::Float(value) => Key::Float(value.to_bits()),
        Scalar::Text(bytes) => Key::Text(String::from_utf8_lossy(bytes).into()),
        _ => return None,
    })
}

/// The session's own description is wrong, which is our fault.
fn unreadable(error: trace_ctf::Error) -> Error {
    Error::io("cannot tell apart", "a session's events", std::io::Error::other(error))
}

impl Sink for Sieve {
    fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        classes.iter().try_for_each(|class| self.decoder.add(class)).map_err(unreadable)?;
        self.inner.describe(classes)
    }

    fn told(&self) -> Vec<(StreamId, Told)> {
        self.inner.told()
    }

    fn had(&mut self, packet: &Packet<'_>) -> usize {
        self.inner.had(packet)
    }

    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()> {
        let lost_before = self.told.insert(packet.stream, packet.discarded).unwrap_or(0);
        if packet.stream.class == metadata::CONSUMER || packet.content.is_empty() || self.kept.wait().is_none() {
            return self.inner.deliver(packet);
        }
        let (runs, left_out) = self.sift(packet)?;
        if left_out == 0 {
            return self.inner.deliver(packet);
        }
        if runs.is_empty() && packet.discarded > lost_before {
            // Nothing of it is kept, but its losses are told.
            return self.inner.deliver(&Packet { begin_ns: packet.end_ns, content: &[], ..*packet });
        }
        let mut content = Vec::new();
        let mut runs = runs.into_iter().peekable();
        let mut begin_ns = None;
        while let Some(run) = runs.next() {
            let begin = *begin_ns.get_or_insert(run.begin_ns);
            content.extend_from_slice(packet.content.get(run.bytes).unwrap_or_default());
            // Short stamps do not reach over what was left out: what follows is a packet of its own.
            if runs.peek().is_none_or(|next| next.begin_ns.saturating_sub(run.end_ns) >= self.period) {
                self.inner.deliver(&Packet { begin_ns: begin, end_ns: run.end_ns, content: &content, ..*packet })?;
                content.clear();
                begin_ns = None;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.inner.settle()
    }

    fn written(&self) -> u64 {
        self.inner.written()
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
}

/// Tells an output what it did not get: an event of the stream that the consumer writes itself.
pub(crate) fn tell(sink: &mut dyn Sink, not_kept: &NotKept, ns: u64) -> Result<()> {
    let stream = StreamId { class: metadata::CONSUMER, instance: 0 };
    let content = metadata::not_kept_event(not_kept, ns);
    sink.deliver(&Packet { stream, cpu: 0, begin_ns: ns, end_ns: ns, discarded: 0, content: &content })
}

/// What of the counts is news to an output.
pub(crate) fn news(told: &mut NotKept, now: NotKept) -> Option<NotKept> {
    let news = now.since(told);
    *told = now;
    (news != NotKept::default()).then_some(news)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_keys_stay_and_the_others_are_counted() {
        let kept = Kept::default();
        assert!(!kept.mark("id", &Key::Integer(1)), "nothing is kept by it");
        kept.add("id", Duration::from_secs(1));
        kept.add("id", Duration::from_secs(2));
        assert_eq!(kept.wait(), Some(Duration::from_secs(2)));
        for id in 0..MOST_KEYS as i128 + 10 {
            assert!(kept.mark("id", &Key::Integer(id)) && !kept.mark("id", &Key::Integer(id)));
        }
        assert_eq!(kept.not_kept().forgotten, 10);
        let is_marked = |id| lock(&kept.0).fields[0].marked.all.contains(&hash(&Key::Integer(id)));
        assert!(!is_marked(9) && is_marked(10) && is_marked(MOST_KEYS as i128 + 9));
        kept.remove("id");
        assert!(kept.wait().is_some());
        kept.remove("id");
        assert_eq!(kept.wait(), None);
    }

    #[test]
    fn texts_and_numbers_are_different_keys() {
        let keys = [Key::Integer(7), Key::Text("7".into()), Key::Float(7), Key::Integer(-7), Key::All];
        let hashes: HashSet<u64> = keys.iter().map(hash).collect();
        assert_eq!(hashes.len(), keys.len());
    }
}
