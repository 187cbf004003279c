//! What the verbs say where events are missing is true: of threads that change their CPUs while these lose events, every call and
//! every request is known, and so is what of it got into the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use trace_ctf::metadata;
use trace_ctf::packet::{HEADER_LEN, PacketHeader};
use trace_ctf::schema::{Clock, EnvValue, EventClass, EventHeader, Field, FieldClass, Label, Schema, StreamClass, Trace};

const UUID: [u8; 16] = [5; 16];
/// Nanoseconds from the Unix epoch to the clock's origin.
const ORIGIN: i64 = 1_700_000_000_000_000_000;
const CPUS: usize = 3;
const NAMES: [&str; 6] =
    ["app:work::entry", "app:work::exit", "app:step::entry", "app:step::exit", "app:request_begin", "app:request_end"];
const REQUEST: usize = 4;

/// What happened: a call of a function, or a request.
#[derive(Clone, Copy, Debug)]
struct Slice {
    /// The place of its begin in [`NAMES`].
    kind: usize,
    tid: i32,
    begin: i64,
    end: i64,
    /// Of a call, what its exit says.
    duration: u64,
}

/// An event, with what is told besides its thread: of an exit the duration, of a request its number.
#[derive(Clone, Copy, Debug)]
struct Record {
    time: u64,
    kind: usize,
    tid: i32,
    number: u64,
}

/// What of the trace is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// The oldest packets of each CPU, as in a snapshot of rings that wrapped.
    Beginnings,
    /// Packets in between, by the numbers of the others.
    Packets,
    /// Events in between, by the counts of discarded ones.
    Events,
    /// Events for which there was no room, which was made at random: empty packets in front of those that follow count them.
    Full,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % limit
    }
}

/// All that happened, and what each CPU recorded of it.
struct Program {
    random: Random,
    now: u64,
    cpus: [Vec<Record>; CPUS],
    slices: Vec<Slice>,
    requests: u64,
}

impl Program {
    fn event(&mut self, cpu: usize, kind: usize, tid: i32, number: u64) -> i64 {
        self.now += 400 + self.random.below(3000);
        self.cpus[cpu].push(Record { time: self.now, kind, tid, number });
        ORIGIN + self.now as i64
    }

    /// A thread does something on some CPU, and maybe something else in it: nothing calls itself.
    fn run(&mut self, tid: i32, around: &[usize]) {
        let kind = 2 * self.random.below(3) as usize;
        if around.contains(&kind) {
            return;
        }
        // It may end on another CPU than it begins on.
        let [first, last] = [(); 2].map(|()| self.random.below(CPUS as u64) as usize);
        self.requests += 1;
        let number = self.requests;
        let begin = self.event(first, kind, tid, number);
        for _ in 0..self.random.below(3) {
            self.run(tid, &[around, &[kind]].concat());
        }
        // Recording the entry and the exit itself takes some time.
        let duration = self.now + ORIGIN as u64 - begin as u64;
        let end = self.event(last, kind + 1, tid, number);
        let duration = if kind == REQUEST { duration } else { (end - begin) as u64 - 20 };
        if kind != REQUEST {
            self.cpus[last].last_mut().unwrap().number = duration;
        }
        self.slices.push(Slice { kind, tid, begin, end, duration });
    }
}

fn schema(missing: Missing) -> Schema {
    let clock = Clock { uuid: [3; 16], offset_s: 1_700_000_000, ..Clock::default() };
    let context = vec![Field::new("vtid", FieldClass::signed(32))];
    let streams = vec![StreamClass { id: 0, header: EventHeader::Full, context }];
    let reason = ("snapshot_reason".to_owned(), EnvValue::String("test".into()));
    let environment = if missing == Missing::Beginnings { vec![reason] } else { Vec::new() };
    let mut schema = Schema::new(Trace { uuid: UUID, environment, clock, streams }).unwrap();
    let labels = vec![Label { label: "returned".into(), low: 0, high: 0 }];
    for (id, name) in (0..).zip(NAMES) {
        let fields = match id as usize {
            REQUEST.. => vec![Field::new("id", FieldClass::unsigned(64))],
            kind if kind % 2 == 0 => Vec::new(),
            _ => vec![
                Field::new("outcome", FieldClass::Enumeration { bits: 8, signed: false, labels: labels.clone() }),
                Field { unit: Some("ns".into()), ..Field::new("duration", FieldClass::unsigned(64)) },
            ],
        };
        schema.add(EventClass { stream_id: 0, id, name: name.into(), level: None, source: None, fields }).unwrap();
    }
    schema
}

