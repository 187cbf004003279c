//! CTF 1.8 metadata text (TSDL) of a schema.
//!
//! The text only ever grows: [`head`] comes first, then one section from [`event`] per event class, whenever that class is
//! first used. Every section begins with the signature comment and names no type declared elsewhere, because babeltrace2
//! 2.0.4 parses each live increment by itself.
//!
//! What the format has no word for is kept where other readers look past it: the place of a declaration in `model.emf.uri`
//! (`FILE?function=NAME#LLINE`, percent-encoded), a unit in a comment after its field (`/* unit: "B" */`).

use std::fmt::Write as _;
use std::ops::Range;

use crate::schema::{
    Base, Clock, EnvValue, EventClass, EventHeader, Field, FieldClass, Label, Schema, Source, StreamClass, Trace, VariantOption,
};

mod convert;
pub mod json;
mod names;

pub(crate) use convert::says;
use names::MemberName;
pub(crate) use names::{identifier, is_keyword};

/// A form of metadata. The streams that it describes are the same, byte for byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// CTF 1.8, in TSDL: what every reader understands.
    #[default]
    Ctf18,
    /// CTF 2, in JSON: what LTTng 2.15 writes.
    Ctf2,
}

impl Format {
    /// `ctf1.8` or `ctf2`: what [`str::parse`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ctf18 => "ctf1.8",
            Self::Ctf2 => "ctf2",
        }
    }

    /// The whole metadata.
    pub fn write(self, schema: &Schema) -> String {
        match self {
            Self::Ctf18 => write(schema),
            Self::Ctf2 => json::write(schema),
        }
    }

    /// The whole metadata of a trace that was read: in another form than it has, over the same streams.
    ///
    /// Names that are no identifiers are changed for CTF 1.8; bit maps become integers there, blobs arrays of bytes, booleans
    /// enumerations, and optional values variants. Attributes of others than LTTng and this tracer are left out.
    ///
    /// # Errors
    ///
    /// [`Error::is_unsupported`](crate::Error::is_unsupported) where the form has no word for a field: CTF 1.8 for integers of
    /// variable length, an unusual order of bits, texts that are not UTF-8, numbers of 16 bits, arrays with an alignment of their
    /// own, and selectors that choose differently from one variant to another.
    pub fn convert(self, declarations: &crate::declared::Declarations) -> crate::Result<String> {
        match self {
            Self::Ctf18 => convert::tsdl(declarations),
            Self::Ctf2 => convert::json(declarations),
        }
    }

    /// What precedes the event classes.
    pub fn head(self, trace: &Trace) -> String {
        match self {
            Self::Ctf18 => head(trace),
            Self::Ctf2 => json::head(trace),
        }
    }

    /// The sections of event classes, to be appended.
    pub fn events(self, classes: &[EventClass]) -> String {
        match self {
            Self::Ctf18 => sections(classes),
            Self::Ctf2 => classes.iter().map(json::event).collect(),
        }
    }
}

impl core::str::FromStr for Format {
    type Err = crate::Error;

    /// Reads `ctf1.8` or `ctf2`.
    fn from_str(name: &str) -> crate::Result<Self> {
        let found = [Self::Ctf18, Self::Ctf2].into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| crate::Error::schema(format!("no format is called `{name}`; there are ctf1.8, ctf2")))
    }
}

/// First bytes of the metadata and of every appended section.
pub const SIGNATURE: &str = "/* CTF 1.8 */\n";

/// The whole text: head and all event classes.
pub fn write(schema: &Schema) -> String {
    let mut out = head(&schema.trace);
    out.push_str(&sections(schema.events()));
    out
}

/// What precedes the event classes: types, trace, environment, clock, stream classes.
pub fn head(trace: &Trace) -> String {
    let mut out = String::from(SIGNATURE);
    for bits in [5, 8, 16, 32, 64] {
        let align = if bits == 5 { 1 } else { 8 };
        let _ = writeln!(out, "typealias integer {{ size = {bits}; align = {align}; signed = false; }} := uint{bits}_t;");
    }
    let _ = write!(
        out,
        "\ntrace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{}\";\n\tbyte_order = le;\n\tpacket.header := struct {{\n\
         \t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n\t\tuint64_t stream_instance_id;\n\t}};\n}};\n",
        Uuid(&trace.uuid)
    );
    if !trace.environment.is_empty() {
        out.push_str("\nenv {\n");
        for (name, value) in &trace.environment {
            let name = identifier(name);
            let _ = match value {
                EnvValue::Int(number) => writeln!(out, "\t{name} = {number};"),
                EnvValue::String(text) => writeln!(out, "\t{name} = {};", Quoted(text)),
            };
        }
        out.push_str("};\n");
    }
    clock(&mut out, &trace.clock);
    out.push_str(HEADER_TYPES);
    for stream in &trace.streams {
        stream_class(&mut out, stream);
    }
    out
}

