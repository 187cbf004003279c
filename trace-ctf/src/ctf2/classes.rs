//! Field classes.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::{NAMESPACE, Object};
use crate::declared::{
    Array, Base, Blob, Encoding, Enumeration, Flags, Float, Integer, LONG_BITS, Label, Length, Member, Optional, Reference, Role,
    Sequence, Structure, Text, Type, Variant,
};
use crate::reader::Scope;
use crate::{Error, Result};

/// What all field classes may add up to, each use of an alias counted.
const NODES_MAX: usize = 1 << 20;

/// Classes inside each other. JSON itself ends at 128 levels, of which a class takes at least one.
const DEPTH_MAX: usize = 128;

/// Reads field classes.
pub(super) struct Classes {
    pub(super) line: u32,
    pub(super) aliases: HashMap<String, Type>,
    nodes_left: usize,
}

impl Default for Classes {
    fn default() -> Self {
        Self { line: 1, aliases: HashMap::new(), nodes_left: NODES_MAX }
    }
}

impl Classes {
    fn mistake(&self, what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::metadata(self.line, what)
    }

    fn unsupported(&self, what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::unsupported(self.line, what)
    }

    pub(super) fn structure(&mut self, class: &Value) -> Result<Structure> {
        match self.class(class)? {
            Type::Structure(structure) => Ok(structure),
            _ => Err(self.mistake("a structure is needed here")),
        }
    }

    pub(super) fn class(&mut self, class: &Value) -> Result<Type> {
        let class = self.inner(class)?;
        let (nodes, depth) = class.extent();
        if depth > DEPTH_MAX {
            return Err(self.mistake("the field classes are nested too deep"));
        }
        // A class counts once for each that it lies in, which bounds it all the more.
        self.nodes_left = self.nodes_left.checked_sub(nodes).ok_or_else(|| self.mistake("the field classes are too large"))?;
        Ok(class)
    }

    fn inner(&mut self, class: &Value) -> Result<Type> {
        if let Some(name) = class.as_str() {
            return self.aliases.get(name).cloned().ok_or_else(|| self.mistake(format!("no field class alias {name:?}")));
        }
        let object = class.as_object().ok_or_else(|| self.mistake("a field class is neither an object nor a name"))?;
        let kind = kind(object);
        match kind {
            "fixed-length-bit-array" => Ok(Integer { base: Base::Hex, ..self.bits(object, LONG_BITS)? }.into()),
            "fixed-length-bit-map" => {
                let flags = self.labels(object, "flags")?;
                Ok(Type::Flags(Flags { integer: Integer { base: Base::Hex, ..self.bits(object, 64)? }, flags: flags.into() }))
            }
            "fixed-length-boolean" => Ok(Type::Boolean(self.bits(object, 64)?)),
            "fixed-length-unsigned-integer" => self.integer(object, self.bits(object, LONG_BITS)?),
            "fixed-length-signed-integer" => self.integer(object, Integer { signed: true, ..self.bits(object, LONG_BITS)? }),
            "variable-length-unsigned-integer" | "variable-length-signed-integer" => {
                let signed = kind == "variable-length-signed-integer";
                self.integer(object, Integer { signed, variable: true, ..Integer::unsigned(64, false) })
            }
            "fixed-length-floating-point-number" => self.float(object),
            "null-terminated-string" => Ok(Type::Text(Text { encoding: self.encoding(object)? })),
            "static-length-string" => {
                Ok(Type::Array(Array::new(character(self.encoding(object)?), self.needed(object, "length")?, 8)))
            }
            "dynamic-length-string" => {
                let length = self.location(object, "length-field-location")?;
                Ok(Type::Sequence(Sequence::new(character(self.encoding(object)?), length, 8)))
            }
            "static-length-blob" => Ok(Type::Blob(Blob {
                length: Length::Fixed(self.needed(object, "length")?),
                media_type: media_type(object),
                role: roles(object).any(|role| role == "metadata-stream-uuid").then_some(Role::TraceUuid),
            })),
            "dynamic-length-blob" => Ok(Type::Blob(Blob {
                length: Length::Field(self.location(object, "length-field-location")?),
                media_type: media_type(object),
                role: None,
            })),
            "structure" => self.members(object),
            "static-length-array" => {
                let (element, align) = self.element(object)?;
                Ok(Type::Array(Array::new(element, self.needed(object, "length")?, align)))
            }
            "dynamic-length-array" => {
                let (element, align) = self.element(object)?;
                Ok(Type::Sequence(Sequence::new(element, self.location(object, "length-field-location")?, align)))
            }
            "optional" => {
                let inner = object.get("field-class").ok_or_else(|| self.mistake("optional without a field class"))?;
                Ok(Type::Optional(Optional {
                    inner: Box::new(self.class(inner)?),
                    tag: self.location(object, "selector-field-location")?,
                    choices: self.ranges(object.get("selector-field-ranges"))?,
                }))
            }
            "variant" => self.variant(object),
            other => Err(self.mistake(format!("no field class of type {other:?}"))),
        }
    }

