//! Perfetto's protobuf form, packet by packet.
//!
//! Each stream of the trace becomes a packet sequence of its own, whose names are interned: the first packet of an event class
//! brings its names along. After a loss a sequence begins anew, with its names. What the fields of an event are is encoded on all
//! cores. Field numbers are those of Perfetto's
//! `trace_packet.proto`, `track_event.proto` and `track_descriptor.proto`.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::sync::Arc;

use trace_ctf::declared::{EventClass, StreamClass};
use trace_ctf::reader::{Event, Loss, Scope, Value};

use super::super::columns::Column;
use super::super::names::{Names, Thread};
use super::super::slices::{End, Future, Open, Phase, Slices};
use super::super::source::{Class, Classes, Opened};
use super::proto::Message;
use super::{Map, Process, Writer, label, process, tid};
use crate::failure::Failure;

/// Fields of a packet.
mod packet {
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const FLAGS: u32 = 13;
    pub(super) const DROPPED: u32 = 42;
    pub(super) const CLOCK: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK: u32 = 60;
    pub(super) const FIRST: u32 = 87;
}

/// Values of the flags: interned names are forgotten; they are needed.
const CLEARED: u64 = 1;
const NEEDED: u64 = 2;

/// Fields of a track event.
mod track_event {
    pub(super) const CATEGORY: u32 = 3;
    pub(super) const ANNOTATION: u32 = 4;
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const DOUBLE_COUNTER: u32 = 44;
    pub(super) const FLOW: u32 = 47;
}

/// Types of track events.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Kinds of interned texts: the fields of the message that brings them.
const CATEGORIES: u32 = 1;
const EVENT_NAMES: u32 = 2;
const ANNOTATION_NAMES: u32 = 3;

/// Perfetto's numbers of clocks.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;

/// The sequence of what belongs to no stream.
const OWN_SEQUENCE: u64 = 1;

/// A stream: its trace, class and instance.
type StreamKey = (Option<[u8; 16]>, u64, Option<u64>);

/// The packets of one stream.
#[derive(Default)]
struct Sequence {
    id: u64,
    is_begun: bool,
    has_lost: bool,
    /// Classes whose names it has, and those names.
    classes: HashSet<Class>,
    names: HashSet<u64>,
}

/// The numbers of texts.
#[derive(Default)]
struct Numbers(HashMap<(u32, String), u64>);

/// The names that the events of a class need, by their numbers.
struct ClassNames {
    category: u64,
    event: u64,
    /// Of the slice that it begins.
    slice: Option<u64>,
    /// Of its fields and context fields.
    fields: HashMap<String, u64>,
    /// Each with the field that brings it.
    entries: Vec<(u64, Vec<u8>)>,
}

/// The field that tells the CPU.
const CPU: &str = "cpu";

impl ClassNames {
    fn new(stream: &StreamClass, class: &EventClass, slices: &Slices, numbers: &mut Numbers) -> Self {
        let mut entries = Vec::new();
        let mut intern = |kind: u32, text: &str| {
            let next = numbers.0.len() as u64 + 1;
            let number = *numbers.0.entry((kind, text.to_owned())).or_insert(next);
            let mut entry = Message::default();
            entry.message(kind, |entry| {
                entry.number(1, number).text(2, text);
            });
            entries.push((number, entry.as_bytes().to_vec()));
            number
        };
        let category = intern(CATEGORIES, class.name.split(':').next().unwrap_or_default());
        let event = intern(EVENT_NAMES, &class.name);
        let slice = slices.name(class).map(|name| intern(EVENT_NAMES, name));
        let roots = [&class.fields, &class.context, &stream.event_context].into_iter().flatten();
        let names = roots.flat_map(|root| &root.structure.members).map(|member| member.name()).chain([CPU]);
        let fields = names.map(|name| (name.to_owned(), intern(ANNOTATION_NAMES, name))).collect();
        Self { category, event, slice, fields, entries }
    }