/// A trace, and what it lacks.
struct Made {
    slices: Vec<Slice>,
    /// The events that are in it, by time and kind.
    kept: BTreeSet<(i64, usize)>,
    all: BTreeSet<(i64, usize)>,
    /// When the last CPU begins.
    complete: i64,
    /// Of each time for which a ring was full, the last event that is there and the first one behind.
    full: Vec<(i64, i64)>,
}

impl Made {
    /// The slice of that kind that began then, or ended then.
    fn slice(&self, kind: usize, at: impl Fn(&Slice) -> bool) -> Option<&Slice> {
        self.slices.iter().find(|slice| slice.kind == kind && at(slice))
    }

    fn is_true(&self, kind: usize, begin: i64, end: i64) -> bool {
        self.slice(kind, |slice| slice.begin == begin && slice.end == end).is_some()
    }
}

fn make(directory: &Path, missing: Missing, seed: u64) -> Made {
    let mut program =
        Program { random: Random(seed), now: 1000, cpus: [(); CPUS].map(|()| Vec::new()), slices: Vec::new(), requests: 0 };
    while program.slices.len() < 2000 {
        let tid = 100 + program.random.below(4) as i32;
        program.run(tid, &[]);
        // Now and then nothing happens for a while, which makes false pairs the longest.
        program.now += if program.random.below(40) == 0 { 3_000_000 } else { 0 };
    }
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("metadata"), metadata::write(&schema(missing))).unwrap();
    let (mut kept, mut complete, mut full) = (BTreeSet::new(), 0, Vec::new());
    for (cpu, records) in program.cpus.iter().enumerate() {
        let base = PacketHeader { stream_instance_id: cpu as u64, cpu_id: cpu as u32, ..PacketHeader::default() };
        let mut header = base;
        let mut file = Vec::new();
        let packets: Vec<_> = if missing == Missing::Full { ring(records, &mut program.random) } else { whole(records) };
        let mut last = 0;
        for (number, (lost, packet)) in packets.iter().enumerate() {
            if *lost > 0 {
                header.events_discarded += lost;
                let begin = packet.first().map_or(program.now, |record| record.time);
                let bits = HEADER_LEN as u64 * 8;
                let told = PacketHeader { timestamp_begin: begin, timestamp_end: begin, ..header };
                header.sequence += 1;
                let told = PacketHeader { sequence: header.sequence, content_bits: bits, packet_bits: bits, ..told };
                file.extend(told.encode(&UUID));
                full.push((ORIGIN + last as i64, ORIGIN + begin as i64));
            }
            let Some(end) = packet.last().map(|record| record.time) else { continue };
            last = end;
            let is_old = missing == Missing::Beginnings && number < packets.len() / 6 * (cpu + 1);
            let is_lossy = number > 0 && number % 9 == 2 * cpu;
            header.sequence += u64::from(!is_old);
            if is_old || is_lossy && missing == Missing::Packets {
                continue;
            }
            if file.is_empty() {
                let begin = packet[0].time;
                complete = complete.max(ORIGIN + begin as i64);
                let begin = if missing == Missing::Beginnings { begin } else { 1 };
                file = PacketHeader { timestamp_begin: begin, timestamp_end: begin, ..base }.encode_opening(&UUID).to_vec();
            }
            let (mut content, mut discarded) = (Vec::new(), 0);
            for (place, record) in packet.iter().enumerate() {
                if is_lossy && missing == Missing::Events && (10..25).contains(&place) {
                    discarded += 1;
                    continue;
                }
                kept.insert((ORIGIN + record.time as i64, record.kind));
                EventHeader::Full.encode(record.kind as u32, record.time, 0, &mut content);
                content.extend(record.tid.to_le_bytes());
                if record.kind % 2 == 1 && record.kind < REQUEST {
                    content.push(0);
                }
                if record.kind % 2 == 1 || record.kind >= REQUEST {
                    content.extend(record.number.to_le_bytes());
                }
            }
            header.events_discarded += discarded;
            header.timestamp_begin = packet[0].time;
            header.timestamp_end = packet[packet.len() - 1].time;
            header.content_bits = (HEADER_LEN + content.len()) as u64 * 8;
            header.packet_bits = header.content_bits;
            file.extend(header.encode(&UUID));
            file.append(&mut content);
        }
        fs::write(directory.join(format!("stream_{cpu}")), file).unwrap();
    }
    let all = program.cpus.iter().flatten().map(|record| (ORIGIN + record.time as i64, record.kind)).collect();
    assert!(kept.len() > 2000 && kept != all, "{} events", kept.len());
    Made { slices: program.slices, kept, all, complete, full }
}

