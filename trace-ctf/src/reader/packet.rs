//! Packets and the events in them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use crate::declared::{Declarations, EventClass, Import, Role, Root, StreamClass};
use crate::decode::{Cursor, Fault, Item};
use crate::error::{Kind, Place};
use crate::extras::{Pairs, Piece, is_extras};
use crate::packet::MAGIC;
use crate::reader::Value;
use crate::reader::field::{self, Field, Scalar};
use crate::{Error, Result};

/// Readable zeros behind the bytes of a packet, so that whole words can be loaded at its end.
const MARGIN: usize = 8;

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
    /// Whether it says that it is of a trace of another UUID than the metadata's.
    pub is_of_another_trace: bool,
}

/// A packet.
#[derive(Clone, Debug)]
pub struct Packet {
    info: PacketInfo,
    class: Arc<StreamClass>,
    trace: Arc<Declarations>,
    bytes: Bytes,
    /// Where `bytes` begins: its stream, its number there, its byte offset.
    place: Place,
    context_at: u64,
    events_at: u64,
    /// Bits of header and event records, whether they are there or not.
    content: u64,
    /// Those that are there.
    end: u64,
    /// Bytes of the packet that are left out between its header and the events in `bytes`: of a piece.
    skipped: u64,
    /// The clock in front of the first event.
    clock: u64,
    is_continued: bool,
}

/// Which part of a packet a piece is.
pub(super) struct Part {
    /// Where it begins, in bits of the packet; 0: with the packet.
    pub(super) at: u64,
    pub(super) clock: u64,
    /// Bytes left out between the header and what was read.
    pub(super) skipped: u64,
    pub(super) is_last: bool,
}

/// Where the whole events of a piece end.
pub(super) enum Cut {
    /// At something that is wrong.
    Wrong,
    /// In front of an event that goes on behind it, in bits of the packet.
    At { at: u64, clock: u64 },
    /// There is not even one.
    Nowhere,
}

/// Bytes of a packet, with zeros behind them.
#[derive(Clone, Default)]
pub(super) struct Bytes {
    buffer: Vec<u8>,
    length: usize,
}

/// One of the structures an event is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// What every packet of the trace begins with.
    PacketHeader,
    /// What its packet says.
    PacketContext,
    /// Its time stamp and the ID of its class.
    EventHeader,
    /// What all events of the stream class carry.
    StreamContext,
    /// What all events of the event class carry besides the payload.
    EventContext,
    /// The payload.
    Payload,
}

/// Place and class of an event, without its packet.
#[derive(Clone, Debug, Default)]
pub(super) struct EventHead {
    cycles: u64,
    /// Nanoseconds; nothing that counts where the stream has no clock.
    pub(super) timestamp: i64,
    /// Where the contexts begin, in bits.
    at: u64,
    /// Bits of the header in front.
    header: u32,
    /// Place of its class among those of its stream class.
    pub(super) class: u32,
}

/// How far a packet has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    at: u64,
    clock: u64,
    ended: bool,
}

/// An event: a view of its packet, known to be whole.
#[derive(Clone, Copy, Debug)]
pub struct Event<'p> {
    packet: &'p Packet,
    head: &'p EventHead,
}

/// The events of a packet, in order.
#[derive(Clone, Debug)]
pub struct Events<'p> {
    packet: &'p Packet,
    position: Position,
    head: EventHead,
}

/// What the beginning of a packet tells.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub(super) info: PacketInfo,
    class: Arc<StreamClass>,
    context_at: u64,
    events_at: u64,
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.length)
    }
}

impl Bytes {
    /// Sets the length; what was not there before is zero or left over.
    pub(super) fn resize(&mut self, length: usize) -> Result<(), std::collections::TryReserveError> {
        let needed = length.saturating_add(MARGIN);
        if needed > self.buffer.len() {
            self.buffer.try_reserve_exact(needed - self.buffer.len())?;
            self.buffer.resize(needed, 0);
        }
        self.length = length;
        Ok(())
    }

    pub(super) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.length]
    }

    fn len(&self) -> u64 {
        self.length as u64
    }
}