    /// The length, the alignment and the order of bits.
    fn bits(&self, object: &Object, most: u8) -> Result<Integer> {
        let length = self.needed(object, "length")?;
        let bits = u8::try_from(length).ok().filter(|bits| (1..=most).contains(bits));
        let bits = bits.ok_or_else(|| self.unsupported(format!("a {} of {length} bits", kind(object).replace('-', " "))))?;
        let big_endian = self.big_endian(object)?;
        let usual = if big_endian { "last-to-first" } else { "first-to-last" };
        let reversed = match object.get("bit-order").map(Value::as_str) {
            None => false,
            Some(Some(order @ ("first-to-last" | "last-to-first"))) => order != usual,
            _ => return Err(self.mistake("no such bit order")),
        };
        Ok(Integer { align: self.alignment(object, "alignment")?, reversed, ..Integer::unsigned(bits, big_endian) })
    }

    fn integer(&self, object: &Object, integer: Integer) -> Result<Type> {
        let base = match object.get("preferred-display-base").map(Value::as_u64) {
            None | Some(Some(10)) => Base::Dec,
            Some(Some(2)) => Base::Bin,
            Some(Some(8)) => Base::Oct,
            Some(Some(16)) => Base::Hex,
            _ => return Err(self.mistake("no such base")),
        };
        let role = roles(object).find_map(|role| match role {
            "packet-magic-number" => Some(Role::Magic),
            "data-stream-class-id" => Some(Role::StreamClassId),
            "data-stream-id" => Some(Role::StreamInstanceId),
            "default-clock-timestamp" => Some(Role::Timestamp),
            "packet-end-default-clock-timestamp" => Some(Role::PacketEnd),
            "packet-content-length" => Some(Role::ContentBits),
            "packet-total-length" => Some(Role::PacketBits),
            "packet-sequence-number" => Some(Role::Sequence),
            "discarded-event-record-counter-snapshot" => Some(Role::EventsDiscarded),
            "event-record-class-id" => Some(Role::EventClassId),
            _ => None,
        });
        let integer = Integer { base, role, ..integer };
        let labels = self.labels(object, "mappings")?;
        let is_named = !labels.is_empty();
        if integer.bits > 64 && (is_named || role.is_some()) {
            let what = if is_named { "an integer with mappings" } else { "an integer with a role" };
            return Err(self.unsupported(format!("{what}, of {} bits", integer.bits)));
        }
        if !is_named {
            return Ok(integer.into());
        }
        Ok(Type::Enumeration(Enumeration { integer, labels: Enumeration::grouped(labels) }))
    }

    fn float(&self, object: &Object) -> Result<Type> {
        let length = self.needed(object, "length")?;
        if !matches!(length, 16 | 32 | 64) {
            return Err(self.unsupported(format!("a number of {length} bits")));
        }
        let Integer { bits, align, big_endian, reversed, .. } = self.bits(object, 64)?;
        Ok(Type::Float(Float { bits, align, big_endian, reversed }))
    }

    fn members(&mut self, object: &Object) -> Result<Type> {
        let mut members = Vec::new();
        let mut names = BTreeSet::new();
        for member in object.get("member-classes").and_then(Value::as_array).into_iter().flatten() {
            let name = member.get("name").and_then(Value::as_str).ok_or_else(|| self.mistake("member without a name"))?;
            if !names.insert(name) {
                return Err(self.mistake(format!("two members {name:?}")));
            }
            let class = member.get("field-class").ok_or_else(|| self.mistake(format!("member {name:?} without a class")))?;
            let unit = member.get("attributes").and_then(|all| all.get(NAMESPACE)?.get("unit")?.as_str()).map(Box::from);
            members.push(Member { unit, ..Member::new(name, self.class(class)?, false) });
        }
        let declared = self.alignment(object, "minimum-alignment")?;
        let align = members.iter().map(|member| member.class.align()).fold(declared, u32::max);
        Ok(Type::Structure(Structure { members, align }))
    }

    fn element(&mut self, object: &Object) -> Result<(Type, u32)> {
        let element = object.get("element-field-class").ok_or_else(|| self.mistake("array without an element class"))?;
        Ok((self.class(element)?, self.alignment(object, "minimum-alignment")?))
    }

