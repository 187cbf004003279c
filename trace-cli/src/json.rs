//! Values and types as JSON.

use serde_json::{Map, Value as Json, json};
use trace_ctf::declared::{Base, Enumeration, Integer, Member, Root, Type};
use trace_ctf::reader::{Event, Scope, Value};

/// An event, its contexts and its payload.
pub(crate) fn event(event: &Event<'_>) -> Json {
    let class = event.class();
    let mut object = Map::new();
    object.insert("timestamp_ns".into(), event.timestamp().into());
    object.insert("name".into(), class.name.clone().into());
    if let Some(level) = class.level {
        object.insert("level".into(), level.name().into());
    }
    let packet = event.packet().info();
    object.insert("stream_class".into(), packet.stream_class_id.into());
    object.insert("stream".into(), packet.stream_instance_id.into());
    object.insert("cpu_id".into(), packet.cpu_id.into());
    let mut context = Map::new();
    for scope in [Scope::StreamContext, Scope::EventContext] {
        if let Json::Object(members) = value(event.value(scope)) {
            context.extend(members);
        }
    }
    object.insert("context".into(), context.into());
    object.insert("payload".into(), value(event.payload()));
    object.into()
}

/// A value: an enumeration is its name where it has one, an optional value `null` or itself, a variant an object of one member.
fn value(from: Value<'_>) -> Json {
    match from {
        Value::Unsigned(number) => number.into(),
        Value::Signed(number) => number.into(),
        // JSON has no word for infinities and what is not a number.
        Value::Float(number) if number.is_finite() => number.into(),
        Value::Float(number) => number.to_string().into(),
        Value::Enumeration(number, labels) => match labels.first().map(String::as_str) {
            Some("true") if number == 1 => true.into(),
            Some("false") if number == 0 => false.into(),
            Some(label) => label.into(),
            None => i64::try_from(number).map_or_else(|_| u64::try_from(number).ok().into(), Json::from),
        },
        Value::Text(text) => text.into_owned().into(),
        Value::Structure(members) => members.into_iter().map(|(name, member)| (name, value(member))).collect(),
        Value::Array(elements) => elements.into_iter().map(value).collect(),
        Value::Variant(name, inner) => match (name.as_str(), *inner) {
            ("none", Value::Structure(members)) if members.is_empty() => Json::Null,
            ("some", inner) => value(inner),
            (_, inner) => json!({ name: value(inner) }),
        },
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
        Type::Integer(class) => integer("integer", class),
        Type::Enumeration(class) => enumeration(class),
        Type::Float(class) => json!({ "kind": "float", "bits": class.bits }),
        Type::Text => json!({ "kind": "text" }),
        Type::Structure(class) => json!({ "kind": "structure", "fields": members(&class.members) }),
        Type::Variant(class) => json!({ "kind": "variant", "options": members(&class.options) }),
        Type::Array(array) if is_text(&array.element) => json!({ "kind": "text", "length": array.length }),
        Type::Array(array) => json!({ "kind": "array", "length": array.length, "element": class(&array.element) }),
        Type::Sequence(sequence) if is_text(&sequence.element) => json!({ "kind": "text" }),
        Type::Sequence(sequence) => json!({ "kind": "sequence", "element": class(&sequence.element) }),
    }
}

fn is_text(element: &Type) -> bool {
    matches!(element, Type::Integer(Integer { text: true, bits: 8, .. }))
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

fn enumeration(class: &Enumeration) -> Json {
    let mut object = integer("enumeration", &class.integer);
    // Numbers of 64 bits either way; the metadata cannot hold others.
    let number = |value: i128| i64::try_from(value).map_or_else(|_| json!(value as u64), Json::from);
    let label = |label: &trace_ctf::declared::Label| json!({ "label": label.label, "low": number(label.low), "high": number(label.high) });
    object["labels"] = class.labels.iter().map(label).collect();
    object
}
