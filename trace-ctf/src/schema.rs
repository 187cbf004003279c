//! Event classes and what surrounds them, as owned data.
//!
//! A [`Schema`] is the one source of every metadata form, and in JSON the payload of a metadata journal. All values a schema
//! describes are packed: byte aligned, little-endian unless a class says otherwise.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Deepest nesting of field classes.
pub const DEPTH_MAX: usize = 32;

/// A trace and its event classes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct Schema {
    /// What holds for the whole trace.
    pub trace: Trace,
    events: Vec<EventClass>,
    #[serde(skip)]
    places: HashMap<(u32, u32), usize>,
}

/// A schema as it is stored: without the lookup table.
#[derive(Deserialize)]
struct Parts {
    trace: Trace,
    events: Vec<EventClass>,
}

/// What holds for a whole trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Identifies the trace; every packet repeats it.
    pub uuid: [u8; 16],
    /// Named facts: `hostname`, `tracer_name`, `vpid`, …
    pub environment: Vec<(String, EnvValue)>,
    /// The clock of all time stamps.
    pub clock: Clock,
    /// Kinds of streams.
    pub streams: Vec<StreamClass>,
}

/// Value of an environment entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnvValue {
    /// A number.
    Int(i64),
    /// A text.
    String(String),
}

/// A time source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Name; made an identifier in CTF 1.8.
    pub name: String,
    /// The boot ID: clocks of equal UUID share their origin.
    pub uuid: [u8; 16],
    /// For people.
    pub description: String,
    /// Cycles per second; 1 000 000 000 is the only frequency all readers convert exactly.
    pub frequency_hz: u64,
    /// Error bound, in nanoseconds.
    pub precision_ns: u64,
    /// Seconds from the Unix epoch to the clock's origin.
    pub offset_s: i64,
    /// Cycles to add to `offset_s`.
    pub offset_cycles: u64,
    /// Whether clocks of other traces can be compared without their UUID.
    pub absolute: bool,
}

impl Default for Clock {
    /// Nanoseconds since the Unix epoch, by the name `monotonic`.
    fn default() -> Self {
        Self {
            name: "monotonic".into(),
            uuid: [0; 16],
            description: String::new(),
            frequency_hz: 1_000_000_000,
            precision_ns: 0,
            offset_s: 0,
            offset_cycles: 0,
            absolute: false,
        }
    }
}

/// What the event records of some streams have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamClass {
    /// Number within the trace.
    pub id: u32,
    /// Form of the event header.
    pub header: EventHeader,
    /// Context fields between header and payload of every event record.
    pub context: Vec<Field>,
}

/// Form of an event header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventHeader {
    /// 5-bit event ID and 27-bit time stamp, 13 bytes in the extended form.
    Compact,
    /// 16-bit event ID and 32-bit time stamp, 14 bytes in the extended form.
    Large,
    /// 32-bit event ID and 64-bit time stamp, always.
    Full,
}

/// Description of one kind of event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventClass {
    /// Stream class it belongs to.
    pub stream_id: u32,
    /// Event ID within the stream class.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Severity.
    pub level: Option<Level>,
    /// Place of the declaration.
    pub source: Option<Source>,
    /// Payload.
    pub fields: Vec<Field>,
}

/// Severity: LTTng's fifteen levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Level {
    Emerg = 0,
    Alert = 1,
    Crit = 2,
    Err = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
    DebugSystem = 7,
    DebugProgram = 8,
    DebugProcess = 9,
    DebugModule = 10,
    DebugUnit = 11,
    DebugFunction = 12,
    DebugLine = 13,
    Debug = 14,
}

/// Place in source code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// File, as the compiler names it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Function or module path; may be empty.
    pub function: String,
}

/// A named field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// Name; any text.
    pub name: String,
    /// Form of its value.
    pub class: FieldClass,
    /// Unit of measure, for people and formatters.
    pub unit: Option<String>,
}

