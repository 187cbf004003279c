//! What metadata declares: types as they lie in a stream, and the classes made of them.
//!
//! This is the reader's side and more general than [`schema`](crate::schema): any width, any alignment, bit fields, lengths and
//! tags as the fields of their own that CTF makes of them.

use std::collections::HashMap;
use std::sync::Arc;

pub use crate::schema::{Base, EnvValue, Label, Level, Source};

/// A trace as its metadata declares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declarations {
    /// Identifies the trace.
    pub uuid: Option<[u8; 16]>,
    /// Named facts.
    pub environment: Vec<(String, EnvValue)>,
    /// Time sources.
    pub clocks: Vec<Clock>,
    /// Header of every packet, the same for all streams.
    pub packet_header: Option<Arc<Root>>,
    pub(crate) streams: Vec<Arc<StreamClass>>,
    pub(crate) big_endian: bool,
}

/// A time source.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Name.
    pub name: String,
    /// Identifies its origin.
    pub uuid: Option<[u8; 16]>,
    /// For people.
    pub description: String,
    /// Cycles per second.
    pub frequency_hz: u64,
    /// Seconds from the Unix epoch to the clock's origin.
    pub offset_s: i64,
    /// Cycles to add to `offset_s`.
    pub offset_cycles: i64,
}

/// What the packets and event records of some streams have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamClass {
    /// Number within the trace.
    pub id: u64,
    /// Context of every packet.
    pub packet_context: Option<Root>,
    /// Header of every event record.
    pub event_header: Option<Root>,
    /// Context of every event record.
    pub event_context: Option<Root>,
    pub(crate) clock: Option<Clock>,
    pub(crate) events: HashMap<u64, Arc<EventClass>>,
}

/// One kind of event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventClass {
    /// Event ID within the stream class.
    pub id: u64,
    /// Stream class it belongs to.
    pub stream_id: u64,
    /// Name.
    pub name: String,
    /// Severity.
    pub level: Option<Level>,
    /// Place of the declaration.
    pub source: Option<Source>,
    /// Context of this kind of event.
    pub context: Option<Root>,
    /// Payload.
    pub fields: Option<Root>,
}

/// A structure that is decoded by itself; lengths and tags refer to fields inside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Root {
    /// The structure.
    pub structure: Structure,
    pub(crate) slots: usize,
}

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Integer of 1 to 64 bits.
    Integer(Integer),
    /// Integer with labels.
    Enumeration(Enumeration),
    /// IEEE 754 number.
    Float(Float),
    /// Text up to a zero byte.
    Text,
    /// Members one after the other.
    Structure(Structure),
    /// One of several types, chosen by a tag.
    Variant(Variant),
    /// As many elements as declared.
    Array(Array),
    /// As many elements as an earlier field says.
    Sequence(Sequence),
}

/// Integer of 1 to 64 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Integer {
    /// Width.
    pub bits: u8,
    /// Alignment in bits.
    pub align: u32,
    /// Two's complement or not.
    pub signed: bool,
    /// How to show it.
    pub base: Base,
    /// Most significant byte first.
    pub big_endian: bool,
    /// Whether arrays of it are texts.
    pub text: bool,
    /// Name of the clock it is a time stamp of.
    pub clock: Option<Box<str>>,
}

/// Integer with labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Enumeration {
    /// The value.
    pub integer: Integer,
    /// Names of values, all ranges of a name next to each other; ranges may overlap.
    pub labels: Arc<[Label]>,
}

/// IEEE 754 number of 32 or 64 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Float {
    /// Width.
    pub bits: u8,
    /// Alignment in bits.
    pub align: u32,
    /// Most significant byte first.
    pub big_endian: bool,
}

/// Members one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structure {
    /// The members.
    pub members: Vec<Member>,
    /// Alignment in bits: the declared one or that of a member, whichever is greater.
    pub align: u32,
}

/// Member of a structure or option of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Name as declared.
    pub declared_name: Box<str>,
    /// Form of its value.
    pub class: Type,
    /// Unit of measure.
    pub unit: Option<Box<str>>,
    /// Where its value is kept for what refers to it.
    pub(crate) slot: Option<u32>,
    pub(crate) companion: bool,
}

/// One of several types, chosen by a tag.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The enumeration that chooses.
    pub tag: Reference,
    /// The types.
    pub options: Vec<Member>,
    /// Which values of the tag choose which option.
    pub(crate) choices: Vec<(i128, i128, u32)>,
}

/// As many elements as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Form of each.
    pub element: Box<Type>,
    /// How many.
    pub length: u64,
}

