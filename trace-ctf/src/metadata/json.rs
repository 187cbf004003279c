//! CTF 2 metadata of a schema: the same bytes of the same streams, described in JSON.
//!
//! What TSDL can only keep beside the way is an attribute here: levels under LTTng's namespace, as LTTng writes them; units and
//! places of declarations under `ringtrace`. Optional values stay variants, whose selectors repeat the names of the options,
//! because Trace Compass reads no others.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::Uuid;
use crate::ctf2::{LTTNG, NAMESPACE};
use crate::schema::{
    Base, EnvValue, EventClass, EventHeader, Field, FieldClass, Label, Level, Schema, StreamClass, Trace, VariantOption,
};

/// The identifier of the only clock, inside the metadata.
const CLOCK: &str = "clock";

/// The whole metadata: head and all event classes.
pub fn write(schema: &Schema) -> String {
    let mut out = head(&schema.trace);
    for class in schema.events() {
        out.push_str(&event(class));
    }
    out
}

/// What precedes the event classes.
pub fn head(trace: &Trace) -> String {
    let mut out = fragment(&json!({ "type": "preamble", "version": 2, "uuid": trace.uuid }));
    let environment = trace.environment.iter().map(|(name, value)| match value {
        EnvValue::Int(number) => (named(name).to_owned(), json!(number)),
        EnvValue::String(text) => (named(name).to_owned(), json!(text)),
    });
    out += &fragment(&json!({
        "type": "trace-class",
        "namespace": NAMESPACE,
        "name": trace.environment_str("procname").unwrap_or_default(),
        "uid": Uuid(&trace.uuid).to_string(),
        "environment": environment.collect::<serde_json::Map<_, _>>(),
        "packet-header-field-class": structure(vec![
            member("magic", with_roles(integer(32), &["packet-magic-number"])),
            member("uuid", with_roles(json!({ "type": "static-length-blob", "length": 16 }), &["metadata-stream-uuid"])),
            member("stream_id", with_roles(integer(32), &["data-stream-class-id"])),
            member("stream_instance_id", with_roles(integer(64), &["data-stream-id"])),
        ]),
    }));
    let clock = &trace.clock;
    // A precision is cycles there and nanoseconds here.
    let precision = u128::from(clock.precision_ns) * u128::from(clock.frequency_hz) / 1_000_000_000;
    let class = json!({
        "type": "clock-class",
        "id": CLOCK,
        "namespace": NAMESPACE,
        "name": clock.name,
        "uid": Uuid(&clock.uuid).to_string(),
        "description": clock.description,
        "frequency": clock.frequency_hz,
        "offset-from-origin": { "seconds": clock.offset_s, "cycles": clock.offset_cycles },
        "precision": u64::try_from(precision).unwrap_or(u64::MAX),
        "origin": "unix-epoch",
    });
    out += &fragment(&class);
    trace.streams.iter().for_each(|stream| out += &fragment(&stream_class(stream)));
    out
}

/// The fragment of one event class, to be appended.
pub fn event(class: &EventClass) -> String {
    let mut attributes = serde_json::Map::new();
    if let Some(level) = class.level {
        attributes.insert(LTTNG.into(), json!({ "log-level": level_word(level) }));
    }
    if let Some(source) = &class.source {
        let source = json!({ "file": source.file, "line": source.line, "function": source.function });
        attributes.insert(NAMESPACE.into(), json!({ "source": source }));
    }
    fragment(&json!({
        "type": "event-record-class",
        "id": class.id,
        "data-stream-class-id": class.stream_id,
        "name": class.name,
        "attributes": attributes,
        "payload-field-class": fields(&class.fields),
    }))
}

/// A name that babeltrace2 reads: it takes no empty ones.
pub(super) fn named(name: &str) -> &str {
    if name.is_empty() { "unnamed" } else { name }
}

pub(super) fn fragment(value: &Value) -> String {
    format!("\u{1E}{value}\n")
}

/// LTTng's words, of which ours are the capitals.
pub(super) fn level_word(level: Level) -> String {
    match level {
        Level::Emerg => "emergency".to_owned(),
        Level::Crit => "critical".to_owned(),
        Level::Err => "error".to_owned(),
        level => level.name().to_ascii_lowercase().replacen('_', ":", 1),
    }
}