    fn variant(&mut self, object: &Object) -> Result<Type> {
        let tag = self.location(object, "selector-field-location")?;
        let (mut options, mut choices) = (Vec::new(), Vec::new());
        for (place, option) in object.get("options").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let class = option.get("field-class").ok_or_else(|| self.mistake("option without a class"))?;
            let name = option.get("name").and_then(Value::as_str).map_or_else(|| format!("{place}"), str::to_owned);
            options.push(Member::new(name, self.class(class)?, false));
            let ranges = self.ranges(option.get("selector-field-ranges"))?;
            choices.extend(ranges.into_iter().map(|(low, high)| (low, high, place as u32)));
        }
        if choices.is_empty() {
            return Err(self.mistake("variant whose options nothing selects"));
        }
        Ok(Type::Variant(Variant { tag, options, choices }))
    }

    /// Names and what they stand for.
    fn labels(&self, object: &Object, name: &str) -> Result<Vec<Label>> {
        let mut labels = Vec::new();
        for (label, ranges) in object.get(name).and_then(Value::as_object).into_iter().flatten() {
            let ranges = self.ranges(Some(ranges))?;
            labels.extend(ranges.into_iter().map(|(low, high)| Label { label: label.clone(), low, high }));
        }
        Ok(labels)
    }

    fn ranges(&self, value: Option<&Value>) -> Result<Vec<(i128, i128)>> {
        let number = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        let ranges = value.and_then(Value::as_array).into_iter().flatten();
        let ranges = ranges.map(|range| match range.as_array().map(Vec::as_slice) {
            Some([low, high]) => number(low).zip(number(high)).filter(|(low, high)| low <= high),
            _ => None,
        });
        ranges.map(|range| range.ok_or_else(|| self.mistake("a range is no pair of integers in their order"))).collect()
    }

    /// Where a length or a selector stands: names, with dots between them.
    fn location(&self, object: &Object, name: &str) -> Result<Reference> {
        let location = object.get(name).ok_or_else(|| self.mistake(format!("{name} is missing")))?;
        let scope = match location.get("origin").map(Value::as_str) {
            None => None,
            Some(Some("packet-header")) => Some(Scope::PacketHeader),
            Some(Some("packet-context")) => Some(Scope::PacketContext),
            Some(Some("event-record-header")) => Some(Scope::EventHeader),
            Some(Some("event-record-common-context")) => Some(Scope::StreamContext),
            Some(Some("event-record-specific-context")) => Some(Scope::EventContext),
            Some(Some("event-record-payload")) => Some(Scope::Payload),
            Some(other) => return Err(self.mistake(format!("no origin {other:?}"))),
        };
        let path =
            location.get("path").and_then(Value::as_array).ok_or_else(|| self.mistake(format!("{name} without a path")))?;
        let up = path.iter().take_while(|part| part.is_null()).count();
        let parts: Option<Vec<&str>> = path[up..].iter().map(Value::as_str).collect();
        let name = parts.filter(|parts| !parts.is_empty()).ok_or_else(|| self.mistake(format!("{name} names nothing")))?;
        Ok(Reference { up: up as u32, ..Reference::new(name.join("."), scope) })
    }

    fn big_endian(&self, object: &Object) -> Result<bool> {
        match object.get("byte-order").and_then(Value::as_str) {
            Some("little-endian") => Ok(false),
            Some("big-endian") => Ok(true),
            _ => Err(self.mistake("no such byte order")),
        }
    }

    fn encoding(&self, object: &Object) -> Result<Encoding> {
        match object.get("encoding").map(Value::as_str) {
            None | Some(Some("utf-8")) => Ok(Encoding::Utf8),
            Some(Some("utf-16le")) => Ok(Encoding::Utf16Le),
            Some(Some("utf-16be")) => Ok(Encoding::Utf16Be),
            Some(Some("utf-32le")) => Ok(Encoding::Utf32Le),
            Some(Some("utf-32be")) => Ok(Encoding::Utf32Be),
            _ => Err(self.mistake("no such encoding")),
        }
    }

    fn alignment(&self, object: &Object, name: &str) -> Result<u32> {
        let Some(value) = object.get(name) else { return Ok(1) };
        let align = value.as_u64().and_then(|align| u32::try_from(align).ok());
        let align = align.filter(|align| align.is_power_of_two() && *align <= 1 << 16);
        align.ok_or_else(|| self.mistake(format!("alignment of {value} bits")))
    }

    fn needed(&self, object: &Object, name: &str) -> Result<u64> {
        object.get(name).and_then(Value::as_u64).ok_or_else(|| self.mistake(format!("{name} is missing or no unsigned integer")))
    }
}

fn character(encoding: Encoding) -> Type {
    Type::Integer(Integer { text: Some(encoding), ..Integer::unsigned(8, false) })
}

fn kind(object: &Object) -> &str {
    object.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn media_type(object: &Object) -> Box<str> {
    object.get("media-type").and_then(Value::as_str).unwrap_or("application/octet-stream").into()
}

fn roles(object: &Object) -> impl Iterator<Item = &str> {
    object.get("roles").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
