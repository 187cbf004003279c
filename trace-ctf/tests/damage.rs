//! Damaged traces: never a panic, everything that is whole, and an error that says where.

mod common;

use std::fs;

use common::{Random, StreamWriter, field, read, schema, write_trace};
use proptest::prelude::*;
use trace_ctf::metadata;
use trace_ctf::packet::HEADER_LEN;
use trace_ctf::reader::{Decoder, Entry, LossKind, Trace};
use trace_ctf::schema::{Field, FieldClass, Label, Schema, VariantOption};
use trace_ctf::text::Formatter;

fn every_class() -> Vec<Field> {
    let text = || FieldClass::String { length_bits: 16 };
    let label = |label: &str, low, high| Label { label: label.into(), low, high };
    vec![
        field("id", FieldClass::unsigned(64)),
        field("path", text()),
        field("state", FieldClass::Enumeration { bits: 8, signed: true, labels: vec![label("a", -1, 3), label("b", 4, 4)] }),
        field("parent", FieldClass::Optional(Box::new(text()))),
        field("names", FieldClass::Sequence { element: Box::new(text()), length_bits: 8 }),
        field(
            "kind",
            FieldClass::Variant {
                options: vec![
                    VariantOption { name: "None".into(), class: FieldClass::Structure(Vec::new()) },
                    VariantOption { name: "Some".into(), class: FieldClass::Float { bits: 64 } },
                ],
            },
        ),
        field("empty", FieldClass::Array { element: Box::new(FieldClass::Structure(Vec::new())), length: 3 }),
    ]
}

fn small() -> Schema {
    schema(vec![field("vtid", FieldClass::signed(32))], vec![every_class(), Vec::new()])
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').collect()
}

#[test]
fn a_stream_cut_anywhere_gives_what_precedes_the_cut() {
    let directory = tempfile::tempdir().unwrap();
    let schema = small();
    fs::write(directory.path().join("metadata"), metadata::write(&schema)).unwrap();
    let mut stream = StreamWriter::new(0, 0, 1000);
    let mut random = Random::new(5);
    (0..3).for_each(|_| stream.packet(&schema, 3, &mut random));
    let path = directory.path().join("chan_0");
    fs::write(&path, &stream.file).unwrap();
    let whole = read(directory.path()).unwrap();
    assert!(whole.errors.is_empty());
    let starts: Vec<u64> = [0].into_iter().chain(stream.entries.iter().map(|entry| entry.offset)).collect();
    let mut seen = 0;
    for length in 1..stream.file.len() as u64 {
        fs::write(&path, &stream.file[..length as usize]).unwrap();
        let cut = read(directory.path()).unwrap();
        let (all, some) = (lines(&whole.text), lines(&cut.text));
        assert_eq!(all[..some.len()], some, "cut at {length}");
        assert!(some.len() >= seen || length == 1, "cut at {length} loses events that a shorter file had");
        seen = some.len();
        let packet = starts.iter().rposition(|&start| start < length).unwrap();
        let begin = starts[packet];
        let content = stream.entries.iter().find(|entry| entry.offset == begin).map_or(84, |entry| entry.packet.content_bits / 8);
        // Inside padding, no event is missing.
        if length >= begin + content {
            assert_eq!(some.len(), packet * 3, "cut at {length}");
        }
        if starts.contains(&length) {
            assert!(cut.errors.is_empty(), "cut at {length}: {:?}", cut.errors);
        } else {
            let [error] = &cut.errors[..] else { panic!("cut at {length}: {:?}", cut.errors) };
            assert!(error.is_truncated(), "cut at {length}: {error}");
            assert_eq!(error.stream(), Some(&*path));
            assert_eq!((error.packet(), error.byte_offset()), (Some(packet as u64), Some(begin)));
        }
    }
}

