//! CTF 2: what this library writes, and every field class of the specification.
//!
//! babeltrace2 reads CTF 2 since 2.1, which Debian 12 does not have. Where a system that has it lies in the directory that the
//! environment variable `BABELTRACE2_CHROOT` names, it must say what this reader says. `cargo xtask ctf2` sees to that.

#[path = "common/classes.rs"]
mod classes;
mod common;

use std::fs;

use classes::{class, fields};
use common::{assert_agreement, convert, field, read, schema, sorted_labels, write_trace};
use proptest::prelude::*;
use trace_ctf::declared::Role;
use trace_ctf::metadata::{self, Format};
use trace_ctf::reader::{Entry, Trace, Value};
use trace_ctf::schema::FieldClass;
use trace_ctf::text::Readable;

fn readable(directory: &std::path::Path) -> String {
    let trace = Trace::open(directory).unwrap();
    assert!(trace.damage().is_empty(), "{:?}", trace.damage());
    let mut merge = trace.merge();
    let (mut lines, mut readable) = (Vec::new(), Readable::utc());
    while let Some(entry) = merge.next_entry() {
        if let Entry::Event(event) = entry.unwrap() {
            readable.event(&event, &mut lines);
        }
    }
    String::from_utf8(lines).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The same streams under both forms of metadata: the same values, levels, places, units.
    #[test]
    fn both_forms_say_the_same(context in fields(class(), 0..3), payloads in prop::collection::vec(fields(class(), 0..5), 1..8),
                               streams in 1u64..7, packets in 0u64..4, seed in any::<u64>()) {
        let directory = tempfile::tempdir().unwrap();
        let schema = schema(context, payloads);
        write_trace(directory.path(), &schema, streams, packets, seed);
        let values = |directory: &std::path::Path| {
            let trace = Trace::open(directory).unwrap();
            let mut merge = trace.merge();
            let mut all = Vec::new();
            while let Some(entry) = merge.next_entry() {
                match entry.unwrap() {
                    Entry::Event(event) => all.push((event.timestamp(), event.name().to_owned(), shape(&event.payload()))),
                    Entry::Loss(loss) => all.push((loss.begin, format!("{loss:?}"), String::new())),
                }
            }
            all
        };
        let first = values(directory.path());
        fs::write(directory.path().join("metadata"), Format::Ctf2.write(&schema)).unwrap();
        prop_assert_eq!(values(directory.path()), first);
        let trace = Trace::open(directory.path()).unwrap();
        for class in schema.events() {
            let event = trace.declarations().stream(class.stream_id.into()).unwrap().event(class.id.into()).unwrap();
            prop_assert_eq!((&event.name, event.level, &event.source), (&class.name, class.level, &class.source));
            let units = event.fields.iter().flat_map(|root| &root.structure.members).filter_map(|member| member.unit.as_deref());
            prop_assert!(units.eq(class.fields.iter().filter_map(|field| field.unit.as_deref())));
        }
        prop_assert_eq!(&trace.declarations().environment("procname"), &Some(&trace_ctf::declared::EnvValue::String("proc".into())));
    }

    #[test]
    fn any_json_parses_or_fails(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = EVERY_CLASS.as_bytes().to_vec();
        for (place, value) in flips {
            *place.get_mut(&mut bytes) = value;
        }
        let _ = trace_ctf::ctf2::parse(&bytes);
    }
}

/// A value without names, which CTF 1.8 had to change, and with booleans as the numbers they are there.
fn shape(value: &Value<'_>) -> String {
    match value {
        Value::Structure(members) => {
            format!("{{{}}}", members.iter().map(|(_, value)| shape(value)).collect::<Vec<_>>().join(" "))
        }
        Value::Array(elements) => format!("[{}]", elements.iter().map(shape).collect::<Vec<_>>().join(" ")),
        Value::Variant(_, inner) => format!("<{}>", shape(inner)),
        Value::Boolean(value) => u8::from(*value).to_string(),
        Value::Enumeration(value, labels) if labels.iter().any(|label| label == "true" || label == "false") => value.to_string(),
        Value::Enumeration(value, _) if *value == 0 || *value == 1 => value.to_string(),
        Value::Enumeration(value, labels) => {
            // An empty name is none that babeltrace2 reads.
            let name = |label: &String| if label.is_empty() { "unnamed".to_owned() } else { label.clone() };
            let mut labels: Vec<String> = labels.iter().map(name).collect();
            labels.sort();
            format!("{value}{labels:?}")
        }
        other => format!("{other:?}"),
    }
}

