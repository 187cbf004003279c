//! Types as they lie in a stream.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Base, Label};
use crate::plan::Plan;
use crate::reader::Scope;

/// A structure that is decoded by itself; lengths and tags refer to fields inside it, or of an earlier structure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Root {
    /// The structure.
    pub structure: Structure,
    pub(crate) slots: usize,
    /// Values of earlier structures that something in here refers to.
    pub(crate) imports: Vec<Import>,
    pub(crate) plan: Plan,
}

/// A value of an earlier structure, and the slot it is needed in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Import {
    pub(crate) scope: Scope,
    /// Places of the members that lead to it.
    pub(crate) path: Vec<u32>,
    pub(crate) slot: u32,
}

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Integer of 1 to 64 bits, or one of variable length that is a length, a tag or something to the reader.
    Integer(Integer),
    /// Integer with labels.
    Enumeration(Enumeration),
    /// Integer that is no or yes.
    Boolean(Integer),
    /// Integer whose bits have names.
    Flags(Flags),
    /// IEEE 754 number.
    Float(Float),
    /// Text up to a zero character.
    Text(Text),
    /// Bytes without an inner form.
    Blob(Blob),
    /// Members one after the other.
    Structure(Structure),
    /// One of several types, chosen by a tag.
    Variant(Variant),
    /// A type or nothing, chosen by a tag.
    Optional(Optional),
    /// As many elements as declared.
    Array(Array),
    /// As many elements as an earlier field says.
    Sequence(Sequence),
    /// Integer that 64 bits may not hold: of 65 to [`LONG_BITS`] bits, or of variable length.
    Long(Integer),
}

/// Bits that the longest integers have.
pub const LONG_BITS: u8 = 128;

/// Integer.
#[derive(Clone, Debug, PartialEq)]
pub struct Integer {
    /// Width; of one of variable length, the greatest that is read.
    pub bits: u8,
    /// Alignment in bits.
    pub align: u32,
    /// Two's complement or not.
    pub signed: bool,
    /// How to show it.
    pub base: Base,
    /// Most significant byte first.
    pub big_endian: bool,
    /// Whether the bits stand in the order that is not usual for the order of the bytes.
    pub reversed: bool,
    /// Whether it takes as many bytes as it needs: LEB128.
    pub variable: bool,
    /// The encoding of the texts that arrays of it are.
    pub text: Option<Encoding>,
    /// Name of the clock it is a time stamp of.
    pub clock: Option<Box<str>>,
    /// What it tells the reader.
    pub role: Option<Role>,
}

/// What a field tells the reader of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Role {
    Magic,
    TraceUuid,
    StreamClassId,
    StreamInstanceId,
    PacketBegin,
    PacketEnd,
    ContentBits,
    PacketBits,
    Sequence,
    EventsDiscarded,
    CpuId,
    EventClassId,
    Timestamp,
}

/// Form of the characters of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    Utf32Le,
    Utf32Be,
}

/// Integer with labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Enumeration {
    /// The value.
    pub integer: Integer,
    /// Names of values, all ranges of a name next to each other; ranges may overlap.
    pub labels: Arc<[Label]>,
}

/// Integer whose bits have names.
#[derive(Clone, Debug, PartialEq)]
pub struct Flags {
    /// The value.
    pub integer: Integer,
    /// Names of ranges of bits, counted from the least significant one.
    pub flags: Arc<[Label]>,
}

/// IEEE 754 number of 16, 32 or 64 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Float {
    /// Width.
    pub bits: u8,
    /// Alignment in bits.
    pub align: u32,
    /// Most significant byte first.
    pub big_endian: bool,
    /// Whether the bits stand in the order that is not usual for the order of the bytes.
    pub reversed: bool,
}

/// Text up to a zero character.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Text {
    /// Form of its characters.
    pub encoding: Encoding,
}

/// Bytes without an inner form.
#[derive(Clone, Debug, PartialEq)]
pub struct Blob {
    /// How many bytes.
    pub length: Length,
    /// IANA media type.
    pub media_type: Box<str>,
    /// What it tells the reader.
    pub role: Option<Role>,
}

