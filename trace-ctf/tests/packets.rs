//! Packets are found by indexes, and read in pieces where they are too large.

mod common;

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use common::{Random, StreamWriter, field, schema};
use trace_ctf::metadata;
use trace_ctf::packet::{HEADER_LEN, PacketHeader};
use trace_ctf::reader::{Entry, Merge, Selection, Trace};
use trace_ctf::schema::{EventHeader, FieldClass, Schema};

fn numbers() -> Schema {
    schema(Vec::new(), vec![vec![field("n", FieldClass::unsigned(64))]])
}

/// Times of the events from a time on, and what went wrong; losses by their end.
fn from(trace: &Trace, time: i64) -> (Vec<i64>, Vec<String>, Vec<Option<i64>>) {
    let mut merge = Merge::select([trace], Selection::default().from(time));
    let (mut times, mut errors, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(entry) = merge.next_entry() {
        match entry {
            Ok(Entry::Event(event)) => times.push(event.timestamp().unwrap()),
            Ok(Entry::Loss(loss)) => losses.push(loss.end),
            Err(error) => errors.push(error.to_string()),
        }
    }
    (times, errors, losses)
}

fn write_packets(directory: &Path, schema: &Schema) -> StreamWriter {
    fs::write(directory.join("metadata"), metadata::write(schema)).unwrap();
    let mut stream = StreamWriter::new(1, 0, 5_000_000_000);
    let mut random = Random::new(7);
    for number in 0..40 {
        stream.header.events_discarded += number % 3;
        stream.packet(schema, 5, &mut random);
        // Different from the one before, so that a time means one packet.
        stream.now += 10;
    }
    stream.write(directory, "chan");
    stream
}

#[test]
fn an_index_leads_to_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let stream = write_packets(directory.path(), &numbers());
    let clock = |cycles: u64| 1_700_000_000_123_456_789 + cycles as i64;
    let time = clock(stream.entries[25].packet.timestamp_begin);
    let file = directory.path().join("chan");
    let index = directory.path().join("index/chan.idx");
    let (bytes, idx) = (fs::read(&file).unwrap(), fs::read(&index).unwrap());
    let expected = from(&Trace::open(directory.path()).unwrap(), time);
    assert!(expected.0.len() == 75 && expected.1.is_empty() && expected.2.len() > 5, "{expected:?}");

    // Without it, all headers are passed: the same, once for a trace that is open.
    fs::remove_file(&index).unwrap();
    let trace = Trace::open(directory.path()).unwrap();
    assert_eq!(from(&trace, time), expected);

    // What lies in between is not looked at: by the index, or by what was passed before.
    let mut broken = bytes.clone();
    broken[stream.entries[10].offset as usize..][..4].fill(0);
    fs::write(&file, &broken).unwrap();
    assert_eq!(from(&trace, time), expected);
    let again = Trace::open(directory.path()).unwrap();
    assert!(from(&again, time).1[0].contains("no packet magic number"));
    fs::write(&index, &idx).unwrap();
    assert_eq!(from(&Trace::open(directory.path()).unwrap(), time), expected);
    fs::write(&file, &bytes).unwrap();

    // One that is not of this file misleads nobody: cut, of other sizes, of other times, of another version.
    let mut wrong = Vec::new();
    wrong.push(idx[..idx.len() - 3].to_vec());
    for (entry, at) in [(12, 15), (20, 31), (24, 39), (24, 7)] {
        let mut other = idx.clone();
        other[16 + 72 * entry + at] ^= 0x55;
        wrong.push(other);
    }
    let mut other = idx.clone();
    other[7] = 9;
    wrong.push(other);
    let mut longer = idx.clone();
    longer.extend(&idx[idx.len() - 72..]);
    wrong.push(longer);
    for idx in wrong {
        fs::write(&index, idx).unwrap();
        assert_eq!(from(&Trace::open(directory.path()).unwrap(), time), expected);
    }
}

const EVENTS: u64 = 700;

/// A packet of 32 MiB: events of a number and a text of some 40 KiB, one of more than a piece.
fn giant(padding: usize) -> (Schema, PacketHeader, Vec<u8>, Vec<usize>) {
    let text = FieldClass::String { length_bits: 32 };
    let schema =
        schema(vec![field("vtid", FieldClass::signed(32))], vec![vec![field("n", FieldClass::unsigned(64)), field("t", text)]]);
    let mut random = Random::new(3);
    let (mut content, mut lengths, mut now) = (Vec::new(), Vec::new(), 5_000_000_000);
    for number in 0..EVENTS {
        let length = if number == 300 { 6 << 20 } else { random.below(80_000) as usize + 1 };
        EventHeader::Compact.encode(0, now + 1 + number % 7, now, &mut content);
        now += 1 + number % 7;
        content.extend(77_i32.to_le_bytes());
        content.extend(number.to_le_bytes());
        content.extend((length as u32).to_le_bytes());
        content.resize(content.len() + length, b'a' + (number % 26) as u8);
        lengths.push(length);
    }
    let bits = (HEADER_LEN + content.len()) as u64 * 8;
    let header = PacketHeader {
        timestamp_begin: 5_000_000_000,
        timestamp_end: now,
        content_bits: bits,
        packet_bits: bits + padding as u64 * 8,
        sequence: 1,
        ..PacketHeader::default()
    };
    (schema, header, content, lengths)
}