/// Metadata of one stream class with every field class and role, and aliases. (It ends babeltrace2 2.1.1 by an assertion of its
/// own; `values_of_ctf_2_as_text` is what that can be asked about.)
const EVERY_CLASS: &str = concat!(
    "\u{1E}{\"type\":\"preamble\",\"version\":2,\"uuid\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}\n",
    "\u{1E}{\"type\":\"trace-class\",\"environment\":{\"hostname\":\"h\",\"vpid\":7},\"packet-header-field-class\":{\"type\":\"structure\",",
    "\"member-classes\":[{\"name\":\"m\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":32,\"alignment\":8,",
    "\"byte-order\":\"little-endian\",\"roles\":[\"packet-magic-number\"]}},{\"name\":\"u\",\"field-class\":{\"type\":",
    "\"static-length-blob\",\"length\":16,\"roles\":[\"metadata-stream-uuid\"]}}]}}\n",
    "\u{1E}{\"type\":\"clock-class\",\"id\":\"c\",\"frequency\":1000000000,\"origin\":\"unix-epoch\",\"offset-from-origin\":{\"seconds\":5}}\n",
    "\u{1E}{\"type\":\"field-class-alias\",\"name\":\"byte\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":8,",
    "\"alignment\":8,\"byte-order\":\"big-endian\"}}\n",
    "\u{1E}{\"type\":\"data-stream-class\",\"default-clock-class-id\":\"c\",\"packet-context-field-class\":{\"type\":\"structure\",",
    "\"member-classes\":[{\"name\":\"begin\",\"field-class\":{\"type\":\"variable-length-unsigned-integer\",\"roles\":",
    "[\"default-clock-timestamp\"]}},{\"name\":\"size\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":16,",
    "\"alignment\":8,\"byte-order\":\"big-endian\",\"roles\":[\"packet-total-length\",\"packet-content-length\"]}}]},",
    "\"event-record-header-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"t\",\"field-class\":{\"type\":",
    "\"fixed-length-unsigned-integer\",\"length\":8,\"alignment\":8,\"byte-order\":\"big-endian\",\"roles\":",
    "[\"default-clock-timestamp\"]}}]}}\n",
    "\u{1E}{\"type\":\"event-record-class\",\"name\":\"all\",\"attributes\":{\"lttng.org,2009\":{\"log-level\":\"debug:unit\"}},",
    "\"specific-context-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"n\",\"field-class\":\"byte\"}]},",
    "\"payload-field-class\":{\"type\":\"structure\",\"member-classes\":[",
    "{\"name\":\"array.bits\",\"field-class\":{\"type\":\"fixed-length-bit-array\",\"length\":12,\"byte-order\":\"big-endian\"}},",
    "{\"name\":\"reversed\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":4,\"byte-order\":\"big-endian\",",
    "\"bit-order\":\"first-to-last\"}},",
    "{\"name\":\"map\",\"field-class\":{\"type\":\"fixed-length-bit-map\",\"length\":8,\"alignment\":8,\"byte-order\":\"little-endian\",",
    "\"flags\":{\"low\":[[0,1]],\"high\":[[7,7]],\"never\":[[3,4]]}}},",
    "{\"name\":\"yes\",\"field-class\":{\"type\":\"fixed-length-boolean\",\"length\":8,\"alignment\":8,\"byte-order\":\"little-endian\"}},",
    "{\"name\":\"vu\",\"field-class\":{\"type\":\"variable-length-unsigned-integer\",\"preferred-display-base\":16}},",
    "{\"name\":\"vs\",\"field-class\":{\"type\":\"variable-length-signed-integer\",\"mappings\":{\"minus\":[[-5,-1]]}}},",
    "{\"name\":\"f\",\"field-class\":{\"type\":\"fixed-length-floating-point-number\",\"length\":32,\"alignment\":8,\"byte-order\":\"big-endian\"}},",
    "{\"name\":\"z\",\"field-class\":{\"type\":\"null-terminated-string\",\"encoding\":\"utf-16be\"}},",
    "{\"name\":\"s\",\"field-class\":{\"type\":\"static-length-string\",\"length\":4}},",
    "{\"name\":\"d\",\"field-class\":{\"type\":\"dynamic-length-string\",\"length-field-location\":{\"origin\":",
    "\"event-record-specific-context\",\"path\":[\"n\"]}}},",
    "{\"name\":\"b\",\"field-class\":{\"type\":\"static-length-blob\",\"length\":2,\"media-type\":\"image/png\"}},",
    "{\"name\":\"in\",\"field-class\":{\"type\":\"structure\",\"member-classes\":[",
    "{\"name\":\"there\",\"field-class\":{\"type\":\"fixed-length-boolean\",\"length\":8,\"alignment\":8,\"byte-order\":\"little-endian\"}},",
    "{\"name\":\"some\",\"field-class\":{\"type\":\"optional\",\"field-class\":\"byte\",\"selector-field-location\":{\"path\":[\"there\"]}}},",
    "{\"name\":\"none\",\"field-class\":{\"type\":\"optional\",\"field-class\":\"byte\",\"selector-field-location\":{\"path\":[null,\"vu\"]},",
    "\"selector-field-ranges\":[[7,9]]}},",
    "{\"name\":\"count\",\"field-class\":\"byte\"},",
    "{\"name\":\"blob\",\"field-class\":{\"type\":\"dynamic-length-blob\",\"length-field-location\":{\"path\":[\"count\"]}}}]}},",
    "{\"name\":\"list\",\"field-class\":{\"type\":\"static-length-array\",\"length\":2,\"minimum-alignment\":16,\"element-field-class\":\"byte\"}},",
    "{\"name\":\"seq\",\"field-class\":{\"type\":\"dynamic-length-array\",\"element-field-class\":\"byte\",",
    "\"length-field-location\":{\"origin\":\"event-record-payload\",\"path\":[\"reversed\"]}}},",
    "{\"name\":\"v\",\"field-class\":{\"type\":\"variant\",\"selector-field-location\":{\"path\":[\"vu\"]},\"options\":[",
    "{\"name\":\"no\",\"selector-field-ranges\":[[0,9]],\"field-class\":\"byte\"},",
    "{\"selector-field-ranges\":[[10,10],[624485,624485]],\"field-class\":{\"type\":\"null-terminated-string\"}}]}}",
    "]}}\n",
);

