//! Events as text: for people ([`Readable`]), as babeltrace2 writes them ([`Formatter`]); and descriptions of event classes.

mod describe;
mod number;
mod readable;
mod time;

use std::fmt::{Binary, Octal, UpperHex};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

pub use describe::describe;
pub use readable::Readable;

use crate::declared::{Base, Declarations, Enumeration, EnvValue, Flags, Integer, Root};
use crate::decode::Item;
use crate::reader::{Event, Long, Loss, LossKind, Scope};
use time::{SECOND, Zone};

/// Writes events as `babeltrace2` 2.0.4 does by default, byte for byte.
///
/// A text in a trace may be anything, so the lines are bytes: what is not UTF-8 goes out as it came in, and a text ends at a
/// zero byte. One thing is not copied: babeltrace2 2.0.4 may show an earlier event's text where one is empty. Times of clocks that
/// do not count nanoseconds have the rounding errors of babeltrace2, of up to two nanoseconds; [`Event::timestamp`] is exact.
///
/// What only CTF 2 has is written as 2.1 does: blobs, flags, booleans, optional values.
#[derive(Clone, Debug)]
pub struct Formatter {
    zone: Zone,
    previous: Option<i64>,
    origin: Origin,
    context: Context,
}

/// The context of the packet that the last event was of, as text.
#[derive(Clone, Debug, Default)]
struct Context {
    /// File and offset of the packet.
    packet: Option<(Arc<Path>, u64)>,
    text: Vec<u8>,
}

impl Context {
    /// Appends the context of an event's packet, if there is one.
    fn append(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
        let packet = event.packet();
        let is_known = match (&self.packet, packet.file()) {
            (Some((file, offset)), Some(other)) => Arc::ptr_eq(file, other) && *offset == packet.byte_offset(),
            _ => false,
        };
        if !is_known {
            // Packets in memory have no place by which they could be known again.
            self.packet = packet.file().map(|file| (file.clone(), packet.byte_offset()));
            self.text.clear();
            let class = packet.stream_class();
            let is_hidden = |context: &Root| class.shown.is_empty() && !context.structure.members.is_empty();
            if !class.packet_context.as_ref().is_some_and(is_hidden) {
                let mut writer = Writer { out: &mut self.text, first: true };
                event.visit(Scope::PacketContext, |item| writer.item(item));
            }
        }
        out.extend(&self.text);
        !self.text.is_empty()
    }
}

impl Formatter {
    /// Shows times in UTC, as `babeltrace2 --clock-gmt`.
    pub fn utc() -> Self {
        Self::new(Zone::utc())
    }

    /// Shows local times; `offset` tells the distance from UTC, in seconds, at a time in seconds from the Unix epoch.
    pub fn local(offset: impl Fn(i64) -> i32 + Send + Sync + 'static) -> Self {
        Self::new(Zone::local(offset))
    }

    fn new(zone: Zone) -> Self {
        Self { zone, previous: None, origin: Origin::default(), context: Context::default() }
    }