    /// Encodes what an event has to tell: its fields, its context and its CPU.
    fn annotate(&self, event: &Event<'_>, out: &mut Vec<u8>) {
        let mut all = Message::default();
        let mut annotate = |name: &str, value: &Value<'_>| {
            let mut annotation = Message::default();
            match self.fields.get(name) {
                Some(number) => annotation.number(1, *number),
                None => annotation.text(10, name),
            };
            fill(&mut annotation, value);
            all.bytes(track_event::ANNOTATION, annotation.as_bytes());
        };
        for scope in [Scope::Payload, Scope::EventContext, Scope::StreamContext] {
            let Value::Structure(members) = event.value(scope) else { continue };
            for (name, value) in &members {
                // The track tells the thread.
                if scope == Scope::Payload || !matches!(name.as_str(), "vtid" | "tid") {
                    annotate(name, value);
                }
            }
        }
        if let Some(cpu) = event.packet().info().cpu_id {
            annotate(CPU, &Value::Unsigned(cpu));
        }
        out.extend(all.as_bytes());
    }
}

pub(super) struct Perfetto {
    processes: Vec<Process>,
    slices: Slices,
    class_names: Arc<HashMap<Class, ClassNames>>,
    /// With the flow that each slice began with.
    open: Open<Option<u64>>,
    names: Names,
    told: HashMap<Thread, Option<String>>,
    /// The last thread and its tracks, as long as no name changes.
    last: Option<(Thread, u64, (u64, u64))>,
    /// By their tracks.
    told_processes: HashMap<u64, Option<String>>,
    sequences: HashMap<StreamKey, Sequence>,
    counters: Vec<(Column, String)>,
    told_counters: HashSet<u64>,
    flow: Option<Column>,
    /// Nanoseconds from the Unix epoch to the origin of the time stamps that are written.
    origin: i64,
    has_clock: bool,
}