fn stream_class(stream: &StreamClass) -> Value {
    let mut class = json!({
        "type": "data-stream-class",
        "id": stream.id,
        "default-clock-class-id": CLOCK,
        "packet-context-field-class": structure(vec![
            member("timestamp_begin", with_roles(integer(64), &["default-clock-timestamp"])),
            member("timestamp_end", with_roles(integer(64), &["packet-end-default-clock-timestamp"])),
            member("content_size", with_roles(integer(64), &["packet-content-length"])),
            member("packet_size", with_roles(integer(64), &["packet-total-length"])),
            member("packet_seq_num", with_roles(integer(64), &["packet-sequence-number"])),
            member("events_discarded", with_roles(integer(64), &["discarded-event-record-counter-snapshot"])),
            member("cpu_id", integer(32)),
        ]),
        "event-record-header-field-class": header(stream.header),
    });
    if !stream.context.is_empty() {
        class["event-record-common-context-field-class"] = fields(&stream.context);
    }
    class
}

fn header(header: EventHeader) -> Value {
    let id = |bits| with_roles(integer(bits), &["event-record-class-id"]);
    let stamp = |bits| with_roles(integer(bits), &["default-clock-timestamp"]);
    let bit_field = |mut class: Value| {
        class["alignment"] = json!(1);
        class
    };
    let (short_id, short_stamp, last) = match header {
        EventHeader::Compact => (bit_field(id(5)), bit_field(stamp(27)), 31),
        EventHeader::Large => (id(16), stamp(32), 0xFFFF),
        EventHeader::Full => return aligned(structure(vec![member("id", id(32)), member("timestamp", stamp(64))])),
    };
    let mut tag = short_id;
    let (short, long) = (json!([[0, last - 1]]), json!([[last, last]]));
    tag["mappings"] = json!({ "compact": short, "extended": long });
    let options = json!([
        { "name": "compact", "selector-field-ranges": short, "field-class": structure(vec![member("timestamp", short_stamp)]) },
        {
            "name": "extended",
            "selector-field-ranges": long,
            "field-class": structure(vec![member("id", id(32)), member("timestamp", stamp(64))]),
        },
    ]);
    let choice = json!({
        "type": "variant",
        "selector-field-location": { "origin": "event-record-header", "path": ["id"] },
        "options": options,
    });
    aligned(structure(vec![member("id", tag), member("v", choice)]))
}

fn aligned(mut class: Value) -> Value {
    class["minimum-alignment"] = json!(8);
    class
}

pub(super) fn structure(members: Vec<Value>) -> Value {
    json!({ "type": "structure", "member-classes": members })
}

pub(super) fn member(name: &str, class: Value) -> Value {
    json!({ "name": name, "field-class": class })
}

pub(super) fn with_roles(mut class: Value, roles: &[&str]) -> Value {
    class["roles"] = json!(roles);
    class
}

fn integer(bits: u8) -> Value {
    typed_integer(bits, false, Base::Dec, false)
}

fn typed_integer(bits: u8, signed: bool, base: Base, big_endian: bool) -> Value {
    json!({
        "type": if signed { "fixed-length-signed-integer" } else { "fixed-length-unsigned-integer" },
        "length": bits,
        "byte-order": if big_endian { "big-endian" } else { "little-endian" },
        "alignment": 8,
        "preferred-display-base": base as u8,
    })
}

/// A structure of fields, and of the lengths and tags in front of them.
fn fields(all: &[Field]) -> Value {
    let mut used: HashSet<String> = HashSet::new();
    let mut unique = |name: String| {
        let mut candidate = name.clone();
        let mut number = 2;
        while !used.insert(candidate.clone()) {
            candidate = format!("{name}_{number}");
            number += 1;
        }
        candidate
    };
    // Fields first: their names are the ones that count.
    let names: Vec<String> = all.iter().map(|field| unique(named(&field.name).to_owned())).collect();
    let mut members = Vec::new();
    for (field, name) in all.iter().zip(names) {
        let extra = match field.class {
            FieldClass::String { .. } | FieldClass::Sequence { .. } => unique(format!("_{name}_length")),
            FieldClass::Optional(_) | FieldClass::Variant { .. } => unique(format!("_{name}_tag")),
            _ => String::new(),
        };
        push(&mut members, &field.class, &name, &extra);
        if let (Some(unit), Some(last)) = (&field.unit, members.last_mut()) {
            last["attributes"] = json!({ NAMESPACE: { "unit": unit } });
        }
    }
    structure(members)
}

