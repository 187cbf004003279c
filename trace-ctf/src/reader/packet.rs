//! Packets and the events in them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use crate::declared::{Declarations, EventClass, Root, StreamClass, Type};
use crate::decode::{Cursor, Fault, Item};
use crate::error::{Kind, Place};
use crate::packet::MAGIC;
use crate::reader::Value;
use crate::{Error, Result};

/// What a packet says about itself; `None` where its metadata declares no such field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketInfo {
    /// Stream class.
    pub stream_class_id: u64,
    /// Stream, within its class.
    pub stream_instance_id: Option<u64>,
    /// Not later than the first event, in clock cycles.
    pub timestamp_begin: Option<u64>,
    /// Not earlier than the last event, in clock cycles.
    pub timestamp_end: Option<u64>,
    /// Header and event records, in bits.
    pub content_bits: Option<u64>,
    /// Content and padding, in bits.
    pub packet_bits: Option<u64>,
    /// Number within the stream.
    pub sequence: Option<u64>,
    /// Events discarded in the stream since its beginning.
    pub events_discarded: Option<u64>,
    /// CPU the stream records.
    pub cpu_id: Option<u64>,
}

/// A packet.
#[derive(Clone, Debug)]
pub struct Packet {
    info: PacketInfo,
    class: Arc<StreamClass>,
    trace: Arc<Declarations>,
    bytes: Vec<u8>,
    /// Where `bytes` begins: its stream, its number there, its byte offset.
    place: Place,
    context_at: u64,
    events_at: u64,
}

/// One of the structures an event is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// What its packet says, without what only readers need.
    PacketContext,
    /// What all events of the stream class carry.
    StreamContext,
    /// What all events of the event class carry besides the payload.
    EventContext,
    /// The payload.
    Payload,
}

/// Place and class of an event, without its packet.
#[derive(Clone, Debug)]
pub(super) struct EventHead {
    class: Arc<EventClass>,
    cycles: u64,
    pub(super) timestamp: Option<i64>,
    /// Bit offsets of the three structures behind the header.
    scopes: [u64; 3],
}

/// How far a packet has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    at: u64,
    clock: u64,
    ended: bool,
}

/// An event: a view of its packet, known to be whole.
#[derive(Clone, Debug)]
pub struct Event<'p> {
    packet: &'p Packet,
    head: Cow<'p, EventHead>,
}

/// The events of a packet, in order.
#[derive(Clone, Debug)]
pub struct Events<'p> {
    packet: &'p Packet,
    position: Position,
}

impl Packet {
    /// Decodes header and context of the packet that `bytes` begins with.
    pub(super) fn parse_info(
        trace: &Declarations,
        bytes: &[u8],
        place: &Place,
    ) -> Result<(PacketInfo, Arc<StreamClass>, u64, u64)> {
        let mut info = PacketInfo::default();
        let mut cursor = Cursor::new(bytes, u64::MAX, 0, 0);
        let fault = |cursor: Cursor<'_>, fault| fault_error(place, cursor.at, bytes.len() as u64, fault);
        if let Some(root) = &trace.packet_header {
            let (mut magic, mut uuid) = (None, Vec::new());
            let found = fields(&mut cursor, root, |name, value| match name {
                "magic" => magic = Some(value),
                "uuid" => uuid.push(value as u8),
                "stream_id" => info.stream_class_id = value,
                "stream_instance_id" => info.stream_instance_id = Some(value),
                _ => {}
            });
            // A wrong magic number says more than whatever its other bytes make of the header.
            if magic.is_some_and(|magic| magic != u64::from(MAGIC)) {
                return Err(Error::corrupt(place.clone(), "no packet magic number"));
            }
            found.map_err(|error| fault(cursor, error))?;
            if trace.uuid.is_some_and(|expected| !uuid.is_empty() && uuid != expected) {
                return Err(Error::corrupt(place.clone(), "the packet belongs to another trace"));
            }
        }
        let Some(class) = trace.stream(info.stream_class_id) else {
            let what = format!("no stream class {} in the metadata", info.stream_class_id);
            return Err(Error::corrupt(place.clone(), what));
        };
        let context_at = cursor.at;
        if let Some(root) = &class.packet_context {
            let found = fields(&mut cursor, root, |name, value| match name {
                "timestamp_begin" => info.timestamp_begin = Some(value),
                "timestamp_end" => info.timestamp_end = Some(value),
                "content_size" => info.content_bits = Some(value),
                "packet_size" => info.packet_bits = Some(value),
                "packet_seq_num" => info.sequence = Some(value),
                "events_discarded" => info.events_discarded = Some(value),
                "cpu_id" => info.cpu_id = Some(value),
                _ => {}
            });
            found.map_err(|error| fault(cursor, error))?;
        }
        let content = info.content_bits.or(info.packet_bits);
        if content.is_some_and(|bits| bits < cursor.at) || info.packet_bits < content && info.packet_bits.is_some() {
            return Err(Error::corrupt(place.clone(), "content and packet sizes contradict each other"));
        }
        if info.packet_bits.or(content).is_some_and(|bits| bits % 8 != 0) {
            return Err(Error::corrupt(place.clone(), "the packet ends inside a byte"));
        }
        Ok((info, class.clone(), context_at, cursor.at))
    }

