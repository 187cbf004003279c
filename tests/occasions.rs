//! Snapshots that nobody asks for at the moment: on a signal, on a panic, on a failing test.
#![expect(unsafe_code, reason = "handlers of signals")]

mod common;

use ringtrace::{Session, tracepoint};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

#[tracepoint(record)]
fn counted(number: u64);

/// The snapshots in a directory.
fn snapshots(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path());
    // Not those that are being written.
    entries.filter(|p| p.extension().is_some_and(|e| e == "ringtrace")).collect()
}

/// Waits until there is a snapshot.
fn appeared(directory: &Path) -> PathBuf {
    loop {
        if let Some(path) = snapshots(directory).pop() {
            return path;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

const SIGNAL: &str = "a_signal_saves_the_flight_recorder_and_the_programs_handler_runs";

#[test]
fn a_signal_saves_the_flight_recorder_and_the_programs_handler_runs() {
    if common::is_child(SIGNAL) {
        let before = handler as extern "C" fn(libc::c_int);
        // SAFETY: the handler adds to an atomic.
        unsafe { libc::signal(libc::SIGUSR2, before as libc::sighandler_t) };
        let builder = Session::builder("flight").enable("occasions:*").overwrite().output("trace");
        let session = builder.snapshot_on(libc::SIGUSR2).start().expect("a session");
        (0..1000).for_each(counted);
        // SAFETY: a plain call.
        unsafe { libc::raise(libc::SIGUSR2) };
        assert_eq!(HANDLED.load(Ordering::SeqCst), 1, "the program's own handler");
        appeared("flight.snapshots".as_ref());
        drop(session);
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let output = common::child(SIGNAL).current_dir(place.path()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("events of flight in"), "{said}");
    let found = snapshots(&place.path().join("flight.snapshots"));
    assert!(found.len() == 1 && found[0].to_string_lossy().ends_with("-sigusr2.ringtrace"), "{found:?}");
    assert!(common::read_by_both(&found[0]).numbers("occasions:counted", "number").into_iter().eq(0..1000));
}

const ENVIRONMENT: &str = "the_environment_asks_for_it_too";

#[test]
fn the_environment_asks_for_it_too() {
    if common::is_child(ENVIRONMENT) {
        ringtrace::init();
        (0..1000).for_each(counted);
        // SAFETY: a plain call. Without a handler, it ends the process.
        unsafe { libc::raise(libc::SIGUSR2) };
        appeared(&PathBuf::from(std::env::var_os("SNAPSHOTS").expect("where")));
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let snapshots_in = place.path().join("saved.snapshots");
    let mut child = common::child(ENVIRONMENT);
    child.current_dir(place.path()).env("SNAPSHOTS", &snapshots_in);
    child.env("RINGTRACE", "occasions:*; overwrite; snapshot on SIGUSR2; session saved; output trace");
    let output = child.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = snapshots(&snapshots_in);
    assert!(common::read_by_both(&found[0]).numbers("occasions:counted", "number").into_iter().eq(0..1000));
}

const FAILING: &str = "a_failing_test_leaves_what_happened_before";

#[test]
fn a_failing_test_leaves_what_happened_before() {
    if common::is_child(FAILING) {
        std::panic::set_hook(Box::new(|info| eprintln!("the program's hook: {info}")));
        let builder = Session::builder("failing").enable("occasions:*").overwrite().output("trace");
        let _session = builder.snapshot_on_panic().start().expect("a session");
        (0..1000).for_each(counted);
        panic!("this test is to fail");
    }
    let place = tempfile::tempdir().expect("a directory");
    let output = common::child(FAILING).current_dir(place.path()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("the program's hook"), "{said}");
    let found = snapshots(&place.path().join("failing.snapshots"));
    assert!(found.len() == 1 && found[0].to_string_lossy().contains("-panic-at-tests-occasions-rs"), "{found:?}");
    assert!(common::read_by_both(&found[0]).numbers("occasions:counted", "number").into_iter().eq(0..1000));
}

#[test]
fn what_cannot_be_is_refused() {
    let plain = Session::builder("plain").enable("occasions:*").snapshot_on(libc::SIGUSR2).start();
    assert!(plain.expect_err("discard mode").to_string().contains("no flight recorder"));
    let place = tempfile::tempdir().expect("a directory");
    let flight = Session::builder("flight").enable("occasions:*").overwrite().output(place.path().join("trace"));
    let refused = flight.snapshot_on(libc::SIGKILL).start().expect_err("it has no handler");
    assert!(refused.is_io() && refused.to_string().contains("signal 9"), "{refused}");
}

const WITHOUT_ROOM: &str = "a_thread_that_could_not_start_is_tried_again";

/// As `setrlimit(RLIMIT_AS)` of the bytes that are mapped now, and so many more.
fn limit_memory(beyond: Option<u64>) {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let mapped = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096;
    let limit = beyond.map_or(libc::RLIM_INFINITY, |beyond| mapped + beyond);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: reads the limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

fn has_thread(name: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").expect("/proc").flatten();
    let mut names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|comm| comm.trim_end() == name)
}

#[test]
fn a_thread_that_could_not_start_is_tried_again() {
    if common::is_child(WITHOUT_ROOM) {
        let first = Session::builder("first").enable("occasions:*").output("first").start().expect("a session");
        let flight = || {
            let builder = Session::builder("flight").enable("occasions:*").overwrite().memory(256 << 10).output("trace");
            builder.snapshot_on(libc::SIGUSR2).start()
        };
        limit_memory(Some(1800 << 10)); // less than the stack of a thread
        // Until no stack of a thread that has ended is left to be used again.
        while has_thread("ringtrace-pages") {
            std::thread::yield_now();
        }
        let idle: Vec<_> = std::iter::from_fn(|| std::thread::Builder::new().spawn(std::thread::park).ok()).collect();
        let refused = flight().expect_err("no thread can start");
        limit_memory(None);
        assert!(refused.to_string().contains("SIGUSR2"), "{refused}");
        let session = flight().expect("a session");
        counted(7);
        // SAFETY: a plain call.
        unsafe { libc::raise(libc::SIGUSR2) };
        appeared("flight.snapshots".as_ref());
        drop((session, first));
        idle.into_iter().for_each(|thread| thread.thread().unpark());
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let mut child = common::child(WITHOUT_ROOM).current_dir(place.path()).spawn().expect("it starts");
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None if std::time::Instant::now() > limit => {
                child.kill().expect("it is ended");
                panic!("no thread takes the snapshot");
            }
            None => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    assert!(status.success());
}
