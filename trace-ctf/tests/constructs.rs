//! Constructs of CTF 1.8 that few tracers use, one by one: babeltrace2 must say the same of the good ones, and the bad ones are
//! refused with their line.
//!
//! `cargo xtask ctf-suite` reads the public suites.

mod common;

use std::fs;

use common::{assert_agreement, babeltrace2, read};
use proptest::prelude::*;

const TRACE: &str = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\n";
const U8: &str = "typealias integer { size = 8; } := u8;\n";

/// Asserts that both readers say the same of some streams, and gives the text.
fn agreed(metadata: impl AsRef<[u8]>, streams: &[&[u8]]) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("metadata"), metadata).unwrap();
    for (number, stream) in streams.iter().enumerate() {
        fs::write(directory.path().join(format!("stream_{number}")), stream).unwrap();
    }
    String::from_utf8(assert_agreement(directory.path()).text).unwrap()
}

#[test]
fn a_stream_class_need_not_be_declared() {
    let text = agreed(format!("{TRACE}{U8}event {{ name = e; fields := struct {{ u8 a; }}; }};"), &[&[1, 2]]);
    assert_eq!(text, "e: { a = 1 }\ne: { a = 2 }\n");
}

#[test]
fn characters_signs_and_escapes() {
    let attributes = r#"a = '\n'; b = '\''; d = +5; e = -5; f = "\x41\101\?";"#;
    let metadata = format!(
        "/* CTF 1.8 */\ntrace {{ {attributes} major = +1; minor = 8; byte_order = network; }};\n\
         env {{ hostname = \"seen\\0not seen\"; vpid = +7; }};\n\
         event {{ name = e; fields := struct {{ enum : integer {{ size = 16; signed = true; }} {{ low = -5, high = +5 }} a; }}; }};"
    );
    // Without these, babeltrace2 has nothing to warn of.
    let metadata = metadata.replace(attributes, "");
    assert!(trace_ctf::tsdl::parse(&metadata.replace("major", &format!("{attributes} major"))).is_ok());
    let text = agreed(metadata, &[&[0xFF, 0xFB, 0, 5]]);
    assert_eq!(text, "seen:(7) e: { a = ( \"low\" : container = -5 ) }\nseen:(7) e: { a = ( \"high\" : container = 5 ) }\n");
}

#[test]
fn structures_without_anything_between_them() {
    let metadata =
        format!("{TRACE}{U8}struct a {{ u8 x; }}\nstruct b {{ struct a y; }};\nevent {{ name = e; fields := struct a; }};");
    assert_eq!(agreed(&metadata, &[&[3]]), "e: { x = 3 }\n");
    // babeltrace2 forgets the second.
    assert!(trace_ctf::tsdl::parse(&metadata.replace(":= struct a", ":= struct b")).is_ok());
}

#[test]
fn times_without_a_clock_have_an_order() {
    let metadata = format!(
        "{TRACE}{U8}stream {{ event.header := struct {{ integer {{ size = 64; align = 8; }} timestamp; }}; }};\n\
         event {{ name = e; fields := struct {{ u8 a; }}; }};"
    );
    let stream = |times: [u64; 2], a: u8| times.map(|time| [&time.to_le_bytes()[..], &[a]].concat()).concat();
    let text = agreed(metadata, &[&stream([1, 4], 0), &stream([2, 3], 1)]);
    let seen: Vec<_> = text.lines().map(|line| (&line[18..19], &line[line.len() - 3..line.len() - 2])).collect();
    assert_eq!(seen, [("1", "0"), ("2", "1"), ("3", "1"), ("4", "0")], "{text}");
    // The time of a packet is the time of events that have none.
    let metadata =
        format!("{TRACE}{U8}stream {{ packet.context := struct {{ u8 timestamp_begin; }}; }};\nevent {{ name = e; }};");
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("metadata"), metadata.replace("name = e;", "name = e; fields := struct { u8 a; };")).unwrap();
    fs::write(directory.path().join("stream"), [9, 1]).unwrap();
    let text = String::from_utf8(assert_agreement(directory.path()).text).unwrap();
    assert_eq!(text, "[00:00:00.000000009] (+?.?????????) e: { a = 1 }\n");
}

