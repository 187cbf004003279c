//! A trace whose every event is known: requests of two worker threads, on two CPUs, with what a cache did meanwhile.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::fs;
use std::path::Path;

use trace_ctf::metadata;
use trace_ctf::packet::{HEADER_LEN, PacketHeader};
use trace_ctf::schema::{Clock, EnvValue, EventClass, EventHeader, Field, FieldClass, Label, Level, Schema, StreamClass, Trace};

/// Requests in each of the two threads.
pub const REQUESTS: u64 = 50;
/// Nanoseconds from the Unix epoch to the clock's origin: 2023-11-14 22:13:20 UTC.
pub const ORIGIN: i64 = 1_700_000_000_000_000_000;
const UUID: [u8; 16] = [9; 16];

const BEGIN: u32 = 0;
const END: u32 = 1;
const LOOKUP: u32 = 2;
const NAME: u32 = 3;

fn schema() -> Schema {
    let clock = Clock { uuid: [3; 16], description: "CLOCK_MONOTONIC".into(), offset_s: 1_700_000_000, ..Clock::default() };
    let environment = vec![
        ("procname".into(), EnvValue::String("shop".into())),
        ("vpid".into(), EnvValue::Int(4200)),
        ("hostname".into(), EnvValue::String("host".into())),
    ];
    let context = vec![Field::new("vtid", FieldClass::signed(32))];
    let streams = vec![StreamClass { id: 0, header: EventHeader::Compact, context }];
    let mut schema = Schema::new(Trace { uuid: UUID, environment, clock, streams }).unwrap();
    let outcome =
        ["HIT", "MISS"].into_iter().zip(0..).map(|(label, value)| Label { label: label.into(), low: value, high: value });
    let text = || FieldClass::String { length_bits: 16 };
    let classes = [
        (BEGIN, "shop:request_begin", vec![Field::new("id", FieldClass::unsigned(64)), Field::new("path", text())]),
        (
            END,
            "shop:request_end",
            vec![Field::new("id", FieldClass::unsigned(64)), Field::new("status", FieldClass::unsigned(16))],
        ),
        (
            LOOKUP,
            "shop:cache_lookup",
            vec![
                Field::new("outcome", FieldClass::Enumeration { bits: 8, signed: false, labels: outcome.collect() }),
                Field { unit: Some("B".into()), ..Field::new("bytes", FieldClass::unsigned(32)) },
                Field::new("age", FieldClass::Optional(Box::new(FieldClass::Float { bits: 64 }))),
            ],
        ),
        (NAME, "ringtrace:thread_name", vec![Field::new("tid", FieldClass::signed(32)), Field::new("name", text())]),
    ];
    for (id, name, fields) in classes {
        let level = if id == LOOKUP { Level::Debug } else { Level::Info };
        schema.add(EventClass { stream_id: 0, id, name: name.into(), level: Some(level), source: None, fields }).unwrap();
    }
    schema
}

/// The records of one stream.
struct Records {
    content: Vec<u8>,
    previous: u64,
    header: PacketHeader,
    file: Vec<u8>,
    tid: i32,
}

impl Records {
    fn event(&mut self, id: u32, time: u64, payload: &[&[u8]]) {
        EventHeader::Compact.encode(id, time, self.previous, &mut self.content);
        self.previous = time;
        self.content.extend(self.tid.to_le_bytes());
        payload.iter().for_each(|bytes| self.content.extend(*bytes));
    }

    fn packet(&mut self) {
        self.header.sequence += 1;
        self.header.timestamp_end = self.previous;
        self.header.content_bits = (HEADER_LEN + self.content.len()) as u64 * 8;
        self.header.packet_bits = self.header.content_bits;
        self.file.extend(self.header.encode(&UUID));
        self.file.append(&mut self.content);
        self.header.timestamp_begin = self.previous;
    }

    /// Says with an empty packet that events were lost before the next one, as where a ring was full.
    fn lose(&mut self, events: u64, next: u64) {
        self.header.events_discarded += events;
        (self.header.timestamp_begin, self.previous) = (next, next);
        self.packet();
    }
}

/// What of it is to be different.
#[derive(Clone, Copy, Default)]
pub struct Variation {
    /// How many times as long requests take.
    pub slower: u64,
    /// Events discarded between the packets of each stream.
    pub discarded: u64,
}

/// Writes the trace, and returns the number of its events.
///
/// Request `n` of a thread begins `n` milliseconds after the origin, takes `100 + n` microseconds, and looks into the cache
/// once, 10 microseconds after it began: a miss for every tenth one, of `64 << (n % 8)` bytes.
pub fn write(directory: &Path, variation: Variation) -> u64 {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("metadata"), metadata::write(&schema())).unwrap();
    let slower = variation.slower.max(1);
    let mut events = 0;
    for cpu in 0..2_u32 {
        let header = PacketHeader { stream_class_id: 0, stream_instance_id: cpu.into(), cpu_id: cpu, ..PacketHeader::default() };
        let file = header.encode_opening(&UUID).to_vec();
        let tid = 4201 + cpu as i32;
        let mut stream = Records { content: Vec::new(), previous: 0, header, file, tid };
        let name = format!("worker-{cpu}");
        stream.event(NAME, 500, &[&tid.to_le_bytes(), &(name.len() as u16).to_le_bytes(), name.as_bytes()]);
        for number in 0..REQUESTS {
            let begin = 1_000_000 * number + 1000 * u64::from(cpu) + 1000;
            let id = number * 2 + u64::from(cpu);
            let path: &[u8] = if number % 5 == 0 { b"/search" } else { b"/" };
            stream.event(BEGIN, begin, &[&id.to_le_bytes(), &(path.len() as u16).to_le_bytes(), path]);
            let is_miss = number % 10 == 0;
            let bytes = 64_u32 << (number % 8);
            let age = (number as f64 / 4.0).to_le_bytes();
            let age: &[&[u8]] = if is_miss { &[b"\0"] } else { &[b"\x01", &age] };
            stream.event(LOOKUP, begin + 10_000, &[&[&[u8::from(is_miss)][..], &bytes.to_le_bytes()], age].concat());
            let status: u16 = if number == 7 { 500 } else { 200 };
            stream.event(END, begin + (100 + number) * 1000 * slower, &[&id.to_le_bytes(), &status.to_le_bytes()]);
            if number % 20 == 19 {
                stream.packet();
                if variation.discarded > 0 {
                    stream.lose(variation.discarded, begin + 1_000_000);
                }
            }
        }
        stream.packet();
        events += 3 * REQUESTS + 1;
        fs::write(directory.join(format!("stream_{cpu}")), &stream.file).unwrap();
    }
    events
}
