//! State dumps: they record into the session that begins, or to which a rule is added, and into no other.
#![allow(unused_crate_dependencies, reason = "dependencies of other tests")]

mod common;

use ringtrace::{Session, StateDump, tracepoint};
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

#[derive(ringtrace::Event)]
struct Connection {
    number: u32,
}

#[ringtrace::state_dump(name = "net:connections")]
fn connections(dump: &StateDump<'_>) {
    dump.record(Connection { number: 1 });
}

#[ringtrace::state_dump(name = "net:broken")]
fn broken(_: &StateDump<'_>) {
    panic!("a broken dump");
}

#[tracepoint(record)]
fn opened(number: u32);

fn thread_id() -> String {
    let link = std::fs::read_link("/proc/thread-self").expect("/proc");
    link.file_name().expect("a number").to_string_lossy().into_owned()
}

#[test]
fn state_is_in_the_session_that_asked_for_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = |name: &str, rules: &str| {
        let builder = Session::builder(name).enable(rules).output(directory.path().join(name));
        builder.start().unwrap_or_else(|e| panic!("{rules}: {e}"))
    };
    *TABLES.lock().expect("nobody panics with it") = vec![("users", 3), ("orders", 5)];
    let first = start("first", "state_dump:*");
    assert_eq!(first.statistics().events, 2);
    // The other session's begin does not concern the first.
    let second = start("second", "state_dump:opened");
    assert_eq!((first.statistics().events, second.statistics().events), (2, 0));
    second.enable("net:*; !net:broken").expect("good rules");
    assert_eq!((first.statistics().events, second.statistics().events), (2, 1));
    TABLES.lock().expect("nobody panics with it").push(("late", 7));
    second.enable("tables if rows > 5").expect("the end of a name");
    let warnings = second.warnings();
    assert_eq!(warnings, ["state_dump:tables is a state dump: filters and limits do not concern it"]);
    opened(1);
    assert_eq!((first.statistics().events, second.statistics().events), (3, 5));
    // In a thread that has recorded nothing before: the event has its ID all the same.
    let of = || (start("third", "net:*; state_dump:*; !state_dump:tables"), thread_id());
    let (third, tid) = std::thread::scope(|scope| scope.spawn(of).join().expect("it starts"));
    assert!(third.warnings().iter().any(|w| w.contains("net:broken panicked")), "{:?}", third.warnings());
    for session in [&first, &second, &third] {
        session.stop().expect("it stops");
    }
    // Begun again, it has the state of that moment.
    first.start().expect("it starts");
    first.stop().expect("it stops");
    let read = |name: &str| common::read_by_both(&directory.path().join(name));
    let contents = read("first");
    assert_eq!(contents.values("state_dump:TableOpen", "name"), ["users", "orders", "users", "orders", "late"]);
    assert_eq!(contents.numbers("state_dump:opened", "number"), [1]);
    let contents = read("second");
    assert_eq!(contents.values("state_dump:TableOpen", "name"), ["users", "orders", "late"]);
    assert_eq!(contents.numbers("state_dump:Connection", "number"), [1]);
    let contents = read("third");
    assert_eq!(contents.counts.keys().collect::<Vec<_>>(), ["state_dump:Connection"]);
    assert!(contents.lines[0].contains(&format!("vtid = {tid}")), "{}", contents.lines[0]);
}