impl Perfetto {
    pub(super) fn new(opened: &Opened, counters: Vec<(Classes<'_>, String)>, flow: Option<&str>) -> Result<Self, Failure> {
        let classes = opened.classes();
        let flow = flow.map(|name| Column::new(name, &classes)).transpose()?;
        let clock = opened.traces.iter().flat_map(|trace| &trace.declarations().clocks).next();
        let first = opened.first.unwrap_or_default();
        // Time stamps have no sign.
        let origin = clock.and_then(|clock| clock.nanoseconds(0)).unwrap_or_default().min(first);
        let counters = counters.into_iter().map(|(classes, field)| {
            let event = classes.first().map_or("", |(_, class)| &*class.name);
            (Column::anywhere(&field, &classes), format!("{event}.{field}"))
        });
        let slices = Slices::new(&classes);
        let mut numbers = Numbers::default();
        let names = classes.iter().map(|(stream, class)| {
            let names = ClassNames::new(stream, class, &slices, &mut numbers);
            (Class::of(class), names)
        });
        Ok(Self {
            processes: Process::all(&opened.traces),
            class_names: Arc::new(names.collect()),
            slices,
            open: Open::new(opened.whole()),
            names: Names::default(),
            told: HashMap::new(),
            last: None,
            told_processes: HashMap::new(),
            sequences: HashMap::new(),
            counters: counters.collect(),
            told_counters: HashSet::new(),
            flow,
            origin,
            has_clock: false,
        })
    }

    fn time(&self, event: &Event<'_>) -> u64 {
        event.timestamp().map_or(0, |timestamp| timestamp.saturating_sub(self.origin).max(0) as u64)
    }

    /// Ties the clocks to one another, once.
    fn clock(&mut self, event: &Event<'_>, out: &mut dyn Write) -> io::Result<()> {
        if core::mem::replace(&mut self.has_clock, true) {
            return Ok(());
        }
        let time = self.time(event);
        let wall = event.timestamp().map_or(0, |timestamp| timestamp.max(0) as u64);
        let mut snapshot = Message::default();
        for (clock, time) in [(MONOTONIC, time), (BOOTTIME, time), (REALTIME, wall)] {
            snapshot.message(1, |of| {
                of.number(1, clock).number(2, time);
            });
        }
        let mut packet = Message::default();
        packet.number(packet::SEQUENCE, OWN_SEQUENCE).bytes(packet::CLOCK_SNAPSHOT, snapshot.as_bytes());
        write(&packet, out)
    }

    /// Names the thread and its process, if that was not done; returns the tracks of both, the process's first.
    fn tracks(&mut self, thread: &Thread, out: &mut dyn Write) -> io::Result<(u64, u64)> {
        if let Some((_, _, tracks)) = self.last.filter(|(last, version, _)| last == thread && *version == self.names.version()) {
            return Ok(tracks);
        }
        let (pid, process_name) = process(&self.processes, &self.names, thread);
        let (process, own) = (number(&("process", thread.trace, pid)), number(&("thread", thread)));
        if self.told_processes.get(&process).map(Option::as_deref) != Some(process_name) {
            let process_name = process_name.map(str::to_owned);
            track(out, process, |track| {
                track.message(3, |of| {
                    of.signed(1, pid);
                    if let Some(name) = &process_name {
                        of.text(6, name);
                    }
                });
            })?;
            self.told_processes.insert(process, process_name);
        }
        let name = label(&self.names, thread);
        if self.told.get(thread) != Some(&name) {
            track(out, own, |track| {
                track.number(5, process);
                track.message(4, |of| {
                    of.signed(1, pid).signed(2, tid(thread));
                    if let Some(name) = &name {
                        of.text(5, name);
                    }
                });
            })?;
            self.told.insert(*thread, name);
        }
        self.last = Some((*thread, self.names.version(), (process, own)));
        Ok((process, own))
    }

    fn counters(&mut self, event: &Event<'_>, process: u64, sequence: u64, time: u64, out: &mut dyn Write) -> io::Result<()> {
        for (column, name) in &mut self.counters {
            let Some(value) = column.get(event).and_then(|value| value.as_f64()) else { continue };
            let own = number(&("counter", process, &*name));
            if self.told_counters.insert(own) {
                track(out, own, |track| {
                    track.number(5, process).text(2, name);
                    track.message(8, |_| ());
                })?;
            }
            let mut packet = packet_at(sequence, time);
            packet.message(packet::TRACK_EVENT, |of| {
                of.number(track_event::TYPE, COUNTER).number(track_event::TRACK, own).double(track_event::DOUBLE_COUNTER, value);
            });
            write(&packet, out)?;
        }
        Ok(())
    }
}

impl Writer for Perfetto {
    fn mapper(&self) -> Box<dyn Fn() -> Map + Sync> {
        let names = self.class_names.clone();
        Box::new(move || {
            let names = names.clone();
            Box::new(move |event, annotations| {
                names.get(&Class::of(event.class())).into_iter().for_each(|names| names.annotate(event, annotations));
                Ok(())
            })
        })
    }