    /// Appends the line of an event, with its line feed.
    pub fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.time(event, out);
        self.distance(event, out);
        self.rest(event, out);
    }

    /// Appends a line in which the [distance](Self::distance) is missing, and gives its place in the line: for lines that are made
    /// in another order than that of the events.
    pub fn event_without_distance(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        self.time(event, out);
        let place = out.len() - start;
        self.rest(event, out);
        place
    }

    fn time(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if let Some(timestamp) = event.reference_timestamp() {
            out.push(b'[');
            self.zone.next_time(timestamp, out);
            out.extend(b"] (+");
        }
    }

    /// Appends what a line says of the time since the event before.
    pub fn distance(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let Some(timestamp) = event.reference_timestamp() else { return };
        match self.previous.replace(timestamp) {
            Some(previous) => {
                let delta = timestamp.wrapping_sub(previous) as u64;
                number::unsigned(delta / SECOND as u64, out);
                out.push(b'.');
                number::nine_digits((delta % SECOND as u64) as u32, out);
            }
            None => out.extend(b"?.?????????"),
        }
    }

    fn rest(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if event.timestamp().is_some() {
            out.extend(b") ");
        }
        out.extend(self.origin.of(event));
        out.extend(event.name().as_bytes());
        out.extend(b": ");
        let mut scopes = u32::from(self.context.append(event, out));
        for scope in [Scope::StreamContext, Scope::EventContext, Scope::Payload] {
            let start = out.len();
            if scopes > 0 {
                out.extend(b", ");
            }
            let mut writer = Writer { out, first: true };
            if event.visit(scope, |item| writer.item(item)) { scopes += 1 } else { out.truncate(start) }
        }
        out.push(b'\n');
    }

    /// Appends a sentence about a loss, without a line feed.
    pub fn loss(&self, loss: &Loss, out: &mut Vec<u8>) {
        let what = match loss.kind {
            LossKind::DiscardedEvents => "event",
            LossKind::LostPackets => "packet",
        };
        let _ = match loss.count {
            Some(1) => write!(out, "Tracer discarded 1 {what} "),
            Some(count) => write!(out, "Tracer discarded {count} {what}s "),
            None => write!(out, "Tracer may have discarded {what}s "),
        };
        match (loss.begin, loss.end) {
            (Some(begin), Some(end)) => {
                out.extend(b"between [");
                self.zone.time(begin, out);
                out.extend(b"] and [");
                self.zone.time(end, out);
                out.extend(b"]");
            }
            _ => out.extend(b"(unknown time range)"),
        }
        if let Some(file) = &loss.file {
            let _ = write!(out, " in {}", file.display());
        }
        let _ = write!(out, " (stream class {}", loss.stream_class_id);
        if let Some(instance) = loss.stream_instance_id {
            let _ = write!(out, ", stream {instance}");
        }
        out.push(b')');
    }
}

/// Host, process name and process of the trace that the last event was of.
#[derive(Clone, Debug, Default)]
struct Origin {
    trace: Option<Arc<Declarations>>,
    text: Vec<u8>,
}

impl Origin {
    fn of(&mut self, event: &Event<'_>) -> &[u8] {
        let trace = event.packet().shared_trace();
        if !self.trace.as_ref().is_some_and(|known| Arc::ptr_eq(known, trace)) {
            self.trace = Some(trace.clone());
            self.text.clear();
            origin(trace, &mut self.text);
        }
        &self.text
    }
}

/// Host, process name and process, as far as the environment tells them.
fn origin(trace: &Declarations, out: &mut Vec<u8>) {
    for (name, value) in ["hostname", "procname", "vpid"].into_iter().filter_map(|name| Some((name, trace.environment(name)?))) {
        if !out.is_empty() {
            out.push(b':');
        }
        match value {
            EnvValue::String(text) => out.extend(text.as_bytes()),
            EnvValue::Int(number) if name == "vpid" => drop(write!(out, "({number})")),
            EnvValue::Int(number) => drop(write!(out, "{number}")),
        }
    }
    if !out.is_empty() {
        out.push(b' ');
    }
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// Whether nothing stands yet inside the brace or bracket that was opened last.
    first: bool,
}