/// How many there are of something.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    /// As many as declared.
    Fixed(u64),
    /// As many as an earlier field says.
    Field(Reference),
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
    /// Whether an underscore before the name only keeps it from being a keyword: CTF 1.8.
    pub(crate) escaped: bool,
    /// Where its value is kept for what refers to it.
    pub(crate) slot: Option<u32>,
    pub(crate) companion: bool,
    /// How it stands in lines: `, NAME = `.
    pub(crate) label: Box<str>,
}

/// One of several types, chosen by a tag.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The field that chooses.
    pub tag: Reference,
    /// The types.
    pub options: Vec<Member>,
    /// Which values of the tag choose which option.
    pub(crate) choices: Vec<(i128, i128, u32)>,
}

/// A type or nothing, chosen by a tag.
#[derive(Clone, Debug, PartialEq)]
pub struct Optional {
    /// The field that chooses.
    pub tag: Reference,
    /// The type.
    pub inner: Box<Type>,
    /// Values of the tag with which it is there; without any, those that are not zero.
    pub(crate) choices: Vec<(i128, i128)>,
}

/// As many elements as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Form of each.
    pub element: Box<Type>,
    /// How many.
    pub length: u64,
    /// Alignment in bits of the first, where it is greater than that of an element.
    pub align: u32,
    pub(crate) text: Option<Encoding>,
}

/// As many elements as an earlier field says.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// Form of each.
    pub element: Box<Type>,
    /// The field that says how many.
    pub length: Reference,
    /// Alignment in bits of the first, where it is greater than that of an element.
    pub align: u32,
    pub(crate) text: Option<Encoding>,
}

/// Names an earlier field.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Name as declared, with dots between its parts.
    pub name: Box<str>,
    /// The structure that the name begins in, where it is not found from the inside to the outside.
    pub(crate) scope: Option<Scope>,
    /// How many structures further out the search begins.
    pub(crate) up: u32,
    pub(crate) slot: u32,
    /// Whether the slot holds a signed integer.
    pub(crate) signed: bool,
}

impl Root {
    /// Prepares a structure whose references have been resolved.
    pub(crate) fn new(structure: Structure, slots: usize, imports: Vec<Import>) -> Self {
        let plan = Plan::new(&structure);
        Self { structure, slots, imports, plan }
    }
}

impl From<Integer> for Type {
    fn from(integer: Integer) -> Self {
        if integer.bits > 64 { Self::Long(integer) } else { Self::Integer(integer) }
    }
}

impl Integer {
    /// An unsigned decimal integer, byte aligned where it is whole bytes.
    pub(crate) fn unsigned(bits: u8, big_endian: bool) -> Self {
        Self {
            bits,
            align: if bits % 8 == 0 { 8 } else { 1 },
            signed: false,
            base: Base::Dec,
            big_endian,
            reversed: false,
            variable: false,
            text: None,
            clock: None,
            role: None,
        }
    }
}

impl Integer {
    /// The least and the greatest value of one of at most 64 bits.
    pub(crate) fn limits(&self) -> (i128, i128) {
        let half = 1 << (self.bits.clamp(1, 64) - 1);
        if self.signed { (-half, half - 1) } else { (0, 2 * half - 1) }
    }
}

impl Member {
    pub(crate) fn new(declared_name: impl Into<Box<str>>, class: Type, escaped: bool) -> Self {
        let declared_name = declared_name.into();
        let mut member = Self { declared_name, class, unit: None, escaped, slot: None, companion: false, label: Box::default() };
        member.label = format!(", {} = ", member.name()).into();
        member
    }

    /// Name to show: without the underscore that keeps it from being a keyword.
    pub fn name(&self) -> &str {
        match self.declared_name.strip_prefix('_') {
            Some(name) if self.escaped => name,
            _ => &self.declared_name,
        }
    }

    /// Whether it is only the length or the tag of the member that follows it.
    pub fn is_companion(&self) -> bool {
        self.companion
    }
}

impl Reference {
    pub(crate) fn new(name: impl Into<Box<str>>, scope: Option<Scope>) -> Self {
        Self { name: name.into(), scope, up: 0, slot: 0, signed: false }
    }
}