/// As many elements as an earlier field says.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// Form of each.
    pub element: Box<Type>,
    /// The field that says how many.
    pub length: Reference,
}

/// Names an earlier field.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Name as declared.
    pub name: Box<str>,
    pub(crate) slot: u32,
}

impl Declarations {
    /// The stream classes.
    pub fn streams(&self) -> impl Iterator<Item = &StreamClass> {
        self.streams.iter().map(|stream| &**stream)
    }

    /// Finds a stream class.
    pub fn stream(&self, id: u64) -> Option<&Arc<StreamClass>> {
        self.streams.iter().find(|stream| stream.id == id)
    }

    /// All event classes, by stream class and event ID.
    pub fn events(&self) -> Vec<&EventClass> {
        let mut all: Vec<_> = self.streams().flat_map(|stream| stream.events.values()).map(|class| &**class).collect();
        all.sort_by_key(|class| (class.stream_id, class.id));
        all
    }

    /// Finds an environment entry.
    pub fn environment(&self, name: &str) -> Option<&EnvValue> {
        self.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl StreamClass {
    /// The clock of its time stamps.
    pub fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// Finds an event class.
    pub fn event(&self, id: u64) -> Option<&EventClass> {
        self.events.get(&id).map(|class| &**class)
    }
}

impl Clock {
    /// Nanoseconds from the Unix epoch, exact but for the last fraction; saturating.
    pub fn nanoseconds(&self, cycles: u64) -> i64 {
        const SECOND: i128 = 1_000_000_000;
        let cycles = i128::from(cycles) + i128::from(self.offset_cycles);
        let frequency = i128::from(self.frequency_hz.max(1));
        let whole = i128::from(self.offset_s) * SECOND;
        let total = whole + (cycles * SECOND).div_euclid(frequency);
        total.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

impl Member {
    /// Name to show: without the underscore that keeps it from being a keyword.
    pub fn name(&self) -> &str {
        self.declared_name.strip_prefix('_').unwrap_or(&self.declared_name)
    }

    /// Whether it is only the length or the tag of the member that follows it.
    pub fn is_companion(&self) -> bool {
        self.companion
    }
}

impl Enumeration {
    /// Names of a value, each once.
    pub fn labels(&self, value: i128) -> impl Iterator<Item = &str> {
        let covers = move |label: &&Label| label.low <= value && value <= label.high;
        let mut previous = None;
        self.labels
            .iter()
            .filter(covers)
            .map(|label| label.label.as_str())
            .filter(move |&label| previous.replace(label) != Some(label))
    }

    /// Brings the ranges of each name together, in the order of the names' first appearance.
    pub(crate) fn grouped(mut labels: Vec<Label>) -> Arc<[Label]> {
        let mut first = HashMap::new();
        for (place, label) in labels.iter().enumerate() {
            first.entry(label.label.clone()).or_insert(place);
        }
        labels.sort_by_key(|label| first.get(&label.label).copied());
        labels.into()
    }
}

impl Type {
    /// Alignment in bits.
    pub fn align(&self) -> u32 {
        match self {
            Self::Integer(integer) => integer.align,
            Self::Enumeration(enumeration) => enumeration.integer.align,
            Self::Float(float) => float.align,
            Self::Text => 8,
            Self::Structure(structure) => structure.align,
            // The option that is chosen aligns itself.
            Self::Variant(_) => 1,
            Self::Array(Array { element, .. }) | Self::Sequence(Sequence { element, .. }) => element.align(),
        }
    }

    /// Whether an array or sequence of it is shown as a text.
    pub(crate) fn is_character(&self) -> bool {
        matches!(self, Self::Integer(Integer { text: true, bits: 8, align: 8, .. }))
    }

    /// How many types it is made of, and how many lie inside each other.
    pub(crate) fn extent(&self) -> (usize, usize) {
        let inside = |members: &[Member]| {
            let extents = members.iter().map(|member| member.class.extent());
            extents.fold((1, 1), |(nodes, depth), (more, deeper)| (nodes + more + 1, depth.max(deeper + 1)))
        };
        match self {
            Self::Structure(structure) => inside(&structure.members),
            Self::Variant(variant) => inside(&variant.options),
            Self::Enumeration(enumeration) => (1 + enumeration.labels.len(), 1),
            Self::Array(Array { element, .. }) | Self::Sequence(Sequence { element, .. }) => {
                let (nodes, depth) = element.extent();
                (nodes + 1, depth + 1)
            }
            _ => (1, 1),
        }
    }
}
