//! How quickly a trace is read, beside babeltrace2 on the same trace in the same run. Run by `cargo xtask bench-read`.
//!
//! `decode` looks at every field of every event, in the order of time, on one core, and writes nothing; `merge` does so on all
//! cores, and `parallel` on all cores packet by packet, in no order; `text` writes babeltrace2's lines to memory on one core, and
//! `lines` on all. babeltrace2 does the same on one: `--component sink.utils.dummy`, and its text to `/dev/null`.

use std::fs;
use std::hint::black_box;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use trace_ctf::metadata;
use trace_ctf::packet::{HEADER_LEN, PacketHeader};
use trace_ctf::reader::parallel::{self, Part, Step};
use trace_ctf::reader::{Entry, Event, Item, Scope, Trace};
use trace_ctf::schema::{Clock, EventClass, EventHeader, Field, FieldClass, Level, Schema, StreamClass};
use trace_ctf::text::Formatter;

/// Bytes of a packet.
const PACKET: usize = 256 << 10;
const STREAMS: u64 = 2;
const UUID: [u8; 16] = [7; 16];

struct Arguments {
    events: u64,
    rounds: usize,
    json: bool,
    only: Option<String>,
    /// Where the traces are to stay; nothing is measured then.
    write: Option<PathBuf>,
}

/// A payload, and how one event of it is encoded.
struct Payload {
    name: &'static str,
    fields: fn() -> Vec<Field>,
    encode: fn(u64, &mut Vec<u8>),
}

const PAYLOADS: [Payload; 2] = [
    Payload {
        name: "u64",
        fields: || vec![Field::new("value", FieldClass::unsigned(64))],
        encode: |number, out| out.extend(number.to_le_bytes()),
    },
    Payload {
        name: "u32+u64+string",
        fields: || {
            vec![
                Field::new("count", FieldClass::unsigned(32)),
                Field::new("value", FieldClass::unsigned(64)),
                Field::new("path", FieldClass::String { length_bits: 16 }),
            ]
        },
        encode: |number, out| {
            out.extend((number as u32).to_le_bytes());
            out.extend(number.wrapping_mul(0x9E37_79B9).to_le_bytes());
            let text = &b"/index.html/a"[..10 + (number % 4) as usize];
            out.extend((text.len() as u16).to_le_bytes());
            out.extend(text);
        },
    },
];

fn main() {
    let Some(arguments) = arguments() else { return };
    if let Some(directory) = &arguments.write {
        return PAYLOADS.iter().for_each(|payload| write(&directory.join(payload.name), payload, arguments.events));
    }
    let directory = tempfile::tempdir().expect("a directory for the trace");
    for payload in &PAYLOADS {
        let path = directory.path().join(payload.name);
        write(&path, payload, arguments.events);
        assert_eq!(decode(&path).0, arguments.events, "every event arrives");
        let wanted = |name| arguments.only.as_deref().is_none_or(|only| only == name);
        if wanted("decode") {
            let ours = best(arguments.rounds, || decode(&path).1);
            report(&arguments, "decode", payload.name, ours, babeltrace2(&path, &["--component", "sink.utils.dummy"]));
        }
        if wanted("merge") {
            let ours = best(arguments.rounds, || decode_merged(&path, arguments.events));
            report(&arguments, "merge", payload.name, ours, babeltrace2(&path, &["--component", "sink.utils.dummy"]));
        }
        if wanted("parallel") {
            let ours = best(arguments.rounds, || decode_parallel(&path, arguments.events));
            report(&arguments, "parallel", payload.name, ours, babeltrace2(&path, &["--component", "sink.utils.dummy"]));
        }
        if wanted("text") {
            let ours = best(arguments.rounds, || text(&path));
            report(&arguments, "text", payload.name, ours, babeltrace2(&path, &["--clock-gmt"]));
        }
        if wanted("lines") {
            let ours = best(arguments.rounds, || lines(&path));
            report(&arguments, "lines", payload.name, ours, babeltrace2(&path, &["--clock-gmt"]));
        }
        fs::remove_dir_all(&path).expect("the trace can be removed");
    }
}