impl Writer<'_> {
    #[inline]
    fn item(&mut self, item: Item<'_, '_>) {
        match item {
            Item::Unsigned(class, value) => self.integer(class, value),
            Item::Signed(class, value) => self.integer(class, value as u64),
            Item::Long(class, value) => self.long(class, value),
            Item::Enumeration(class, value) => self.enumeration(class, value),
            Item::Float(_, value) => number::general(value, self.out),
            Item::Text(bytes) => escaped(until_zero(bytes), self.out),
            Item::Wide(encoding, bytes) => escaped(encoding.decode(bytes).as_bytes(), self.out),
            Item::Boolean(value) => self.out.extend(if value { &b"true"[..] } else { b"false" }),
            Item::Flags(class, value) => self.flags(class, value),
            Item::Blob(_, bytes) => {
                self.out.push(b'{');
                bytes.iter().for_each(|byte| drop(write!(self.out, " {byte:02x}")));
                self.out.extend(b" }");
            }
            Item::Absent => self.out.extend(b"<none>"),
            Item::Member(member) => {
                // Without its comma where it is the first.
                let label = member.label.as_bytes();
                self.out.extend(if core::mem::take(&mut self.first) { &label[1..] } else { label });
            }
            Item::Element(index) => {
                self.separate();
                self.out.push(b'[');
                number::unsigned(index, self.out);
                self.out.extend(b"] = ");
            }
            Item::VariantBegin(_) | Item::OptionalBegin => self.out.extend(b"{ "),
            Item::VariantEnd | Item::OptionalEnd => self.out.extend(b" }"),
            Item::StructureBegin(_) => self.open(b'{'),
            Item::StructureEnd => self.close(b" }"),
            Item::ArrayBegin(_) => self.open(b'['),
            Item::ArrayEnd => self.close(b" ]"),
        }
    }

    fn open(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.first = true;
    }

    fn close(&mut self, bracket: &[u8]) {
        self.out.extend(bracket);
        self.first = false;
    }

    fn separate(&mut self) {
        self.out.extend(if self.first { &b" "[..] } else { b", " });
        self.first = false;
    }

    #[inline]
    fn integer(&mut self, class: &Integer, value: u64) {
        match class.base {
            Base::Dec if class.signed => number::signed(value as i64, self.out),
            Base::Dec => number::unsigned(value, self.out),
            _ => self.based(class, 64, |bits| value & u64::MAX >> (64 - bits)),
        }
    }

    fn long(&mut self, class: &Integer, value: u128) {
        match class.base {
            Base::Dec => drop(write!(self.out, "{}", Long::new(class, value))),
            _ => self.based(class, 128, |bits| value & u128::MAX >> (128 - bits)),
        }
    }

    /// Appends a number of at most so many bits; `low` gives its lowest.
    fn based<N: Binary + Octal + UpperHex>(&mut self, class: &Integer, most: u32, low: impl Fn(u32) -> N) {
        let bits = u32::from(class.bits).min(most);
        let _ = match class.base {
            Base::Bin => write!(self.out, "0b{:0width$b}", low(bits), width = bits as usize),
            Base::Oct if class.signed => write!(self.out, "0{:o}", low((bits.div_ceil(3) * 3).min(most))),
            Base::Oct | Base::Dec => write!(self.out, "0{:o}", low(bits)),
            Base::Hex => write!(self.out, "0x{:X}", low((bits.div_ceil(4) * 4).min(most))),
        };
    }

    fn flags(&mut self, class: &Flags, value: u64) {
        let _ = write!(self.out, "0x{value:X}");
        let mut between = &b" { "[..];
        for label in class.labels(value) {
            self.out.extend(core::mem::replace(&mut between, b", "));
            escaped(label.as_bytes(), self.out);
        }
        if between == b", " {
            self.out.extend(b" }");
        }
    }

    fn enumeration(&mut self, class: &Enumeration, value: i128) {
        self.out.extend(b"( ");
        let start = self.out.len();
        for label in class.labels(value) {
            if self.out.len() > start {
                self.out.extend(b", ");
            }
            escaped(label.as_bytes(), self.out);
        }
        if self.out.len() == start {
            self.out.extend(b"<unknown>");
        }
        self.out.extend(b" : container = ");
        self.integer(&class.integer, value as u64);
        self.out.extend(b" )");
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// Appends a text in quotes, with C's escapes.
fn escaped(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if text.iter().all(|&byte| IS_PLAIN[usize::from(byte)]) {
        out.extend(text);
    } else {
        text.iter().for_each(|&byte| escape(byte, out));
    }
    out.push(b'"');
}

/// Bytes that stand for themselves.
const IS_PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        plain[byte] = !matches!(byte as u8, b'\\' | b'\'' | b'"' | b'?' | 0..=0x1F | 0x7F);
        byte += 1;
    }
    plain
};

fn escape(byte: u8, out: &mut Vec<u8>) {
    let escape = match byte {
        b'\\' | b'\'' | b'"' | b'?' => byte,
        7 => b'a',
        8 => b'b',
        0x1B => b'e',
        12 => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        11 => b'v',
        0..=0x1F | 0x7F => {
            let _ = write!(out, "\\x{byte:02x}");
            return;
        }
        _ => {
            out.push(byte);
            return;
        }
    };
    out.extend([b'\\', escape]);
}
