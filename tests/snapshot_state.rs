//! What is no event lies in every snapshot as a whole, however often the rings wrapped: descriptions, names of threads, the
//! program's state.
#![allow(unused_crate_dependencies, reason = "dependencies of other tests")]

mod common;

use ringtrace::{Context, Session, StateDump, tracepoint};
use std::sync::Mutex;

static TABLES: Mutex<Vec<(&str, u64)>> = Mutex::new(Vec::new());

#[derive(ringtrace::Event)]
struct TableOpen<'a> {
    name: &'a str,
    rows: u64,
}

#[ringtrace::state_dump]
fn tables(dump: &StateDump<'_>) {
    for (name, rows) in TABLES.lock().expect("nobody panics with it").iter() {
        dump.record(TableOpen { name, rows: *rows });
    }
}

#[tracepoint(record)]
fn counted(number: u64);

#[test]
fn state_is_that_of_the_snapshots_moment() {
    let directory = tempfile::tempdir().expect("a directory");
    let set = |tables: &[(&'static str, u64)]| *TABLES.lock().expect("nobody panics with it") = tables.to_vec();
    set(&[("users", 3), ("orders", 5)]);
    let builder = Session::builder("state").enable("snapshot_state:*").overwrite().memory(1 << 20).context(Context::THREADS);
    let session = builder.output(directory.path().join("trace")).start().expect("a session");
    let (begin, begun) = std::sync::mpsc::channel();
    let (end, ending) = std::sync::mpsc::channel::<()>();
    let body = move || {
        (0..500_000).for_each(counted);
        begin.send(()).expect("the test waits");
        let _ = ending.recv();
    };
    let thread = std::thread::Builder::new().name("a-mayfly".to_owned()).spawn(body).expect("a thread");
    begun.recv().expect("it records");
    session.snapshot("while it lives").expect("a snapshot");
    drop(end);
    thread.join().expect("it ends");
    let recorded = session.statistics().events;
    for rows in [5, 6] {
        set(&[("users", 3), ("orders", rows)]);
        let receipt = session.snapshot("state").expect("a snapshot");
        let contents = common::read_by_both(&receipt.path);
        let state = |field| contents.values("snapshot_state:TableOpen", field);
        let last = |mut all: Vec<String>| all.split_off(all.len() - 2);
        assert_eq!(
            (last(state("name")), last(state("rows"))),
            (["users", "orders"].map(str::to_owned).to_vec(), vec!["3".to_owned(), rows.to_string()])
        );
        assert_eq!((receipt.state_events, receipt.is_state_late), (2, false));
        let in_rings: u64 = receipt.rings.iter().map(|ring| ring.events).sum();
        assert_eq!(receipt.events, in_rings + 2);
        assert_eq!(contents.events() - contents.counts["ringtrace:thread_name"], receipt.events);
        assert!(receipt.rings.iter().any(|ring| ring.was_lapped) && receipt.lost == 0, "{receipt:?}");
        assert!(contents.values("ringtrace:thread_name", "name").contains(&"a-mayfly".to_owned()));
    }
    assert_eq!(session.statistics().events, recorded, "the rings are as they were");
    // A dump that waits for what its caller holds does not hold up the snapshot.
    let held = TABLES.lock().expect("nobody panics with it");
    let receipt = session.snapshot("held").expect("a snapshot");
    assert_eq!((receipt.state_events, receipt.is_state_late), (0, true));
    drop(held);
    common::read_by_both(&receipt.path);
}