#[test]
fn a_clock_may_stand_behind_what_it_counts() {
    let metadata = format!(
        "{TRACE}stream {{ event.header := struct {{ integer {{ size = 8; align = 8; }} timestamp; }}; }};\n\
         event {{ name = e; fields := struct {{ integer {{ size = 8; }} a; }}; }};\nclock {{ name = late; freq = 1000000000; offset_s = 3600; }};"
    );
    assert_eq!(agreed(metadata, &[&[5, 1]]), "[01:00:00.000000005] (+?.?????????) e: { a = 1 }\n");
}

#[test]
fn packets_of_another_uuid_are_read_and_known() {
    let metadata = format!(
        "/* CTF 1.8 */\n{U8}trace {{ major = 1; minor = 8; byte_order = le; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\";\n\
         packet.header := struct {{ u8 uuid[16]; }}; }};\nevent {{ name = e; fields := struct {{ u8 a; }}; }};"
    );
    let mut stream = [7; 17];
    assert_eq!(agreed(&metadata, &[&stream]), "e: { a = 7 }\n");
    let is_of_another = |stream: &[u8]| {
        let trace = trace_ctf::reader::Trace::in_memory(metadata.as_bytes(), [("stream", stream.to_vec())]).unwrap();
        let (packet, _) = trace.packets(&trace.streams()[0]).next().unwrap().unwrap();
        packet.info().is_of_another_trace
    };
    assert!(is_of_another(&stream));
    stream[..16].copy_from_slice(&[0x2a, 0x64, 0x22, 0xd0, 0x6c, 0xee, 0x11, 0xe0, 0x8c, 8, 0xcb, 7, 0xd7, 0xb3, 0xa5, 0x64]);
    assert!(!is_of_another(&stream));
}

/// What a reader needs to tell classes apart is there, or needs not be there: as babeltrace2 has it.
#[test]
fn classes_are_told_apart_where_there_are_several() {
    let event = |name: &str, id: &str| format!("event {{ name = {name}; {id} fields := struct {{ u8 a; }}; }};\n");
    let ids = "stream { event.header := struct { u8 id; }; };\n";
    // The only one, and the first one, may be without.
    let (one, other) = (event("e", ""), event("f", "id = 1;"));
    for (classes, stream, text) in [
        (format!("stream {{ }};\n{}", event("e", "id = 3;")), &[7, 8][..], "e: { a = 7 }\ne: { a = 8 }\n"),
        (format!("{ids}{one}{other}"), &[1, 7, 0, 8], "f: { a = 7 }\ne: { a = 8 }\n"),
    ] {
        assert_eq!(agreed(format!("{TRACE}{U8}{classes}"), &[stream]), text);
    }
    let trace = TRACE.replace("};", "packet.header := struct { integer { size = 8; } stream_id; }; };");
    let in_second = "event { name = g; id = 0; stream_id = 1; fields := struct { u8 a; }; };\n";
    let text = agreed(format!("{trace}{U8}stream {{ id = 0; }};\nstream {{ id = 1; }};\n{in_second}"), &[&[1, 7]]);
    assert_eq!(text, "g: { a = 7 }\n");
    // What we refuse, babeltrace2 does too.
    let two = "stream { id = 0; };\nstream { id = 1; };\n";
    for metadata in [
        format!("{TRACE}{U8}{ids}{other}{one}"),
        format!("{TRACE}{U8}stream {{ }};\n{one}{other}"),
        format!("{TRACE}{U8}{two}{in_second}"),
        format!("{TRACE}{U8}{one}").replace(" byte_order = le;", ""),
    ] {
        assert!(trace_ctf::tsdl::parse(&metadata).is_err_and(|error| error.is_metadata()), "{metadata}");
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("metadata"), &metadata).unwrap();
        fs::write(directory.path().join("stream"), [1, 7]).unwrap();
        let (text, messages) = babeltrace2(directory.path());
        assert!(text.is_empty() && messages.contains("CAUSED BY"), "{metadata}\n{messages}");
    }
}