#[test]
fn a_damaged_stream_does_not_hide_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let schema = small();
    write_trace(directory.path(), &schema, 3, 4, 77);
    let mut bytes = fs::read(directory.path().join("chan_1")).unwrap();
    bytes[128] ^= 1;
    fs::write(directory.path().join("chan_1"), &bytes).unwrap();
    fs::write(directory.path().join("chan_9"), [0; 4096]).unwrap();
    let damaged = read(directory.path()).unwrap();
    assert_eq!(damaged.errors.len(), 2, "{:?}", damaged.errors);
    assert!(damaged.errors.iter().all(trace_ctf::Error::is_corrupt));
    let messages: Vec<String> = damaged.errors.iter().map(ToString::to_string).collect();
    assert!(messages[0].ends_with("chan_9: packet 0, byte 0: no packet magic number"), "{messages:?}");
    assert!(messages[1].ends_with("chan_1: packet 1, byte 128: no packet magic number"), "{messages:?}");
    for name in ["chan_1", "chan_9"] {
        fs::remove_file(directory.path().join(name)).unwrap();
    }
    assert_eq!(lines(&read(directory.path()).unwrap().text).len(), lines(&damaged.text).len());
}

#[test]
fn metadata_cut_in_its_last_section_keeps_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let schema = small();
    write_trace(directory.path(), &schema, 1, 0, 1);
    let whole = metadata::write(&schema);
    let known = whole.rfind(metadata::SIGNATURE).unwrap();
    for end in [known + 20, known + 60, whole.len() - 4] {
        fs::write(directory.path().join("metadata"), &whole[..end]).unwrap();
        let trace = Trace::open(directory.path()).unwrap();
        assert_eq!(trace.declarations().events().len(), schema.events().len() - 1);
        let [error] = trace.damage() else { panic!("{:?}", trace.damage()) };
        assert!(error.is_metadata() && error.to_string().contains("metadata: line "), "{error}");
    }
    let first = metadata::head(&schema.trace).len();
    fs::write(directory.path().join("metadata"), &whole[..first / 2]).unwrap();
    assert!(Trace::open(directory.path()).unwrap_err().is_metadata());
}

#[test]
fn the_deepest_schema_is_read_back() {
    let deepen = |class: FieldClass, level: u32| match level % 3 {
        0 => FieldClass::Optional(Box::new(class)),
        1 => FieldClass::Sequence { element: Box::new(class), length_bits: 8 },
        _ => FieldClass::Variant { options: vec![VariantOption { name: "A".into(), class }] },
    };
    let deepest = (1..32).fold(FieldClass::String { length_bits: 8 }, deepen);
    let schema = schema(Vec::new(), vec![vec![field("deep", deepest)]]);
    let declared = trace_ctf::tsdl::parse(&metadata::write(&schema)).unwrap();
    assert_eq!(declared.events().len(), 3);
}

#[test]
fn losses_are_counted_by_kind() {
    let directory = tempfile::tempdir().unwrap();
    let schema = small();
    fs::write(directory.path().join("metadata"), metadata::write(&schema)).unwrap();
    let mut stream = StreamWriter::new(1, 4, 1000);
    let mut random = Random::new(6);
    stream.packet(&schema, 2, &mut random);
    stream.header.events_discarded = 7;
    stream.packet(&schema, 2, &mut random);
    stream.header.sequence += 2;
    stream.packet(&schema, 2, &mut random);
    fs::write(directory.path().join("chan"), &stream.file).unwrap();
    let losses = read(directory.path()).unwrap().losses;
    let counts: Vec<_> = losses.iter().map(|loss| (loss.kind, loss.count)).collect();
    assert_eq!(counts, [(LossKind::DiscardedEvents, Some(7)), (LossKind::LostPackets, Some(2))]);
    assert_eq!((losses[0].stream_class_id, losses[0].stream_instance_id), (1, Some(4)));
    // Without the opening packets, the count at the beginning may be older than the trace.
    let second = stream.entries[1].offset as usize;
    fs::write(directory.path().join("chan"), &stream.file[second..]).unwrap();
    assert_eq!(read(directory.path()).unwrap().losses[0].count, None);
}