impl Packet {
    /// Decodes header and context of the packet that `bytes` begins with.
    pub(super) fn open(trace: &Declarations, bytes: &[u8], place: &Place) -> Result<Opening> {
        let mut info = PacketInfo::default();
        let mut cursor = Cursor::new(bytes, u64::MAX, 0, 0);
        let fault = |cursor: Cursor<'_>, fault| fault_error(place, cursor.at, bytes.len() as u64, fault);
        if let Some(root) = &trace.packet_header {
            let (mut magic, mut uuid) = (None, Vec::new());
            let found = roles(&mut cursor, root, |role, value| match (role, value) {
                (Role::Magic, Told::Number(value)) => magic = Some(value),
                (Role::TraceUuid, Told::Number(value)) => uuid.push(value as u8),
                (Role::TraceUuid, Told::Bytes(bytes)) => uuid.extend(bytes),
                (role, Told::Number(value)) => info.tell(role, value),
                _ => {}
            });
            // A wrong magic number says more than whatever its other bytes make of the header.
            if magic.is_some_and(|magic| magic != u64::from(MAGIC)) {
                return Err(Error::corrupt(place.clone(), "no packet magic number"));
            }
            found.map_err(|error| fault(cursor, error))?;
            // It is read all the same: what lies beside metadata is described by it.
            info.is_of_another_trace = trace.uuid.is_some_and(|expected| !uuid.is_empty() && uuid != expected);
        }
        let Some(class) = trace.stream(info.stream_class_id) else {
            let what = format!("no stream class {} in the metadata", info.stream_class_id);
            return Err(Error::corrupt(place.clone(), what));
        };
        let context_at = cursor.at;
        if let Some(root) = &class.packet_context {
            let found = roles(&mut cursor, root, |role, value| {
                if let Told::Number(value) = value {
                    info.tell(role, value);
                }
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
        Ok(Opening { info, class: class.clone(), context_at, events_at: cursor.at })
    }

    /// Makes a packet of its bytes, or of as many of them as there are, and what their beginning tells.
    pub(super) fn new(trace: &Arc<Declarations>, bytes: Bytes, place: Place, opening: Opening) -> Self {
        let Opening { info, class, context_at, events_at } = opening;
        let content = info.content_bits.or(info.packet_bits).unwrap_or(bytes.len() * 8);
        let end = content.min(bytes.len() * 8);
        let clock = info.timestamp_begin.unwrap_or_default();
        let (trace, skipped, is_continued) = (trace.clone(), 0, false);
        Self { info, class, trace, bytes, place, context_at, events_at, content, end, skipped, clock, is_continued }
    }

    /// Makes a piece of a packet: its header, and some of its events.
    pub(super) fn piece(trace: &Arc<Declarations>, bytes: Bytes, place: Place, opening: Opening, part: Part) -> Self {
        let mut packet = Self::new(trace, bytes, place, opening);
        packet.skipped = part.skipped;
        if part.at > 0 {
            (packet.events_at, packet.clock, packet.is_continued) = (part.at - part.skipped * 8, part.clock, true);
        }
        // A packet without sizes is as long as its file.
        let content = packet.info.content_bits.or(packet.info.packet_bits).filter(|_| part.is_last);
        packet.content = content.map_or(packet.bytes.len() * 8, |bits| bits - part.skipped * 8);
        packet.end = packet.content.min(packet.bytes.len() * 8);
        packet
    }

    /// Ends a piece, which the packet goes on behind, with its last whole event.
    pub(super) fn cut(&mut self) -> Cut {
        let (mut position, mut head) = (self.begin(), EventHead::default());
        while position.at < self.content {
            let mut cursor = Cursor::within(&self.bytes.buffer, self.end, position.at, position.clock);
            match self.event(&mut cursor, &mut head) {
                Ok(()) if cursor.at > position.at => (position.at, position.clock) = (cursor.at, cursor.clock),
                Err(Stop::Fault(Fault::End(_))) => break,
                _ => return Cut::Wrong,
            }
        }
        if position.at == self.events_at {
            return Cut::Nowhere;
        }
        (self.content, self.end) = (position.at, position.at);
        Cut::At { at: position.at + self.skipped * 8, clock: position.clock }
    }

    /// Whether it is a further piece of a packet that is too large to be held in memory.
    ///
    /// Its [`info`](Self::info), [`number`](Self::number) and [`byte_offset`](Self::byte_offset) are those of the whole.
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Gives back the memory.
    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// What the packet says about itself.
    pub fn info(&self) -> &PacketInfo {
        &self.info
    }

    /// The class of its stream.
    pub fn stream_class(&self) -> &StreamClass {
        &self.class
    }

    /// What its trace declares.
    pub fn trace(&self) -> &Declarations {
        &self.trace
    }

    pub(crate) fn shared_trace(&self) -> &Arc<Declarations> {
        &self.trace
    }

    /// Number of the packet in its stream file, from 0.
    pub fn number(&self) -> u64 {
        self.place.packet
    }

    /// Offset of the packet in its stream file, in bytes.
    pub fn byte_offset(&self) -> u64 {
        self.place.offset
    }

    /// Offset behind the last event in the stream file, in bytes.
    pub fn end_offset(&self) -> u64 {
        self.place.offset + self.skipped + self.content.div_ceil(8)
    }

    /// Bytes of header and event records that were read: fewer than [`PacketInfo::content_bits`] tells where the file is cut. Of
    /// a packet that comes in pieces, its header, and its records from the [place](Event::place) of the first event on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes.buffer[..self.end.div_ceil(8) as usize]
    }

    /// The stream file it was read from.
    pub fn file(&self) -> Option<&Arc<Path>> {
        self.place.stream.as_ref()
    }

    /// Nanoseconds from the Unix epoch to the packet's begin and end.
    pub fn span(&self) -> (Option<i64>, Option<i64>) {
        self.info.span(&self.class)
    }

    /// The events, in order.
    pub fn events(&self) -> Events<'_> {
        Events { packet: self, position: self.begin(), head: EventHead::default() }
    }

    pub(super) fn begin(&self) -> Position {
        Position { at: self.events_at, clock: self.clock, ended: false }
    }

    /// Reads from a place, as far as there are bytes.
    #[inline(always)]
    fn cursor(&self, at: u64) -> Cursor<'_> {
        // Bytes behind the packet can be loaded, and do not count.
        Cursor::within(&self.bytes.buffer, self.end, at, 0)
    }

