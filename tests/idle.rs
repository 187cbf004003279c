//! What is committed is delivered while nothing else happens: no producer, no call, no end.

mod common;

use ringtrace::{Session, tracepoint};
use std::time::{Duration, Instant};

#[tracepoint(record)]
fn alone(number: u64);

#[test]
fn a_lone_event_reaches_the_trace_by_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = Session::builder("idle").enable("idle:alone").output(&path).start().expect("a session");
    alone(42);
    let deadline = Instant::now() + Duration::from_secs(60);
    let arrived = || common::read(&path).numbers("idle:alone", "number") == [42];
    while !arrived() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(arrived(), "the event is not in the trace, which nobody has ended");
    // The trace of a running program is complete as far as it goes.
    assert_eq!(common::read_by_both(&path).events(), 1);
    drop(session);
}
