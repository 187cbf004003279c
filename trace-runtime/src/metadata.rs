//! From the static descriptions of the registry to the schema that a trace carries.

use crate::context::Context;
use crate::keep::NotKept;
use crate::process::Process;
use trace_ctf::schema as ctf;
use trace_registry::field::{Base, FieldDescriptor};
use trace_registry::{EventClass, FieldClass, Level};

/// Number of the stream class of the per-CPU rings.
pub(crate) const RINGS: u32 = 0;
/// Number of the stream class of the fallback region.
pub(crate) const FALLBACK: u32 = 1;
/// Number of the stream class that the consumer writes itself.
pub(crate) const CONSUMER: u32 = 2;

/// Event ID of `ringtrace:thread_name` in the consumer's stream class.
pub(crate) const THREAD_NAME_ID: u32 = 0;

/// The event class by which the consumer tells the name of a thread.
pub(crate) fn thread_name() -> ctf::EventClass {
    ctf::EventClass {
        stream_id: CONSUMER,
        id: THREAD_NAME_ID,
        name: "ringtrace:thread_name".to_owned(),
        level: ctf::Level::from_number(Level::Info as u64),
        source: None,
        fields: vec![
            ctf::Field::new("tid", ctf::FieldClass::signed(32)),
            ctf::Field::new("name", ctf::FieldClass::String { length_bits: 16 }),
        ],
    }
}

/// Encodes names of threads as events of one time; `None`: there are none.
pub(crate) fn thread_names(names: &[(u32, String)], ns: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    for (tid, name) in names {
        content.extend_from_slice(&THREAD_NAME_ID.to_le_bytes());
        content.extend_from_slice(&ns.to_le_bytes());
        content.extend_from_slice(&tid.to_ne_bytes());
        content.extend_from_slice(&(name.len() as u16).to_ne_bytes());
        content.extend_from_slice(name.as_bytes());
    }
    (!content.is_empty()).then_some(content)
}

/// Event ID of `ringtrace:not_kept` in the consumer's stream class.
const NOT_KEPT_ID: u32 = 1;
/// Its name.
pub(crate) const NOT_KEPT: &str = "ringtrace:not_kept";

/// The event class by which the consumer tells what was left out since the last event of it.
pub(crate) fn not_kept() -> ctf::EventClass {
    let count = |name| ctf::Field::new(name, ctf::FieldClass::unsigned(64));
    ctf::EventClass {
        stream_id: CONSUMER,
        id: NOT_KEPT_ID,
        name: NOT_KEPT.to_owned(),
        level: ctf::Level::from_number(Level::Info as u64),
        source: None,
        fields: ["events", "hurried", "late_keys", "forgotten_keys"].map(count).to_vec(),
    }
}

/// Encodes what was left out as an event.
pub(crate) fn not_kept_event(not_kept: &NotKept, ns: u64) -> Vec<u8> {
    let NotKept { events, hurried, late, forgotten } = not_kept;
    let mut content = NOT_KEPT_ID.to_le_bytes().to_vec();
    content.extend_from_slice(&ns.to_le_bytes());
    [events, hurried, late, forgotten].iter().for_each(|count| content.extend_from_slice(&count.to_ne_bytes()));
    content
}

