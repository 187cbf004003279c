//! What `export --to perfetto` writes, read as the trace processor reads it: with each sequence's interned names.

mod sample;

use std::collections::{HashMap, HashSet};
use std::process::Command;

use sample::{REQUESTS, Variation};

/// A field of a message: its number, and its value or its bytes.
#[derive(Clone, Copy, Debug)]
struct Field<'m> {
    number: u64,
    value: u64,
    bytes: &'m [u8],
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn message(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let (value, length) = match key & 7 {
            0 => (varint(&mut bytes), 0),
            1 => (u64::from_le_bytes(bytes[..8].try_into().unwrap()), 8),
            2 => (0, varint(&mut bytes) as usize),
            other => panic!("wire type {other}"),
        };
        let (inner, rest) = bytes.split_at(length);
        bytes = rest;
        fields.push(Field { number: key >> 3, value, bytes: inner });
    }
    fields
}

fn all<'m>(fields: &[Field<'m>], number: u64) -> Vec<Field<'m>> {
    fields.iter().copied().filter(|field| field.number == number).collect()
}

fn one<'m>(fields: &[Field<'m>], number: u64) -> Option<Field<'m>> {
    all(fields, number).pop()
}

fn text(field: Field<'_>) -> String {
    String::from_utf8(field.bytes.to_vec()).unwrap()
}

#[test]
fn every_name_is_known_where_it_is_used() {
    let here = tempfile::tempdir().unwrap();
    sample::write(&here.path().join("a.ringtrace"), Variation { discarded: 3, ..Variation::default() });
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtrace"));
    command.args(["export", "--to", "perfetto", "--counter", "cache_lookup.bytes", "--flow", "id"]).current_dir(here.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let mut interned: HashMap<u64, HashMap<(u64, u64), String>> = HashMap::new();
    let (mut types, mut names, mut flows) =
        (HashMap::<u64, u64>::new(), HashMap::<String, u64>::new(), HashMap::<u64, u64>::new());
    let (mut tracks, mut restarts, mut snapshots, mut depth) = (HashMap::new(), 0, 0, HashMap::<u64, i64>::new());
    let mut lost = 0;
    for packet in message(&output.stdout) {
        assert_eq!(packet.number, 1);
        let packet = message(packet.bytes);
        let sequence = one(&packet, 10).expect("a sequence").value;
        let flags = one(&packet, 13).map_or(0, |flags| flags.value);
        if flags & 1 == 1 {
            restarts += u64::from(one(&packet, 42).is_some());
            let defaults = message(one(&packet, 59).expect("defaults").bytes);
            assert_eq!(one(&defaults, 58).unwrap().value, 3, "the monotonic clock");
            interned.insert(sequence, HashMap::new());
        }
        for kind in one(&packet, 12).iter().flat_map(|names| message(names.bytes)) {
            let entry = message(kind.bytes);
            let key = (kind.number, one(&entry, 1).unwrap().value);
            let known = interned.get_mut(&sequence).expect("begun").insert(key, text(one(&entry, 2).unwrap()));
            assert_eq!(known, None);
        }
        snapshots += u64::from(one(&packet, 6).is_some());
        if let Some(track) = one(&packet, 60) {
            let track = message(track.bytes);
            tracks.insert(one(&track, 1).unwrap().value, track);
        }
        let Some(event) = one(&packet, 11) else { continue };
        assert!(flags & 2 == 2 && one(&packet, 8).is_some(), "needs names, has a time");
        let event = message(event.bytes);
        let known = &interned[&sequence];
        let kind = one(&event, 9).unwrap().value;
        *types.entry(kind).or_default() += 1;
        let track = one(&event, 11).unwrap().value;
        assert!(tracks.contains_key(&track), "the track is described first");
        *depth.entry(track).or_default() += match kind {
            1 => 1,
            2 => -1,
            _ => 0,
        };
        assert!((0..=1).contains(&depth[&track]));
        if let Some(name) = one(&event, 10) {
            *names.entry(known[&(2, name.value)].clone()).or_default() += 1;
            assert!(known.contains_key(&(1, one(&event, 3).unwrap().value)));
        }
        for annotation in all(&event, 4).iter().map(|annotation| message(annotation.bytes)) {
            match one(&annotation, 1) {
                Some(name) => assert!(known.contains_key(&(3, name.value))),
                // A slice whose end is lost says so; no field has that name.
                None => {
                    let [name, value] = [10, 6].map(|field| text(one(&annotation, field).unwrap()));
                    assert_eq!((&*name, &*value), ("end", "lost"));
                    lost += 1;
                }
            }
            if let Some(label) = one(&annotation, 17) {
                assert!(["HIT", "MISS"].contains(&known[&(29, label.value)].as_str()));
            }
        }
        all(&event, 47).iter().for_each(|flow| *flows.entry(flow.value).or_default() += 1);
    }
    // Of a request with a loss between its two events, the begin and the end are a slice each: `latency` counts as many, in docs/cli.md.
    assert_eq!(lost, 4);
    let slices = 2 * REQUESTS + lost;
    assert_eq!((types[&1], types[&2], types[&3], types[&4]), (slices, slices, 2 * REQUESTS + 2, 2 * REQUESTS));
    let expected = [("shop:request", slices), ("shop:cache_lookup", 2 * REQUESTS), ("ringtrace:thread_name", 2)];
    assert_eq!(names, expected.map(|(name, count)| (name.to_owned(), count)).into());
    // No arrow from a slice to itself, but one from what has lost its end to what has lost its begin.
    let arrows = flows.values().map(|count| count - 1).sum::<u64>();
    assert!(flows.len() as u64 == 2 * REQUESTS && arrows == lost && flows.values().all(|count| *count <= 2));
    // Two losses in each of the two streams.
    assert_eq!((restarts, snapshots), (4, 1));
    let of_thread = |track: &Vec<Field<'_>>| one(track, 4).and_then(|thread| Some(text(one(&message(thread.bytes), 5)?)));
    let threads: HashSet<String> = tracks.values().filter_map(of_thread).collect();
    assert_eq!(threads, ["worker-0", "worker-1"].map(str::to_owned).into());
}

/// Two runs of one program that had the same process ID, as containers have it.
#[test]
fn processes_of_different_traces_are_different() {
    let here = tempfile::tempdir().unwrap();
    sample::write(&here.path().join("a"), Variation::default());
    sample::write(&here.path().join("b"), Variation::default());
    for file in ["metadata", "stream_0", "stream_1"] {
        let path = here.path().join("b").join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        for (theirs, other) in [(&[9; 16][..], &[8; 16][..]), (b"0909", b"0808")] {
            while let Some(at) = bytes.windows(theirs.len()).position(|window| window == theirs) {
                bytes[at..at + theirs.len()].copy_from_slice(other);
            }
        }
        std::fs::write(&path, bytes).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtrace"));
    let output = command.args(["export", "--to", "perfetto", "."]).current_dir(here.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let packets = message(&output.stdout);
    let tracks = packets.iter().filter_map(|packet| Some(message(one(&message(packet.bytes), 60)?.bytes)));
    let tracks: Vec<Vec<Field<'_>>> = tracks.collect();
    let is_process = |track: &&Vec<Field<'_>>| one(track, 3).is_some();
    let processes: HashSet<u64> = tracks.iter().filter(is_process).map(|track| one(track, 1).unwrap().value).collect();
    let parents: HashSet<u64> = tracks.iter().filter_map(|track| Some(one(track, 5)?.value)).collect();
    assert_eq!((processes.len(), &parents), (2, &processes), "each is described, and has threads");
}