/// The section of one event class, to be appended.
pub fn event(class: &EventClass) -> String {
    sections(std::slice::from_ref(class))
}

/// Whoever enables thousands of classes waits for their sections; of a class behind its twin, most is copied.
fn sections(classes: &[EventClass]) -> String {
    const EXPECTED: usize = 400;
    let mut out = String::with_capacity(classes.len() * EXPECTED);
    let mut before: Option<(&EventClass, Range<usize>)> = None;
    for class in classes {
        let EventClass { name, id, stream_id, .. } = class;
        let _ = write!(out, "\n{SIGNATURE}event {{\n\tname = {};\n\tid = {id};\n\tstream_id = {stream_id};\n", Quoted(name));
        let begin = out.len();
        match before.filter(|(before, _)| before.is_twin(class)) {
            Some((_, same)) => {
                let same = out[same].to_owned();
                out.push_str(&same);
            }
            None => rest_of_section(&mut out, class),
        }
        before = Some((class, begin..out.len()));
    }
    out
}

/// What is behind the stream.
fn rest_of_section(out: &mut String, class: &EventClass) {
    if let Some(level) = class.level {
        let _ = writeln!(out, "\tloglevel = {};", level as u8);
    }
    if let Some(source) = &class.source {
        let _ = writeln!(out, "\tmodel.emf.uri = {};", Quoted(&uri(source)));
    }
    out.push_str("\tfields := ");
    structure(out, &class.fields, 1);
    out.push_str(";\n};\n");
}

/// What texts are arrays of.
const CHARACTER: &str = "integer { size = 8; align = 8; signed = false; encoding = UTF8; }";

const HEADER_TYPES: &str = "
struct packet_context {
	uint64_clk_t timestamp_begin;
	uint64_clk_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	uint64_t events_discarded;
	uint32_t cpu_id;
};

struct event_header_compact {
	enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
	variant <id> {
		struct { uint27_clk_t timestamp; } compact;
		struct { uint32_t id; uint64_clk_t timestamp; } extended;
	} v;
} align(8);

struct event_header_large {
	enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;
	variant <id> {
		struct { uint32_clk_t timestamp; } compact;
		struct { uint32_t id; uint64_clk_t timestamp; } extended;
	} v;
} align(8);

struct event_header_full {
	uint32_t id;
	uint64_clk_t timestamp;
} align(8);
";

fn clock(out: &mut String, clock: &Clock) {
    let name = identifier(&clock.name);
    let _ = write!(
        out,
        "\nclock {{\n\tname = \"{name}\";\n\tuuid = \"{}\";\n\tdescription = {};\n\tfreq = {};\n\tprecision = {};\n\
         \toffset_s = {};\n\toffset = {};\n\tabsolute = {};\n}};\n\n",
        Uuid(&clock.uuid),
        Quoted(&clock.description),
        clock.frequency_hz,
        clock.precision_ns,
        clock.offset_s,
        clock.offset_cycles,
        clock.absolute
    );
    for bits in [27, 32, 64] {
        let align = if bits == 27 { 1 } else { 8 };
        let _ = writeln!(
            out,
            "typealias integer {{ size = {bits}; align = {align}; signed = false; map = clock.{name}.value; }} \
             := uint{bits}_clk_t;"
        );
    }
}

fn stream_class(out: &mut String, stream: &StreamClass) {
    let header = match stream.header {
        EventHeader::Compact => "compact",
        EventHeader::Large => "large",
        EventHeader::Full => "full",
    };
    let _ = write!(
        out,
        "\nstream {{\n\tid = {};\n\tpacket.context := struct packet_context;\n\
         \tevent.header := struct event_header_{header};\n",
        stream.id
    );
    if !stream.context.is_empty() {
        out.push_str("\tevent.context := ");
        structure(out, &stream.context, 1);
        out.push_str(";\n");
    }
    out.push_str("};\n");
}

fn structure(out: &mut String, fields: &[Field], depth: usize) {
    if fields.is_empty() {
        out.push_str("struct { }");
        return;
    }
    out.push_str("struct {\n");
    for (field, name) in fields.iter().zip(names::members(fields)) {
        member(out, &field.class, &name, field.unit.as_deref(), depth + 1);
    }
    indent(out, depth);
    out.push('}');
}