/// The records of one CPU as packets, and what is lost in front of each: nothing.
fn whole(records: &[Record]) -> Vec<(u64, &[Record])> {
    records.chunks(40).map(|packet| (0, packet)).collect()
}

/// The same where the records go through a ring of four sub-buffers, of which a reader empties some now and then.
fn ring<'r>(records: &'r [Record], random: &mut Random) -> Vec<(u64, &'r [Record])> {
    let (mut packets, mut used, mut lost) = (Vec::new(), 0, 0);
    let (mut begin, mut at) = (0, 0);
    while at < records.len() {
        if begin == at && used == 4 {
            // Full: this one is lost.
            (lost, begin) = (lost + 1, at + 1);
        } else if begin == at {
            packets.push((std::mem::take(&mut lost), &records[at..=at]));
            used += 1;
        } else if let Some((_, packet)) = packets.last_mut() {
            *packet = &records[begin..=at];
        }
        at += 1;
        if at - begin == 40 {
            begin = at;
        }
        if random.below(70) == 0 {
            used -= random.below(used + 1);
        }
    }
    if lost > 0 {
        packets.push((lost, &[]));
    }
    packets
}

fn run(arguments: &[&str], here: &Path) -> Output {
    let output =
        Command::new(env!("CARGO_BIN_EXE_ringtrace")).args(arguments).env("TZ", "UTC").current_dir(here).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn lines(arguments: &[&str], here: &Path) -> Vec<Value> {
    let printed = run(arguments, here).stdout;
    String::from_utf8(printed).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kind_of(name: &str) -> usize {
    2 * ["app:work", "app:step", "app:request"].iter().position(|known| *known == name).unwrap_or_else(|| panic!("{name}"))
}

/// Runs a test with traces that lack something in different ways.
fn with(mut check: impl FnMut(&Made, &Path, Missing)) {
    let rings = (5..11).map(|seed| (Missing::Full, seed));
    let others = [(Missing::Beginnings, 1), (Missing::Packets, 2), (Missing::Events, 3), (Missing::Events, 4)];
    for (missing, seed) in others.into_iter().chain(rings) {
        let here = tempfile::tempdir().unwrap();
        let made = make(&here.path().join("trace"), missing, seed);
        check(&made, here.path(), missing);
    }
}

/// The latencies of requests: each as its begin and its end.
fn latencies(options: &[&str], here: &Path) -> (Value, Vec<(i64, i64)>) {
    let command = ["latency", "request_begin", "request_end", "--slowest", "100000", "--in", "trace", "--json"];
    let row = lines(&[&command, options].concat(), here).remove(0);
    let number = |row: &Value, name: &str| row[name].as_i64().unwrap();
    let slowest = row["slowest"].as_array().unwrap().iter();
    let pairs = slowest.map(|pair| (number(pair, "begin_ns"), number(pair, "begin_ns") + number(pair, "duration_ns"))).collect();
    (row, pairs)
}

#[test]
fn no_pair_is_false() {
    let mut false_ones = 0;
    with(|made, here, missing| {
        let (row, pairs) = latencies(&[], here);
        let (all_row, all) = latencies(&["--across-losses"], here);
        assert!(pairs.len() > 100, "{missing:?}: {row}");
        pairs.iter().for_each(|(begin, end)| assert!(made.is_true(REQUEST, *begin, *end), "{missing:?} {begin} {end}"));
        if missing == Missing::Full {
            // Of the requests that are whole, no more are left out than those during which a ring was full.
            let is_there = |slice: &&Slice| {
                let kept = made.kept.contains(&(slice.begin, REQUEST)) && made.kept.contains(&(slice.end, REQUEST + 1));
                slice.kind == REQUEST && kept && !made.full.iter().any(|(from, to)| *from < slice.end && slice.begin < *to)
            };
            let expected: BTreeSet<_> = made.slices.iter().filter(is_there).map(|slice| (slice.begin, slice.end)).collect();
            assert_eq!(pairs.iter().copied().collect::<BTreeSet<_>>(), expected);
        }
        // What is left out is counted, and not more than that.
        assert_eq!(row["across_losses"].as_u64().unwrap() as usize, all.len() - pairs.len(), "{missing:?}");
        assert_eq!((&row["latency_ns"]["count"], &all_row["across_losses"]), (&pairs.len().into(), &0.into()));
        false_ones += all.iter().filter(|(begin, end)| !made.is_true(REQUEST, *begin, *end)).count();
        let said = String::from_utf8(run(&["latency", "request_begin", "request_end", "--in", "trace"], here).stdout).unwrap();
        assert!(said.contains("may span lost events and are left out; --across-losses includes them"), "{said}");
    });
    assert!(false_ones > 10, "{false_ones}");
}

#[test]
fn calls_take_as_long_as_their_exits_say() {
    with(|made, here, missing| {
        let row = lines(&["latency", "app:work", "--slowest", "100000", "--in", "trace", "--json"], here).remove(0);
        let mut expected: Vec<_> = made
            .slices
            .iter()
            .filter(|slice| slice.kind == 0 && made.kept.contains(&(slice.end, 1)))
            .map(|slice| (slice.duration, slice.end - slice.duration as i64, i64::from(slice.tid)))
            .collect();
        expected.sort_unstable();
        let number = |row: &Value, name: &str| row[name].as_i64().unwrap();
        let slowest = row["slowest"].as_array().unwrap().iter();
        let mut shown: Vec<_> =
            slowest.map(|pair| (number(pair, "duration_ns") as u64, number(pair, "begin_ns"), number(pair, "tid"))).collect();
        shown.sort_unstable();
        assert_eq!(shown, expected, "{missing:?}");
    });
}

#[test]
fn trees_do_not_reach_over_what_is_missing() {
    with(|made, here, missing| {
        let (mut whole, mut alone, mut lost, mut apart) = (0, 0, 0, 0);
        for line in lines(&["tree", "trace", "--json"], here) {
            if line["slice"] == false {
                // An end whose begin was never there: it says nothing of a duration.
                continue;
            }
            let (kind, time) = (kind_of(line["name"].as_str().unwrap()), line["time_ns"].as_i64().unwrap());
            let duration = line["duration_ns"].as_i64();
            match (&line["begin_lost"], &line["end_lost"], duration) {
                (Value::Bool(true), _, None) => assert_eq!(kind, REQUEST, "{line}"),
                (Value::Bool(true), _, Some(duration)) => {
                    let own = made.slice(kind, |slice| slice.end == time + duration).unwrap_or_else(|| panic!("{line}"));
                    assert_eq!(own.duration as i64, duration);
                    apart += u64::from(made.kept.contains(&(own.begin, kind)));
                    alone += 1;
                }
                (_, Value::Bool(true), _) => {
                    assert!(made.slice(kind, |slice| slice.begin == time).is_some(), "{line}");
                    lost += 1;
                }
                (_, _, Some(duration)) => {
                    let end = line["end_ns"].as_i64().unwrap();
                    assert!(made.is_true(kind, time, end) && time + duration <= end, "{missing:?}: {line}");
                    whole += 1;
                }
                (_, _, None) => panic!("{missing:?}: nothing says why it has no end: {line}"),
            }
        }
        assert!(whole > 500 && alone > 10 && lost > 10, "{missing:?}: {whole} {alone} {lost}");
        // Where it is not clear what is over and what is not, a call is shown as two, and of each what is known.
        assert!(apart * 20 < whole, "{missing:?}: {apart} of {whole}");
    });
}

/// The events of an export for Chrome that have a time, in the order of time.
fn timed(exported: &str) -> Vec<(i64, Value)> {
    // Times have more digits than floating point, and each event has a line.
    let timed = |line: &str| {
        let (_, rest) = line.split_once("\"ts\":")?;
        let time: i64 = rest.split(',').next()?.replace('.', "").parse().unwrap();
        Some((time, serde_json::from_str::<Value>(line.trim_end_matches(',')).unwrap()))
    };
    let mut events: Vec<_> = exported.lines().filter_map(timed).collect();
    // As their readers do: by time, and where that is the same, as they stand.
    events.sort_by_key(|(time, _)| *time);
    events
}

#[test]
fn slices_of_an_export_do_not_reach_over_what_is_missing() {
    with(|made, here, missing| {
        run(&["export", "trace", "--to", "chrome", "-o", "trace.json"], here);
        let exported = fs::read_to_string(here.join("trace.json")).unwrap();
        assert!(serde_json::from_str::<Value>(&exported).is_ok());
        let events = timed(&exported);
        let mut open: BTreeMap<i64, Vec<(i64, &Value)>> = BTreeMap::new();
        let mut slices = 0;
        for (time, event) in &events {
            let stack = open.entry(event["tid"].as_i64().unwrap()).or_default();
            match event["ph"].as_str().unwrap() {
                "B" => stack.push((*time, event)),
                "E" => {
                    let (at, begin) = stack.pop().unwrap_or_else(|| panic!("{missing:?}: nothing to end: {event}"));
                    let kind = kind_of(begin["name"].as_str().unwrap());
                    if event["args"]["end"] == "lost" {
                        continue;
                    }
                    assert_eq!(event["name"], begin["name"], "{missing:?}");
                    assert!(made.is_true(kind, at, *time), "{missing:?}: {begin} {event}");
                    slices += 1;
                }
                _ => {}
            }
        }
        assert!(slices > 500, "{missing:?}: {slices}");
        assert!(open.values().all(Vec::is_empty), "{missing:?}: {open:?}");
        run(&["report", "trace", "-o", "report.html"], here);
        run(&["export", "trace", "--to", "perfetto", "-o", "trace.pftrace"], here);
    });
}

#[test]
fn every_verb_says_from_when_a_snapshot_is_whole() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let made = make(&here.join("trace"), Missing::Beginnings, 1);
    let last = made.all.last().unwrap().0;
    let stats = &lines(&["stats", "trace", "--json"], here)[0];
    assert_eq!(stats["losses"]["discarded_events"], 0);
    let whole = &stats["whole"];
    assert_eq!((&whole["from_ns"], &whole["to_ns"]), (&made.complete.into(), &last.into()), "{whole}");
    assert_eq!((&whole["late_streams"], &whole["streams"]), (&(CPUS - 1).into(), &CPUS.into()));
    let time = run(&["view", "trace", "--whole", "--head", "1", "--time", "date"], here);
    let time = String::from_utf8(time.stdout).unwrap()[..29].to_owned();
    for command in [&["stats", "trace"][..], &["check", "trace"], &["view", "trace"], &["top", "trace"], &["tree", "trace"]] {
        let output = run(command, here);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let sentence = format!("on all CPUs from {time} to ");
        assert!(said.contains(&sentence) && said.contains("before that, the events of 2 of 3 CPUs are missing"), "{said}");
    }
    run(&["report", "trace", "-o", "report.html"], here);
    assert!(fs::read_to_string(here.join("report.html")).unwrap().contains(&format!("on all CPUs from {time} to ")));
    // What `--whole` leaves is all that happened in that time.
    let expected: BTreeSet<_> = made.all.range((made.complete, 0)..).copied().collect();
    let shown = lines(&["view", "trace", "--whole", "--json"], here);
    let shown: BTreeSet<_> = shown
        .iter()
        .map(|line| (line["timestamp_ns"].as_i64().unwrap(), NAMES.iter().position(|name| line["name"] == *name).unwrap()))
        .collect();
    assert_eq!(shown, expected);
    assert!(shown.len() < made.kept.len());
    let output = run(&["stats", "trace", "--whole"], here);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!said.contains("whole"), "{said}");
    // Of a trace that has lost events in between, the longest time without a loss.
    let made = make(&here.join("lossy"), Missing::Events, 3);
    let whole = &lines(&["stats", "lossy", "--json"], here)[0]["whole"];
    let [from, to] = ["from_ns", "to_ns"].map(|name| whole[name].as_i64().unwrap());
    assert!(from < to && whole["holes"].as_u64() > Some(2), "{whole}");
    let within = |set: &BTreeSet<(i64, usize)>| set.range((from, 0)..(to, 0)).copied().collect::<BTreeSet<_>>();
    assert_eq!(within(&made.kept), within(&made.all));
    let count = lines(&["view", "lossy", "--whole", "--json"], here).len();
    assert_eq!(count, made.kept.range((from, 0)..(to + 1, 0)).count());
    // Nothing is said where nothing is missing.
    let output = run(&["stats", "lossy", "--whole"], here);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("whole:"));
}

