//! Rings and processes: a reader in another process, a writer that is killed, a child after fork(2).
#![expect(unsafe_code, reason = "forks, and maps files of another process")]
#![cfg(target_os = "linux")]

mod ring_support;

use ring_support::{BY_CID, BY_CPU, OS, Of, RAW, cpus};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{Geometry, Outcome, Packet, Purpose, Reader};

type Discard = Of<false, OS, false, BY_CPU>;
const PATH: &str = "RING_PROCESS_PATH";

fn geometry() -> Geometry {
    Geometry { buffers: cpus(), sub_buffer: 4096, sub_buffers: 16, fallback: 64 << 10 }
}

/// Not a test of its own: the writing process of those below.
#[test]
fn child_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let file = std::fs::File::options().read(true).write(true).open(path).expect("the ring file");
    let cpus: Vec<u32> = (0..geometry().buffers).collect();
    let channel = ring_support::create::<Discard>(file, geometry(), &cpus, Clock::process()).expect("a channel");
    let mut number = 1_u64;
    loop {
        match channel.record(1, &[&number.to_le_bytes(), &(!number).to_le_bytes()]) {
            Outcome::Recorded => number += 1,
            _ => std::thread::yield_now(),
        }
    }
}

struct Numbers(BTreeSet<u64>);

impl Numbers {
    fn payload(&mut self, payload: &[u8]) {
        let number = u64::from_le_bytes(payload[..8].try_into().expect("8 bytes"));
        assert_eq!(payload[8..16], (!number).to_le_bytes(), "a torn record");
        assert!(self.0.insert(number), "{number} came twice");
    }

    fn packet(&mut self, packet: &Packet, reader: &Reader) {
        let (bytes, mut at, mut last) = (packet.to_vec(), 0, packet.begin_ns);
        while at < bytes.len() {
            let header = reader.settings().header.read(&bytes[at..], last).expect("a header");
            assert!(header.ns >= last && header.ns <= packet.end_ns && header.id == 1);
            last = header.ns;
            self.payload(&bytes[at + header.len..at + header.len + 16]);
            at += header.len + 16;
        }
    }

    fn read(&mut self, reader: &mut Reader, is_final: bool, mut budget: usize) {
        for buffer in 0..reader.geometry().buffers {
            while budget > 0 {
                let Some(packet) = reader.next(buffer, true) else { break };
                self.packet(&packet, reader);
                reader.consume(packet);
                budget -= 1;
            }
        }
        while let Some(record) = reader.next_fallback(is_final) {
            self.payload(&record.payload[..16]);
        }
        reader.consume_fallback();
    }
}

fn open(path: &std::path::Path) -> Reader {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("the ring file");
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        // SAFETY: nobody makes the file shorter; there is one reader at a time.
        match unsafe { Reader::open(&file, Purpose::Consume) } {
            Ok(reader) => return reader,
            Err(error) if Instant::now() > end => panic!("no ring: {error}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_reader_in_another_process_gets_everything_and_so_does_the_next_after_a_kill() {
    if std::env::var_os(PATH).is_some() {
        return;
    }
    for round in 0..10_u64 {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child_writes_until_it_is_killed", "--nocapture"])
            .env(PATH, file.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let mut numbers = Numbers(BTreeSet::new());
        let mut reader = open(file.path());
        while (numbers.0.len() as u64) < 20_000 + round * 777 {
            // Readers come and go; each continues where the one before consumed.
            numbers.read(&mut reader, false, 7);
            if round % 2 == 0 {
                drop(reader);
                reader = open(file.path());
            }
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        // A reader that consumed nothing of what it saw leaves it to the next.
        let seen = reader.next(0, true);
        drop(reader);
        let mut reader = open(file.path());
        numbers.read(&mut reader, true, usize::MAX);
        drop(seen);
        for positions in (0..geometry().buffers).map(|buffer| reader.positions(buffer).expect("a buffer")) {
            // At most an opening without records.
            assert!((0..=8).contains(&(positions.produced - positions.consumed)), "{positions:?}");
        }
        assert_eq!(reader.positions(geometry().buffers), None);
        let last = numbers.0.last().copied().unwrap_or(0);
        assert_eq!(numbers.0.len() as u64, last, "all that was committed, and nothing else");
    }
}

#[test]
fn files_that_are_no_rings_are_refused() {
    let file = tempfile::tempfile().expect("a file");
    for (len, expected) in [(0, "too short"), (4096, "no magic")] {
        file.set_len(len).expect("a length");
        // SAFETY: nobody makes the file shorter.
        let error = unsafe { Reader::open(&file, Purpose::Snapshot) }.expect_err("refused");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let ring = tempfile::tempfile().expect("a file");
    drop(
        ring_support::create::<Discard>(ring.try_clone().expect("a copy"), geometry(), &[0], Clock::process())
            .expect("a channel"),
    );
    // SAFETY: it is mapped for the time of the call only.
    assert!(unsafe { Reader::open(&ring, Purpose::Snapshot) }.is_ok());
    ring.set_len(geometry().file_size() - 1).expect("a length");
    // SAFETY: as above.
    assert!(unsafe { Reader::open(&ring, Purpose::Snapshot) }.expect_err("refused").to_string().contains("cut off"));
}

fn forked<C: trace_runtime::ring_buffer::Config>() {
    let channel = ring_support::create::<C>(ring_support::file(), geometry(), &(0..cpus()).collect::<Vec<_>>(), Clock::process());
    let channel = channel.expect("a channel");
    assert_eq!(channel.record(1, &[&[1; 8]]), Outcome::Recorded);
    let appender = channel.core().appender(channel.core().generation(), 1, false, 0);
    // SAFETY: the child only appends, which is async-signal-safe, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let bytes = [2_u8; 8];
        let pieces = [trace_registry::field::Piece { start: bytes.as_ptr(), len: 8 }];
        let mut refused = true;
        for _ in 0..1000 {
            refused &= channel.record(1, &[&bytes]) == Outcome::Refused;
            // SAFETY: `C` made the channel.
            refused &= unsafe { appender.append::<C>(&pieces, 8) == Outcome::Refused };
            channel.core().count_loss(trace_registry::probe::Loss::Nested);
        }
        refused &= channel.core().bump_generation() == 0 && channel.core().generation() == 0;
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(i32::from(!refused)) }
    }
    let mut status = 0;
    // SAFETY: waits for the child just made.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's appends were not all refused");
    assert_eq!(channel.record(1, &[&[3; 8]]), Outcome::Recorded);
    assert_eq!((channel.core().records(), channel.core().losses().total()), (2, 0), "the parent's ring was touched");
    let mut reader = channel.reader(Purpose::Consume).expect("the first reader");
    let mut payloads = BTreeSet::new();
    for buffer in 0..cpus() {
        while let Some(packet) = reader.next(buffer, true) {
            payloads.extend(packet.to_vec().rchunks(packet.len() / packet.records.max(1) as usize).map(|r| r[r.len() - 1]));
        }
    }
    while let Some(record) = reader.next_fallback(true) {
        payloads.insert(record.payload[0]);
    }
    assert!(payloads.contains(&3) && !payloads.contains(&2));
}

#[test]
fn a_forked_child_is_refused_and_the_parents_ring_untouched() {
    if std::env::var_os(PATH).is_some() {
        return;
    }
    forked::<Discard>();
    if Clock::process().is_counter() {
        forked::<Of<true, RAW, true, BY_CPU>>();
        if trace_runtime::ring_buffer::Placement::MmCid.is_available() {
            forked::<Of<false, RAW, false, BY_CID>>();
        }
    }
}
