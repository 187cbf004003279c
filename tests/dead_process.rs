//! The rings and the journal of a process that was killed suffice to read every committed event, without the process.

mod common;

use ringtrace::ring_buffer::{Purpose, Reader};
use ringtrace::{Session, journal, tracepoint};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use trace_ctf::packet::PacketHeader;
use trace_ctf::reader::Decoder;

#[tracepoint(record)]
fn counted(number: u64, text: &str);

/// Kills a child whatever happens.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const NAME: &str = "what_a_killed_process_committed_can_be_read";

#[test]
fn what_a_killed_process_committed_can_be_read() {
    if common::is_child(NAME) {
        child();
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = common::child(NAME);
    command.env("XDG_RUNTIME_DIR", "/dev/shm").current_dir(directory.path()).stdout(Stdio::piped());
    let mut process = Kill(command.spawn().expect("the child starts"));
    // The child tells how many events it has recorded, each time after they are committed.
    let mut told = 0;
    for line in BufReader::new(process.0.stdout.take().expect("its output")).lines() {
        if let Some(count) = line.expect("text").strip_prefix("recorded ") {
            told = count.parse().expect("a number");
        }
        if told >= 5_000 {
            break;
        }
    }
    let pid = process.0.id();
    process.0.kill().expect("SIGKILL");
    process.0.wait().expect("it is dead");

    let left = left_behind(pid);
    let mut numbers = read(&left);
    numbers.sort_unstable();
    assert!(numbers.len() as u64 >= told, "{} events of at least {told}", numbers.len());
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "events are missing, or there twice");
    std::fs::remove_dir_all(left.parent().expect("the process's directory")).expect("it is removed");
}

fn child() -> ! {
    // Overwrite mode: nothing is delivered before the end, which does not come.
    let session = Session::builder("dead").enable("dead_process:*").overwrite().memory(16 << 20).output("trace").start();
    let _session = session.expect("a session");
    let mut number = 0;
    loop {
        for _ in 0..100 {
            counted(number, "some text");
            number += 1;
        }
        println!("recorded {number}");
        // Slow enough that the rings are never overwritten before the kill.
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// The directory of the session's rings.
fn left_behind(pid: u32) -> PathBuf {
    let images = std::fs::read_dir("/dev/shm/ringtrace").expect("the user's directory");
    let of_child = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{pid}-")));
    let image = images.flatten().map(|e| e.path()).find(of_child).expect("the process's directory");
    image.join("dead")
}

/// Reads the numbers of all events, from the two files alone.
fn read(directory: &Path) -> Vec<u64> {
    let path = directory.join("journal");
    let contents = journal::read(&std::fs::read(&path).expect("the journal"), &path).expect("a journal").expect("events");
    let schema = contents.schema;
    assert_eq!(contents.rest, 0);
    let mut decoder = Decoder::new(&schema).expect("a schema");
    let file = File::options().read(true).write(true).open(directory.join("rings")).expect("the rings");
    // SAFETY: the process that used the file is dead, and nobody else knows of it.
    #[expect(unsafe_code, reason = "maps a file that others could cut")]
    let mut reader = unsafe { Reader::open(&file, Purpose::Consume) }.expect("a ring file");
    let uuid = [reader.caller_word(0), reader.caller_word(1)].map(|w| w.expect("the caller's area").to_le_bytes()).concat();
    assert_eq!(uuid, schema.trace.uuid, "rings and journal belong together");
    let mut numbers = Vec::new();
    for buffer in 0..reader.geometry().buffers {
        while let Some(packet) = reader.next(buffer, true) {
            let header =
                PacketHeader { timestamp_begin: packet.begin_ns, timestamp_end: packet.end_ns, ..PacketHeader::default() };
            let decoded = decoder.packet(&header, &packet.to_vec()).expect("a packet");
            let mut events = decoded.events();
            while let Some(event) = events.next_event() {
                let event = event.expect("whole records only");
                let payload = event.payload();
                assert_eq!(payload.member("text").and_then(|t| t.as_str()), Some("some text"));
                numbers.push(payload.member("number").and_then(|n| n.as_u64()).expect("a number"));
            }
            reader.consume(packet);
        }
    }
    numbers
}