/// Writes a trace of one event, and gives the bytes of its packet.
fn write_every_class(directory: &std::path::Path) -> Vec<u8> {
    fs::write(directory.join("metadata"), EVERY_CLASS).unwrap();
    let mut packet = vec![0xC1, 0x1F, 0xFC, 0xC1];
    packet.extend(1..=16);
    // Begin 300 in two bytes; the size, in bits, is filled in below.
    packet.extend([0xAC, 0x02, 0, 0]);
    let size_at = packet.len() - 2;
    // Time 45, which is 301; context n = 3.
    packet.extend([45, 3]);
    // Bits 0xABC, then 2 from the wrong end: 0b0100.
    packet.extend([0xAB, 0xC4]);
    packet.extend([0b1000_0001, 5, 0xE5, 0x8E, 0x26, 0x7E]);
    packet.extend(1.5_f32.to_be_bytes());
    packet.extend([0, b'h', 0x20, 0xAC, 0, 0]);
    packet.extend(b"ab\0\0xyz");
    packet.extend([0xDE, 0xAD]);
    packet.extend([1, 9, 2, 0xBE, 0xEF]);
    if packet.len() % 2 == 1 {
        packet.push(0);
    }
    packet.extend([7, 8, 9, 10]);
    packet.extend(b"end\0");
    let bits = (packet.len() * 8) as u16;
    packet[size_at..size_at + 2].copy_from_slice(&bits.to_be_bytes());
    fs::write(directory.join("stream"), &packet).unwrap();
    packet
}

