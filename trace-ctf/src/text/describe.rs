//! One readable text per event class, in the manner of ftrace's `format` files.

use std::fmt::Write as _;

use crate::declared::{
    Array, Base, EventClass, Flags, Integer, Length, Member, Optional, Root, Sequence, StreamClass, Structure, Type,
};

/// Describes an event class: name, ID, level, place, and each field with its type, its size where it is fixed, and its unit.
///
/// ```text
/// name: app:request
/// ID: 3
/// stream class: 0
/// level: INFO
/// source: src/main.rs:12 (app::serve)
/// context:
///     vtid: i32; size: 4
/// fields:
///     id: u64; size: 8
///     path: text, length u16
///     bytes: u32; size: 4; unit: B
/// ```
pub fn describe(stream: &StreamClass, class: &EventClass) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "name: {}\nID: {}\nstream class: {}", class.name, class.id, class.stream_id);
    if let Some(level) = class.level {
        let _ = writeln!(out, "level: {}", level.name());
    }
    if let Some(source) = &class.source {
        let _ = write!(out, "source: {}:{}", source.file, source.line);
        let _ = if source.function.is_empty() { writeln!(out) } else { writeln!(out, " ({})", source.function) };
    }
    for (title, root) in [("context", &stream.event_context), ("event context", &class.context), ("fields", &class.fields)] {
        if let Some(Root { structure, .. }) = root {
            let _ = writeln!(out, "{title}:");
            members(&mut out, &structure.members, 1);
        }
    }
    out
}

fn members(out: &mut String, all: &[Member], depth: usize) {
    for (place, member) in all.iter().enumerate() {
        if member.is_companion() {
            continue;
        }
        let extra = place.checked_sub(1).map(|place| &all[place].class);
        let _ = write!(out, "{:indent$}{}: {}", "", member.name(), class(&member.class, extra), indent = depth * 4);
        if let Some(bits) = size(&member.class) {
            let _ = if bits % 8 == 0 { write!(out, "; size: {}", bits / 8) } else { write!(out, "; bits: {bits}") };
        }
        if let Some(unit) = &member.unit {
            let _ = write!(out, "; unit: {unit}");
        }
        out.push('\n');
        inner(out, &member.class, depth + 1);
    }
}

/// What stands inside a type, a level deeper.
fn inner(out: &mut String, class: &Type, depth: usize) {
    match class {
        Type::Structure(Structure { members: all, .. }) => members(out, all, depth),
        Type::Array(Array { element, .. }) | Type::Sequence(Sequence { element, .. }) => inner(out, element, depth),
        Type::Variant(variant) => members(out, &variant.options, depth),
        Type::Optional(Optional { inner: class, .. }) => inner(out, class, depth),
        Type::Flags(Flags { flags, .. }) => {
            for label in flags.iter() {
                let _ = writeln!(out, "{:indent$}{} = bit {} ... {}", "", label.label, label.low, label.high, indent = depth * 4);
            }
        }
        Type::Enumeration(enumeration) => {
            for label in enumeration.labels.iter() {
                let _ = write!(out, "{:indent$}{} = {}", "", label.label, label.low, indent = depth * 4);
                let _ = if label.low == label.high { writeln!(out) } else { writeln!(out, " ... {}", label.high) };
            }
        }
        _ => {}
    }
}

fn class(class: &Type, extra: Option<&Type>) -> String {
    let length = || match extra {
        Some(Type::Integer(length)) => format!(", length {}", integer(length)),
        _ => String::new(),
    };
    match class {
        Type::Integer(class) | Type::Long(class) => integer(class),
        Type::Enumeration(class) => format!("enum {}", integer(&class.integer)),
        Type::Float(class) => format!("f{}", class.bits),
        Type::Text(_) => "text, zero-terminated".to_owned(),
        Type::Boolean(class) => format!("bool, {} bits", class.bits),
        Type::Flags(class) => format!("flags {}", integer(&class.integer)),
        Type::Blob(blob) => match &blob.length {
            Length::Fixed(length) => format!("{length} bytes, {}", blob.media_type),
            Length::Field(_) => format!("bytes{}, {}", length(), blob.media_type),
        },
        Type::Optional(optional) => format!("optional {}", self::class(&optional.inner, None)),
        Type::Structure(_) => "struct".to_owned(),
        Type::Variant(variant) => match &variant.options[..] {
            [none, some] if none.name() == "none" && some.name() == "some" => "optional".to_owned(),
            _ => "variant".to_owned(),
        },
        Type::Array(array) if array.text().is_some() => format!("text of {} bytes", array.length),
        Type::Array(array) => format!("{}[{}]", self::class(&array.element, None), array.length),
        Type::Sequence(sequence) if sequence.text().is_some() => format!("text{}", length()),
        Type::Sequence(sequence) => format!("{}[]{}", self::class(&sequence.element, None), length()),
    }
}

fn integer(class: &Integer) -> String {
    let sign = if class.variable { "LEB128 " } else { "" };
    let sign = format!("{sign}{}", if class.signed { 'i' } else { 'u' });
    let order = if class.big_endian && class.bits > 8 { " big-endian" } else { "" };
    let base = match class.base {
        Base::Dec => "",
        Base::Hex => " hexadecimal",
        Base::Oct => " octal",
        Base::Bin => " binary",
    };
    format!("{sign}{}{order}{base}", class.bits)
}

/// Bits, where no value changes them and no alignment can.
fn size(class: &Type) -> Option<u64> {
    match class {
        Type::Integer(class) | Type::Long(class) | Type::Boolean(class) => Some(class.bits.into()).filter(|_| !class.variable),
        Type::Flags(class) => Some(class.integer.bits.into()),
        Type::Enumeration(class) => Some(class.integer.bits.into()),
        Type::Float(class) => Some(class.bits.into()),
        Type::Array(array) if array.element.align() <= 8 => size(&array.element)?.checked_mul(array.length),
        Type::Structure(structure) if structure.align <= 8 => {
            structure.members.iter().try_fold(0u64, |sum, member| sum.checked_add(size(&member.class)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::{EventClass, Field, FieldClass, Level, Source};

    #[test]
    fn lengths_and_tags_belong_to_their_field() {
        let class = EventClass {
            stream_id: 0,
            id: 3,
            name: "app:request".into(),
            level: Some(Level::Info),
            source: Some(Source { file: "src/main.rs".into(), line: 12, function: "app::serve".into() }),
            fields: vec![
                Field::new("id", FieldClass::unsigned(64)),
                Field::new("path", FieldClass::String { length_bits: 16 }),
                Field { unit: Some("B".into()), ..Field::new("bytes", FieldClass::hex(32)) },
                Field::new("parent", FieldClass::Optional(Box::new(FieldClass::signed(16)))),
                Field::new("ok", FieldClass::Bool),
            ],
        };
        let header = "event.header := struct { integer { size = 8; align = 8; } id; };";
        let mut text = format!("trace {{ byte_order = le; }}; stream {{ {header} }};");
        text += &crate::metadata::event(&class);
        let all = crate::tsdl::parse(&text).unwrap();
        let stream = all.stream(0).unwrap();
        let expected = "\
name: app:request
ID: 3
stream class: 0
level: INFO
source: src/main.rs:12 (app::serve)
fields:
    id: u64; size: 8
    path: text, length u16
    bytes: u32 hexadecimal; size: 4; unit: B
    parent: optional
        none: struct; size: 0
        some: i16; size: 2
    ok: enum u8; size: 1
        false = 0
        true = 1
";
        assert_eq!(super::describe(stream, stream.event(3).unwrap()), expected);
    }
}
