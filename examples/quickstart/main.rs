//! A small key-value store with a write-ahead log, worked by several threads and recorded by Ringtrace.
//!
//! `store.rs` is the application: it declares tracepoints and knows nothing of what is recorded. `probes.rs` is the probe
//! module. This file starts a session, runs the work, and shows what the trace holds.
#![allow(unreachable_pub, reason = "the modules stand for crates of their own")]

mod probes;
mod store;

use ringtrace::Session;
use std::error::Error;
use std::path::Path;
use store::Store;
use trace_ctf::reader::{Entry, Trace};
use trace_ctf::text::Readable;

const THREADS: u64 = 4;
const OPERATIONS: u64 = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let session = Session::builder("quickstart").enable("quickstart:*").memory(32 << 20).start()?;

    let store = Store::open(directory.path(), 512)?;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || work(store, thread));
        }
    });
    store.flush()?;
    let recovered = Store::open(directory.path(), 512)?.len();
    println!("the store holds {} keys; {recovered} were read back from its log", store.len());

    let statistics = session.stop()?;
    println!("recorded: {statistics}");
    if let Some(path) = session.path() {
        show(path)?;
    }
    Ok(())
}

/// Puts, gets and removes keys in an order that only `thread` decides.
fn work(store: &Store, thread: u64) {
    let mut random = 0x9E37_79B9_7F4A_7C15 ^ (thread + 1);
    for _ in 0..OPERATIONS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let key = format!("user/{}", random % 4_096);
        let done = match random >> 60 {
            0..=5 => store.put(&key, &random.to_le_bytes().repeat((random >> 20) as usize % 24)),
            6 => store.remove(&key),
            _ => store.get(&key).map(drop),
        };
        if let Err(error) = done {
            eprintln!("{key}: {error}");
        }
    }
}

/// Reads the trace and prints the events by class, and the last lines.
fn show(path: &Path) -> Result<(), Box<dyn Error>> {
    let trace = Trace::open(path)?;
    let mut counts = std::collections::BTreeMap::new();
    let mut readable = Readable::utc();
    let mut tail = std::collections::VecDeque::new();
    let mut merge = trace.merge();
    while let Some(entry) = merge.next_entry() {
        if let Entry::Event(event) = entry? {
            *counts.entry(event.name().to_owned()).or_insert(0_u64) += 1;
            let mut line = Vec::new();
            readable.event(&event, &mut line);
            tail.push_back(line);
            if tail.len() > 5 {
                tail.pop_front();
            }
        }
    }
    for (name, count) in counts {
        println!("{count:>8} {name}");
    }
    println!("the last lines:");
    for line in tail {
        print!("  {}", String::from_utf8_lossy(&line));
    }
    println!("the trace is in {}; babeltrace2 reads it too", path.display());
    Ok(())
}