/// An event of a span or a call.
#[derive(Clone, Copy, Debug)]
struct Step {
    time: u64,
    /// 0 and 1: a call is entered and left; 2 and 3: a span is.
    kind: u32,
    tid: i32,
    /// The span's.
    number: u64,
    duration: u64,
    is_kept: bool,
}

/// Writes a trace of spans that outlive the calls that they began in, and end on whatever threads. Returns what happened.
fn make_spans(directory: &Path) -> Vec<Step> {
    let (mut random, mut now) = (Random(7), 1000);
    let (mut steps, mut calls, mut spans) = (Vec::new(), [None; 4], Vec::new());
    for number in 0..6000 {
        now += 600 + random.below(3000);
        let thread = random.below(4) as usize;
        let mut step = |kind, number, begin| {
            steps.push(Step { time: now, kind, tid: 100 + thread as i32, number, duration: now - begin, is_kept: true });
        };
        match (random.below(2), calls[thread]) {
            (0, None) => {
                calls[thread] = Some(now);
                step(0, 0, now);
            }
            (0, Some(begin)) => {
                calls[thread] = None;
                step(1, 0, begin);
            }
            _ if spans.len() < 12 && random.below(2) == 0 || spans.is_empty() => {
                spans.push((number, now));
                step(2, number, now);
            }
            _ => {
                let (number, begin) = spans.swap_remove(random.below(spans.len() as u64) as usize);
                step(3, number, begin);
            }
        }
    }
    let clock = Clock { uuid: [3; 16], offset_s: 1_700_000_000, ..Clock::default() };
    let context = vec![Field::new("vtid", FieldClass::signed(32))];
    let streams = vec![StreamClass { id: 0, header: EventHeader::Full, context }];
    let mut schema = Schema::new(Trace { uuid: UUID, environment: Vec::new(), clock, streams }).unwrap();
    let labels = vec![Label { label: "returned".into(), low: 0, high: 0 }];
    let outcome = Field::new("outcome", FieldClass::Enumeration { bits: 8, signed: false, labels });
    let duration = Field { unit: Some("ns".into()), ..Field::new("duration", FieldClass::unsigned(64)) };
    let number = Field::new("span", FieldClass::unsigned(64));
    let classes = [
        ("app:work::entry", vec![]),
        ("app:work::exit", vec![outcome.clone(), duration.clone()]),
        ("app:held::entry", vec![number.clone()]),
        ("app:held::exit", vec![number, outcome, duration]),
    ];
    for (id, (name, fields)) in (0..).zip(classes) {
        schema.add(EventClass { stream_id: 0, id, name: name.into(), level: None, source: None, fields }).unwrap();
    }
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("metadata"), metadata::write(&schema)).unwrap();
    let (mut file, mut header) = (Vec::new(), PacketHeader::default());
    for (number, packet) in steps.chunks_mut(60).enumerate() {
        let mut content = Vec::new();
        for (place, step) in packet.iter_mut().enumerate() {
            step.is_kept = number % 4 != 2 || !(20..35).contains(&place);
            if !step.is_kept {
                header.events_discarded += 1;
                continue;
            }
            EventHeader::Full.encode(step.kind, step.time, 0, &mut content);
            content.extend(step.tid.to_le_bytes());
            if step.kind >= 2 {
                content.extend(step.number.to_le_bytes());
            }
            if step.kind % 2 == 1 {
                content.push(0);
                content.extend(step.duration.to_le_bytes());
            }
        }
        header.sequence = number as u64;
        (header.timestamp_begin, header.timestamp_end) = (packet[0].time, packet[packet.len() - 1].time);
        header.content_bits = (HEADER_LEN + content.len()) as u64 * 8;
        header.packet_bits = header.content_bits;
        file.extend(header.encode(&UUID));
        file.append(&mut content);
    }
    fs::write(directory.join("stream"), file).unwrap();
    steps
}

