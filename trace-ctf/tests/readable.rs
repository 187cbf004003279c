//! Events for people: every field class, and nothing that could surprise a terminal.

#[path = "common/classes.rs"]
mod classes;
mod common;

use classes::{class, fields};
use common::{field, schema, write_trace};
use proptest::prelude::*;
use trace_ctf::packet::PacketHeader;
use trace_ctf::reader::{Decoder, Entry, Loss, LossKind, Trace};
use trace_ctf::schema::{
    Base, Clock, EventClass, EventHeader, Field, FieldClass, Label, Level, Schema, StreamClass, Trace as TraceClass,
    VariantOption,
};
use trace_ctf::text::Readable;

const TEXT: FieldClass = FieldClass::String { length_bits: 8 };
const BYTE: FieldClass = FieldClass::unsigned(8);

/// The payload of one event as it is shown, by the fields and the bytes of their values.
fn show(fields: Vec<Field>, bytes: &[u8]) -> String {
    let line = line(Readable::utc(), EventClass { fields, ..event_class(0, "e") }, bytes);
    let line = line.strip_prefix("00:00:05.000000000  e").and_then(|line| line.strip_suffix("  [cpu 3 vtid 42]\n"));
    line.expect("time, name and context").trim_start().to_owned()
}

fn one(class: FieldClass, bytes: &[u8]) -> String {
    let shown = show(vec![field("x", class)], bytes);
    shown.strip_prefix("x=").unwrap_or_else(|| panic!("{shown}")).to_owned()
}

fn line(mut readable: Readable, class: EventClass, bytes: &[u8]) -> String {
    let (id, mut content) = (class.id, Vec::new());
    let mut decoder = decoder(vec![field("vtid", FieldClass::signed(32))], [class]);
    EventHeader::Full.encode(id, 5_000_000_000, 0, &mut content);
    content.extend(42_i32.to_le_bytes());
    content.extend(bytes);
    let packet = decoder.packet(&PacketHeader { cpu_id: 3, ..PacketHeader::default() }, &content).unwrap();
    let mut line = Vec::new();
    let mut events = packet.events();
    readable.event(&events.next_event().unwrap().unwrap(), &mut line);
    assert!(events.next_event().is_none());
    String::from_utf8(line).unwrap()
}

fn event_class(id: u32, name: &str) -> EventClass {
    EventClass { stream_id: 0, id, name: name.into(), level: Some(Level::Info), source: None, fields: Vec::new() }
}

fn decoder(context: Vec<Field>, classes: impl IntoIterator<Item = EventClass>) -> Decoder {
    let clock = Clock { name: "c".into(), ..Clock::default() };
    let streams = vec![StreamClass { id: 0, header: EventHeader::Full, context }];
    let mut schema = Schema::new(TraceClass { uuid: [1; 16], environment: Vec::new(), clock, streams }).unwrap();
    classes.into_iter().for_each(|class| schema.add(class).unwrap());
    Decoder::new(&schema).unwrap()
}

fn structure(fields: &[(&str, FieldClass)]) -> FieldClass {
    FieldClass::Structure(fields.iter().map(|(name, class)| field(name, class.clone())).collect())
}

fn optional(class: FieldClass) -> FieldClass {
    FieldClass::Optional(Box::new(class))
}

fn sequence(class: FieldClass) -> FieldClass {
    FieldClass::Sequence { element: Box::new(class), length_bits: 8 }
}

