//! A session in CTF 2: the same streams, other metadata.

use ringtrace::{Format, Session};
use trace_ctf::reader::{Entry, Trace};

#[ringtrace::tracepoint(record)]
fn requested(id: u64, path: &str, parent: Option<u32>);

#[test]
fn a_session_in_ctf_2() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    let session = Session::builder("json").enable("*:requested").format(Format::Ctf2).output(&path).start().unwrap();
    for id in 0..100 {
        requested(id, "/index.html", (id % 2 == 0).then_some(7));
    }
    let statistics = session.stop().unwrap();
    assert_eq!(statistics.events, 100);
    let metadata = std::fs::read(path.join("metadata")).unwrap();
    assert_eq!(metadata[0], 0x1E, "a sequence of JSON texts");
    let trace = Trace::open(&path).unwrap();
    let mut merge = trace.merge();
    let mut next = 0;
    while let Some(entry) = merge.next_entry() {
        let Entry::Event(event) = entry.unwrap() else { continue };
        if event.name().ends_with("requested") {
            assert_eq!(event.field("id").and_then(|id| id.as_u64()), Some(next));
            assert_eq!(event.field("path").and_then(|path| path.as_str()).as_deref(), Some("/index.html"));
            assert_eq!(event.field("parent.some").and_then(|parent| parent.as_u64()), (next % 2 == 0).then_some(7));
            next += 1;
        }
    }
    assert_eq!(next, 100);
}