fn arguments() -> Option<Arguments> {
    let mut arguments = Arguments { events: 4_000_000, rounds: 5, json: false, only: None, write: None };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--only" => arguments.only = rest.next(),
            "--write" => arguments.write = rest.next().map(PathBuf::from),
            "--json" => arguments.json = true,
            // Only that it runs.
            "--short" => (arguments.events, arguments.rounds) = (20_000, 1),
            "--events" => arguments.events = rest.next()?.parse().expect("a number of events"),
            "--rounds" => arguments.rounds = rest.next()?.parse().expect("a number of rounds"),
            // `cargo test` runs benchmarks once with this, and `cargo bench` always says `--bench`.
            "--test" => return None,
            _ => {}
        }
    }
    Some(arguments)
}

/// Writes a trace of two streams whose events alternate in time in runs of a hundred, as those of threads on two CPUs do.
fn write(path: &Path, payload: &Payload, events: u64) {
    fs::create_dir_all(path).expect("the directory can be made");
    let clock = Clock { uuid: [3; 16], description: "CLOCK_MONOTONIC".into(), offset_s: 1_700_000_000, ..Clock::default() };
    let context = vec![Field::new("vtid", FieldClass::signed(32))];
    let streams = vec![StreamClass { id: 0, header: EventHeader::Compact, context }];
    let mut schema =
        Schema::new(trace_ctf::schema::Trace { uuid: UUID, environment: Vec::new(), clock, streams }).expect("valid");
    let class = EventClass {
        stream_id: 0,
        id: 0,
        name: "app:request".into(),
        level: Some(Level::Info),
        source: None,
        fields: (payload.fields)(),
    };
    schema.add(class).expect("valid");
    fs::write(path.join("metadata"), metadata::write(&schema)).expect("the disk has room");
    for stream in 0..STREAMS {
        let mut file = Vec::new();
        let mut header = PacketHeader { stream_instance_id: stream, cpu_id: stream as u32, ..PacketHeader::default() };
        let mut content = Vec::new();
        let mine = |number: &u64| (number / 100) % STREAMS == stream;
        let mut numbers = (0..events).filter(mine).peekable();
        let mut now = 1_000_000_000;
        file.extend(PacketHeader { timestamp_begin: now, timestamp_end: now, ..header }.encode_opening(&UUID));
        while let Some(&first) = numbers.peek() {
            header.sequence += 1;
            header.timestamp_begin = 1_000_000_000 + first * 120;
            now = header.timestamp_begin;
            while content.len() < PACKET - HEADER_LEN - 64 {
                let Some(number) = numbers.next() else { break };
                let time = 1_000_000_000 + number * 120;
                EventHeader::Compact.encode(0, time, now, &mut content);
                content.extend((4000 + stream as i32).to_le_bytes());
                (payload.encode)(number, &mut content);
                now = time;
            }
            header.timestamp_end = now;
            header.content_bits = (HEADER_LEN + content.len()) as u64 * 8;
            header.packet_bits = PACKET as u64 * 8;
            let end = file.len() + PACKET;
            file.extend(header.encode(&UUID));
            file.append(&mut content);
            file.resize(end, 0);
        }
        fs::write(path.join(format!("channel_{stream}")), file).expect("the disk has room");
    }
}

/// The shortest of several times: everything else is noise of the machine.
fn best(rounds: usize, mut run: impl FnMut() -> Duration) -> Duration {
    (0..rounds.max(1)).map(|_| run()).min().unwrap_or_default()
}

/// Looks at every field of every event; gives the number of events and the time.
fn decode(path: &Path) -> (u64, Duration) {
    let start = Instant::now();
    let trace = Trace::open(path).expect("a trace");
    let mut merge = trace.merge();
    let (mut events, mut sum) = (0, 0u64);
    while let Some(entry) = merge.next_entry() {
        let Entry::Event(event) = entry.expect("no damage") else { continue };
        events += 1;
        look(&event, &mut sum);
    }
    black_box(sum);
    (events, start.elapsed())
}

/// Adds what an event has to a sum.
fn look(event: &Event<'_>, sum: &mut u64) {
    *sum = sum.wrapping_add(event.timestamp().unwrap_or_default() as u64);
    for scope in [Scope::StreamContext, Scope::EventContext, Scope::Payload] {
        event.visit(scope, |item| {
            *sum = sum.wrapping_add(match item {
                Item::Unsigned(_, value) => value,
                Item::Signed(_, value) => value as u64,
                Item::Text(bytes) => bytes.len() as u64 + u64::from(bytes.first().copied().unwrap_or_default()),
                _ => 0,
            });
        });
    }
}