#[test]
fn every_field_class_and_role() {
    let directory = tempfile::tempdir().unwrap();
    let packet = write_every_class(directory.path());
    let line = readable(directory.path());
    let expected = "00:00:05.000000301  DEBUG_UNIT all  array.bits=0xabc reversed=2 map=high|low yes=true vu=0x98765 vs=minus f=1.5 \
                    z=\"h€\" s=\"ab\" d=\"xyz\" b=0xdead in={some=9 none=none blob=0xbeef} list=[7, 8] seq=[9, 10] \
                    v=1(\"end\")  [n 3]\n";
    assert_eq!(line, expected);
    let trace = Trace::open(directory.path()).unwrap();
    let stream = trace.declarations().stream(0).unwrap();
    let size = &stream.packet_context.as_ref().unwrap().structure.members[1].class;
    assert!(matches!(size.integer().unwrap().role, Some(Role::PacketBits | Role::ContentBits)));
    // Every cut is an error of its own kind, and never more.
    for length in 0..packet.len() {
        fs::write(directory.path().join("stream"), &packet[..length]).unwrap();
        let cut = read(directory.path()).unwrap();
        assert_eq!(cut.errors.len(), usize::from(length > 0), "{length}: {:?}", cut.errors);
        assert!(cut.text.is_empty());
    }
}

#[test]
fn metadata_cut_in_its_last_fragment_keeps_the_others() {
    let schema = schema(Vec::new(), vec![vec![field("a", FieldClass::Bool)]; 2]);
    let whole = metadata::json::write(&schema);
    let last = whole.rfind('\u{1E}').unwrap();
    let directory = tempfile::tempdir().unwrap();
    for end in [last + 2, last + 30, whole.len() - 3] {
        fs::write(directory.path().join("metadata"), &whole[..end]).unwrap();
        let trace = Trace::open(directory.path()).unwrap();
        assert_eq!(trace.declarations().events().len(), schema.events().len() - 1);
        assert!(matches!(trace.damage(), [error] if error.is_metadata()), "{:?}", trace.damage());
    }
}