#[test]
fn a_packet_in_memory_reads_as_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let schema = small();
    fs::write(directory.path().join("metadata"), metadata::write(&schema)).unwrap();
    let mut stream = StreamWriter::new(2, 0, 1000);
    stream.packet(&schema, 12, &mut Random::new(8));
    fs::write(directory.path().join("chan"), &stream.file).unwrap();
    let entry = stream.entries[0];
    let content = &stream.file[entry.offset as usize + HEADER_LEN..][..entry.packet.content_bits as usize / 8 - HEADER_LEN];

    // The classes become known one after the other, as in a running program.
    let mut known = Schema::new(schema.trace.clone()).unwrap();
    let (first, rest) = schema.events().split_first().unwrap();
    known.add(first.clone()).unwrap();
    let mut decoder = Decoder::new(&known).unwrap();
    rest.iter().for_each(|class| decoder.add(class).unwrap());
    let packet = decoder.packet(&entry.packet, content).unwrap();
    let mut text = Vec::new();
    let mut formatter = Formatter::utc();
    let mut events = packet.events();
    while let Some(event) = events.next_event() {
        formatter.event(&event.unwrap(), &mut text);
    }
    assert_eq!(text, read(directory.path()).unwrap().text);
}

#[test]
fn values_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let schema = small();
    fs::write(directory.path().join("metadata"), metadata::write(&schema)).unwrap();
    let mut stream = StreamWriter::new(0, 0, 1000);
    stream.packet(&schema, 12, &mut Random::new(9));
    fs::write(directory.path().join("chan"), &stream.file).unwrap();
    let trace = Trace::open(directory.path()).unwrap();
    let mut merge = trace.merge();
    let mut found = 0;
    while let Some(Ok(Entry::Event(event))) = merge.next_entry() {
        let payload = event.payload();
        if event.class().id == 0 {
            found += 1;
            assert!(payload.member("id").unwrap().as_u64().is_some());
            assert!(!payload.member("path").unwrap().as_str().unwrap().is_empty());
            assert_eq!(payload.member("_path_length"), None);
        }
    }
    assert!(found > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
                                 cut in any::<prop::sample::Index>(), seed in any::<u64>(), metadata_too in any::<bool>()) {
        let directory = tempfile::tempdir().unwrap();
        let schema = small();
        write_trace(directory.path(), &schema, 2, 3, seed);
        let names: &[&str] = if metadata_too { &["metadata", "chan_0"] } else { &["chan_0", "chan_1"] };
        for name in names {
            let path = directory.path().join(name);
            let mut bytes = fs::read(&path).unwrap();
            for (place, value) in &flips {
                *place.get_mut(&mut bytes) = *value;
            }
            let length = bytes.len() - if *name == "metadata" { 0 } else { cut.index(bytes.len()) / 4 };
            fs::write(&path, &bytes[..length]).unwrap();
        }
        let _ = read(directory.path());
        if let Ok(trace) = Trace::open(directory.path()) {
            for class in trace.declarations().events() {
                let stream = trace.declarations().stream(class.stream_id).unwrap();
                trace_ctf::text::describe(stream, class);
            }
        }
    }

    #[test]
    fn any_content_never_panics(content in prop::collection::vec(any::<u8>(), 0..300), class in 0u32..4) {
        let mut decoder = Decoder::new(&small()).unwrap();
        let header = trace_ctf::packet::PacketHeader { stream_class_id: class, ..Default::default() };
        if let Ok(packet) = decoder.packet(&header, &content) {
            let mut text = Vec::new();
            let mut formatter = Formatter::utc();
            let mut events = packet.events();
            while let Some(event) = events.next_event() {
                let Ok(event) = event else { continue };
                formatter.event(&event, &mut text);
                event.payload();
            }
        }
    }
}