/// A packet context is shown if it shows something, or never had anything to show.
#[test]
fn contexts_of_packets_in_babeltraces_text() {
    let text = |context: &str, stream: &[u8]| {
        let stream_class = format!("stream {{ packet.context := struct {{ {context} }}; }};");
        let metadata = format!("{TRACE}{U8}{stream_class}\nevent {{ name = e; fields := struct {{ u8 a; }}; }};");
        agreed(metadata, &[stream])
    };
    assert_eq!(text("u8 packet_size; u8 content_size;", &[24, 24, 5]), "e: { a = 5 }\n");
    assert_eq!(text("u8 packet_size; u8 cpu_id;", &[24, 1, 5]), "e: { cpu_id = 1 }, { a = 5 }\n");
    assert_eq!(text("", &[5]), "e: { }, { a = 5 }\n");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Clocks that do not count nanoseconds: to the nanosecond as babeltrace2, whose arithmetic is inexact.
    #[test]
    fn babeltraces_text_has_babeltraces_times(frequency in prop_oneof![Just(2_445_375_000), 1u64..5_000_000_000, Just(3)],
                                              offset in prop_oneof![Just(0i64), 0i64..1 << 60], seconds in -10i64..4_000_000_000,
                                              times in prop::collection::vec((any::<u64>(), 8u32..64), 1..40)) {
        let metadata = format!(
            "{TRACE}clock {{ name = c; freq = {frequency}; offset_s = {seconds}; offset = {offset}; }};\n\
             stream {{ event.header := struct {{ integer {{ size = 64; align = 8; map = clock.c.value; }} timestamp; }}; }};\n\
             event {{ name = e; fields := struct {{ integer {{ size = 8; }} a; }}; }};"
        );
        let mut times: Vec<u64> = times.into_iter().map(|(time, shift)| time >> shift).collect();
        times.sort_unstable();
        // What one of both readers has no time for is of another test.
        let reach = |cycles: u64| (i128::from(cycles) + i128::from(offset)) / i128::from(frequency) + i128::from(seconds);
        times.retain(|&time| (0..9_000_000_000).contains(&reach(time)));
        prop_assume!((0..9_000_000_000).contains(&reach(0)));
        let stream: Vec<u8> = times.iter().flat_map(|time| [&time.to_le_bytes()[..], &[1]].concat()).collect();
        agreed(metadata, &[&stream]);
    }
}

#[test]
fn times_that_64_bits_cannot_hold_are_told() {
    let metadata = |frequency: u64, seconds: i64| {
        format!(
            "{TRACE}clock {{ name = c; freq = {frequency}; offset_s = {seconds}; }};\n\
             stream {{ event.header := struct {{ integer {{ size = 64; align = 8; map = clock.c.value; }} timestamp; }}; }};\n\
             event {{ name = e; fields := struct {{ integer {{ size = 8; }} a; }}; }};"
        )
    };
    for (frequency, seconds, last) in [(1_000_000_000, 0, 1 << 63), (1, 9_223_372_000, 37_000), (1_000_000_000, 1 << 60, 0)] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("metadata"), metadata(frequency, seconds)).unwrap();
        let stream: Vec<u8> = [0_u64, last].iter().flat_map(|time| [&time.to_le_bytes()[..], &[1]].concat()).collect();
        fs::write(directory.path().join("stream"), stream).unwrap();
        let ours = read(directory.path()).unwrap();
        let [error] = &ours.errors[..] else { panic!("{:?}", ours.errors) };
        assert!(error.is_corrupt() && error.to_string().contains("292 years"), "{error}");
        let events = ours.text.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!((events, error.byte_offset()), if last == 0 { (0, Some(0)) } else { (1, Some(9)) }, "{error}");
        let (text, messages) = babeltrace2(directory.path());
        assert!(text.iter().filter(|&&byte| byte == b'\n').count() <= events && messages.contains("CAUSED BY"), "{messages}");
    }
}