/// Writes a field and, before it, the length or tag it needs.
fn member(out: &mut String, class: &FieldClass, name: &MemberName, text: Option<&str>, depth: usize) {
    let MemberName { own, extra } = name;
    match class {
        FieldClass::String { length_bits } | FieldClass::Sequence { length_bits, .. } => {
            indent(out, depth);
            integer(out, *length_bits, false, Base::Dec, false);
            let _ = writeln!(out, " {extra};");
        }
        FieldClass::Optional(_) => {
            indent(out, depth);
            out.push_str("enum : ");
            integer(out, 8, false, Base::Dec, false);
            let _ = writeln!(out, " {{ \"none\" = 0, \"some\" = 1 }} {extra};");
        }
        FieldClass::Variant { options } => {
            indent(out, depth);
            out.push_str("enum : ");
            integer(out, 8, false, Base::Dec, false);
            out.push_str(" { ");
            for (index, option) in names::options(options).enumerate() {
                let comma = if index == 0 { "" } else { ", " };
                let _ = write!(out, "{comma}\"{option}\" = {index}");
            }
            let _ = writeln!(out, " }} {extra};");
        }
        _ => {}
    }
    indent(out, depth);
    match class {
        FieldClass::String { .. } => {
            let _ = write!(out, "{CHARACTER} {own}[ {extra} ]");
        }
        FieldClass::Text { length } => {
            let _ = write!(out, "{CHARACTER} {own}[ {length} ]");
        }
        FieldClass::Sequence { element, .. } => {
            single(out, element, depth);
            let _ = write!(out, " {own}[ {extra} ]");
        }
        FieldClass::Array { element, length } => {
            single(out, element, depth);
            let _ = write!(out, " {own}[ {length} ]");
        }
        FieldClass::Optional(inner) => {
            let _ = writeln!(out, "variant <{extra}> {{");
            indent(out, depth + 1);
            out.push_str("struct { } none;\n");
            indent(out, depth + 1);
            single(out, inner, depth + 1);
            out.push_str(" some;\n");
            indent(out, depth);
            let _ = write!(out, "}} {own}");
        }
        FieldClass::Variant { options, .. } => {
            let _ = writeln!(out, "variant <{extra}> {{");
            for (VariantOption { class, .. }, name) in options.iter().zip(names::options(options)) {
                indent(out, depth + 1);
                single(out, class, depth + 1);
                let _ = writeln!(out, " {name};");
            }
            indent(out, depth);
            let _ = write!(out, "}} {own}");
        }
        _ => {
            single(out, class, depth);
            let _ = write!(out, " {own}");
        }
    }
    out.push(';');
    if let Some(text) = text {
        unit(out, text);
    }
    out.push('\n');
}

/// Writes a unit, as the comment that it is.
fn unit(out: &mut String, unit: &str) {
    // A comment ends at the first `*/`, whatever surrounds it.
    let quoted = Quoted(unit).to_string().replace('*', "\\052");
    let _ = write!(out, " /* unit: {quoted} */");
}

/// Writes a class as one type; one that takes several declarations becomes a structure around them.
fn single(out: &mut String, class: &FieldClass, depth: usize) {
    match class {
        FieldClass::Integer { bits, signed, base, big_endian } => integer(out, *bits, *signed, *base, *big_endian),
        FieldClass::Float { bits } => {
            let (exponent, mantissa) = if *bits == 32 { (8, 24) } else { (11, 53) };
            let _ = write!(out, "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = 8; }}");
        }
        FieldClass::Bool => {
            out.push_str("enum : ");
            integer(out, 8, false, Base::Dec, false);
            out.push_str(" { \"false\" = 0, \"true\" = 1 }");
        }
        FieldClass::Redacted => {
            out.push_str("enum : ");
            integer(out, 8, false, Base::Dec, false);
            out.push_str(" { \"redacted\" = 0 }");
        }
        FieldClass::Enumeration { bits, signed, labels } => {
            out.push_str("enum : ");
            integer(out, *bits, *signed, Base::Dec, false);
            out.push_str(" { ");
            for (index, Label { label, low, high }) in labels.iter().enumerate() {
                let comma = if index == 0 { "" } else { ", " };
                let _ = write!(out, "{comma}{} = {low}", Quoted(label));
                if low != high {
                    let _ = write!(out, " ... {high}");
                }
            }
            out.push_str(" }");
        }
        FieldClass::Structure(fields) => structure(out, fields, depth),
        FieldClass::String { .. }
        | FieldClass::Text { .. }
        | FieldClass::Sequence { .. }
        | FieldClass::Array { .. }
        | FieldClass::Optional(_)
        | FieldClass::Variant { .. } => {
            out.push_str("struct {\n");
            member(out, class, &MemberName::inner(class), None, depth + 1);
            indent(out, depth);
            out.push('}');
        }
    }
}