/// Form of a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FieldClass {
    /// An integer of 8, 16, 32 or 64 bits.
    Integer {
        /// Width.
        bits: u8,
        /// Two's complement or not.
        signed: bool,
        /// How to show it.
        base: Base,
        /// Most significant byte first.
        big_endian: bool,
    },
    /// An IEEE 754 number of 32 or 64 bits.
    Float {
        /// Width.
        bits: u8,
    },
    /// One byte, 0 or 1.
    Bool,
    /// A length in bytes, then as many bytes of UTF-8.
    String {
        /// Width of the length: 8, 16, 32 or 64 bits.
        length_bits: u8,
    },
    /// So many bytes of UTF-8; the text ends before the first zero.
    Text {
        /// Bytes, at least one.
        length: u64,
    },
    /// An integer with names for some of its values.
    Enumeration {
        /// Width.
        bits: u8,
        /// Two's complement or not.
        signed: bool,
        /// Names and what they stand for; ranges may overlap.
        labels: Vec<Label>,
    },
    /// Fields one after the other.
    Structure(Vec<Field>),
    /// A fixed number of elements.
    Array {
        /// Form of each element.
        element: Box<FieldClass>,
        /// How many.
        length: u64,
    },
    /// A number of elements, then the elements.
    Sequence {
        /// Form of each element.
        element: Box<FieldClass>,
        /// Width of the number: 8, 16, 32 or 64 bits.
        length_bits: u8,
    },
    /// One byte, 0 or 1; the value follows a 1.
    Optional(Box<FieldClass>),
    /// The index of an option, one byte, then that option's value.
    Variant {
        /// The options, by index.
        options: Vec<VariantOption>,
    },
    /// One zero byte in place of a value that is not to be recorded.
    Redacted,
}

/// How an integer is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Base {
    Bin = 2,
    Oct = 8,
    Dec = 10,
    Hex = 16,
}

/// Name of a range of values of an enumeration, both ends included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The name.
    pub label: String,
    /// Lowest value.
    pub low: i128,
    /// Highest value.
    pub high: i128,
}

/// One alternative of a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantOption {
    /// Name of the alternative.
    pub name: String,
    /// Form of its value; a structure without fields where it has none.
    pub class: FieldClass,
}

impl Schema {
    /// Makes a schema without event classes.
    ///
    /// # Errors
    ///
    /// As for [`Schema::add`], about the clock and the context fields of the stream classes.
    pub fn new(trace: Trace) -> Result<Self> {
        if trace.clock.frequency_hz == 0 {
            return Err(Error::schema("clock without a frequency"));
        }
        for (place, stream) in trace.streams.iter().enumerate() {
            if trace.streams[..place].iter().any(|other| other.id == stream.id) {
                return Err(Error::schema(format!("stream class {} is declared twice", stream.id)));
            }
            validate_fields(&stream.context, 0)?;
        }
        Ok(Self { trace, events: Vec::new(), places: HashMap::new() })
    }

    /// Adds an event class.
    ///
    /// # Errors
    ///
    /// [`Error::is_schema`] when its ID is taken, its stream class is not known, or a field class cannot be expressed
    /// (a width that does not exist, more options than the tag can count, nesting beyond [`DEPTH_MAX`]).
    pub fn add(&mut self, class: EventClass) -> Result<()> {
        if self.trace.streams.iter().all(|stream| stream.id != class.stream_id) {
            return Err(Error::schema(format!("{}: no stream class {}", class.name, class.stream_id)));
        }
        let key = (class.stream_id, class.id);
        if let Some(&place) = self.places.get(&key) {
            let other = &self.events[place].name;
            return Err(Error::schema(format!("{}: event ID {} belongs to {other}", class.name, class.id)));
        }
        validate_fields(&class.fields, 0)?;
        self.places.insert(key, self.events.len());
        self.events.push(class);
        Ok(())
    }

    /// The event classes, in the order they were added.
    pub fn events(&self) -> &[EventClass] {
        &self.events
    }

    /// Finds an event class by stream class and event ID.
    pub fn event(&self, stream_id: u32, id: u32) -> Option<&EventClass> {
        self.places.get(&(stream_id, id)).map(|&place| &self.events[place])
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.trace == other.trace && self.events == other.events
    }
}

impl TryFrom<Parts> for Schema {
    type Error = Error;

    fn try_from(parts: Parts) -> Result<Self> {
        let mut schema = Self::new(parts.trace)?;
        for class in parts.events {
            schema.add(class)?;
        }
        Ok(schema)
    }
}