    /// Finds the next event and makes sure that it is whole; `false` where there is none.
    #[inline(always)]
    pub(super) fn next(&self, position: &mut Position, head: &mut EventHead) -> Result<bool> {
        let content = self.content;
        if position.at >= content || position.ended {
            return Ok(false);
        }
        let mut cursor = Cursor::within(&self.bytes.buffer, self.end, position.at, position.clock);
        match self.event(&mut cursor, head) {
            Ok(()) if cursor.at > position.at => {
                position.at = cursor.at;
                position.clock = cursor.clock;
                Ok(true)
            }
            stopped => {
                position.ended = true;
                Err(self.stopped(stopped.err(), content, position.at, cursor.at))
            }
        }
    }

    #[cold]
    fn stopped(&self, stop: Option<Stop>, content: u64, begin: u64, at: u64) -> Error {
        let available = self.bytes.len() + self.skipped;
        let content = content + self.skipped * 8;
        match stop {
            None => self.error(at, "event without content"),
            Some(Stop::Fault(Fault::End(needed))) if content > available * 8 => {
                let needed = (needed + self.skipped * 8).max(content).div_ceil(8);
                Kind::Truncated { place: self.place.clone(), needed, available }.into()
            }
            Some(Stop::Fault(Fault::End(_))) => self.error(begin, "event beyond the packet's content"),
            Some(Stop::Fault(Fault::Invalid(what))) => self.error(at, what),
            Some(Stop::NoTime) => self.error(begin, "the time stamp is more than 292 years from 1970"),
            Some(Stop::UnknownEvent(id)) => self.error(begin, format!("no event ID {id} in the metadata")),
        }
    }

    #[inline(always)]
    fn event(&self, cursor: &mut Cursor<'_>, head: &mut EventHead) -> Result<(), Stop> {
        let class = &*self.class;
        let start = cursor.at;
        let id = class.header.read(class.event_header.as_ref(), cursor)?;
        let cycles = cursor.clock;
        let place = class.events.place(id).ok_or(Stop::UnknownEvent(id))?;
        let (event, layout) = class.events.row(place);
        head.cycles = cycles;
        head.timestamp = class.time.nanoseconds(cycles).ok_or(Stop::NoTime)?;
        head.at = cursor.at;
        head.header = u32::try_from(cursor.at - start).unwrap_or(u32::MAX);
        head.class = place;
        if let Some(layout) = layout.filter(|_| cursor.at % 8 == 0) {
            if let Some(end) = layout.end {
                return Ok(cursor.need(cursor.at + u64::from(end))?);
            }
            cursor.need(cursor.at + u64::from(layout.payload))?;
            if let Some(root) = &event.fields {
                cursor.skip(root, &|import| Event { packet: self, head }.import(import))?;
            }
            return Ok(());
        }
        // What they take over of earlier structures has been passed before.
        if let Some(root) = &class.event_context {
            cursor.skip(root, &|import| Event { packet: self, head }.import(import))?;
        }
        if let Some(root) = &event.context {
            cursor.skip(root, &|import| Event { packet: self, head }.import(import))?;
        }
        if let Some(root) = &event.fields {
            cursor.skip(root, &|import| Event { packet: self, head }.import(import))?;
        }
        Ok(())
    }