#[test]
fn numbers() {
    let integer = |bits, signed, base| FieldClass::Integer { bits, signed, base, big_endian: false };
    assert_eq!(one(FieldClass::unsigned(64), &[0xFF; 8]), "18446744073709551615");
    assert_eq!(one(FieldClass::signed(16), &[0xFE, 0xFF]), "-2");
    assert_eq!(one(FieldClass::hex(32), &[0xEF, 0xBE, 0xAD, 0xDE]), "0xdeadbeef");
    assert_eq!(one(integer(8, true, Base::Hex), &[0xFE]), "0xfe");
    assert_eq!(one(integer(8, false, Base::Oct), &[8]), "0o10");
    assert_eq!(one(integer(8, false, Base::Bin), &[5]), "0b101");
    assert_eq!(one(FieldClass::Float { bits: 32 }, &0.1_f32.to_le_bytes()), "0.1");
    assert_eq!(one(FieldClass::Float { bits: 64 }, &0.1_f64.to_le_bytes()), "0.1");
    assert_eq!(one(FieldClass::Float { bits: 64 }, &1e300_f64.to_le_bytes()), "1e300");
    assert_eq!(one(FieldClass::Float { bits: 64 }, &f64::NEG_INFINITY.to_le_bytes()), "-inf");
}

#[test]
fn units_follow_values() {
    let unit = |unit: &str, class| vec![Field { unit: Some(unit.into()), ..field("x", class) }, field("y", BYTE)];
    assert_eq!(show(unit("B", FieldClass::unsigned(32)), &[0, 16, 0, 0, 1]), "x=4096 B y=1");
    assert_eq!(show(unit("µs", sequence(BYTE)), &[2, 7, 8, 1]), "x=[7, 8] µs y=1");
    assert_eq!(show(unit("ns", optional(BYTE)), &[1, 7, 1]), "x=7 ns y=1");
    assert_eq!(show(unit("ns", optional(BYTE)), &[0, 1]), "x=none y=1");
    assert_eq!(show(unit("ns", FieldClass::Redacted), &[0, 1]), "x=<redacted> y=1");
    assert_eq!(show(unit("a\u{1b}[0m", BYTE), &[7, 1]), r"x=7 a\u{1b}[0m y=1");
    let inner = FieldClass::Structure(vec![Field { unit: Some("B".into()), ..field("n", BYTE) }]);
    assert_eq!(show(unit("ms", inner), &[7, 1]), "x={n=7 B} ms y=1");
}