impl EventClass {
    /// Whether another class is the same in another stream class.
    pub fn is_twin(&self, other: &EventClass) -> bool {
        let EventClass { stream_id: _, id, name, level, source, fields } = self;
        (id, name, level, source, fields) == (&other.id, &other.name, &other.level, &other.source, &other.fields)
    }
}

impl Trace {
    /// Finds an environment entry that is a text.
    pub fn environment_str(&self, name: &str) -> Option<&str> {
        self.environment.iter().find_map(|(key, value)| match value {
            EnvValue::String(text) if key == name => Some(text.as_str()),
            _ => None,
        })
    }
}

impl EventHeader {
    /// Appends the header of an event record.
    ///
    /// `previous` is the time stamp of the event before it in its packet, or the packet's begin: a distance that the short form
    /// cannot express, or an ID beyond its range, takes the extended form.
    pub fn encode(self, id: u32, timestamp: u64, previous: u64, out: &mut Vec<u8>) {
        let distance = timestamp.wrapping_sub(previous);
        match self {
            Self::Compact if id < 31 && distance < 1 << 27 => {
                out.extend((((timestamp as u32) & 0x7FF_FFFF) << 5 | id).to_le_bytes());
                return;
            }
            Self::Large if id < 0xFFFF && distance < 1 << 32 => {
                out.extend((id as u16).to_le_bytes());
                out.extend((timestamp as u32).to_le_bytes());
                return;
            }
            Self::Compact => out.push(31),
            Self::Large => out.extend([0xFF, 0xFF]),
            Self::Full => {}
        }
        out.extend(id.to_le_bytes());
        out.extend(timestamp.to_le_bytes());
    }
}

impl Level {
    const ALL: [Self; 15] = [
        Self::Emerg,
        Self::Alert,
        Self::Crit,
        Self::Err,
        Self::Warning,
        Self::Notice,
        Self::Info,
        Self::DebugSystem,
        Self::DebugProgram,
        Self::DebugProcess,
        Self::DebugModule,
        Self::DebugUnit,
        Self::DebugFunction,
        Self::DebugLine,
        Self::Debug,
    ];

    /// LTTng's name, without its `TRACE_`.
    pub fn name(self) -> &'static str {
        [
            "EMERG",
            "ALERT",
            "CRIT",
            "ERR",
            "WARNING",
            "NOTICE",
            "INFO",
            "DEBUG_SYSTEM",
            "DEBUG_PROGRAM",
            "DEBUG_PROCESS",
            "DEBUG_MODULE",
            "DEBUG_UNIT",
            "DEBUG_FUNCTION",
            "DEBUG_LINE",
            "DEBUG",
        ][self as usize]
    }

    /// The level of a number, 0 to 14.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl Field {
    /// Makes a field without a unit.
    pub fn new(name: impl Into<String>, class: FieldClass) -> Self {
        Self { name: name.into(), class, unit: None }
    }
}

impl FieldClass {
    /// An unsigned decimal integer.
    pub const fn unsigned(bits: u8) -> Self {
        Self::Integer { bits, signed: false, base: Base::Dec, big_endian: false }
    }

    /// A signed decimal integer.
    pub const fn signed(bits: u8) -> Self {
        Self::Integer { bits, signed: true, base: Base::Dec, big_endian: false }
    }

    /// An unsigned integer shown in hexadecimal.
    pub const fn hex(bits: u8) -> Self {
        Self::Integer { bits, signed: false, base: Base::Hex, big_endian: false }
    }

    fn validate(&self, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Error::schema(format!("field classes are nested more than {DEPTH_MAX} deep")));
        }
        match self {
            Self::Integer { bits, .. } => validate_bits("integer", *bits, &[8, 16, 32, 64]),
            Self::Float { bits } => validate_bits("float", *bits, &[32, 64]),
            Self::Bool | Self::Redacted => Ok(()),
            Self::String { length_bits } => validate_bits("length", *length_bits, &[8, 16, 32, 64]),
            Self::Text { length: 0 } => Err(Error::schema("a text of no bytes")),
            Self::Text { .. } => Ok(()),
            Self::Enumeration { bits, signed, labels } => {
                validate_bits("enumeration", *bits, &[8, 16, 32, 64])?;
                let (min, max) = limits(*bits, *signed);
                if labels.is_empty() {
                    return Err(Error::schema("enumeration without labels"));
                }
                match labels.iter().find(|label| label.low > label.high || label.low < min || label.high > max) {
                    Some(label) => Err(Error::schema(format!("label {:?} is out of range", label.label))),
                    None => Ok(()),
                }
            }
            Self::Structure(fields) => validate_fields(fields, depth),
            Self::Array { element, .. } => element.validate(depth + 1),
            Self::Sequence { element, length_bits } => {
                validate_bits("length", *length_bits, &[8, 16, 32, 64])?;
                element.validate(depth + 1)
            }
            Self::Optional(inner) => inner.validate(depth + 1),
            Self::Variant { options } => {
                if !(1..=256).contains(&options.len()) {
                    return Err(Error::schema(format!("{} options for a tag of one byte", options.len())));
                }
                options.iter().try_for_each(|option| option.class.validate(depth + 1))
            }
        }
    }
}

