//! Makes traces: a schema, values drawn from a seed, streams with every header form, losses and cuts.

#![allow(dead_code)]

use std::fs;
use std::path::Path;
use std::process::Command;

use trace_ctf::index::{self, Entry};
use trace_ctf::metadata;
use trace_ctf::packet::{HEADER_LEN, PacketHeader};
use trace_ctf::reader::{self, Loss, Trace as OpenTrace};
use trace_ctf::schema::{Clock, EnvValue, EventClass, EventHeader, Field, FieldClass, Level, Schema, Source, StreamClass, Trace};
use trace_ctf::text::Formatter;

pub(crate) const UUID: [u8; 16] =
    [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x47, 0x78, 0x89, 0x9a, 0xab, 0xbc, 0xcd, 0xde, 0xef, 0xf0];

/// Distances between events: below, at and above what the short headers hold.
const GAPS: [u64; 10] = [0, 0, 1, 7, 1000, 1_000_000, (1 << 27) - 1, 1 << 27, (1 << 32) - 1, (1 << 32) + 5];

pub(crate) fn field(name: &str, class: FieldClass) -> Field {
    Field::new(name, class)
}

pub(crate) fn schema(context: Vec<Field>, payloads: Vec<Vec<Field>>) -> Schema {
    let headers = [EventHeader::Compact, EventHeader::Large, EventHeader::Full];
    let stream = |(id, header)| StreamClass { id, header, context: if id == 2 { Vec::new() } else { context.clone() } };
    let text = |text: &str| EnvValue::String(text.into());
    let trace = Trace {
        uuid: UUID,
        environment: vec![
            ("hostname".into(), text("host \"q\"")),
            ("domain".into(), text("ust")),
            ("tracer_name".into(), text("ringtrace")),
            ("tracer_major".into(), EnvValue::Int(0)),
            ("procname".into(), text("proc")),
            ("vpid".into(), EnvValue::Int(42)),
        ],
        clock: Clock {
            uuid: [3; 16],
            description: "CLOCK_MONOTONIC".into(),
            offset_s: 1_700_000_000,
            offset_cycles: 123_456_789,
            ..Clock::default()
        },
        streams: (0..).zip(headers).map(stream).collect(),
    };
    let mut schema = Schema::new(trace).unwrap();
    // IDs on both sides of what the short headers hold.
    let ids = [0, 30, 31, 1000, 65_534, 65_535, 70_000];
    for stream_id in 0..3 {
        for (number, (fields, id)) in payloads.iter().zip(ids).enumerate() {
            schema
                .add(EventClass {
                    stream_id,
                    id,
                    name: format!("app:event{number}\"\\é"),
                    level: Level::from_number(number as u64 * 3),
                    source: Some(Source { file: "src/a b.rs".into(), line: 7, function: "app::<f>".into() }),
                    fields: fields.clone(),
                })
                .unwrap();
        }
    }
    schema
}

/// A seeded source of values.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

fn put(out: &mut Vec<u8>, value: u64, bits: u8, big_endian: bool) {
    let bytes = value.to_le_bytes();
    let bytes = &bytes[..usize::from(bits) / 8];
    if big_endian { out.extend(bytes.iter().rev()) } else { out.extend(bytes) }
}

pub(crate) fn encode(fields: &[Field], random: &mut Random, out: &mut Vec<u8>) {
    for field in fields {
        encode_value(&field.class, random, out);
    }
}