    /// Makes a packet of its bytes, or of as many of them as there are.
    pub(super) fn new(trace: &Arc<Declarations>, bytes: Vec<u8>, place: Place) -> Result<Self> {
        let (info, class, context_at, events_at) = Self::parse_info(trace, &bytes, &place)?;
        Ok(Self { info, class, trace: trace.clone(), bytes, place, context_at, events_at })
    }

    /// What the packet says about itself.
    pub fn info(&self) -> &PacketInfo {
        &self.info
    }

    /// The class of its stream.
    pub fn stream_class(&self) -> &StreamClass {
        &self.class
    }

    /// Number of the packet in its stream file, from 0.
    pub fn number(&self) -> u64 {
        self.place.packet
    }

    /// Offset of the packet in its stream file, in bytes.
    pub fn byte_offset(&self) -> u64 {
        self.place.offset
    }

    /// The stream file it was read from.
    pub fn file(&self) -> Option<&Arc<Path>> {
        self.place.stream.as_ref()
    }

    /// Nanoseconds from the Unix epoch to the packet's begin and end.
    pub fn span(&self) -> (Option<i64>, Option<i64>) {
        let clock = self.class.clock();
        let convert = |cycles: Option<u64>| Some(clock?.nanoseconds(cycles?));
        (convert(self.info.timestamp_begin), convert(self.info.timestamp_end))
    }

    /// The events, in order.
    pub fn events(&self) -> Events<'_> {
        Events { packet: self, position: self.begin() }
    }

    pub(super) fn begin(&self) -> Position {
        Position { at: self.events_at, clock: self.info.timestamp_begin.unwrap_or_default(), ended: false }
    }

    /// Finds the next event and makes sure that it is whole.
    pub(super) fn next(&self, position: &mut Position) -> Result<Option<EventHead>> {
        if position.ended {
            return Ok(None);
        }
        let available = self.bytes.len() as u64 * 8;
        let content = self.info.content_bits.or(self.info.packet_bits).unwrap_or(available);
        if position.at >= content {
            position.ended = true;
            return Ok(None);
        }
        let mut cursor = Cursor::new(&self.bytes, content, position.at, position.clock);
        match self.event(&mut cursor) {
            Ok(head) if cursor.at > position.at => {
                *position = Position { at: cursor.at, clock: cursor.clock, ended: false };
                Ok(Some(head))
            }
            Ok(_) => {
                position.ended = true;
                Err(self.error(cursor.at, "event without content"))
            }
            Err(Stop::Fault(Fault::End(needed))) if content > available => {
                position.ended = true;
                let needed = needed.max(content).div_ceil(8);
                let place = self.place.clone();
                Err(Kind::Truncated { place, needed, available: self.bytes.len() as u64 }.into())
            }
            Err(stop) => {
                position.ended = true;
                Err(match stop {
                    Stop::Fault(Fault::End(_)) => self.error(position.at, "event beyond the packet's content"),
                    Stop::Fault(Fault::Invalid(what)) => self.error(cursor.at, what),
                    Stop::UnknownEvent(id) => self.error(position.at, format!("no event ID {id} in the metadata")),
                })
            }
        }
    }

    fn event(&self, cursor: &mut Cursor<'_>) -> Result<EventHead, Stop> {
        let mut id = 0;
        if let Some(root) = &self.class.event_header {
            fields(cursor, root, |name, value| {
                if name == "id" {
                    id = value;
                }
            })?;
        }
        let cycles = cursor.clock;
        let class = self.class.events.get(&id).ok_or(Stop::UnknownEvent(id))?;
        let mut scopes = [0; 3];
        for (at, root) in scopes.iter_mut().zip([&self.class.event_context, &class.context, &class.fields]) {
            *at = cursor.at;
            if let Some(root) = root {
                cursor.root(root, &mut |_| {})?;
            }
        }
        let timestamp = self.class.clock().map(|clock| clock.nanoseconds(cycles));
        Ok(EventHead { class: class.clone(), cycles, timestamp, scopes })
    }

    fn error(&self, at: u64, what: impl Into<Cow<'static, str>>) -> Error {
        Error::corrupt(Place { offset: self.place.offset + at / 8, ..self.place.clone() }, what)
    }
}

