//! Bytes of a record on disk.

mod common;

use ringtrace::{Context, Session};
use std::path::Path;
use trace_ctf::index;

#[ringtrace::tracepoint(record)]
fn number(value: u64);

const EVENTS: u64 = 1000;

/// Content of all packets of the rings, in bytes, without packet headers.
fn content(trace: &Path) -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir(trace.join("index")).expect("an index") {
        let path = entry.expect("an entry").path();
        let packets = index::decode(&std::fs::read(&path).expect("an index file")).expect("an index");
        bytes += packets.iter().map(|e| e.packet.content_bits / 8 - 84).sum::<u64>();
    }
    bytes
}

#[test]
fn a_64_bit_number_takes_12_bytes_and_16_with_the_thread_id() {
    if !trace_registry_has_sequences() {
        return; // the fallback region's records have a longer header
    }
    let directory = tempfile::tempdir().expect("a directory");
    for (context, size) in [(Context::NONE, 12), (Context::VTID, 16)] {
        let path = directory.path().join(format!("{size}"));
        let session =
            Session::builder("size").enable("record_size:number").context(context).output(&path).start().expect("a session");
        for i in 0..EVENTS {
            number(i);
        }
        let statistics = session.stop().expect("it stops");
        assert_eq!(statistics.events, EVENTS);
        assert_eq!(statistics.bytes, EVENTS * size);
        drop(session);
        assert_eq!(common::read_by_both(&path).events(), EVENTS);
        assert_eq!(content(&path), EVENTS * size);
    }
}

/// Whether this process records in the rings: `GLIBC_TUNABLES=glibc.pthread.rseq=0` on an old kernel, valgrind and others do not.
fn trace_registry_has_sequences() -> bool {
    let session = Session::builder("probe").enable("record_size:*").print().start().expect("a session");
    session.statistics().buffers > 0
}