#[test]
fn bad_constructs_are_refused_with_their_line() {
    let event = "event { name = e; };";
    let two = "stream { id = 0; };\nstream { id = 1; };\nevent { name = e; stream_id = 1; };";
    let told = TRACE.replace("};", "packet.header := struct { integer { size = 8; } stream_id; }; };");
    let ids = "stream { event.header := struct { integer { size = 8; } id; }; };";
    let clocks = "clock { name = a; };\nclock { name = b; };";
    let cases = [
        (String::new(), 1, "no trace block"),
        ("/* CTF 1.8 */\n\n".into(), 3, "no trace block"),
        ("trace { major = 1;\nminor = 7; byte_order = le; };".into(), 2, "CTF 1.7 is not supported"),
        ("trace { major = 1;\nbyte_order = middle; };".into(), 2, "middle is no byte order"),
        ("trace { major = 1;\nminor = 8; };".into(), 1, "how bytes are ordered; add `byte_order = le;`"),
        (format!("{told}{two}\nevent {{ name = lost; id = 1; }};"), 6, "\"lost\" says of no stream class"),
        (format!("{TRACE}{two}"), 4, "no packet says of which it is; add the field `stream_id` to `packet.header`"),
        (format!("{TRACE}{ids}\nevent {{ name = a; id = 1; }};\n{event}"), 5, "\"e\" has no ID beside \"a\"; add `id = N;`"),
        (format!("{TRACE}{event}\nevent {{ name = a; id = 1; }};"), 4, "add the field `id` to `event.header` of stream class 0"),
        (format!("{TRACE}event {{ name = e; stream_id = 0; }};"), 3, "\"e\" without its stream class"),
        (format!("{TRACE}event {{ name = e; id = \"5\"; }};"), 3, "the ID \"5\" is no number"),
        (format!("{TRACE}{U8}typedef u8 a[n];\n{event}"), 4, "no field n in front of a"),
        (format!("{TRACE}{U8}typedef u8 a[typedef];"), 4, "typedef is a keyword"),
        (format!("{TRACE}{U8}typedef u8 a[4];\ntypedef u8 a[5];"), 5, "two types a"),
        (format!("{TRACE}{U8}{U8}"), 4, "two types u8"),
        (format!("{TRACE}{U8}struct s {{ u8 a; }};\nstruct s {{ u8 a; }};"), 5, "two types struct s"),
        (format!("{TRACE}{U8}typealias u8 := trace;"), 4, "trace is a keyword"),
        (format!("{TRACE}{U8}typedef u8 int;"), 4, "int is a keyword"),
        (format!("{TRACE}{U8}struct s {{ u8 callsite; }};"), 4, "callsite is a keyword"),
        (format!("{TRACE}enum e : integer {{ size = 8; }} {{\na, b = 256 }};"), 4, "label \"b\": 256 does not lie in 0 ... 255"),
        (
            format!("{TRACE}enum e : integer {{ size = 8; signed = true; }} {{ a = -129 ... 3 }};"),
            3,
            "-129 ... 3 does not lie in -128 ... 127",
        ),
        (format!("{TRACE}enum e : integer {{ size = 8; }} {{ a = 3 ... 2 }};"), 3, "label \"a\": 3 ... 2"),
        (format!("{TRACE}enum e : integer {{ size = 8; }} {{ }};"), 3, "an enumeration without labels"),
        (format!("{TRACE}typealias integer {{ size = 8; signed = maybe; }} := u8;"), 3, "signed cannot have this value"),
        (format!("{TRACE}typealias integer {{ size = 8; align = \"8\"; }} := u8;"), 3, "align cannot have this value"),
        (format!("{TRACE}typealias integer {{ size = 8; encoding = true; }} := u8;"), 3, "encoding cannot have this value"),
        (
            format!("{TRACE}{U8}struct s {{ enum : u8 {{ x, y }} t;\nvariant <t> {{ u8 a; u8 b; }} v; }};"),
            5,
            "no label of t is an option",
        ),
        (format!("{TRACE}{U8}struct s {{ string t;\nvariant <t> {{ u8 a; }} v; }};"), 5, "tag t is no enumeration"),
        (format!("{TRACE}{U8}struct s {{ enum : u8 {{ a }} t; variant <variant> {{ u8 a; }} v; }};"), 4, "variant is a keyword"),
        (format!("{TRACE}clock {{ name = a;\nfreq = 0; }};"), 4, "a clock of 0 Hz"),
        (format!("{TRACE}clock {{ name = a;\noffset = 18446744073709551615; }};"), 4, "18446744073709551615 is out of range"),
        (
            format!("{TRACE}{U8}{clocks}\nstream {{ event.header := struct {{ u8 timestamp; }};\n}};\n{event}"),
            6,
            "a time stamp that says of none of 2 clocks",
        ),
    ];
    for (metadata, line, what) in cases {
        let error = trace_ctf::tsdl::parse(&metadata).map(drop).expect_err(what).to_string();
        assert!(error.contains(what), "{error}, and not: {what}\n{metadata}");
        assert!(error.contains(&format!("line {line}: ")), "{error}, in line {line} of\n{metadata}");
    }
}

#[test]
fn metadata_of_ctf_2_has_a_stream_class() {
    let preamble = "\u{1e}{\"type\":\"preamble\",\"version\":2}\n\u{1e}{\"type\":\"trace-class\"}\n";
    let error = trace_ctf::ctf2::parse(preamble.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("line 3: no data stream class"), "{error}");
    assert!(trace_ctf::ctf2::parse(format!("{preamble}\u{1e}{{\"type\":\"data-stream-class\"}}\n").as_bytes()).is_ok());
}