impl<'p> Event<'p> {
    pub(super) fn new(packet: &'p Packet, head: &'p EventHead) -> Self {
        Self { packet, head: Cow::Borrowed(head) }
    }

    /// Its class.
    pub fn class(&self) -> &EventClass {
        &self.head.class
    }

    /// The packet it lies in.
    pub fn packet(&self) -> &'p Packet {
        self.packet
    }

    /// What its trace declares.
    pub fn trace(&self) -> &'p Declarations {
        &self.packet.trace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.head.class.name
    }

    /// Nanoseconds from the Unix epoch, where the stream has a clock.
    pub fn timestamp(&self) -> Option<i64> {
        self.head.timestamp
    }

    /// Time stamp as recorded, in clock cycles.
    pub fn cycles(&self) -> u64 {
        self.head.cycles
    }

    /// Walks one of its structures; `false` where it has none.
    pub fn visit(&self, scope: Scope, mut visit: impl FnMut(Item<'_, 'p>)) -> bool {
        let (root, at) = match scope {
            Scope::PacketContext => (&self.packet.class.packet_context, self.packet.context_at),
            Scope::StreamContext => (&self.packet.class.event_context, self.head.scopes[0]),
            Scope::EventContext => (&self.head.class.context, self.head.scopes[1]),
            Scope::Payload => (&self.head.class.fields, self.head.scopes[2]),
        };
        let Some(root) = root else { return false };
        let mut cursor = Cursor::new(&self.packet.bytes, u64::MAX, at, 0);
        // It was decoded once, when the event was found.
        let again = cursor.root(root, &mut |item| visit(item));
        debug_assert!(again.is_ok(), "{again:?}");
        true
    }

    /// One of its structures as a value; an empty structure where it has none.
    pub fn value(&self, scope: Scope) -> Value<'p> {
        Value::build(|items| {
            self.visit(scope, items);
        })
    }

    /// The payload as a value.
    pub fn payload(&self) -> Value<'p> {
        self.value(Scope::Payload)
    }
}

impl<'p> Iterator for Events<'p> {
    type Item = Result<Event<'p>>;

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.packet.next(&mut self.position).transpose()?;
        Some(head.map(|head| Event { packet: self.packet, head: Cow::Owned(head) }))
    }
}

enum Stop {
    Fault(Fault),
    UnknownEvent(u64),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Decodes a root and hands over its integers, wherever they lie, with the name of their innermost member.
fn fields(cursor: &mut Cursor<'_>, root: &Root, mut field: impl FnMut(&str, u64)) -> Result<(), Fault> {
    let mut name = "";
    cursor.root(root, &mut |item| match item {
        Item::Member(member) => name = &member.declared_name,
        Item::Unsigned(_, value) => field(name, value),
        Item::Enumeration(_, value) => field(name, value as u64),
        Item::Signed(_, value) => field(name, value as u64),
        _ => {}
    })
}

fn fault_error(place: &Place, at: u64, available: u64, fault: Fault) -> Error {
    match fault {
        Fault::End(needed) => Kind::Truncated { place: place.clone(), needed: needed.div_ceil(8), available }.into(),
        Fault::Invalid(what) => Error::corrupt(Place { offset: place.offset + at / 8, ..place.clone() }, what),
    }
}

/// Names of the packet context that only readers need, as babeltrace2 leaves them out.
pub(crate) fn is_bookkeeping(name: &str, class: &Type) -> bool {
    const NAMES: [&str; 6] =
        ["timestamp_begin", "timestamp_end", "content_size", "packet_size", "packet_seq_num", "events_discarded"];
    matches!(class, Type::Integer(_)) && NAMES.contains(&name)
}
