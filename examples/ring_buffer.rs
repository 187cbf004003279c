//! The ring buffer on its own, without tracepoints: a flight recorder of measurements, and a log that discards when it is full.
//!
//! `cargo run --example ring_buffer`

use ringtrace::ring_buffer::{Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Outcome, Placement, Purpose};
use std::collections::BTreeMap;

/// Keeps the newest records; what is older is overwritten.
struct FlightRecorder;

impl Config for FlightRecorder {
    const MODE: Mode = Mode::Overwrite;
    const CLOCK: ClockKind = ClockKind::Os;
    const HEADER: HeaderKind = HeaderKind::Compact;
    const PLACEMENT: Placement = Placement::Cpu;
}

/// Keeps everything until it is consumed; what finds no room is discarded and counted.
struct Log;

impl Config for Log {
    const MODE: Mode = Mode::Discard;
    const CLOCK: ClockKind = ClockKind::Os;
    const HEADER: HeaderKind = HeaderKind::Large;
    const PLACEMENT: Placement = Placement::Cpu;
}

const MEASUREMENT: u32 = 1;

fn main() -> std::io::Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let geometry = Geometry { buffers: cpus, sub_buffer: 16 << 10, sub_buffers: 8, fallback: 64 << 10 };

    let recorder = Channel::<FlightRecorder>::in_memory(geometry)?;
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let recorder = &recorder;
            scope.spawn(move || {
                for number in 0..100_000_u32 {
                    // The payload is the concatenation of the pieces; nothing is copied in between.
                    let outcome = recorder.record(MEASUREMENT, &[&thread.to_le_bytes(), &number.to_le_bytes()]);
                    assert_eq!(outcome, Outcome::Recorded);
                }
            });
        }
    });

    // A snapshot copies what is there and leaves the ring as it is.
    let mut newest = BTreeMap::new();
    let mut snapshot = recorder.reader(Purpose::Snapshot).expect("a snapshot is always possible");
    let mut kept = 0_u64;
    for buffer in 0..geometry.buffers {
        while let Some(packet) = snapshot.next(buffer, true) {
            let bytes = packet.to_vec();
            let (mut at, mut last_ns) = (0, packet.begin_ns);
            while let Some(header) = FlightRecorder::HEADER.read(&bytes[at..], last_ns) {
                let payload = &bytes[at + header.len..at + header.len + 8];
                let (thread, number) = payload.split_at(4);
                let number = u32::from_le_bytes(number.try_into().expect("4 bytes"));
                let last: &mut u32 = newest.entry(thread[0]).or_default();
                *last = number.max(*last);
                (at, last_ns, kept) = (at + header.len + 8, header.ns, kept + 1);
            }
        }
    }
    while let Some(record) = snapshot.next_fallback(true) {
        let last: &mut u32 = newest.entry(record.payload[0]).or_default();
        *last = (*last).max(u32::from_le_bytes(record.payload[4..8].try_into().expect("4 bytes")));
        kept += 1;
    }
    println!("flight recorder: 400000 records written, the newest {kept} kept; last number by thread: {newest:?}");

    let log = Channel::<Log>::in_memory(geometry)?;
    let mut recorded = 0_u64;
    for number in 0..100_000_u64 {
        recorded += u64::from(log.record(MEASUREMENT, &[&number.to_le_bytes()]) == Outcome::Recorded);
    }
    let mut reader = log.reader(Purpose::Consume).expect("the first reader");
    let mut read = 0_u64;
    for buffer in 0..geometry.buffers {
        while let Some(packet) = reader.next(buffer, true) {
            read += u64::from(packet.records);
            // Only now may the writer use this memory again.
            reader.consume(packet);
        }
    }
    while reader.next_fallback(true).is_some() {
        read += 1;
    }
    let losses = log.core().losses();
    println!("log: {recorded} records written, {read} read; {losses}");
    assert_eq!((recorded, recorded + losses.total()), (read, 100_000));
    Ok(())
}