fn integer(out: &mut String, bits: u8, signed: bool, base: Base, big_endian: bool) {
    let base = base as u8;
    let order = if big_endian { " byte_order = be;" } else { "" };
    let _ = write!(out, "integer {{ size = {bits}; align = 8; signed = {signed}; base = {base};{order} }}");
}

fn indent(out: &mut String, depth: usize) {
    out.extend(core::iter::repeat_n('\t', depth));
}

fn uri(source: &Source) -> String {
    let mut out = String::with_capacity(source.file.len() + source.function.len() + 32);
    percent_encode(&mut out, &source.file);
    if !source.function.is_empty() {
        out.push_str("?function=");
        percent_encode(&mut out, &source.function);
    }
    let _ = write!(out, "#L{}", source.line);
    out
}

fn percent_encode(out: &mut String, text: &str) {
    let stands = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b'<' | b'>' | b',' | b'&' | b'=')
            || matches!(byte, b'(' | b')' | b'!' | b'@' | b'+' | b';')
    };
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| !stands(byte)) {
        // What stands for itself is ASCII, so a character begins here, all of whose bytes are written in this way.
        let (before, from) = rest.split_at(at);
        let (char, after) = from.split_at(from.chars().next().map_or(0, char::len_utf8));
        out.push_str(before);
        char.bytes().for_each(|byte| _ = write!(out, "%{byte:02X}"));
        rest = after;
    }
    out.push_str(rest);
}

/// A string literal.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl core::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_char('"')?;
        let mut rest = self.0;
        // What stands for itself is written as it is, as long as it is.
        while let Some(at) = rest.bytes().position(|byte| byte.is_ascii_control() || matches!(byte, b'"' | b'\\')) {
            f.write_str(&rest[..at])?;
            let char = char::from(rest.as_bytes()[at]);
            rest = &rest[at + 1..];
            match char {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                // Readers hold strings with a final NUL.
                '\0' => f.write_char(char::REPLACEMENT_CHARACTER)?,
                // Always three digits, so that what follows is never taken for one.
                _ => write!(f, "\\{:03o}", char as u32)?,
            }
        }
        f.write_str(rest)?;
        f.write_char('"')
    }
}

/// A UUID in its canonical form.
pub(crate) struct Uuid<'a>(pub(crate) &'a [u8; 16]);

impl core::fmt::Display for Uuid<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let dash = if matches!(place, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The bytes of a UUID in its canonical form.
pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Option<Vec<u8>> = text.chars().filter(|&char| char != '-').map(|char| Some(char.to_digit(16)? as u8)).collect();
    let pairs: Vec<u8> = digits?.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0)).collect();
    pairs.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_section_stands_alone() {
        let class = EventClass {
            stream_id: 1,
            id: 7,
            name: "app:\"x\"".into(),
            level: Some(crate::schema::Level::Info),
            source: Some(Source { file: "src/a b.rs".into(), line: 3, function: "app::f".into() }),
            fields: vec![
                Field { unit: Some("B*/".into()), ..Field::new("size", FieldClass::unsigned(32)) },
                Field::new("path", FieldClass::Optional(Box::new(FieldClass::String { length_bits: 16 }))),
            ],
        };
        let expected = r#"
/* CTF 1.8 */
event {
	name = "app:\"x\"";
	id = 7;
	stream_id = 1;
	loglevel = 6;
	model.emf.uri = "src/a%20b.rs?function=app::f#L3";
	fields := struct {
		integer { size = 32; align = 8; signed = false; base = 10; } _size; /* unit: "B\052/" */
		enum : integer { size = 8; align = 8; signed = false; base = 10; } { "none" = 0, "some" = 1 } __path_tag;
		variant <__path_tag> {
			struct { } none;
			struct {
				integer { size = 16; align = 8; signed = false; base = 10; } __value_length;
				integer { size = 8; align = 8; signed = false; encoding = UTF8; } _value[ __value_length ];
			} some;
		} _path;
	};
};
"#;
        assert_eq!(event(&class), expected);
    }
}