/// Adds a field and, before it, the length or tag that it needs.
fn push(members: &mut Vec<Value>, class: &FieldClass, name: &str, extra: &str) {
    let location = json!({ "path": [extra] });
    let chosen = |options: &[(String, Value)]| {
        let range = |place: usize| json!([[place, place]]);
        let mut tag = integer(8);
        tag["mappings"] = options.iter().enumerate().map(|(place, (name, _))| (name.clone(), range(place))).collect();
        let options = options
            .iter()
            .enumerate()
            .map(|(place, (name, class))| json!({ "name": name, "selector-field-ranges": range(place), "field-class": class }));
        let options: Vec<Value> = options.collect();
        (tag, json!({ "type": "variant", "selector-field-location": location, "options": options }))
    };
    let (before, class) = match class {
        FieldClass::String { length_bits } => {
            (Some(integer(*length_bits)), json!({ "type": "dynamic-length-string", "length-field-location": location }))
        }
        FieldClass::Text { length } => (None, json!({ "type": "static-length-string", "length": length })),
        FieldClass::Sequence { element, length_bits } => {
            let element = single(element);
            let class =
                json!({ "type": "dynamic-length-array", "length-field-location": location, "element-field-class": element });
            (Some(integer(*length_bits)), class)
        }
        FieldClass::Array { element, length } => {
            let class = json!({ "type": "static-length-array", "length": length, "element-field-class": single(element) });
            (None, class)
        }
        FieldClass::Optional(inner) => {
            let (tag, class) = chosen(&[("none".into(), structure(Vec::new())), ("some".into(), single(inner))]);
            (Some(tag), class)
        }
        FieldClass::Variant { options } => {
            let mut names = HashSet::new();
            let option = |VariantOption { name, class }: &VariantOption| {
                let mut unique = named(name).to_owned();
                while !names.insert(unique.clone()) {
                    unique.push('_');
                }
                (unique, single(class))
            };
            let options: Vec<_> = options.iter().map(option).collect();
            let (tag, class) = chosen(&options);
            (Some(tag), class)
        }
        class => (None, single(class)),
    };
    members.extend(before.map(|before| member(extra, before)));
    members.push(member(name, class));
}

/// A class as one field class; one that takes a length or a tag becomes a structure around both.
fn single(class: &FieldClass) -> Value {
    match class {
        FieldClass::Integer { bits, signed, base, big_endian } => typed_integer(*bits, *signed, *base, *big_endian),
        FieldClass::Float { bits } => json!({
            "type": "fixed-length-floating-point-number", "length": bits, "byte-order": "little-endian", "alignment": 8,
        }),
        FieldClass::Bool => {
            json!({ "type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian", "alignment": 8 })
        }
        FieldClass::Redacted => labelled(integer(8), [("redacted", [0, 0])]),
        FieldClass::Enumeration { bits, signed, labels } => {
            let number = |value: i128| i64::try_from(value).map_or_else(|_| json!(value as u64), |value| json!(value));
            let labels = labels.iter().map(|Label { label, low, high }| (label.as_str(), [number(*low), number(*high)]));
            labelled(typed_integer(*bits, *signed, Base::Dec, false), labels)
        }
        FieldClass::Structure(all) => fields(all),
        // As in CTF 1.8, so that both forms of metadata say the same.
        FieldClass::Array { .. }
        | FieldClass::String { .. }
        | FieldClass::Text { .. }
        | FieldClass::Sequence { .. }
        | FieldClass::Optional(_)
        | FieldClass::Variant { .. } => fields(&[Field::new("value", class.clone())]),
    }
}

/// Adds mappings to an integer; all ranges of a name stand together.
pub(super) fn labelled<'l, N: Into<Value>>(mut integer: Value, labels: impl IntoIterator<Item = (&'l str, [N; 2])>) -> Value {
    let mut mappings = serde_json::Map::new();
    for (label, [low, high]) in labels {
        let ranges = mappings.entry(named(label)).or_insert_with(|| json!([]));
        if let Value::Array(ranges) = ranges {
            ranges.push(json!([low.into(), high.into()]));
        }
    }
    integer["mappings"] = mappings.into();
    integer
}
