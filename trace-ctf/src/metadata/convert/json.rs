//! Declarations as CTF 2.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{Lookup, Target, Writing, clock, each_event_root, each_stream_root, elements, offset, role, writing};
use crate::Result;
use crate::ctf2::{LTTNG, NAMESPACE};
use crate::declared::{
    Declarations, Encoding, EnvValue, EventClass, Integer, Length, Member, Reference, Role, StreamClass, Structure, Type,
};
use crate::metadata::Uuid;
use crate::metadata::json::{fragment, labelled, level_word, member, named, structure};
use crate::reader::Scope;

/// The whole metadata.
pub(in crate::metadata) fn json(all: &Declarations) -> Result<String> {
    let mut preamble = json!({ "type": "preamble", "version": 2 });
    let environment = all.environment.iter().map(|(name, value)| match value {
        EnvValue::Int(number) => (named(name).to_owned(), json!(number)),
        EnvValue::String(text) => (named(name).to_owned(), json!(text)),
    });
    let mut trace = json!({ "type": "trace-class", "environment": environment.collect::<Map<_, _>>() });
    if let Some(uuid) = &all.uuid {
        preamble["uuid"] = json!(uuid);
        trace["uid"] = json!(Uuid(uuid).to_string());
    }
    if let Some(root) = &all.packet_header {
        trace["packet-header-field-class"] =
            writing("packet header".to_owned(), Scope::PacketHeader, root, Vec::new(), None).root()?;
    }
    let mut out = fragment(&preamble) + &fragment(&trace);
    for (place, clock) in all.clocks.iter().enumerate() {
        let (seconds, cycles) = offset(clock);
        let mut class = json!({
            "type": "clock-class",
            "id": clock_id(place),
            "name": clock.name,
            "frequency": clock.frequency_hz,
            "offset-from-origin": { "seconds": seconds, "cycles": cycles },
            "origin": "unix-epoch",
        });
        if let Some(uuid) = &clock.uuid {
            class["uid"] = json!(Uuid(uuid).to_string());
        }
        if !clock.description.is_empty() {
            class["description"] = json!(clock.description);
        }
        if let Some(precision) = clock.precision_cycles {
            class["precision"] = json!(precision);
        }
        out += &fragment(&class);
    }
    for stream in all.streams() {
        out += &fragment(&stream_class(all, stream)?);
        for event in stream.events() {
            out += &fragment(&event_class(all, stream, event)?);
        }
    }
    Ok(out)
}

fn clock_id(place: usize) -> String {
    format!("clock-{place}")
}

fn stream_class(all: &Declarations, stream: &StreamClass) -> Result<Value> {
    let mut class = json!({ "type": "data-stream-class", "id": stream.id });
    if let Some(place) = clock(all, stream) {
        class["default-clock-class-id"] = json!(clock_id(place));
    }
    each_stream_root(all, stream, |mut writing| {
        let name = match writing.scope {
            Scope::PacketContext => "packet-context-field-class",
            Scope::EventHeader => "event-record-header-field-class",
            _ => "event-record-common-context-field-class",
        };
        class[name] = writing.root()?;
        Ok(())
    })?;
    Ok(class)
}

fn event_class(all: &Declarations, stream: &StreamClass, event: &EventClass) -> Result<Value> {
    let mut attributes = Map::new();
    if let Some(level) = event.level {
        attributes.insert(LTTNG.into(), json!({ "log-level": level_word(level) }));
    }
    if let Some(source) = &event.source {
        let source = json!({ "file": source.file, "line": source.line, "function": source.function });
        attributes.insert(NAMESPACE.into(), json!({ "source": source }));
    }
    let mut class = json!({
        "type": "event-record-class",
        "id": event.id,
        "data-stream-class-id": event.stream_id,
        "name": event.name,
        "attributes": attributes,
    });
    each_event_root(all, stream, event, |mut writing| {
        let name = if writing.scope == Scope::Payload { "payload-field-class" } else { "specific-context-field-class" };
        class[name] = writing.root()?;
        Ok(())
    })?;
    Ok(class)
}

/// Names of members or options.
fn names(members: &[Member]) -> Vec<String> {
    let mut used = HashSet::new();
    let unique = |member: &Member| {
        let name = named(member.name());
        let more = (2..).map(|number: u32| format!("{name}_{number}"));
        core::iter::once(name.to_owned()).chain(more).find(|name| used.insert(name.clone())).unwrap_or_default()
    };
    members.iter().map(unique).collect()
}

fn origin(scope: Scope) -> &'static str {
    match scope {
        Scope::PacketHeader => "packet-header",
        Scope::PacketContext => "packet-context",
        Scope::EventHeader => "event-record-header",
        Scope::StreamContext => "event-record-common-context",
        Scope::EventContext => "event-record-specific-context",
        Scope::Payload => "event-record-payload",
    }
}