fn encode_value(class: &FieldClass, random: &mut Random, out: &mut Vec<u8>) {
    match class {
        FieldClass::Integer { bits, big_endian, .. } => {
            let any = random.next();
            let value = random.pick(&[0, 1, 7, 8, 0x7F, 0x80, u64::MAX, 1 << 63, u64::MAX >> 1, any, any]);
            put(out, value, *bits, *big_endian);
        }
        FieldClass::Float { bits: 32 } => {
            let any = f32::from_bits(random.next() as u32);
            out.extend(random.pick(&[0.0, -0.0, 0.1, 1e10, f32::MAX, f32::INFINITY, any, any]).to_le_bytes());
        }
        FieldClass::Float { .. } => {
            let (any, plain) = (f64::from_bits(random.next()), random.next() as i32 as f64 / 1000.0);
            let value = random.pick(&[0.0, 123456.0, 999999.5, 1e-5, 1e-4, f64::NAN, -f64::NAN, any, any, plain, plain]);
            out.extend(value.to_le_bytes());
        }
        FieldClass::Bool => out.push(random.below(2) as u8),
        FieldClass::String { length_bits } => {
            let pieces = ["abc", "é", "\"q'?\\", "\n\t\u{1b}\u{1}", "/index.html", "\u{7f}", "\0tail", ""];
            // Never empty: babeltrace2 2.0.4 shows a text of an earlier event there (corrected in 2.0.5, d321ba031).
            let mut text = random.pick(&pieces[..6]).to_owned();
            text.extend((0..random.below(3)).map(|_| random.pick(&pieces)));
            put(out, text.len() as u64, *length_bits, false);
            out.extend(text.bytes());
        }
        FieldClass::Text { length } => {
            let text = random.pick(&["a", "worker", "é", "pool-7 \"idle\""]);
            let text = if text.len() > *length as usize { "a" } else { text };
            out.extend(text.bytes().chain(std::iter::repeat(0)).take(*length as usize));
        }
        FieldClass::Enumeration { bits, labels, .. } => {
            let label = &labels[random.below(labels.len() as u64) as usize];
            let any = i128::from(random.next());
            let value = random.pick(&[label.low, label.high, label.high + 1, any]);
            put(out, value as u64, *bits, false);
        }
        FieldClass::Structure(fields) => encode(fields, random, out),
        FieldClass::Array { element, length } => (0..*length).for_each(|_| encode_value(element, random, out)),
        FieldClass::Sequence { element, length_bits } => {
            let length = random.below(4);
            put(out, length, *length_bits, false);
            (0..length).for_each(|_| encode_value(element, random, out));
        }
        FieldClass::Optional(inner) => {
            let some = random.below(2);
            out.push(some as u8);
            if some == 1 {
                encode_value(inner, random, out);
            }
        }
        FieldClass::Variant { options } => {
            let tag = random.below(options.len() as u64);
            out.push(tag as u8);
            encode_value(&options[tag as usize].class, random, out);
        }
        FieldClass::Redacted => out.push(0),
    }
}

/// A stream on its way to its file.
pub(crate) struct StreamWriter {
    pub(crate) header: PacketHeader,
    pub(crate) file: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) events: u64,
    pub(crate) now: u64,
}

impl StreamWriter {
    pub(crate) fn new(class: u32, instance: u64, now: u64) -> Self {
        let header = PacketHeader {
            stream_class_id: class,
            stream_instance_id: instance,
            cpu_id: instance as u32,
            timestamp_begin: now,
            timestamp_end: now,
            ..PacketHeader::default()
        };
        let file = header.encode_opening(&UUID).to_vec();
        Self { header, file, entries: Vec::new(), events: 0, now }
    }

    /// Appends a packet of some events; the next one begins where it ends.
    pub(crate) fn packet(&mut self, schema: &Schema, events: u64, random: &mut Random) {
        let class = schema.trace.streams.iter().find(|class| class.id == self.header.stream_class_id).unwrap();
        let classes: Vec<_> = schema.events().iter().filter(|event| event.stream_id == class.id).collect();
        self.header.sequence += 1;
        self.header.timestamp_begin = self.now;
        let mut content = Vec::new();
        for _ in 0..events {
            let event = random.pick(&classes);
            let previous = self.now;
            self.now += random.pick(&GAPS);
            class.header.encode(event.id, self.now, previous, &mut content);
            encode(&class.context, random, &mut content);
            encode(&event.fields, random, &mut content);
        }
        self.events += events;
        self.header.timestamp_end = self.now;
        self.header.content_bits = (HEADER_LEN + content.len()) as u64 * 8;
        self.header.packet_bits = self.header.content_bits + random.pick(&[0, 8, 4096 * 8]);
        self.entries.push(Entry { offset: self.file.len() as u64, packet: self.header });
        self.file.extend(self.header.encode(&UUID));
        self.file.extend(content);
        let padding = (self.header.packet_bits - self.header.content_bits) / 8;
        self.file.resize(self.file.len() + padding as usize, 0);
    }

    pub(crate) fn write(&self, directory: &Path, name: &str) {
        fs::write(directory.join(name), &self.file).unwrap();
        fs::create_dir_all(directory.join("index")).unwrap();
        let mut file = index::header().to_vec();
        let header = PacketHeader {
            sequence: 0,
            events_discarded: 0,
            content_bits: 672,
            packet_bits: 1024,
            timestamp_begin: self.entries.first().map_or(self.now, |entry| entry.packet.timestamp_begin),
            timestamp_end: self.entries.first().map_or(self.now, |entry| entry.packet.timestamp_begin),
            ..self.header
        };
        file.extend(Entry { offset: 0, packet: header }.encode());
        self.entries.iter().for_each(|entry| file.extend(entry.encode()));
        fs::write(directory.join("index").join(format!("{name}.idx")), file).unwrap();
    }
}

