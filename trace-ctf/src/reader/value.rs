//! Decoded values as trees, for what is not in a hurry.

use std::borrow::Cow;
use std::fmt;

use crate::declared::Integer;
use crate::decode::Item;

/// A decoded value. Names are those of the metadata without their underscore; lengths and tags are left out.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'d> {
    Unsigned(u64),
    Signed(i64),
    Long(Long),
    Float(f64),
    Boolean(bool),
    /// The bytes of a blob.
    Blob(&'d [u8]),
    /// A value and the names of the bits that are set in it.
    Flags(u64, Vec<String>),
    /// An optional value that is not there.
    Absent,
    /// A value and its names.
    Enumeration(i128, Vec<String>),
    /// Text; what is not UTF-8 in it is replaced.
    Text(Cow<'d, str>),
    Structure(Vec<(String, Value<'d>)>),
    Array(Vec<Value<'d>>),
    /// Name of the option, and its value.
    Variant(String, Box<Value<'d>>),
}

/// An integer of more than 64 bits. It shows itself as a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Long {
    bits: u128,
    signed: bool,
}

impl Long {
    pub(crate) fn new(class: &Integer, bits: u128) -> Self {
        Self { bits, signed: class.signed }
    }

    /// The number, if it is one that fits.
    pub fn as_u128(&self) -> Option<u128> {
        if self.signed { (self.bits as i128).try_into().ok() } else { Some(self.bits) }
    }

    /// The number, if it is one that fits.
    pub fn as_i128(&self) -> Option<i128> {
        if self.signed { Some(self.bits as i128) } else { self.bits.try_into().ok() }
    }

    /// The number, rounded.
    pub fn as_f64(&self) -> f64 {
        if self.signed { self.bits as i128 as f64 } else { self.bits as f64 }
    }
}

impl fmt::Display for Long {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.signed { (self.bits as i128).fmt(out) } else { self.bits.fmt(out) }
    }
}

/// What is being put together.
enum Part<'d> {
    Structure(Vec<(String, Value<'d>)>, String),
    Array(Vec<Value<'d>>),
    Variant(String),
}

impl<'d> Value<'d> {
    /// Collects the items that `walk` hands to its argument.
    pub(super) fn build(walk: impl FnOnce(&mut dyn FnMut(Item<'_, 'd>))) -> Self {
        let mut parts = Vec::new();
        let mut result = None;
        let mut skip = false;
        walk(&mut |item| {
            if core::mem::take(&mut skip) {
                return;
            }
            let mut done = match item {
                // Its value is the next item: an integer or an enumeration.
                Item::Member(member) if member.is_companion() => {
                    skip = true;
                    return;
                }
                Item::Unsigned(_, value) => Value::Unsigned(value),
                Item::Signed(_, value) => Value::Signed(value),
                Item::Long(class, value) => Value::Long(Long::new(class, value)),
                Item::Float(_, value) => Value::Float(value),
                Item::Enumeration(class, value) => Value::Enumeration(value, class.labels(value).map(str::to_owned).collect()),
                Item::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes)),
                Item::Wide(encoding, bytes) => Value::Text(encoding.decode(bytes).into()),
                Item::Boolean(value) => Value::Boolean(value),
                Item::Flags(class, value) => Value::Flags(value, class.labels(value).map(str::to_owned).collect()),
                Item::Blob(_, bytes) => Value::Blob(bytes),
                Item::Absent => Value::Absent,
                Item::Member(member) => {
                    if let Some(Part::Structure(_, name)) = parts.last_mut() {
                        *name = member.name().to_owned();
                    }
                    return;
                }
                Item::StructureBegin(_) => return parts.push(Part::Structure(Vec::new(), String::new())),
                Item::ArrayBegin(_) => return parts.push(Part::Array(Vec::new())),
                Item::VariantBegin(option) => return parts.push(Part::Variant(option.name().to_owned())),
                Item::Element(_) | Item::VariantEnd | Item::OptionalBegin | Item::OptionalEnd => return,
                Item::StructureEnd | Item::ArrayEnd => match parts.pop() {
                    Some(Part::Structure(members, _)) => Value::Structure(members),
                    Some(Part::Array(elements)) => Value::Array(elements),
                    _ => return,
                },
            };
            // A variant is complete with its one value.
            while let Some(Part::Variant(_)) = parts.last() {
                if let Some(Part::Variant(name)) = parts.pop() {
                    done = Value::Variant(name, Box::new(done));
                }
            }
            match parts.last_mut() {
                Some(Part::Structure(members, name)) => members.push((core::mem::take(name), done)),
                Some(Part::Array(elements)) => elements.push(done),
                _ => result = Some(done),
            }
        });
        result.unwrap_or(Value::Structure(Vec::new()))
    }

    /// Finds a member of a structure.
    pub fn member(&self, name: &str) -> Option<&Value<'d>> {
        match self {
            Self::Structure(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The number, if it is one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(value) | Self::Flags(value, _) => Some(value),
            Self::Boolean(value) => Some(value.into()),
            Self::Signed(value) => value.try_into().ok(),
            Self::Long(value) => value.as_u128()?.try_into().ok(),
            Self::Enumeration(value, _) => value.try_into().ok(),
            _ => None,
        }
    }

    /// The number, if it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Unsigned(value) | Self::Flags(value, _) => value.try_into().ok(),
            Self::Boolean(value) => Some(value.into()),
            Self::Signed(value) => Some(value),
            Self::Long(value) => value.as_i128()?.try_into().ok(),
            Self::Enumeration(value, _) => value.try_into().ok(),
            _ => None,
        }
    }

    /// The floating point number.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::Float(value) => Some(value),
            _ => None,
        }
    }

    /// The text, or the first name of an enumeration's value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Enumeration(_, labels) => labels.first().map(String::as_str),
            _ => None,
        }
    }
}