    fn error(&self, at: u64, what: impl Into<Cow<'static, str>>) -> Error {
        Error::corrupt(Place { offset: self.place.offset + self.skipped + at / 8, ..self.place.clone() }, what)
    }
}

impl Opening {
    /// Bytes of header and context.
    pub(super) fn header_bytes(&self) -> u64 {
        self.events_at.div_ceil(8)
    }

    pub(super) fn span(&self) -> (Option<i64>, Option<i64>) {
        self.info.span(&self.class)
    }
}

impl PacketInfo {
    fn span(&self, class: &StreamClass) -> (Option<i64>, Option<i64>) {
        let convert = |cycles: Option<u64>| class.clock()?.nanoseconds(cycles?);
        (convert(self.timestamp_begin), convert(self.timestamp_end))
    }

    fn tell(&mut self, role: Role, value: u64) {
        let field = match role {
            Role::StreamClassId => {
                self.stream_class_id = value;
                return;
            }
            Role::StreamInstanceId => &mut self.stream_instance_id,
            Role::PacketBegin => &mut self.timestamp_begin,
            Role::PacketEnd => &mut self.timestamp_end,
            Role::ContentBits => &mut self.content_bits,
            Role::PacketBits => &mut self.packet_bits,
            Role::Sequence => &mut self.sequence,
            Role::EventsDiscarded => &mut self.events_discarded,
            Role::CpuId => &mut self.cpu_id,
            Role::Magic | Role::TraceUuid | Role::EventClassId | Role::Timestamp => return,
        };
        *field = Some(value);
    }
}

impl<'p> Event<'p> {
    #[inline]
    pub(super) fn new(packet: &'p Packet, head: &'p EventHead) -> Self {
        Self { packet, head }
    }