/// Writes a trace of several streams and gives the number of its events.
pub(crate) fn write_trace(directory: &Path, schema: &Schema, streams: u64, packets: u64, seed: u64) -> u64 {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("metadata"), metadata::write(schema)).unwrap();
    let mut random = Random::new(seed);
    let mut events = 0;
    for instance in 0..streams {
        let start = 5_000_000_000 + random.below(3);
        let mut stream = StreamWriter::new((instance % 3) as u32, instance / 3, start);
        for _ in 0..packets {
            if random.below(4) == 0 {
                stream.header.events_discarded += random.below(9);
            }
            if random.below(8) == 0 {
                stream.header.sequence += 1 + random.below(3);
            }
            let count = random.pick(&[0, 1, 3, 12]);
            stream.packet(schema, count, &mut random);
        }
        events += stream.events;
        stream.write(directory, &format!("chan_{instance}"));
    }
    events
}

/// What our reader makes of a trace.
pub(crate) struct Ours {
    pub(crate) text: Vec<u8>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) errors: Vec<trace_ctf::Error>,
}

pub(crate) fn read(directory: &Path) -> Result<Ours, trace_ctf::Error> {
    let mut traces = OpenTrace::open_all([directory], 8)?;
    let errors = traces.iter_mut().flat_map(OpenTrace::take_damage).collect();
    let mut ours = Ours { text: Vec::new(), losses: Vec::new(), errors };
    let mut formatter = Formatter::utc();
    let mut merge = reader::Merge::new(&traces);
    while let Some(entry) = merge.next_entry() {
        match entry {
            Ok(reader::Entry::Event(event)) => formatter.event(&event, &mut ours.text),
            Ok(reader::Entry::Loss(loss)) => ours.losses.push(*loss),
            Err(error) => ours.errors.push(error),
        }
    }
    Ok(ours)
}

/// A line with the labels of each enumeration in order: they have none in CTF 2, and babeltrace2 2.1 puts several in braces.
pub(crate) fn sorted_labels(line: &str) -> String {
    let line = line.replace("( { \"", "( \"").replace("\" } : container", "\" : container");
    let mut parts = line.split("( \"");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (labels, rest) = part.split_once("\" : container").unwrap_or((part, ""));
        // An empty name is none that CTF 2 has; underscores only keep names of CTF 1.8 from being keywords.
        let name = |label: &str| if label.is_empty() { "unnamed".to_owned() } else { label.trim_start_matches('_').to_owned() };
        let mut labels: Vec<String> = labels.split("\", \"").map(name).collect();
        labels.sort();
        labels.dedup();
        out += &format!("( \"{}\" : container{rest}", labels.join("\", \""));
    }
    out
}

/// Gives the trace metadata of another form, and asserts that they say the same of the same streams.
pub(crate) fn convert(directory: &Path, format: metadata::Format) {
    let text = |ours: Ours| {
        assert!(ours.errors.is_empty(), "{:?}", ours.errors);
        String::from_utf8_lossy(&ours.text).lines().map(sorted_labels).collect::<Vec<_>>()
    };
    let before = text(read(directory).unwrap());
    let converted = format.convert(OpenTrace::open(directory).unwrap().declarations()).unwrap();
    fs::write(directory.join("metadata"), &converted).unwrap();
    let after = text(read(directory).unwrap());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(before.len(), after.len());
}

/// What babeltrace2 makes of a trace: its text and its messages.
pub(crate) fn babeltrace2(directory: &Path) -> (Vec<u8>, String) {
    let output = Command::new("babeltrace2").arg("--clock-gmt").arg(directory).output().expect("babeltrace2 is needed");
    (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Asserts that both readers say the same, and nothing but losses.
pub(crate) fn assert_agreement(directory: &Path) -> Ours {
    let ours = read(directory).unwrap();
    assert!(ours.errors.is_empty(), "{:?}", ours.errors);
    let (text, messages) = babeltrace2(directory);
    let notices: Vec<&str> = messages.lines().filter(|line| !line.is_empty()).collect();
    let lines = |text: &[u8]| String::from_utf8_lossy(text).lines().map(str::to_owned).collect::<Vec<_>>();
    for (number, (ours, theirs)) in lines(&ours.text).iter().zip(lines(&text)).enumerate() {
        assert_eq!(*ours, theirs, "line {number} {messages}");
    }
    assert!(ours.text == text, "{} bytes of ours, {} of babeltrace2: {messages}", ours.text.len(), text.len());
    assert!(notices.iter().all(|line| line.contains("WARNING: Tracer discarded ")), "{messages}");
    let mut theirs: Vec<String> =
        notices.iter().map(|line| line.split("discarded ").nth(1).unwrap().split(" in ").next().unwrap().into()).collect();
    let formatter = Formatter::utc();
    let sentence = |loss: &Loss| {
        let mut out = Vec::new();
        formatter.loss(loss, &mut out);
        let out = String::from_utf8(out).unwrap();
        out.split("discarded ").nth(1).unwrap().split(" in ").next().unwrap().to_owned()
    };
    let mut mine: Vec<String> = ours.losses.iter().map(sentence).collect();
    mine.sort();
    theirs.sort();
    assert_eq!(mine, theirs);
    ours
}
