//! Systems where the linker does not collect what generic code declares: an event without a declaration appears at its first hit.
//!
//! On others, with `--cfg ringtrace_portable`; `cargo xtask test` runs it so.
#![cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(ringtrace_portable))))]
#![allow(unused_crate_dependencies, reason = "dependencies of other tests")]

mod common;

use ringtrace::Session;
use ringtrace::registry::probes;
use std::time::{Duration, Instant};

fn sent(len: u32) {
    ringtrace::event!("net:sent", len; level = Debug);
}

#[ringtrace::tracepoint(name = "net:flush", result)]
fn flush(pages: u64) -> u64 {
    pages * 2
}

fn generic<T: ringtrace::Field + Copy>(value: T) {
    ringtrace::event!("net:generic", value);
}

#[ringtrace::tracepoint]
async fn answer(id: u64) -> u64 {
    id
}

fn known(name: &str) -> usize {
    probes().filter(|p| p.name().to_string() == name).count()
}

/// Until `done`: how long the tracer's thread takes is nobody's promise.
fn wait_until(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is never so");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_hit_is_known_and_recorded_from_then_on() {
    assert_eq!((known("net:sent"), known("net:flush::entry")), (0, 0));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = Session::builder("test").enable("net:sent if len > 10; net:flush; net:generic; *answer*").output(&path);
    let session = session.start().expect("rules may name what was not hit yet");
    let warnings = session.warnings();
    assert!(warnings.iter().any(|w| w.starts_with("net:sent appears at its first hit")), "{warnings:?}");

    sent(1);
    flush(2);
    generic(3_u8);
    assert_eq!(ready(answer(4)), 4);
    // Known at once; to the session as soon as the tracer's thread has looked.
    assert_eq!((known("net:sent"), known("net:flush::entry"), known("net:flush::exit"), known("net:generic")), (1, 1, 1, 1));
    let phases = ["entry", "exit", "poll::entry", "poll::exit"].map(|phase| known(&format!("first_hit:answer::{phase}")));
    assert_eq!(phases, [1; 4]);

    let events = || session.statistics().events;
    wait_until(|| {
        sent(11);
        events() > 0
    });
    wait_until(|| {
        let before = events();
        generic(4_u8);
        flush(7);
        _ = ready(answer(5));
        events() >= before + 7
    });
    // The same function for another type: its gate is open, and no entry of the list is its own.
    generic("text");
    wait_until(|| {
        let before = events();
        generic("text");
        events() > before
    });
    sent(9); // not taken by the filter
    session.stop().expect("it stops");

    let contents = common::read_by_both(&path);
    let has = |event: &str, field: &str, value: &str| {
        contents
            .payloads
            .iter()
            .any(|(name, fields)| name.ends_with(event) && fields.iter().any(|(name, is)| name == field && is.contains(value)))
    };
    assert!(
        has("net:sent", "len", "11")
            && contents.counts["net:sent"] == contents.values("net:sent", "len").iter().filter(|len| *len == "11").count() as u64
    );
    assert!(has("net:flush::entry", "pages", "7") && has("net:flush::exit", "result", "14"));
    assert!(has("net:generic", "value", "4") && has("net:generic", "value", "text"));
    assert!(has("answer::entry", "id", "5") && has("answer::poll::exit", "ready", "true"));

    // A gate that was hit is closed where nobody wants it: one load again.
    let closed = |name: &str| {
        let mut all = ringtrace::registry::tracepoints().iter();
        !all.find(|t| t.name.to_string() == name).expect("it is declared").gate.is_on()
    };
    assert!(closed("net:sent") && closed("net:generic"));
}

/// Polls a future that is ready.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits for nothing"),
    }
}