    fn event(&mut self, event: &Event<'_>, annotations: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let thread = self.names.thread(event);
        self.clock(event, out)?;
        let (process, mut own) = self.tracks(&thread, out)?;
        let time = self.time(event);
        let future = self.slices.future(event);
        let name = self.slices.name(event.class()).unwrap_or(event.name());
        if let Some(Future::Begin(number) | Future::End(number)) = future {
            // A future has a track of its own: it overlaps with others, on whatever threads.
            own = self::number(&("future", thread.trace, number));
            if let Some(Future::Begin(_)) = future {
                track(out, own, |track| {
                    track.number(5, process).text(2, name);
                })?;
            }
        }
        let flow = self.flow.as_mut().and_then(|column| column.text(event)).map(|value| number(&("flow", value)));
        let (mut begun, mut closed) = (None, Vec::new());
        let past = |at: i64| self.origin.abs_diff(at.max(self.origin));
        let phase = self.open.step(
            &self.slices,
            event,
            thread,
            || flow,
            |flow, end| match end {
                End::Own | End::Apart => begun = flow,
                End::Around => closed.push((time, false)),
                End::Lost(at) => closed.push((past(at), true)),
                End::Left(at) => closed.push((past(at), false)),
            },
        );
        let info = event.packet().info();
        let key = (event.trace().uuid, info.stream_class_id, info.stream_instance_id);
        let next = OWN_SEQUENCE + 1 + self.sequences.len() as u64;
        let sequence = self.sequences.entry(key).or_insert_with(|| Sequence { id: next, ..Sequence::default() });
        sequence.begin(out)?;
        let id = sequence.id;
        // Slices that have no event that ends them.
        closed.into_iter().try_for_each(|(time, is_lost)| end(id, own, time, is_lost, out))?;
        let alone = match phase {
            Phase::Alone(begin) => {
                // A track of its own: nothing says what else happened in it.
                let (around, at) = (own, self.origin.abs_diff(begin.at.max(self.origin)));
                own = self::number(&("alone", thread, time, name));
                track(out, own, |track| {
                    track.number(5, around).text(2, &format!("{name} (begin lost)"));
                })?;
                Some(at)
            }
            _ => None,
        };
        let (mut interned, mut of) = (Message::default(), Message::default());
        let kind = match phase {
            _ if matches!(future, Some(Future::Begin(_))) => BEGIN,
            _ if matches!(future, Some(Future::End(_))) => END,
            Phase::Begin => BEGIN,
            Phase::End | Phase::Alone(_) => END,
            Phase::Apart | Phase::Instant => INSTANT,
        };
        of.number(track_event::TYPE, kind).number(track_event::TRACK, own);
        let class = Class::of(event.class());
        if let Some(names) = self.class_names.get(&class) {
            if sequence.classes.insert(class) {
                let new = names.entries.iter().filter(|(number, _)| sequence.names.insert(*number));
                for (_, entry) in new {
                    interned.fields(entry);
                }
            }
            let label = |of: &mut Message, name| {
                of.number(track_event::CATEGORY, names.category).number(track_event::NAME, name);
            };
            if kind != END {
                label(&mut of, names.slice.filter(|_| kind == BEGIN).unwrap_or(names.event));
            }
            if let Some(at) = alone {
                let mut begin = packet_at(id, at);
                if !interned.is_empty() {
                    begin.bytes(packet::INTERNED, core::mem::take(&mut interned).as_bytes());
                }
                begin.message(packet::TRACK_EVENT, |of| {
                    of.number(track_event::TYPE, BEGIN).number(track_event::TRACK, own);
                    label(of, names.slice.unwrap_or(names.event));
                });
                write(&begin, out)?;
            }
        }
        of.fields(annotations);
        // No arrow from a slice to itself.
        if let Some(flow) = flow.filter(|_| flow != begun) {
            of.fixed(track_event::FLOW, flow);
        }
        let mut packet = packet_at(id, time);
        if !interned.is_empty() {
            packet.bytes(packet::INTERNED, interned.as_bytes());
        }
        packet.bytes(packet::TRACK_EVENT, of.as_bytes());
        write(&packet, out)?;
        self.counters(event, process, id, time, out)
    }

    fn name(&mut self, event: &Event<'_>, _out: &mut dyn Write) -> io::Result<()> {
        self.names.learn(event);
        Ok(())
    }

    fn loss(&mut self, loss: &Loss) {
        for ((_, class, instance), sequence) in &mut self.sequences {
            if (*class, *instance) == (loss.stream_class_id, loss.stream_instance_id) {
                sequence.has_lost = true;
            }
        }
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut closed = Vec::new();
        self.open.finish(|thread, _, end| match end {
            End::Lost(at) => closed.push((*thread, at, true)),
            End::Left(at) => closed.push((*thread, at, false)),
            End::Own | End::Around | End::Apart => {}
        });
        let sequence = self.sequences.values().map(|sequence| sequence.id).min().unwrap_or(OWN_SEQUENCE);
        for (thread, at, is_lost) in closed {
            let (_, own) = self.tracks(&thread, out)?;
            end(sequence, own, self.origin.abs_diff(at.max(self.origin)), is_lost, out)?;
        }
        // Names that came later than the thread's last event.
        let threads: Vec<Thread> = self.told.keys().copied().collect();
        threads.iter().try_for_each(|thread| self.tracks(thread, out).map(drop))
    }
}

impl Sequence {
    /// Begins the sequence, at its first event and after a loss.
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.is_begun && !self.has_lost {
            return Ok(());
        }
        (self.classes, self.names) = Default::default();
        let mut packet = Message::default();
        packet.number(packet::SEQUENCE, self.id).number(packet::FLAGS, CLEARED);
        packet.number(if self.is_begun { packet::DROPPED } else { packet::FIRST }, 1);
        packet.message(packet::DEFAULTS, |defaults| {
            defaults.number(packet::CLOCK, MONOTONIC);
        });
        (self.is_begun, self.has_lost) = (true, false);
        write(&packet, out)
    }
}