    /// Its class.
    #[inline]
    pub fn class(&self) -> &'p EventClass {
        self.packet.class.events.at(self.head.class)
    }

    /// The packet it lies in.
    #[inline]
    pub fn packet(&self) -> &'p Packet {
        self.packet
    }

    /// What its trace declares.
    pub fn trace(&self) -> &'p Declarations {
        &self.packet.trace
    }

    /// Its name.
    #[inline]
    pub fn name(&self) -> &'p str {
        &self.class().name
    }

    /// Nanoseconds from the Unix epoch, where the stream has a clock.
    #[inline]
    pub fn timestamp(&self) -> Option<i64> {
        self.packet.class.clock.is_some().then_some(self.head.timestamp)
    }

    /// As [`Event::timestamp`], with the rounding errors of babeltrace2.
    pub(crate) fn reference_timestamp(&self) -> Option<i64> {
        let timestamp = self.timestamp()?;
        Some(self.packet.class.time.reference_nanoseconds(self.head.cycles).unwrap_or(timestamp))
    }

    /// Time stamp as recorded, in clock cycles.
    #[inline]
    pub fn cycles(&self) -> u64 {
        self.head.cycles
    }

    /// Offset of the event in its stream file, in bytes.
    pub fn byte_offset(&self) -> u64 {
        self.packet.place.offset + self.packet.skipped + self.place() as u64
    }

    /// Where the event begins in the [bytes](Packet::bytes) of its packet.
    pub fn place(&self) -> usize {
        ((self.head.at - u64::from(self.head.header)) / 8) as usize
    }

    /// A structure and where it begins.
    #[inline(always)]
    fn root(&self, scope: Scope) -> Option<(&'p Root, u64)> {
        let class = &*self.packet.class;
        let at = self.head.at;
        let (event, layout) = class.events.row(self.head.class);
        let root = match scope {
            Scope::PacketHeader => return Some((self.packet.trace.packet_header.as_deref()?, 0)),
            Scope::PacketContext => return Some((class.packet_context.as_ref()?, self.packet.context_at)),
            Scope::EventHeader => return Some((class.event_header.as_ref()?, at - u64::from(self.head.header))),
            Scope::StreamContext => return Some((class.event_context.as_ref()?, at)),
            Scope::EventContext => event.context.as_ref()?,
            Scope::Payload => event.fields.as_ref()?,
        };
        if let Some(layout) = layout.filter(|_| at % 8 == 0) {
            let distance = if scope == Scope::Payload { layout.payload } else { layout.event_context };
            return Some((root, at + u64::from(distance)));
        }
        let mut cursor = self.packet.cursor(at);
        // They were passed once, when the event was found.
        if let Some(root) = &class.event_context {
            cursor.skip(root, &|import| self.import(import)).ok()?;
        }
        if scope == Scope::Payload {
            if let Some(root) = &event.context {
                cursor.skip(root, &|import| self.import(import)).ok()?;
            }
        }
        Some((root, cursor.at))
    }

    /// Walks one of its structures; `false` where it has none.
    ///
    /// Of the packet's context, what only readers need is left out: sizes, time stamps and counters, which are found in
    /// [`Packet::info`].
    #[inline]
    pub fn visit(&self, scope: Scope, mut visit: impl FnMut(Item<'p, 'p>)) -> bool {
        let Some((root, at)) = self.root(scope) else { return false };
        let mut cursor = self.packet.cursor(at);
        // It was decoded once, when the event was found.
        let again = match scope {
            Scope::PacketContext => cursor.shown(root, &self.packet.class.shown, &mut visit),
            _ => cursor.root(root, &|import| self.import(import), &mut visit),
        };
        debug_assert!(again.is_ok(), "{again:?}");
        true
    }

    /// The value of a field that was looked up before; `None` where the event is of another class, or has no such value.
    #[inline]
    pub fn get(&self, field: &Field) -> Option<Scalar<'p>> {
        if !field.belongs_to(&self.packet.class, self.class()) {
            return None;
        }
        let (root, at) = self.root(field.scope)?;
        field.read(root, self.packet.cursor(at), &|import| self.import(import))
    }

    /// The value of a field by its name, with dots between the names of structures and of what is in them: of the payload, or
    /// else of the first context that has it, from the inside to the outside.
    ///
    /// For one event. [`Field`] is quicker for many.
    pub fn field(&self, name: &str) -> Option<Scalar<'p>> {
        self.get(&Field::find(self.packet.stream_class(), self.class(), name)?)
    }

    /// The value of a key that is known only at run time, in a field that has [such keys](EventClass::has_extras).
    pub fn extra(&self, key: &str) -> Option<Scalar<'p>> {
        let (mut found, mut pairs, mut is_it) = (None, None::<Pairs>, false);
        self.visit(Scope::Payload, |item| {
            let Some(walk) = &mut pairs else {
                pairs = matches!(item, Item::Member(member) if is_extras(&member.class)).then(Pairs::default);
                return;
            };
            match walk.step(&item) {
                Piece::Key(bytes) => is_it = bytes == key.as_bytes(),
                Piece::Value if is_it && found.is_none() => found = field::scalar(item),
                Piece::End => pairs = None,
                Piece::Value | Piece::Form => {}
            }
        });
        found
    }

    /// The integer at a path in an earlier structure.
    #[cold]
    fn import(&self, import: &Import) -> Option<u64> {
        let (root, at) = self.root(import.scope)?;
        // What the earlier structure needs of a still earlier one is not followed: they could name each other.
        let cursor = self.packet.cursor(at);
        match field::read(root, &import.path, cursor, &|_| None)? {
            Scalar::Unsigned(value) | Scalar::Flags(_, value) => Some(value),
            Scalar::Signed(value) => Some(value as u64),
            Scalar::Boolean(value) => Some(value.into()),
            Scalar::Enumeration(_, value) => Some(value as u64),
            _ => None,
        }
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

impl Events<'_> {
    /// Finds the next event; after an error there is none.
    #[inline]
    pub fn next_event(&mut self) -> Option<Result<Event<'_>>> {
        match self.packet.next(&mut self.position, &mut self.head) {
            Ok(true) => Some(Ok(Event { packet: self.packet, head: &self.head })),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

enum Stop {
    Fault(Fault),
    UnknownEvent(u64),
    /// Its time has no place in 64 bits.
    NoTime,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What a field tells the reader.
enum Told<'d> {
    Number(u64),
    Bytes(&'d [u8]),
}

/// Decodes a root and hands over what tells the reader something.
fn roles<'d>(cursor: &mut Cursor<'d>, root: &Root, mut tell: impl FnMut(Role, Told<'d>)) -> Result<(), Fault> {
    cursor.root(root, &|_| None, &mut |item| {
        let (role, value) = match item {
            Item::Unsigned(integer, value) => (integer.role, Told::Number(value)),
            Item::Signed(integer, value) => (integer.role, Told::Number(value as u64)),
            Item::Enumeration(class, value) => (class.integer.role, Told::Number(value as u64)),
            Item::Blob(blob, bytes) => (blob.role, Told::Bytes(bytes)),
            _ => return,
        };
        if let Some(role) = role {
            tell(role, value);
        }
    })
}

fn fault_error(place: &Place, at: u64, available: u64, fault: Fault) -> Error {
    match fault {
        Fault::End(needed) => Kind::Truncated { place: place.clone(), needed: needed.div_ceil(8), available }.into(),
        Fault::Invalid(what) => Error::corrupt(Place { offset: place.offset + at / 8, ..place.clone() }, what),
    }
}