impl Enumeration {
    /// Names of a value, each once.
    pub fn labels(&self, value: i128) -> impl Iterator<Item = &str> {
        labels(&self.labels, move |label| label.low <= value && value <= label.high)
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

impl Flags {
    /// Names of the bits that are set in a value, each once.
    pub fn labels(&self, value: u64) -> impl Iterator<Item = &str> {
        labels(&self.flags, move |label| (label.low.max(0)..=label.high.min(63)).any(|bit| value >> bit & 1 == 1))
    }
}

/// Names of the labels that apply, each once where all its ranges stand next to each other.
fn labels(all: &[Label], applies: impl Fn(&Label) -> bool) -> impl Iterator<Item = &str> {
    let mut previous = None;
    all.iter()
        .filter(move |label| applies(label))
        .map(|label| label.label.as_str())
        .filter(move |&label| previous.replace(label) != Some(label))
}

impl Encoding {
    /// Bytes of a unit of it; a text is as many zero bytes at its end.
    pub fn unit(self) -> u64 {
        match self {
            Self::Utf8 => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
            Self::Utf32Le | Self::Utf32Be => 4,
        }
    }

    /// A text up to its first zero; what is not of the encoding is replaced.
    pub fn decode(self, bytes: &[u8]) -> String {
        let unit = |bytes: &[u8]| -> u32 {
            let join = |value: u32, byte: &u8| value << 8 | u32::from(*byte);
            match self {
                Self::Utf16Be | Self::Utf32Be => bytes.iter().fold(0, join),
                _ => bytes.iter().rev().fold(0, join),
            }
        };
        let units = bytes.chunks(self.unit() as usize).map(unit).take_while(|&unit| unit != 0);
        match self {
            Self::Utf8 => String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned(),
            Self::Utf16Le | Self::Utf16Be => {
                let characters = char::decode_utf16(units.map(|unit| unit as u16));
                characters.map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            Self::Utf32Le | Self::Utf32Be => {
                units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
        }
    }
}

impl Array {
    pub(crate) fn new(element: Type, length: u64, align: u32) -> Self {
        Self { text: element.character(), element: Box::new(element), length, align }
    }

    /// The encoding of the text that it is.
    pub fn text(&self) -> Option<Encoding> {
        self.text
    }
}

impl Sequence {
    pub(crate) fn new(element: Type, length: Reference, align: u32) -> Self {
        Self { text: element.character(), element: Box::new(element), length, align }
    }

    /// The encoding of the text that it is.
    pub fn text(&self) -> Option<Encoding> {
        self.text
    }
}

impl Type {
    /// Alignment in bits.
    pub fn align(&self) -> u32 {
        match self {
            Self::Integer(integer) | Self::Long(integer) | Self::Boolean(integer) => integer.align,
            Self::Enumeration(enumeration) => enumeration.integer.align,
            Self::Flags(flags) => flags.integer.align,
            Self::Float(float) => float.align,
            Self::Text(_) | Self::Blob(_) => 8,
            Self::Structure(structure) => structure.align,
            // What is chosen aligns itself.
            Self::Variant(_) | Self::Optional(_) => 1,
            Self::Array(Array { element, align, .. }) | Self::Sequence(Sequence { element, align, .. }) => {
                element.align().max(*align)
            }
        }
    }

    /// The integer of at most 64 bits that it is, with or without names.
    pub fn integer(&self) -> Option<&Integer> {
        match self {
            Self::Integer(integer) | Self::Boolean(integer) => Some(integer),
            Self::Enumeration(enumeration) => Some(&enumeration.integer),
            Self::Flags(flags) => Some(&flags.integer),
            _ => None,
        }
    }

    pub(crate) fn integer_mut(&mut self) -> Option<&mut Integer> {
        match self {
            Self::Integer(integer) | Self::Boolean(integer) => Some(integer),
            Self::Enumeration(enumeration) => Some(&mut enumeration.integer),
            Self::Flags(flags) => Some(&mut flags.integer),
            _ => None,
        }
    }

    /// The encoding of the texts that arrays and sequences of it are.
    pub(crate) fn character(&self) -> Option<Encoding> {
        match self {
            Self::Integer(Integer { text, bits: 8, align: 8, variable: false, .. }) => *text,
            _ => None,
        }
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
            Self::Flags(flags) => (1 + flags.flags.len(), 1),
            Self::Array(Array { element, .. }) | Self::Sequence(Sequence { element, .. }) => {
                let (nodes, depth) = element.extent();
                (nodes + 1, depth + 1)
            }
            Self::Optional(Optional { inner, .. }) => {
                let (nodes, depth) = inner.extent();
                (nodes + 1, depth + 1)
            }
            _ => (1, 1),
        }
    }
}