/// What babeltrace2 2.1 says of a trace in a directory made by `make`, where it is there.
fn judged(make: impl FnOnce(&std::path::Path)) -> Option<(String, String)> {
    let root = std::path::PathBuf::from(std::env::var_os("BABELTRACE2_CHROOT")?);
    let directory = tempfile::tempdir_in(root.join("tmp")).unwrap();
    make(directory.path());
    let ours = read(directory.path()).unwrap();
    assert!(ours.errors.is_empty(), "{:?}", ours.errors);
    let inside = std::path::Path::new("/tmp").join(directory.path().file_name().unwrap());
    let mut babeltrace2 = std::process::Command::new("chroot");
    let output = babeltrace2.arg(&root).args(["babeltrace2", "--clock-gmt"]).arg(inside).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((String::from_utf8_lossy(&ours.text).into_owned(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// From either form to the other, and back; babeltrace2 reads what became CTF 1.8.
    #[test]
    fn converted_metadata_say_the_same(context in fields(class(), 0..3), payloads in prop::collection::vec(fields(class(), 0..5), 1..8),
                                       packets in 0u64..4, seed in any::<u64>()) {
        let directory = tempfile::tempdir().unwrap();
        let schema = schema(context, payloads);
        write_trace(directory.path(), &schema, 3, packets, seed);
        convert(directory.path(), Format::Ctf2);
        convert(directory.path(), Format::Ctf18);
        assert_agreement(directory.path());
    }

    #[test]
    fn what_was_written_as_ctf_2_becomes_ctf_18(payloads in prop::collection::vec(fields(class(), 0..5), 1..8), seed in any::<u64>()) {
        let directory = tempfile::tempdir().unwrap();
        let schema = schema(Vec::new(), payloads);
        write_trace(directory.path(), &schema, 3, 3, seed);
        fs::write(directory.path().join("metadata"), Format::Ctf2.write(&schema)).unwrap();
        let declarations = Trace::open(directory.path()).unwrap().declarations().clone();
        fs::write(directory.path().join("metadata"), Format::Ctf18.convert(&declarations).unwrap()).unwrap();
        assert_agreement(directory.path());
        let converted = Trace::open(directory.path()).unwrap();
        for (before, after) in declarations.events().into_iter().zip(converted.declarations().events()) {
            prop_assert_eq!((&before.name, before.level, &before.source), (&after.name, after.level, &after.source));
        }
    }
}

/// Metadata of one event class with some members, and a stream of one event.
fn write_event(directory: &std::path::Path, members: &[(&str, String)], stream: &[u8]) {
    let preamble =
        "\u{1E}{\"type\":\"preamble\",\"version\":2}\n\u{1E}{\"type\":\"trace-class\"}\n\u{1E}{\"type\":\"data-stream-class\"}\n";
    let members: Vec<_> = members.iter().map(|(name, class)| format!(r#"{{"name":"{name}","field-class":{class}}}"#)).collect();
    let members = members.join(",");
    let event = format!(
        "\u{1E}{{\"type\":\"event-record-class\",\"name\":\"e\",\"payload-field-class\":{{\"type\":\"structure\",\"member-classes\":[{members}]}}}}\n"
    );
    fs::write(directory.join("metadata"), format!("{preamble}{event}")).unwrap();
    fs::write(directory.join("stream"), stream).unwrap();
}

const BYTE: &str = r#"{"type":"fixed-length-unsigned-integer","length":8,"alignment":8,"byte-order":"little-endian"}"#;
const BOOLEAN: &str = r#"{"type":"fixed-length-boolean","length":8,"alignment":8,"byte-order":"little-endian"}"#;

/// What CTF 1.8 has other words for.
#[test]
fn classes_of_ctf_2_in_ctf_18() {
    let some = |tag: &str, more: &str| {
        format!(r#"{{"type":"optional","selector-field-location":{{"path":["{tag}"]}}{more},"field-class":{BYTE}}}"#)
    };
    let members = [
        (
            "a.b",
            r#"{"type":"fixed-length-bit-map","length":8,"alignment":8,"byte-order":"little-endian","flags":{"high":[[7,7]]}}"#
                .to_owned(),
        ),
        ("yes", BOOLEAN.to_owned()),
        ("some", some("yes", "")),
        ("kind", BYTE.to_owned()),
        ("none", some("kind", r#","selector-field-ranges":[[3,4],[9,9]]"#)),
        ("there", some("kind", r#","selector-field-ranges":[[3,4],[9,9]]"#)),
        ("fixed", r#"{"type":"static-length-blob","length":2}"#.to_owned()),
        ("count", BYTE.to_owned()),
        ("blob", r#"{"type":"dynamic-length-blob","length-field-location":{"path":["count"]}}"#.to_owned()),
        ("text", r#"{"type":"static-length-string","length":3}"#.to_owned()),
        (
            "option",
            format!(
                r#"{{"type":"variant","selector-field-location":{{"path":["count"]}},"options":[
            {{"name":"int","selector-field-ranges":[[0,1]],"field-class":{BYTE}}},
            {{"name":"two words","selector-field-ranges":[[2,7]],"field-class":{{"type":"null-terminated-string"}}}}]}}"#
            ),
        ),
    ];
    let directory = tempfile::tempdir().unwrap();
    let stream = [0x81, 5, 7, 9, 1, 2, 0xDE, 0xAD, 2, 0xBE, 0xEF, b'a', b'b', 0, b'o', b'k', 0];
    write_event(directory.path(), &members, &stream);
    let line = readable(directory.path());
    assert!(line.contains("some=7") && line.contains("blob=0xbeef") && line.contains("option=\"two words\"(\"ok\")"), "{line}");
    let declarations = Trace::open(directory.path()).unwrap().declarations().clone();
    fs::write(directory.path().join("metadata"), Format::Ctf18.convert(&declarations).unwrap()).unwrap();
    let text = String::from_utf8(assert_agreement(directory.path()).text).unwrap();
    let expected = "e: { a_b = 0x81, yes = ( \"some\" : container = 5 ), some = { 7 }, kind = ( \"some\" : container = 9 ), \
                    none = { 1 }, there = { 2 }, fixed = [ [0] = 0xDE, [1] = 0xAD ], count = ( \"_two_words\" : container = 2 ), \
                    blob = [ [0] = 0xBE, [1] = 0xEF ], text = \"ab\", option = { \"ok\" } }\n";
    assert_eq!(text, expected);
}

#[test]
fn what_ctf_18_has_no_word_for_is_named() {
    let variant = |name: &str, low: u32| {
        format!(
            r#"{{"type":"variant","selector-field-location":{{"path":["n"]}},"options":[
            {{"name":"{name}","selector-field-ranges":[[{low},9]],"field-class":{BYTE}}}]}}"#
        )
    };
    let cases = [
        (
            vec![("v", r#"{"type":"variable-length-unsigned-integer"}"#.to_owned())],
            "e, v: CTF 1.8 has no integers of variable length",
        ),
        (vec![("w", r#"{"type":"null-terminated-string","encoding":"utf-16be"}"#.to_owned())], "e, w: CTF 1.8 has no texts"),
        (
            vec![(
                "r",
                r#"{"type":"fixed-length-unsigned-integer","length":4,"byte-order":"big-endian","bit-order":"first-to-last"}"#
                    .to_owned(),
            )],
            "e, r: CTF 1.8 has no bits in an unusual order",
        ),
        (
            vec![(
                "h",
                r#"{"type":"fixed-length-floating-point-number","length":16,"alignment":8,"byte-order":"big-endian"}"#.to_owned(),
            )],
            "e, h: CTF 1.8 has no floating point numbers of 16 bits",
        ),
        (
            vec![(
                "a",
                format!(r#"{{"type":"static-length-array","length":2,"minimum-alignment":64,"element-field-class":{BYTE}}}"#),
            )],
            "e, a: CTF 1.8 has no alignment of an array as a whole",
        ),
        (
            vec![("n", BYTE.to_owned()), ("x", variant("one", 1)), ("y", variant("one", 2))],
            "CTF 1.8 has no selector that chooses differently for two variants",
        ),
    ];
    for (members, phrase) in cases {
        let directory = tempfile::tempdir().unwrap();
        write_event(directory.path(), &members, &[9, 9, 9, 0, 0]);
        let declarations = Trace::open(directory.path()).unwrap().declarations().clone();
        let error = Format::Ctf18.convert(&declarations).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains(phrase), "{error}");
        assert_eq!(trace_ctf::ctf2::parse(Format::Ctf2.convert(&declarations).unwrap().as_bytes()).unwrap(), declarations);
    }
}

/// babeltrace2 has none of more than 64 bits.
#[test]
fn integers_are_as_long_as_they_are() {
    let variable = |sign: &str, more: &str| format!(r#"{{"type":"variable-length-{sign}-integer"{more}}}"#);
    let members = [
        ("n", variable("unsigned", "")),
        (
            "list",
            format!(r#"{{"type":"dynamic-length-array","length-field-location":{{"path":["n"]}},"element-field-class":{BYTE}}}"#),
        ),
        ("u", variable("unsigned", "")),
        ("s", variable("signed", "")),
        ("x", variable("unsigned", r#","preferred-display-base":16"#)),
        ("uuid", r#"{"type":"fixed-length-bit-array","length":128,"alignment":8,"byte-order":"big-endian"}"#.to_owned()),
    ];
    let leb128 = |mut value: u128| {
        let mut bytes = Vec::new();
        while value > 0x7F {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let event = |u: u128, s: &[u8], x: u128| [&[2, 7, 8][..], &leb128(u), s, &leb128(x), &1u128.to_be_bytes()].concat();
    let lowest = [vec![0x80; 18], vec![0x7E]].concat();
    let stream = [event(u128::MAX, &lowest, 0xFF << 64), event(5, &[0x7F], 16), event(1 << 64, &[0x40], 1)].concat();
    let directory = tempfile::tempdir().unwrap();
    write_event(directory.path(), &members, &stream);
    let expected = format!(
        "e  list=[7, 8] u={} s={} x=0xff0000000000000000 uuid=0x1\n\
         e  list=[7, 8] u=5 s=-1 x=0x10 uuid=0x1\n\
         e  list=[7, 8] u=18446744073709551616 s=-64 x=0x1 uuid=0x1\n",
        u128::MAX,
        i128::MIN
    );
    assert_eq!(readable(directory.path()), expected);
    let exact = read(directory.path()).unwrap();
    assert!(exact.errors.is_empty(), "{:?}", exact.errors);
    let first = format!(
        "e: {{ n = 2, list = [ [0] = 7, [1] = 8 ], u = {}, s = {}, x = 0xFF0000000000000000, uuid = 0x{:X} }}\n",
        u128::MAX,
        i128::MIN,
        1
    );
    assert_eq!(String::from_utf8(exact.text).unwrap().lines().next(), first.lines().next());
    // Again, from what is written of it.
    convert(directory.path(), Format::Ctf2);
    assert_eq!(readable(directory.path()), expected);
    // A length has 64 bits.
    write_event(directory.path(), &members, &leb128(1 << 64));
    let error = &read(directory.path()).unwrap().errors[0];
    assert!(error.is_corrupt() && error.to_string().contains("integer of more than 64 bits"), "{error}");
}

#[test]
fn what_64_bits_must_hold_is_named() {
    let bits = |kind: &str, more: &str| format!(r#"{{"type":"{kind}","length":72,"byte-order":"big-endian"{more}}}"#);
    let cases = [
        (bits("fixed-length-boolean", ""), "a fixed length boolean of 72 bits"),
        (bits("fixed-length-bit-map", r#","flags":{"a":[[0,1]]}"#), "a fixed length bit map of 72 bits"),
        (bits("fixed-length-signed-integer", r#","mappings":{"a":[[0,1]]}"#), "an integer with mappings, of 72 bits"),
        (bits("fixed-length-unsigned-integer", r#","roles":["event-record-class-id"]"#), "an integer with a role, of 72 bits"),
        (bits("fixed-length-unsigned-integer", "").replace("72", "129"), "a fixed length unsigned integer of 129 bits"),
    ];
    for (class, phrase) in cases {
        let directory = tempfile::tempdir().unwrap();
        write_event(directory.path(), &[("x", class)], &[0; 20]);
        let error = Trace::open(directory.path()).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains(phrase), "{error}");
    }
}

#[test]
fn every_class_is_the_same_again() {
    let declarations = trace_ctf::ctf2::parse(EVERY_CLASS.as_bytes()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    write_every_class(directory.path());
    let before = readable(directory.path());
    fs::write(directory.path().join("metadata"), Format::Ctf2.convert(&declarations).unwrap()).unwrap();
    assert_eq!(readable(directory.path()), before);
}

/// Values that are text of their own in CTF 2, as babeltrace2 2.1 shows them.
#[test]
fn values_of_ctf_2_as_text() {
    let preamble =
        "\u{1E}{\"type\":\"preamble\",\"version\":2}\n\u{1E}{\"type\":\"trace-class\"}\n\u{1E}{\"type\":\"data-stream-class\"}\n";
    let byte = r#"{"type":"fixed-length-unsigned-integer","length":8,"alignment":8,"byte-order":"little-endian"}"#;
    let members = [
        ("bits", r#"{"type":"fixed-length-bit-array","length":12,"alignment":8,"byte-order":"big-endian"}"#.to_owned()),
        ("map", r#"{"type":"fixed-length-bit-map","length":8,"alignment":8,"byte-order":"little-endian","flags":{"high":[[7,7]],"low":[[0,1]]}}"#.to_owned()),
        ("yes", r#"{"type":"fixed-length-boolean","length":8,"alignment":8,"byte-order":"little-endian"}"#.to_owned()),
        ("some", format!(r#"{{"type":"optional","selector-field-location":{{"path":["yes"]}},"field-class":{byte}}}"#)),
        ("no", r#"{"type":"fixed-length-boolean","length":8,"alignment":8,"byte-order":"little-endian"}"#.to_owned()),
        ("none", format!(r#"{{"type":"optional","selector-field-location":{{"path":["no"]}},"field-class":{byte}}}"#)),
        ("leb", r#"{"type":"variable-length-signed-integer","mappings":{"minus":[[-5,-1]]}}"#.to_owned()),
        ("wide", r#"{"type":"null-terminated-string","encoding":"utf-16be"}"#.to_owned()),
        ("fixed", r#"{"type":"static-length-blob","length":2}"#.to_owned()),
        ("count", byte.to_owned()),
        ("blob", r#"{"type":"dynamic-length-blob","length-field-location":{"path":["count"]}}"#.to_owned()),
    ];
    let members: Vec<_> = members.iter().map(|(name, class)| format!(r#"{{"name":"{name}","field-class":{class}}}"#)).collect();
    let members = members.join(",");
    let event = format!(
        "\u{1E}{{\"type\":\"event-record-class\",\"name\":\"e\",\"payload-field-class\":{{\"type\":\"structure\",\"member-classes\":[{members}]}}}}\n"
    );
    let make = |directory: &std::path::Path| {
        fs::write(directory.join("metadata"), format!("{preamble}{event}")).unwrap();
        let stream = [0xAB, 0xC0, 0x81, 5, 7, 0, 0x7E, 0, b'h', 0x20, 0xAC, 0, 0, 0xDE, 0xAD, 0];
        fs::write(directory.join("stream"), stream).unwrap();
    };
    let directory = tempfile::tempdir().unwrap();
    make(directory.path());
    let ours = String::from_utf8(read(directory.path()).unwrap().text).unwrap();
    let expected = "e: { bits = 0xABC, map = 0x81 { \"high\", \"low\" }, yes = true, some = { 7 }, no = false, none = <none>, \
                    leb = ( \"minus\" : container = -2 ), wide = \"h€\", fixed = { de ad }, count = 0, blob = { } }\n";
    assert_eq!(ours, expected);
    if let Some((ours, theirs)) = judged(make) {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn babeltrace2_agrees() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 48, ..ProptestConfig::default() });
    let input = (fields(class(), 0..3), prop::collection::vec(fields(class(), 0..5), 1..8), any::<u64>());
    let agrees = runner.run(&input, |(context, payloads, seed)| {
        let schema = schema(context, payloads);
        // As a session writes it, and as a converted one.
        let is_converted = seed % 2 == 0;
        let said = judged(|directory| {
            write_trace(directory, &schema, 3, 4, seed);
            match is_converted {
                true => convert(directory, Format::Ctf2),
                false => fs::write(directory.join("metadata"), Format::Ctf2.write(&schema)).unwrap(),
            }
        });
        if let Some((ours, theirs)) = said {
            for (ours, theirs) in ours.lines().zip(theirs.lines()) {
                prop_assert_eq!(sorted_labels(ours), sorted_labels(theirs));
            }
            prop_assert_eq!(ours.lines().count(), theirs.lines().count());
        }
        Ok(())
    });
    if let Err(error) = agrees {
        panic!("{error}");
    }
}