#[test]
fn enumerations_are_labels() {
    let label = |label: &str, low, high| Label { label: label.into(), low, high };
    let labels = vec![label("LRU", 1, 1), label("a b", 2, 2), label("low", 3, 5), label("odd", 5, 5), label("\u{1b}", 6, 6)];
    let class = FieldClass::Enumeration { bits: 8, signed: true, labels };
    let shown: Vec<String> = [1, 2, 4, 5, 6, 0xF0].iter().map(|&value| one(class.clone(), &[value])).collect();
    assert_eq!(shown, ["LRU", "\"a b\"", "low", "low|odd", r#""\u{1b}""#, "-16"]);
    let shown: Vec<String> = [0, 1, 2].iter().map(|&value| one(FieldClass::Bool, &[value])).collect();
    assert_eq!(shown, ["false", "true", "2"]);
    assert_eq!(one(FieldClass::Redacted, &[0]), "<redacted>");
}

#[test]
fn texts_are_escaped() {
    assert_eq!(one(TEXT, b"\x0b/index.html"), "\"/index.html\"");
    assert_eq!(one(TEXT, b"\x00"), "\"\"");
    assert_eq!(one(TEXT, b"\x08a\x1b[1m\0\n\xFF"), r#""a\u{1b}[1m\0\n\xff""#);
}

#[test]
fn lengths_and_tags_are_left_out() {
    let variant = FieldClass::Variant {
        options: vec![
            VariantOption { name: "Closed".into(), class: structure(&[]) },
            VariantOption { name: "Created".into(), class: structure(&[("path", TEXT), ("mode", BYTE)]) },
            VariantOption { name: "Renamed".into(), class: structure(&[("_0", TEXT), ("_1", optional(BYTE))]) },
            VariantOption { name: "Plain".into(), class: BYTE },
            VariantOption { name: "Named".into(), class: structure(&[("value", TEXT)]) },
        ],
    };
    let cases: [(FieldClass, &[u8], &str); 19] = [
        (sequence(BYTE), &[2, 1, 2], "[1, 2]"),
        (sequence(BYTE), &[0], "[]"),
        (sequence(TEXT), &[2, 1, b'a', 0], r#"["a", ""]"#),
        (sequence(sequence(BYTE)), &[2, 1, 7, 0], "[[7], []]"),
        (FieldClass::Array { element: Box::new(optional(BYTE)), length: 2 }, &[0, 1, 5], "[none, 5]"),
        (structure(&[("x", BYTE), ("y", TEXT)]), &[1, 1, b'a'], r#"{x=1 y="a"}"#),
        (structure(&[]), &[], "{}"),
        (structure(&[("_0", BYTE), ("_1", sequence(BYTE))]), &[1, 1, 2], "(1, [2])"),
        (optional(TEXT), &[0], "none"),
        (optional(TEXT), &[1, 1, b'a'], r#""a""#),
        (optional(optional(BYTE)), &[1, 0], "none"),
        (optional(structure(&[("x", BYTE)])), &[1, 4], "{x=4}"),
        (variant.clone(), &[0], "Closed"),
        (variant.clone(), &[1, 1, b'a', 6], r#"Created{path="a" mode=6}"#),
        (variant.clone(), &[2, 1, b'a', 0], r#"Renamed("a", none)"#),
        (variant.clone(), &[3, 9], "Plain(9)"),
        (variant.clone(), &[4, 1, b'a'], r#"Named{value="a"}"#),
        (sequence(variant.clone()), &[2, 0, 3, 9], "[Closed, Plain(9)]"),
        (optional(variant), &[1, 0], "Closed"),
    ];
    for (class, bytes, expected) in cases {
        assert_eq!(show(vec![field("x", class), field("y", BYTE)], &[bytes, &[1]].concat()), format!("x={expected} y=1"));
    }
    assert_eq!(show(Vec::new(), &[]), "");
}

#[test]
fn levels_names_and_colors() {
    let show = |level, colors| line(Readable::utc().colors(colors), EventClass { level, ..event_class(0, "a:b") }, &[]);
    assert_eq!(show(None, false), "00:00:05.000000000  a:b  [cpu 3 vtid 42]\n");
    assert_eq!(show(Some(Level::Warning), false), "00:00:05.000000000  WARNING a:b  [cpu 3 vtid 42]\n");
    assert_eq!(
        show(Some(Level::Err), true),
        "\x1b[2m00:00:05.000000000\x1b[0m  \x1b[31mERR\x1b[0m \x1b[1ma:b\x1b[0m\x1b[2m  [cpu 3 vtid 42]\x1b[0m\n"
    );
    let odd = line(Readable::utc(), event_class(0, "a\u{1b}[1m\"b\n"), &[]);
    assert_eq!(odd, "00:00:05.000000000  a\\u{1b}[1m\"b\\n  [cpu 3 vtid 42]\n");
}

#[test]
fn deltas_and_names_of_threads() {
    let names = EventClass {
        fields: vec![field("tid", FieldClass::signed(32)), field("name", TEXT)],
        ..event_class(1, "ringtrace:thread_name")
    };
    let mut decoder = decoder(vec![field("vtid", FieldClass::signed(32)), field("cpu", BYTE)], [event_class(0, "e"), names]);
    let mut content = Vec::new();
    for (id, time, payload) in [
        (0, 1_000_000_000, &[][..]),
        (1, 1_000_000_500, b"\x2a\0\0\0\x02ab"),
        (0, 3_000_000_000, b""),
        (1, 3_000_000_001, b"\x2a\0\0\0\x03c d"),
        (0, 2_999_999_999, b""),
        (0, 3_000_000_002, b""),
    ] {
        EventHeader::Full.encode(id, time, 0, &mut content);
        content.extend(42_i32.to_le_bytes());
        content.push(7);
        content.extend(payload);
    }
    let packet = decoder.packet(&PacketHeader { cpu_id: 3, ..PacketHeader::default() }, &content).unwrap();
    let mut readable = Readable::utc().deltas(true);
    let mut events = packet.events();
    while let Some(event) = events.next_event() {
        readable.learn(&event.unwrap());
    }
    let mut lines = Vec::new();
    let mut events = packet.events();
    while let Some(event) = events.next_event() {
        readable.event(&event.unwrap(), &mut lines);
    }
    // The event's own context knows the CPU better than its packet.
    let expected = "\
00:00:01.000000000  +0.000000000  e  [vtid 42 ab cpu 7]
00:00:01.000000500  +0.000000500  ringtrace:thread_name  tid=42 name=\"ab\"  [vtid 42 ab cpu 7]
00:00:03.000000000  +1.999999500  e  [vtid 42 ab cpu 7]
00:00:03.000000001  +0.000000001  ringtrace:thread_name  tid=42 name=\"c d\"  [vtid 42 \"c d\" cpu 7]
00:00:02.999999999  -0.000000002  e  [vtid 42 ab cpu 7]
00:00:03.000000002  +0.000000003  e  [vtid 42 \"c d\" cpu 7]
";
    assert_eq!(String::from_utf8(lines).unwrap(), expected);
}

#[test]
fn losses_are_sentences() {
    let show = |loss: &Loss| {
        let mut out = Vec::new();
        Readable::utc().loss(loss, &mut out);
        String::from_utf8(out).unwrap()
    };
    let loss = Loss {
        kind: LossKind::DiscardedEvents,
        count: Some(12),
        begin: Some(5_000_000_000),
        end: Some(6_000_000_000),
        stream_class_id: 0,
        stream_instance_id: Some(3),
        file: Some(std::path::Path::new("a\u{1b}/chan_3").into()),
    };
    let expected =
        "12 events were discarded between 00:00:05.000000000 and 00:00:06.000000000  [stream class 0 stream 3 a\\u{1b}/chan_3]";
    assert_eq!(show(&loss), expected);
    let loss = Loss { kind: LossKind::LostPackets, count: Some(1), begin: None, file: None, ..loss };
    assert_eq!(show(&loss), "1 packet was lost before 00:00:06.000000000  [stream class 0 stream 3]");
    let loss = Loss { kind: LossKind::DiscardedEvents, count: None, end: None, stream_instance_id: None, ..loss };
    assert_eq!(show(&loss), "events may have been discarded  [stream class 0]");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_event_is_one_safe_line(context in fields(class(), 0..3), payloads in prop::collection::vec(fields(class(), 0..5), 1..8),
                                  seed in any::<u64>()) {
        let directory = tempfile::tempdir().unwrap();
        let schema = schema(context, payloads);
        let events = write_trace(directory.path(), &schema, 3, 3, seed);
        let trace = Trace::open(directory.path()).unwrap();
        let (mut plain, mut colored) = (Readable::utc().processes(true), Readable::utc().processes(true).colors(true));
        let mut merge = trace.merge();
        let mut shown = 0;
        while let Some(entry) = merge.next_entry() {
            let Entry::Event(event) = entry.unwrap() else { continue };
            shown += 1;
            let mut line = Vec::new();
            plain.event(&event, &mut line);
            let line = String::from_utf8(line).unwrap();
            let text = line.strip_suffix('\n').unwrap();
            prop_assert!(!text.contains(char::is_control), "{text:?}");
            prop_assert!(text.contains("  [host \"q\":proc:42 cpu "), "{text}");
            let mut same = Vec::new();
            colored.event(&event, &mut same);
            let same = String::from_utf8(same).unwrap();
            let mut pieces = same.split('\u{1b}');
            let first = pieces.next().unwrap_or_default().to_owned();
            let rest = pieces.map(|piece| piece.split_once('m').unwrap().1);
            prop_assert_eq!(rest.fold(first, |sum, piece| sum + piece), line);
        }
        prop_assert_eq!(shown, events);
    }
}