/// Puts a value into an annotation.
fn fill(annotation: &mut Message, value: &Value<'_>) {
    match value {
        Value::Boolean(value) => drop(annotation.number(2, u64::from(*value))),
        Value::Unsigned(number) => drop(annotation.number(3, *number)),
        Value::Signed(number) => drop(annotation.signed(4, *number)),
        // Perfetto has none of more than 64 bits.
        Value::Long(number) => drop(annotation.text(6, &number.to_string())),
        Value::Float(number) => drop(annotation.double(5, *number)),
        Value::Text(text) => drop(annotation.text(6, text)),
        Value::Enumeration(number, labels) => match labels.first() {
            Some(label) => drop(annotation.text(6, label)),
            None => drop(annotation.signed(4, *number as i64)),
        },
        Value::Flags(number, labels) if labels.is_empty() => drop(annotation.number(3, *number)),
        Value::Flags(_, labels) => drop(annotation.text(6, &labels.join("|"))),
        Value::Blob(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            annotation.text(6, &digits);
        }
        Value::Absent => drop(annotation.text(6, "none")),
        Value::Variant(name, inner) => match &**inner {
            Value::Structure(members) if members.is_empty() => drop(annotation.text(6, name)),
            inner if name == "some" => fill(annotation, inner),
            inner => entry(annotation, name, inner),
        },
        // Nested texts are recorded as structures of one member.
        Value::Structure(members) => match &members[..] {
            [(name, inner)] if name == "value" => fill(annotation, inner),
            members => members.iter().for_each(|(name, inner)| entry(annotation, name, inner)),
        },
        Value::Array(elements) => {
            for element in elements {
                let mut inner = Message::default();
                fill(&mut inner, element);
                annotation.bytes(12, inner.as_bytes());
            }
        }
    }
}

fn entry(annotation: &mut Message, name: &str, value: &Value<'_>) {
    let mut inner = Message::default();
    inner.text(10, name);
    fill(&mut inner, value);
    annotation.bytes(11, inner.as_bytes());
}

/// A packet of a sequence, without what it is about.
fn packet_at(sequence: u64, time: u64) -> Message {
    let mut packet = Message::default();
    packet.number(packet::SEQUENCE, sequence).number(packet::FLAGS, NEEDED).number(packet::TIMESTAMP, time);
    packet
}

/// Ends the innermost slice of a track that has no event that says so.
fn end(sequence: u64, own: u64, time: u64, is_lost: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut packet = packet_at(sequence, time);
    packet.message(packet::TRACK_EVENT, |of| {
        of.number(track_event::TYPE, END).number(track_event::TRACK, own);
        if is_lost {
            of.message(track_event::ANNOTATION, |annotation| {
                annotation.text(10, "end").text(6, "lost");
            });
        }
    });
    write(&packet, out)
}

fn track(out: &mut dyn Write, own: u64, describe: impl FnOnce(&mut Message)) -> io::Result<()> {
    let mut packet = Message::default();
    packet.number(packet::SEQUENCE, OWN_SEQUENCE).message(packet::TRACK, |track| {
        track.number(1, own);
        describe(track);
    });
    write(&packet, out)
}

fn write(packet: &Message, out: &mut dyn Write) -> io::Result<()> {
    let mut whole = Message::default();
    whole.bytes(1, packet.as_bytes());
    out.write_all(whole.as_bytes())
}

/// A number for what is to be known by one, the same in every export; 0 has a meaning of its own.
fn number(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish().max(1)
}