fn encoding(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Utf8 => "utf-8",
        Encoding::Utf16Le => "utf-16le",
        Encoding::Utf16Be => "utf-16be",
        Encoding::Utf32Le => "utf-32le",
        Encoding::Utf32Be => "utf-32be",
    }
}

fn order(big_endian: bool) -> &'static str {
    if big_endian { "big-endian" } else { "little-endian" }
}

/// Adds the order of bits where it is not the usual one.
fn bit_order(mut class: Value, big_endian: bool, reversed: bool) -> Value {
    if reversed {
        class["bit-order"] = json!(if big_endian { "first-to-last" } else { "last-to-first" });
    }
    class
}

/// A number as JSON has it.
fn number(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| json!(u64::try_from(value).unwrap_or(u64::MAX)), |value| json!(value))
}

/// What each option is chosen by, where the first of several wins.
fn disjoint(choices: &[(i128, i128, u32)]) -> Vec<(i128, i128, u32)> {
    let mut all: Vec<(i128, i128, u32)> = Vec::new();
    for &(low, high, option) in choices {
        let mut rest = vec![(low, high)];
        for &(taken_low, taken_high, _) in &all {
            let without = |(low, high): (i128, i128)| [(low, high.min(taken_low - 1)), (low.max(taken_high + 1), high)];
            rest = rest.into_iter().flat_map(without).filter(|(low, high)| low <= high).collect();
        }
        all.extend(rest.into_iter().map(|(low, high)| (low, high, option)));
    }
    all
}

