//! Values and types as JSON.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value as Json, json};
use trace_ctf::declared::{Base, Enumeration, Flags, Integer, Length, Member, Root, Type};
use trace_ctf::reader::{Event, Scope, Value};

/// An event, its contexts and its payload, members in the order of their declaration.
pub(crate) struct EventJson<'e, 'p>(pub(crate) &'e Event<'p>);

impl Serialize for EventJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(event) = self;
        let class = event.class();
        let packet = event.packet().info();
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("timestamp_ns", &event.timestamp())?;
        object.serialize_entry("name", &class.name)?;
        if let Some(level) = class.level {
            object.serialize_entry("level", level.name())?;
        }
        object.serialize_entry("stream_class", &packet.stream_class_id)?;
        object.serialize_entry("stream", &packet.stream_instance_id)?;
        object.serialize_entry("cpu_id", &packet.cpu_id)?;
        let mut context = Vec::new();
        for scope in [Scope::StreamContext, Scope::EventContext] {
            if let Value::Structure(members) = event.value(scope) {
                context.extend(members);
            }
        }
        object.serialize_entry("context", &ValueJson(&Value::Structure(context)))?;
        object.serialize_entry("payload", &ValueJson(&event.payload()))?;
        object.end()
    }
}

/// A value: an enumeration is its name where it has one, an optional value `null` or itself, a variant an object of one member.
pub(super) struct ValueJson<'v, 'd>(pub(super) &'v Value<'d>);

impl Serialize for ValueJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Unsigned(number) => serializer.serialize_u64(*number),
            Value::Signed(number) => serializer.serialize_i64(*number),
            Value::Long(number) => match number.as_i128() {
                Some(number) => serializer.serialize_i128(number),
                None => serializer.serialize_u128(number.as_u128().unwrap_or_default()),
            },
            // JSON has no word for infinities and what is not a number.
            Value::Float(number) if number.is_finite() => serializer.serialize_f64(*number),
            Value::Float(number) => serializer.collect_str(number),
            Value::Enumeration(number, labels) => match labels.first().map(String::as_str) {
                Some("true") if *number == 1 => serializer.serialize_bool(true),
                Some("false") if *number == 0 => serializer.serialize_bool(false),
                Some(label) => serializer.serialize_str(label),
                None => serializer.serialize_i128(*number),
            },
            Value::Boolean(value) => serializer.serialize_bool(*value),
            Value::Flags(_, labels) => serializer.collect_seq(labels),
            Value::Blob(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                serializer.serialize_str(&digits)
            }
            Value::Absent => serializer.serialize_none(),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Structure(members) => serializer.collect_map(members.iter().map(|(name, value)| (name, ValueJson(value)))),
            Value::Array(elements) => serializer.collect_seq(elements.iter().map(ValueJson)),
            Value::Variant(name, inner) => match (name.as_str(), &**inner) {
                ("none", Value::Structure(members)) if members.is_empty() => serializer.serialize_none(),
                ("some", inner) => ValueJson(inner).serialize(serializer),
                (name, inner) => serializer.collect_map([(name, ValueJson(inner))]),
            },
        }
    }
}

/// The members of a structure that is decoded by itself.
pub(crate) fn fields(root: Option<&Root>) -> Json {
    root.map(|root| members(&root.structure.members)).unwrap_or_else(|| json!([]))
}

fn members(all: &[Member]) -> Json {
    all.iter().filter(|member| !member.is_companion()).map(member).collect()
}

fn member(member: &Member) -> Json {
    let mut object = Map::new();
    object.insert("name".into(), member.name().into());
    object.insert("type".into(), class(&member.class));
    if let Some(unit) = &member.unit {
        object.insert("unit".into(), (**unit).into());
    }
    object.into()
}

fn class(of: &Type) -> Json {
    match of {
        Type::Integer(class) | Type::Long(class) => integer("integer", class),
        Type::Enumeration(class) => enumeration(class),
        Type::Float(class) => json!({ "kind": "float", "bits": class.bits }),
        Type::Boolean(class) => integer("boolean", class),
        Type::Flags(class) => flags(class),
        Type::Text(_) => json!({ "kind": "text" }),
        Type::Blob(class) => match class.length {
            Length::Fixed(length) => json!({ "kind": "blob", "length": length, "media_type": class.media_type }),
            Length::Field(_) => json!({ "kind": "blob", "media_type": class.media_type }),
        },
        Type::Optional(class) => json!({ "kind": "optional", "element": self::class(&class.inner) }),
        Type::Structure(class) => json!({ "kind": "structure", "fields": members(&class.members) }),
        Type::Variant(class) => json!({ "kind": "variant", "options": members(&class.options) }),
        Type::Array(array) if array.text().is_some() => json!({ "kind": "text", "length": array.length }),
        Type::Array(array) => json!({ "kind": "array", "length": array.length, "element": class(&array.element) }),
        Type::Sequence(sequence) if sequence.text().is_some() => json!({ "kind": "text" }),
        Type::Sequence(sequence) => json!({ "kind": "sequence", "element": class(&sequence.element) }),
    }
}

fn integer(kind: &str, class: &Integer) -> Json {
    let base = match class.base {
        Base::Bin => 2,
        Base::Oct => 8,
        Base::Dec => 10,
        Base::Hex => 16,
    };
    json!({ "kind": kind, "bits": class.bits, "signed": class.signed, "base": base, "big_endian": class.big_endian })
}

fn flags(class: &Flags) -> Json {
    let mut object = integer("flags", &class.integer);
    let label =
        |label: &trace_ctf::declared::Label| json!({ "label": label.label, "low": label.low as i64, "high": label.high as i64 });
    object["labels"] = class.flags.iter().map(label).collect();
    object
}

fn enumeration(class: &Enumeration) -> Json {
    let mut object = integer("enumeration", &class.integer);
    // Numbers of 64 bits either way; the metadata cannot hold others.
    let number = |value: i128| i64::try_from(value).map_or_else(|_| json!(value as u64), Json::from);
    let label = |label: &trace_ctf::declared::Label| json!({ "label": label.label, "low": number(label.low), "high": number(label.high) });
    object["labels"] = class.labels.iter().map(label).collect();
    object
}
