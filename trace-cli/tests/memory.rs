//! What each command takes of memory at most does not grow with the trace. Run by `cargo xtask memory`.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use trace_ctf::metadata;
use trace_ctf::packet::{HEADER_LEN, PacketHeader};
use trace_ctf::schema::{Clock, EventClass, EventHeader, Field, FieldClass, Schema, StreamClass, Trace};

const UUID: [u8; 16] = [7; 16];
const PACKET: usize = 16 << 10;
const STREAMS: u64 = 2;

/// Bytes of a record: header, context, number, text.
const RECORD: u64 = 4 + 4 + 8 + 2 + 12;

/// How much smaller the trace is that each command is compared with.
const PART: u64 = 16;

/// What a command may take in MiB, and how much more of it for the larger trace: that has as many events that wait for their end as
/// `latency` keeps, some 48 MiB, and what comes and goes differs from run to run.
const MOST: u64 = 300;
const GROWTH: u64 = 64;

const REQUEST: &str = "app:request_begin";

/// All that read a trace, each with the name of the trace in place of `T`.
const COMMANDS: [&str; 26] = [
    "stats T",
    "top T",
    "view T",
    "view --babeltrace T",
    "view --json T",
    "view --tail 1000 T",
    "view --columns time,event,id T",
    "view --if id==5 T",
    "hist app:request_begin.id --in T",
    "hist app:request_begin.id by vtid --in T",
    "hist app:request_begin.id --linear 20 --in T",
    "hist app:request_begin.path by id --in T",
    "latency app:request_begin app:request_end --in T",
    "latency app:request_begin app:request_end by id --in T",
    "tree T",
    "diff T T",
    "check T",
    "formats T",
    "export --to perfetto --flow id --counter app:request_begin.id T",
    "export --to chrome T",
    "export --to jsonl T",
    "export --to csv T",
    "convert T -o out --format ctf2",
    "trim T -o out",
    "trim T -o out --event app:request_begin",
    "report T -o page.html",
];

/// Writes pairs of events, of which every sixteenth lacks its end.
fn write(path: &Path, events: u64) {
    fs::create_dir_all(path).unwrap();
    let clock = Clock { uuid: [3; 16], offset_s: 1_700_000_000, ..Clock::default() };
    let context = vec![Field::new("vtid", FieldClass::signed(32))];
    let streams = vec![StreamClass { id: 0, header: EventHeader::Compact, context }];
    let mut schema = Schema::new(Trace { uuid: UUID, environment: Vec::new(), clock, streams }).unwrap();
    for (id, name) in [(0, REQUEST), (1, "app:request_end")] {
        let fields = vec![Field::new("id", FieldClass::unsigned(64)), Field::new("path", FieldClass::String { length_bits: 16 })];
        schema.add(EventClass { stream_id: 0, id, name: name.into(), level: None, source: None, fields }).unwrap();
    }
    fs::write(path.join("metadata"), metadata::write(&schema)).unwrap();
    for stream in 0..STREAMS {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path.join(format!("channel_{stream}"))).unwrap());
        let mut header = PacketHeader { stream_instance_id: stream, cpu_id: stream as u32, ..PacketHeader::default() };
        let mut content = Vec::new();
        let mut now = 1_000_000_000;
        file.write_all(&PacketHeader { timestamp_begin: now, timestamp_end: now, ..header }.encode_opening(&UUID)).unwrap();
        let mut numbers = (stream..events).step_by(STREAMS as usize).enumerate().peekable();
        while let Some(&(_, first)) = numbers.peek() {
            header.sequence += 1;
            header.timestamp_begin = 1_000_000_000 + first * 100;
            now = header.timestamp_begin;
            while content.len() + 64 < PACKET - HEADER_LEN {
                let Some((count, number)) = numbers.next() else { break };
                let (pair, time) = (count as u64 / 2, 1_000_000_000 + number * 100);
                let is_begin = count % 2 == 0 || pair % 16 == 0;
                EventHeader::Compact.encode(u32::from(!is_begin), time, now, &mut content);
                content.extend((4000 + stream as i32).to_le_bytes());
                content.extend((pair * STREAMS + stream).to_le_bytes());
                content.extend(12_u16.to_le_bytes());
                write!(content, "/page/{:06}", pair % 100_000).unwrap();
                now = time;
            }
            header.timestamp_end = now;
            header.content_bits = (HEADER_LEN + content.len()) as u64 * 8;
            header.packet_bits = PACKET as u64 * 8;
            content.resize(PACKET - HEADER_LEN, 0);
            file.write_all(&header.encode(&UUID)).unwrap();
            file.write_all(&content).unwrap();
            content.clear();
        }
        file.flush().unwrap();
    }
}

/// Runs a command to its end. Returns its peak of resident memory, in MiB.
#[expect(clippy::zombie_processes, reason = "wait4(2) waits for it")]
fn peak(line: &str, trace: &str, here: &Path) -> u64 {
    let words = line.split(' ').map(|word| if word == "T" { trace } else { word });
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtrace"));
    let child = command.args(words).current_dir(here).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut status = 0;
    #[expect(unsafe_code, reason = "wait4(2), which the standard library has not")]
    // SAFETY: the process is a child of this one, and both places live as long as the call.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        assert_eq!(libc::wait4(child.id() as i32, &mut status, 0, &mut usage), child.id() as i32);
        usage
    };
    assert_eq!(status, 0, "{line}");
    let _ = fs::remove_dir_all(here.join("out"));
    usage.ru_maxrss as u64 / 1024
}

#[test]
#[ignore = "some minutes, and three times the size on the disk: `cargo xtask memory`"]
fn memory_does_not_grow_with_the_trace() {
    let megabytes: u64 = std::env::var("RINGTRACE_MEMORY_MB").map_or(256, |megabytes| megabytes.parse().unwrap());
    let here = tempfile::tempdir().unwrap();
    let events = megabytes * 1_000_000 / RECORD;
    write(&here.path().join("small"), events / PART);
    write(&here.path().join("large"), events);
    println!("{megabytes} MB, {events} events, and a {PART}th of it; most memory that was resident, in MiB\n");
    let mut wrong = Vec::new();
    for line in COMMANDS {
        let [small, large] = ["small", "large"].map(|trace| peak(line, trace, here.path()));
        println!("{small:5} {large:5}  {line}");
        if large > MOST || large > small + GROWTH {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
