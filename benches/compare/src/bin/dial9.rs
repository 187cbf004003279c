//! `dial9` with the handle of the recorder; into memory, or with `disk` into files.

use compare::{Payload, Tracer};
use dial9::core::clock_monotonic_ns;
use dial9::format::{Decoder, TraceEvent};
use dial9::{Dial9Handle, DiskBuffer, MemoryBuffer, Recorder, recorder};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

const MEMORY: u64 = 64 << 20;

#[derive(TraceEvent)]
struct Number {
    #[traceevent(timestamp)]
    timestamp_ns: u64,
    value: u64,
}

#[derive(TraceEvent)]
struct Mixed<'a> {
    #[traceevent(timestamp)]
    timestamp_ns: u64,
    small: u32,
    large: u64,
    text: &'a str,
}

struct Dial9(Recorder);

impl Tracer for Dial9 {
    type Thread<'a> = &'a Dial9Handle;

    fn thread(&self) -> &Dial9Handle {
        self.0.handle()
    }

    #[inline(always)]
    fn number(handle: &mut &Dial9Handle, value: u64) {
        handle.record_event_with(|| Number { timestamp_ns: clock_monotonic_ns(), value });
    }

    #[inline(always)]
    fn mix(handle: &mut &Dial9Handle, small: u32, large: u64, text: &str) {
        handle.record_event_with(|| Mixed { timestamp_ns: clock_monotonic_ns(), small, large, text });
    }

    /// Of what is in memory or not yet sealed, it tells nothing.
    fn arrived(&self, _: u64) -> Option<u64> {
        None
    }

    /// In a process of its own, because a process has one recorder.
    fn arrived_apart(&self, payload: Payload, threads: usize, events: u64) -> Option<u64> {
        let payload = if payload == Payload::U64 { "u64" } else { "mix" };
        let program = std::env::current_exe().ok()?;
        let output = Command::new(program).args(["check", payload, &threads.to_string(), &events.to_string()]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    }
}

/// Records into one file, and says how many events it holds.
fn check(payload: &str, threads: usize, events: u64) -> Result<u64, Box<dyn Error>> {
    let payload = if payload == "u64" { Payload::U64 } else { Payload::Mix };
    let directory = tempfile::tempdir()?;
    let tracer = Dial9(recorder(DiskBuffer::single_file(directory.path().join("trace.bin"))?).build());
    // Threads hand over what they hold when they end.
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let handle = tracer.0.handle().clone();
            thread::spawn(move || compare::fire::<Dial9>(&handle, payload, events))
        })
        .collect();
    for thread in threads {
        thread.join().expect("it fires");
    }
    tracer.0.graceful_shutdown(Duration::ZERO);
    events_below(directory.path()).ok_or_else(|| "it cannot be decoded".into())
}

fn events_below(directory: &Path) -> Option<u64> {
    let mut found = 0;
    for entry in std::fs::read_dir(directory).ok()? {
        let bytes = std::fs::read(entry.ok()?.path()).ok()?;
        let counted = Decoder::new(&bytes)?.for_each_event(|event| {
            found += u64::from(matches!(event.name, "Number" | "Mixed"));
        });
        counted.ok()?;
    }
    Some(found)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["check", payload, threads, events] = arguments[..] {
        println!("{}", check(payload, threads.parse()?, events.parse()?)?);
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let recorder = match arguments[..] {
        ["disk"] => {
            let files = DiskBuffer::builder().base_path(directory.path().join("trace.bin")).max_total_size(MEMORY);
            recorder(files.build()?).build()
        }
        _ => recorder(MemoryBuffer::new(MEMORY)?).build(),
    };
    compare::serve(&Dial9(recorder));
    Ok(())
}