/// As [`decode`], packet by packet on all cores.
fn decode_parallel(path: &Path, events: u64) -> Duration {
    let start = Instant::now();
    let trace = Trace::open(path).expect("a trace");
    let counts = parallel::fold(
        trace.streams().iter().map(|stream| trace.packets(stream)),
        cores(),
        || (0u64, 0u64),
        |(count, sum), part| {
            let Part::Packet(packet, _) = part else { panic!("damage") };
            let mut events = packet.events();
            while let Some(event) = events.next_event() {
                *count += 1;
                look(&event.expect("no damage"), sum);
            }
            ControlFlow::Continue(())
        },
    );
    assert_eq!(counts.iter().map(|(count, _)| count).sum::<u64>(), events, "every event arrives");
    black_box(counts);
    start.elapsed()
}

/// As [`decode`], on all cores.
fn decode_merged(path: &Path, events: u64) -> Duration {
    let start = Instant::now();
    let trace = Trace::open(path).expect("a trace");
    let mapper = || {
        |event: &Event<'_>, _: &mut Vec<u8>| {
            let mut sum = 0;
            look(event, &mut sum);
            Some(sum)
        }
    };
    let (mut count, mut sum) = (0, 0u64);
    let streams = trace.streams().iter().map(|stream| trace.packets(stream));
    let _: ControlFlow<()> = parallel::merge(streams, cores(), mapper, |step| {
        if let Step::Event(_, own, _) = step {
            count += 1;
            sum = sum.wrapping_add(own);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(count, events, "every event arrives");
    black_box(sum);
    start.elapsed()
}

fn cores() -> NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// As [`text`], on all cores.
fn lines(path: &Path) -> Duration {
    let start = Instant::now();
    let trace = Trace::open(path).expect("a trace");
    let mapper = || {
        let mut formatter = Formatter::utc();
        move |event: &Event<'_>, line: &mut Vec<u8>| Some(formatter.event_without_distance(event, line))
    };
    let (mut formatter, mut out) = (Formatter::utc(), Vec::new());
    let streams = trace.streams().iter().map(|stream| trace.packets(stream));
    let _: ControlFlow<()> = parallel::merge(streams, cores(), mapper, |step| {
        if let Step::Event(event, place, line) = step {
            out.extend(&line[..place]);
            formatter.distance(&event, &mut out);
            out.extend(&line[place..]);
            if out.len() > 1 << 16 {
                black_box(&out);
                out.clear();
            }
        }
        ControlFlow::Continue(())
    });
    start.elapsed()
}

fn text(path: &Path) -> Duration {
    let start = Instant::now();
    let trace = Trace::open(path).expect("a trace");
    let mut merge = trace.merge();
    let mut formatter = Formatter::utc();
    let mut out = Vec::new();
    while let Some(entry) = merge.next_entry() {
        if let Entry::Event(event) = entry.expect("no damage") {
            formatter.event(&event, &mut out);
            if out.len() > 1 << 16 {
                black_box(&out);
                out.clear();
            }
        }
    }
    start.elapsed()
}

fn babeltrace2(path: &Path, arguments: &[&str]) -> Option<Duration> {
    let start = Instant::now();
    let mut command = Command::new("babeltrace2");
    let status = command.arg(path).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success()).then(|| start.elapsed())
}

fn report(arguments: &Arguments, name: &str, payload: &str, ours: Duration, theirs: Option<Duration>) {
    let rate = |time: Duration| arguments.events as f64 / time.as_secs_f64();
    let ratio = theirs.map(|theirs| theirs.as_secs_f64() / ours.as_secs_f64());
    if arguments.json {
        let ratio = ratio.map_or("null".to_owned(), |ratio| format!("{ratio:.2}"));
        let rate = rate(ours);
        println!(r#"{{"name":"{name}","payload":"{payload}","events_per_s":{rate:.0},"x_babeltrace2":{ratio}}}"#);
        return;
    }
    let ours = rate(ours) / 1e6;
    match (theirs, ratio) {
        (Some(theirs), Some(ratio)) => {
            let theirs = rate(theirs) / 1e6;
            println!("{name:8} {payload:16} {ours:8.2} M events/s   babeltrace2 {theirs:8.2} M events/s   {ratio:6.1} x");
        }
        _ => println!("{name:8} {payload:16} {ours:8.2} M events/s   babeltrace2 is not there"),
    }
}