/// What holds for a whole trace: environment, clock, stream classes.
pub(crate) fn trace(process: &Process, session: &str, uuid: [u8; 16], header: ctf::EventHeader, context: Context) -> ctf::Trace {
    let text = |name: &str, value: &str| (name.to_owned(), ctf::EnvValue::String(value.to_owned()));
    let number = |name: &str, value: i64| (name.to_owned(), ctf::EnvValue::Int(value));
    let version = |part: &str| part.parse().unwrap_or(0);
    let origin = process.clock.origin();
    ctf::Trace {
        uuid,
        environment: vec![
            text("domain", "ust"),
            text("tracer_name", "ringtrace"),
            number("tracer_major", version(env!("CARGO_PKG_VERSION_MAJOR"))),
            number("tracer_minor", version(env!("CARGO_PKG_VERSION_MINOR"))),
            number("tracer_patchlevel", version(env!("CARGO_PKG_VERSION_PATCH"))),
            text("trace_name", session),
            text("hostname", &process.host),
            text("procname", &process.program),
            number("vpid", i64::from(process.pid)),
            text("architecture", std::env::consts::ARCH),
        ],
        clock: ctf::Clock {
            name: "monotonic".to_owned(),
            uuid: process.boot_id,
            description: format!(
                "CLOCK_MONOTONIC{}, within {} ns",
                if process.clock.is_counter() { " by the time stamp counter" } else { "" },
                process.clock.error_ns()
            ),
            frequency_hz: 1_000_000_000,
            precision_ns: u64::from(origin.precision_ns),
            offset_s: origin.offset_s,
            offset_cycles: u64::from(origin.offset_ns),
            absolute: false,
        },
        streams: vec![
            ctf::StreamClass { id: RINGS, header, context: context.fields() },
            ctf::StreamClass {
                id: FALLBACK,
                header: ctf::EventHeader::Full,
                // Not per CPU, so every record says where it was made.
                context: context.with_cpu().fields(),
            },
            ctf::StreamClass { id: CONSUMER, header: ctf::EventHeader::Full, context: Vec::new() },
        ],
    }
}

/// The event class as one stream class has it.
pub(crate) fn event(stream_id: u32, id: u32, name: &str, level: Level, class: &EventClass, redact: bool) -> ctf::EventClass {
    ctf::EventClass {
        stream_id,
        id,
        name: name.to_owned(),
        level: ctf::Level::from_number(level as u64),
        source: Some(ctf::Source {
            file: class.location.file.to_owned(),
            line: class.location.line,
            function: match class.name {
                "" => class.module_path.to_owned(), // an event without a declaration
                name => format!("{}::{name}", class.module_path),
            },
        }),
        fields: fields(class.fields, redact),
    }
}

fn fields(descriptors: &[FieldDescriptor], redact: bool) -> Vec<ctf::Field> {
    descriptors
        .iter()
        .map(|d| {
            let class = if d.sensitive && redact { ctf::FieldClass::Redacted } else { field_class(&d.class, redact) };
            ctf::Field { unit: (!d.unit.is_empty()).then(|| d.unit.to_owned()), ..ctf::Field::new(d.name, class) }
        })
        .collect()
}

fn field_class(class: &FieldClass, redact: bool) -> ctf::FieldClass {
    let native_big_endian = cfg!(target_endian = "big");
    let boxed = |class| Box::new(field_class(class, redact));
    match *class {
        FieldClass::Integer { bits, signed, base, network_order } => ctf::FieldClass::Integer {
            bits,
            signed,
            base: match base {
                Base::Decimal => ctf::Base::Dec,
                Base::Hexadecimal => ctf::Base::Hex,
            },
            big_endian: network_order || native_big_endian,
        },
        FieldClass::Float { bits } => ctf::FieldClass::Float { bits },
        FieldClass::Bool => ctf::FieldClass::Bool,
        FieldClass::String { length_bits } => ctf::FieldClass::String { length_bits },
        FieldClass::Enumeration { bits, signed, labels } => ctf::FieldClass::Enumeration {
            bits,
            signed,
            labels: labels.iter().map(|l| ctf::Label { label: l.name.to_owned(), low: l.value, high: l.value }).collect(),
        },
        FieldClass::Structure { fields: members } => ctf::FieldClass::Structure(fields(members, redact)),
        FieldClass::Array { element, length } => ctf::FieldClass::Array { element: boxed(element), length: length as u64 },
        FieldClass::Sequence { element, length_bits } => ctf::FieldClass::Sequence { element: boxed(element), length_bits },
        FieldClass::Optional { value } => ctf::FieldClass::Optional(boxed(value)),
        FieldClass::Variant { options } => ctf::FieldClass::Variant {
            options: options
                .iter()
                .map(|o| ctf::VariantOption { name: o.name.to_owned(), class: field_class(&o.class, redact) })
                .collect(),
        },
        _ => unreachable!("the registry and the run time are of one version"),
    }
}
