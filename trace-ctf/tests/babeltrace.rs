//! babeltrace2 must read what we write without a complaint, and say what our reader says.

#[path = "common/classes.rs"]
mod classes;
mod common;

use classes::{class, fields};
use common::{assert_agreement, field, schema, write_trace};
use proptest::prelude::*;
use trace_ctf::schema::FieldClass;

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn both_readers_agree(context in fields(class(), 0..3), payloads in prop::collection::vec(fields(class(), 0..5), 1..8),
                          streams in 1u64..7, packets in 0u64..6, seed in any::<u64>()) {
        let directory = tempfile::tempdir().unwrap();
        let schema = schema(context, payloads);
        let events = write_trace(directory.path(), &schema, streams, packets, seed);
        let ours = assert_agreement(directory.path());
        let declared = trace_ctf::tsdl::parse(&trace_ctf::metadata::write(&schema)).unwrap();
        for class in schema.events() {
            let event = declared.stream(class.stream_id.into()).unwrap().event(class.id.into()).unwrap();
            prop_assert_eq!((&event.name, event.level, &event.source), (&class.name, class.level, &class.source));
            let units = event.fields.iter().flat_map(|root| &root.structure.members).filter_map(|member| member.unit.as_deref());
            prop_assert!(units.eq(class.fields.iter().filter_map(|field| field.unit.as_deref())));
        }
        prop_assert_eq!(ours.text.iter().filter(|&&byte| byte == b'\n').count() as u64, events);
    }
}

#[test]
fn metadata_that_grew_is_metadata_written_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let schema = schema(vec![field("vtid", FieldClass::signed(32))], vec![vec![field("n", FieldClass::unsigned(64))]; 3]);
    write_trace(directory.path(), &schema, 3, 4, 99);
    let mut text = trace_ctf::metadata::head(&schema.trace);
    for class in schema.events() {
        let section = trace_ctf::metadata::event(class);
        assert!(section.trim_start().starts_with(trace_ctf::metadata::SIGNATURE));
        text += &section;
    }
    assert_eq!(std::fs::read_to_string(directory.path().join("metadata")).unwrap(), text);
    assert_agreement(directory.path());
}

#[test]
fn an_empty_text_and_an_empty_payload() {
    let directory = tempfile::tempdir().unwrap();
    let text = field("text", FieldClass::String { length_bits: 16 });
    let schema = schema(Vec::new(), vec![vec![text], Vec::new()]);
    let mut stream = common::StreamWriter::new(0, 0, 5_000_000_000);
    stream.header.sequence = 1;
    // Event 0 with a text of no bytes, event 30 without fields.
    let mut content = Vec::new();
    trace_ctf::schema::EventHeader::Compact.encode(0, 5_000_000_001, 5_000_000_000, &mut content);
    content.extend([0, 0]);
    trace_ctf::schema::EventHeader::Compact.encode(30, 5_000_000_002, 5_000_000_001, &mut content);
    stream.header.timestamp_end = 5_000_000_002;
    stream.header.content_bits = (84 + content.len() as u64) * 8;
    stream.header.packet_bits = stream.header.content_bits;
    stream.file.extend(stream.header.encode(&common::UUID));
    stream.file.extend(content);
    std::fs::write(directory.path().join("metadata"), trace_ctf::metadata::write(&schema)).unwrap();
    std::fs::write(directory.path().join("chan_0"), &stream.file).unwrap();
    let text = String::from_utf8(assert_agreement(directory.path()).text).unwrap();
    assert!(text.contains("{ _text_length = 0, text = \"\" }\n") && text.ends_with("{ }\n"), "{text}");
}

/// As LTTng's snapshots, which overlap, and its rotations lie: each with the metadata of its time.
#[test]
fn parts_of_a_trace_are_read_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let class = || vec![field("n", FieldClass::unsigned(64))];
    let (first, all) = (schema(Vec::new(), vec![class()]), schema(Vec::new(), vec![class(), class()]));
    let mut stream = common::StreamWriter::new(1, 5, 5_000_000_000);
    let mut random = common::Random::new(4);
    (0..4).for_each(|_| stream.packet(&first, 12, &mut random));
    (0..6).for_each(|_| stream.packet(&all, 12, &mut random));
    let place = |number: usize| stream.entries.get(number).map_or(stream.file.len(), |entry| entry.offset as usize);
    for (name, schema, packets) in [("a/1", &first, 0..4), ("a/2", &all, 2..7), ("b/3", &all, 3..7), ("b/4", &all, 8..10)] {
        let part = directory.path().join(name).join("ust");
        std::fs::create_dir_all(&part).unwrap();
        std::fs::write(part.join("metadata"), trace_ctf::metadata::write(schema)).unwrap();
        std::fs::write(part.join("chan_5"), &stream.file[place(packets.start)..place(packets.end)]).unwrap();
    }
    let ours = assert_agreement(directory.path());
    assert_eq!(ours.text.iter().filter(|&&byte| byte == b'\n').count(), 9 * 12);
    assert_eq!(ours.losses.iter().map(|loss| loss.count).collect::<Vec<_>>(), [Some(1)]);
}

#[test]
fn files_of_one_stream_are_read_one_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let schema = schema(Vec::new(), vec![vec![field("n", FieldClass::unsigned(64))]]);
    std::fs::write(directory.path().join("metadata"), trace_ctf::metadata::write(&schema)).unwrap();
    let mut stream = common::StreamWriter::new(1, 5, 5_000_000_000);
    let mut random = common::Random::new(4);
    (0..6).for_each(|_| stream.packet(&schema, 12, &mut random));
    stream.header.events_discarded += 3;
    (0..2).for_each(|_| stream.packet(&schema, 12, &mut random));
    let cut = stream.entries[6].offset as usize;
    // The later file has the name that sorts first.
    std::fs::write(directory.path().join("a"), &stream.file[cut..]).unwrap();
    std::fs::write(directory.path().join("b"), &stream.file[..cut]).unwrap();
    let ours = assert_agreement(directory.path());
    assert_eq!(ours.text.iter().filter(|&&byte| byte == b'\n').count(), 96);
    assert_eq!(ours.losses.len(), 1);
}