#[test]
fn a_giant_packet_comes_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let (schema, header, content, lengths) = giant(4096);
    fs::write(directory.path().join("metadata"), metadata::write(&schema)).unwrap();
    let opening = PacketHeader { timestamp_end: header.timestamp_begin, sequence: 0, ..header }.encode_opening(&common::UUID);
    let mut file = opening.to_vec();
    let second = file.len() as u64;
    file.extend(header.encode(&common::UUID));
    file.extend(&content);
    file.resize(file.len() + 4096, 0);
    // An ordinary one behind it, which counts what was lost.
    let bits = HEADER_LEN as u64 * 8;
    let last =
        PacketHeader { sequence: 5, content_bits: bits, packet_bits: bits, timestamp_begin: header.timestamp_end, ..header };
    file.extend(last.encode(&common::UUID));
    let path = directory.path().join("chan");
    fs::write(&path, &file).unwrap();
    // Not babeltrace2: it takes minutes for texts of this length.
    let ours = common::read(directory.path()).unwrap();
    assert!(ours.errors.is_empty(), "{:?}", ours.errors);
    assert_eq!((ours.losses.len(), ours.losses[0].count), (1, Some(3)));

    let trace = Trace::open(directory.path()).unwrap();
    let (mut pieces, mut seen, mut largest) = (0, Vec::new(), 0);
    for next in trace.packets(&trace.streams()[0]) {
        let (packet, _) = next.unwrap();
        pieces += u64::from(packet.is_continued());
        assert!(!packet.is_continued() || (packet.number(), packet.byte_offset()) == (1, second));
        largest = largest.max(packet.bytes().len());
        let mut events = packet.events();
        while let Some(event) = events.next_event() {
            let event = event.unwrap();
            let text = event.field("t").unwrap().as_bytes().unwrap().len();
            let offset = event.byte_offset();
            assert_eq!(packet.bytes()[event.place()..][..4], file[offset as usize..][..4]);
            seen.push((event.field("n").unwrap().as_u64().unwrap(), text, event.field("cpu_id").unwrap().as_u64()));
        }
    }
    assert!((5..20).contains(&pieces) && largest < 9 << 20, "{pieces} pieces, {largest} bytes");
    let expected: Vec<_> = (0..EVENTS).zip(&lengths).map(|(number, length)| (number, *length, Some(0))).collect();
    assert_eq!(seen, expected);

    // Cut, it gives what is whole, and the place of the cut.
    let length = file.len() - 4096 - HEADER_LEN - 30;
    fs::write(&path, &file[..length]).unwrap();
    let cut = common::read(directory.path()).unwrap();
    assert_eq!(cut.text.iter().filter(|&&byte| byte == b'\n').count() as u64, EVENTS - 1);
    assert!(cut.errors[0].is_truncated() && cut.errors[0].byte_offset() == Some(second), "{:?}", cut.errors);
    let (needed, available) = (HEADER_LEN + content.len(), length as u64 - second);
    assert!(cut.errors[0].to_string().ends_with(&format!("{needed} bytes needed, {available} available")), "{}", cut.errors[0]);

    // So does one with an event that there is not.
    let mut wrong = file.clone();
    let at = second as usize + HEADER_LEN + content.len() / 2;
    let at = at + wrong[at..].windows(4).position(|bytes| bytes == 77_i32.to_le_bytes()).unwrap() - 4;
    wrong[at] = wrong[at] & 0xE0 | 0x1E;
    fs::write(&path, &wrong).unwrap();
    let damaged = common::read(directory.path()).unwrap();
    assert!(damaged.errors[0].is_corrupt() && damaged.errors[0].byte_offset() == Some(at as u64), "{:?} {at}", damaged.errors);
    assert!(damaged.errors[0].to_string().contains("no event ID 30"), "{}", damaged.errors[0]);
}

#[test]
fn the_length_of_a_text_does_not_become_memory() {
    let directory = tempfile::tempdir().unwrap();
    let (schema, header, ..) = giant(0);
    fs::write(directory.path().join("metadata"), metadata::write(&schema)).unwrap();
    // Sparse: a text of 3 GiB in a packet of 4.
    let size = 4_u64 << 30;
    let header = PacketHeader { content_bits: size * 8, packet_bits: size * 8, ..header };
    let mut file = fs::File::create(directory.path().join("chan")).unwrap();
    file.write_all(&header.encode(&common::UUID)).unwrap();
    let mut content = Vec::new();
    EventHeader::Compact.encode(0, 5_000_000_001, 5_000_000_000, &mut content);
    content.extend([0; 12]);
    content.extend((3_u32 << 30).to_le_bytes());
    file.write_all(&content).unwrap();
    file.seek(SeekFrom::Start(size - 1)).unwrap();
    file.write_all(&[0]).unwrap();
    drop(file);
    let read = common::read(directory.path()).unwrap();
    assert!(
        read.errors[0].is_corrupt() && read.errors[0].to_string().contains("an event of more than 64 MiB"),
        "{:?}",
        read.errors
    );
    assert_eq!(read.errors[0].byte_offset(), Some(HEADER_LEN as u64));
}
