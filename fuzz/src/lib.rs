//! What is fuzzed: each target takes any bytes, and must neither panic, nor run on, nor take memory by a length it read.

use std::hint::black_box;

use trace_ctf::reader::{Entry, Selection, Trace};
use trace_ctf::text::{self, Formatter, Readable};
use trace_ctf::{ctf2, tsdl};

mod seeds;

pub use seeds::{METADATA, seeds};

/// Names of the targets.
pub const TARGETS: [&str; 3] = ["tsdl", "json", "packets"];

/// A target by its name.
pub fn target(name: &str) -> Option<fn(&[u8])> {
    match name {
        "tsdl" => Some(tsdl),
        "json" => Some(json),
        "packets" => Some(packets),
        _ => None,
    }
}

/// Metadata in CTF 1.8, and the descriptions of what it declares.
pub fn tsdl(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    if let Ok(declared) = tsdl::parse(text) {
        describe(&declared);
    }
}

/// Metadata in CTF 2.
pub fn json(data: &[u8]) {
    if let Ok(declared) = ctf2::parse(data) {
        describe(&declared);
    }
}

fn describe(declared: &trace_ctf::declared::Declarations) {
    for class in declared.events() {
        if let Some(stream) = declared.stream(class.stream_id) {
            black_box(text::describe(stream, class));
        }
    }
}

/// Streams: the first byte chooses the metadata, the second where the bytes are cut into two streams.
pub fn packets(data: &[u8]) {
    let [metadata, cut, stream @ ..] = data else { return };
    let metadata = METADATA[usize::from(*metadata) % METADATA.len()];
    let (first, second) = stream.split_at(stream.len() * usize::from(*cut) / 255);
    let streams = [("a", first.to_vec()), ("b", second.to_vec())];
    let Ok(trace) = Trace::in_memory(metadata.as_bytes(), streams) else { return };
    let mut out = Vec::new();
    let (mut exact, mut readable) = (Formatter::utc(), Readable::utc());
    let mut merge = trace.merge();
    let mut events = 0u64;
    while let Some(entry) = merge.next_entry() {
        out.clear();
        match entry {
            Ok(Entry::Event(event)) => {
                events += 1;
                exact.event(&event, &mut out);
                readable.event(&event, &mut out);
                black_box(event.payload());
                black_box(event.field("a"));
            }
            Ok(Entry::Loss(loss)) => exact.loss(&loss, &mut out),
            Err(error) => drop(black_box(error.to_string())),
        }
    }
    // A selection passes over the same events.
    let mut merge = trace_ctf::reader::Merge::select([&trace], Selection::default().from(0).classes(|_, _| true));
    let mut selected = 0u64;
    while let Some(entry) = merge.next_entry() {
        selected += u64::from(matches!(entry, Ok(Entry::Event(_))));
    }
    assert!(selected <= events, "{selected} of {events}");
}