/// The entry and the exit of a span are a pair by their number, whatever is missing between them.
#[test]
fn spans_are_paired_across_what_is_missing() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let steps = make_spans(&here.join("trace"));
    let tree = lines(&["tree", "trace", "--json"], here);
    let held: BTreeMap<i64, &Value> = tree
        .iter()
        .filter(|line| line["name"] == "app:held")
        .map(|line| (line["time_ns"].as_i64().unwrap() - ORIGIN, line))
        .collect();
    let (mut whole, mut begin_lost, mut end_lost) = (0, 0, 0);
    for entry in steps.iter().filter(|step| step.kind == 2) {
        let exit = steps.iter().find(|step| step.kind == 3 && step.number == entry.number);
        let line = held.get(&(entry.time as i64)).copied();
        let Some(exit) = exit else { continue };
        let shown = line.map(|line| (line["duration_ns"].as_u64(), line["begin_lost"] == true, line["end_lost"] == true));
        let duration = Some(exit.duration);
        let expected = match (entry.is_kept, exit.is_kept) {
            (true, true) => Some((duration, false, false)),
            (true, false) => Some((None, false, true)),
            (false, true) => Some((duration, true, false)),
            (false, false) => None,
        };
        assert_eq!(shown, expected, "{entry:?} {exit:?} {line:?}");
        whole += u64::from(entry.is_kept && exit.is_kept);
        begin_lost += u64::from(!entry.is_kept && exit.is_kept);
        end_lost += u64::from(entry.is_kept && !exit.is_kept);
    }
    assert!(whole > 500 && begin_lost > 10 && end_lost > 10, "{whole} {begin_lost} {end_lost}");
    let row = lines(&["latency", "app:held", "--in", "trace", "--json"], here).remove(0);
    assert_eq!(row["latency_ns"]["count"], whole + begin_lost, "{row}");
    run(&["report", "trace", "-o", "report.html"], here);
    let report = fs::read_to_string(here.join("report.html")).unwrap();
    assert!(report.contains(&format!("<td>app:held</td><td class=\"n\">{}</td>", whole + begin_lost)));
    run(&["export", "trace", "--to", "perfetto", "-o", "trace.pftrace"], here);

    // What is said of the calls around them is true, and slices of threads nest.
    let is_call =
        |end: u64, duration: u64| steps.iter().any(|step| step.kind == 1 && step.time == end && step.duration == duration);
    for line in tree.iter().filter(|line| line["name"] == "app:work") {
        if let Some(duration) = line["duration_ns"].as_u64() {
            let begin = (line["time_ns"].as_i64().unwrap() - ORIGIN) as u64;
            assert!(is_call(begin + duration, duration), "{line}");
        }
    }
    run(&["export", "trace", "--to", "chrome", "-o", "trace.json"], here);
    let exported = fs::read_to_string(here.join("trace.json")).unwrap();
    let mut open: BTreeMap<i64, Vec<(i64, Value)>> = BTreeMap::new();
    let (mut calls, mut others) = (0, 0);
    for (time, event) in timed(&exported) {
        let stack = open.entry(event["tid"].as_i64().unwrap()).or_default();
        match event["ph"].as_str().unwrap() {
            "B" => stack.push((time, event)),
            "E" => {
                let (at, begin) = stack.pop().unwrap_or_else(|| panic!("nothing to end: {event}"));
                if begin["name"] == "app:work" && event["args"]["end"] != "lost" {
                    others += u64::from(!is_call((time - ORIGIN) as u64, (time - at) as u64));
                    calls += 1;
                }
            }
            _ => {}
        }
    }
    // Where ends of spans and calls are lost near each other, a call may be drawn with the end of the span around it.
    assert!(calls > 500 && others * 100 < calls, "{others} of {calls}");
}