fn validate_fields(fields: &[Field], depth: usize) -> Result<()> {
    fields.iter().try_for_each(|field| field.class.validate(depth + 1))
}

fn validate_bits(what: &'static str, bits: u8, known: &[u8]) -> Result<()> {
    if known.contains(&bits) {
        return Ok(());
    }
    Err(Error::schema(Cow::from(format!("{what} of {bits} bits"))))
}

/// Lowest and highest value of an integer.
pub(crate) fn limits(bits: u8, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Trace {
        Trace {
            uuid: [7; 16],
            environment: vec![("hostname".into(), EnvValue::String("h".into())), ("vpid".into(), EnvValue::Int(-3))],
            clock: Clock { uuid: [1; 16], offset_s: -1, offset_cycles: 5, ..Clock::default() },
            streams: vec![StreamClass { id: 0, header: EventHeader::Compact, context: Vec::new() }],
        }
    }

    fn event(id: u32, fields: Vec<Field>) -> EventClass {
        EventClass { stream_id: 0, id, name: "e".into(), level: Some(Level::Info), source: None, fields }
    }

    #[test]
    fn json_round_trip_keeps_everything_and_the_lookup() {
        let mut schema = Schema::new(trace()).unwrap();
        let labels = vec![Label { label: "max".into(), low: u64::MAX.into(), high: u64::MAX.into() }];
        let class = FieldClass::Enumeration { bits: 64, signed: false, labels };
        schema.add(event(9, vec![Field::new("state", class)])).unwrap();
        let json = serde_json::to_string(&schema).unwrap();
        let back: Schema = serde_json::from_str(&json).unwrap();
        assert_eq!(back, schema);
        assert_eq!(back.event(0, 9).unwrap().name, "e");
        assert!(back.event(0, 8).is_none());
    }

    #[test]
    fn what_cannot_be_expressed_is_refused() {
        let mut schema = Schema::new(trace()).unwrap();
        schema.add(event(1, Vec::new())).unwrap();
        assert!(schema.add(event(1, Vec::new())).unwrap_err().is_schema());
        assert!(schema.add(EventClass { stream_id: 4, ..event(2, Vec::new()) }).unwrap_err().is_schema());
        assert!(schema.add(event(2, vec![Field::new("x", FieldClass::unsigned(12))])).unwrap_err().is_schema());
        let deep = (0..40).fold(FieldClass::Bool, |class, _| FieldClass::Optional(Box::new(class)));
        assert!(schema.add(event(2, vec![Field::new("x", deep)])).unwrap_err().is_schema());
    }

    #[test]
    fn the_extended_header_starts_at_the_exact_distance() {
        let len = |header: EventHeader, id, distance: u64| {
            let mut out = Vec::new();
            header.encode(id, 1000 + distance, 1000, &mut out);
            out.len()
        };
        assert_eq!(len(EventHeader::Compact, 30, (1 << 27) - 1), 4);
        assert_eq!(len(EventHeader::Compact, 30, 1 << 27), 13);
        assert_eq!(len(EventHeader::Compact, 31, 0), 13);
        assert_eq!(len(EventHeader::Large, 65534, (1 << 32) - 1), 6);
        assert_eq!(len(EventHeader::Large, 65534, 1 << 32), 14);
        assert_eq!(len(EventHeader::Large, 65535, 0), 14);
        assert_eq!(len(EventHeader::Full, 0, 0), 12);
    }
}