impl Writing<'_> {
    fn root(&mut self) -> Result<Value> {
        self.structure(&self.root.structure)
    }

    fn structure(&mut self, class: &Structure) -> Result<Value> {
        self.inside(|this| {
            let mut members = Vec::new();
            for (place, (field, name)) in class.members.iter().zip(names(&class.members)).enumerate() {
                let mut one = member(&name, this.member(place, |this| this.class(&field.class))?);
                if let Some(unit) = &field.unit {
                    one["attributes"] = json!({ NAMESPACE: { "unit": unit } });
                }
                members.push(one);
            }
            let mut written = structure(members);
            if class.align > class.members.iter().map(|member| member.class.align()).max().unwrap_or(1) {
                written["minimum-alignment"] = json!(class.align);
            }
            Ok(written)
        })
    }

    fn class(&mut self, class: &Type) -> Result<Value> {
        Ok(match class {
            Type::Integer(integer) | Type::Long(integer) => self.integer(integer)?,
            Type::Enumeration(enumeration) => {
                let labels = enumeration.labels.iter();
                let labels = labels.map(|label| (&*label.label, [number(label.low), number(label.high)]));
                labelled(self.integer(&enumeration.integer)?, labels)
            }
            Type::Boolean(integer) => self.bits("fixed-length-boolean", integer),
            Type::Flags(flags) => {
                let mut class =
                    labelled(json!({}), flags.flags.iter().map(|flag| (&*flag.label, [number(flag.low), number(flag.high)])));
                let mut written = self.bits("fixed-length-bit-map", &flags.integer);
                written["flags"] = class["mappings"].take();
                written
            }
            Type::Float(float) => {
                let class = json!({
                    "type": "fixed-length-floating-point-number",
                    "length": float.bits,
                    "byte-order": order(float.big_endian),
                    "alignment": float.align,
                });
                bit_order(class, float.big_endian, float.reversed)
            }
            Type::Text(text) => json!({ "type": "null-terminated-string", "encoding": encoding(text.encoding) }),
            Type::Blob(blob) => {
                let mut class = match &blob.length {
                    Length::Fixed(length) => json!({ "type": "static-length-blob", "length": length }),
                    Length::Field(length) => {
                        json!({ "type": "dynamic-length-blob", "length-field-location": self.location(length)? })
                    }
                };
                class["media-type"] = json!(blob.media_type);
                if blob.role == Some(Role::TraceUuid) {
                    class["roles"] = json!(["metadata-stream-uuid"]);
                }
                class
            }
            Type::Structure(structure) => self.structure(structure)?,
            Type::Variant(variant) => {
                let choices = disjoint(&variant.choices);
                let location = self.location(&variant.tag)?;
                let mut options = Vec::new();
                for (place, (option, name)) in variant.options.iter().zip(names(&variant.options)).enumerate() {
                    let own = choices.iter().filter(|(.., option)| *option == place as u32);
                    let ranges: Vec<Value> = own.map(|&(low, high, _)| json!([number(low), number(high)])).collect();
                    // What nothing chooses cannot be there.
                    if ranges.is_empty() {
                        continue;
                    }
                    let class = self.member(place, |this| this.class(&option.class))?;
                    options.push(json!({ "name": name, "selector-field-ranges": ranges, "field-class": class }));
                }
                json!({ "type": "variant", "selector-field-location": location, "options": options })
            }
            Type::Optional(optional) => {
                let location = self.location(&optional.tag)?;
                let inner = self.class(&optional.inner)?;
                let mut class = json!({ "type": "optional", "selector-field-location": location, "field-class": inner });
                if !optional.choices.is_empty() {
                    let ranges = optional.choices.iter().map(|&(low, high)| json!([number(low), number(high)]));
                    class["selector-field-ranges"] = ranges.collect();
                }
                class
            }
            Type::Array(array) => match array.text() {
                _ if role(class) == Some(Role::TraceUuid) => {
                    json!({ "type": "static-length-blob", "length": array.length, "roles": ["metadata-stream-uuid"] })
                }
                Some(text) => json!({ "type": "static-length-string", "length": array.length, "encoding": encoding(text) }),
                None => {
                    let element = self.class(&array.element)?;
                    let mut class =
                        json!({ "type": "static-length-array", "length": array.length, "element-field-class": element });
                    if array.align > array.element.align() {
                        class["minimum-alignment"] = json!(array.align);
                    }
                    class
                }
            },
            Type::Sequence(sequence) => {
                let location = self.location(&sequence.length)?;
                if let Some(text) = sequence.text() {
                    return Ok(json!({
                        "type": "dynamic-length-string", "length-field-location": location, "encoding": encoding(text),
                    }));
                }
                let element = self.class(&sequence.element)?;
                let mut class = json!({
                    "type": "dynamic-length-array", "length-field-location": location, "element-field-class": element,
                });
                if sequence.align > sequence.element.align() {
                    class["minimum-alignment"] = json!(sequence.align);
                }
                class
            }
        })
    }

    fn bits(&self, kind: &str, integer: &Integer) -> Value {
        let class = json!({
            "type": kind,
            "length": integer.bits,
            "byte-order": order(integer.big_endian),
            "alignment": integer.align,
        });
        bit_order(class, integer.big_endian, integer.reversed)
    }

    fn integer(&self, integer: &Integer) -> Result<Value> {
        let sign = if integer.signed { "signed" } else { "unsigned" };
        let mut class = if integer.variable {
            json!({ "type": format!("variable-length-{sign}-integer") })
        } else {
            self.bits(&format!("fixed-length-{sign}-integer"), integer)
        };
        class["preferred-display-base"] = json!(integer.base as u8);
        if let Some(role) = self.role(integer) {
            if integer.signed {
                return Err(self.error(format!("CTF 2 has no signed integer with the role {role}")));
            }
            class["roles"] = json!([role]);
        }
        Ok(class)
    }

    fn role(&self, integer: &Integer) -> Option<&'static str> {
        let is_stamp = integer.clock.is_some();
        match (self.scope, integer.role) {
            (Scope::PacketHeader, Some(Role::Magic)) => Some("packet-magic-number"),
            (Scope::PacketHeader, Some(Role::StreamClassId)) => Some("data-stream-class-id"),
            (Scope::PacketHeader, Some(Role::StreamInstanceId)) => Some("data-stream-id"),
            (Scope::PacketContext, Some(Role::PacketBegin)) if is_stamp => Some("default-clock-timestamp"),
            (Scope::PacketContext, Some(Role::PacketEnd)) if is_stamp => Some("packet-end-default-clock-timestamp"),
            (Scope::PacketContext, Some(Role::ContentBits)) => Some("packet-content-length"),
            (Scope::PacketContext, Some(Role::PacketBits)) => Some("packet-total-length"),
            (Scope::PacketContext, Some(Role::Sequence)) => Some("packet-sequence-number"),
            (Scope::PacketContext, Some(Role::EventsDiscarded)) => Some("discarded-event-record-counter-snapshot"),
            (Scope::EventHeader, Some(Role::EventClassId)) => Some("event-record-class-id"),
            (Scope::EventHeader, _) if is_stamp => Some("default-clock-timestamp"),
            _ => None,
        }
    }

    fn location(&self, reference: &Reference) -> Result<Value> {
        let target = self.target(reference)?;
        let mut path: Vec<Value> = target.names().into_iter().map(Value::from).collect();
        Ok(match self.lookup(&target) {
            Lookup::Here => json!({ "path": path.split_off(path.len() - 1) }),
            Lookup::Absolute => json!({ "origin": origin(target.scope), "path": path }),
            Lookup::Outward { up, depth } => {
                let mut outward = vec![Value::Null; up];
                outward.extend(path.split_off(depth));
                json!({ "path": outward })
            }
        })
    }
}

impl Target<'_> {
    /// The names of the members that lead there.
    fn names(&self) -> Vec<String> {
        let mut members = &self.root.structure.members[..];
        let mut all = Vec::new();
        for place in &self.path {
            all.extend(names(members).into_iter().nth(*place as usize));
            members = members.get(*place as usize).map(|member| elements(&member.class)).unwrap_or_default();
        }
        all
    }
}
