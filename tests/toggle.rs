//! Enabling and disabling under load: no lost update, nothing used after it was freed, every grace period ends.
//!
//! `RINGTRACE_TOGGLES` sets how often (100 000 by default).

mod common;

use ringtrace::Session;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[ringtrace::tracepoint(record)]
fn first(value: u64);

#[ringtrace::tracepoint(record)]
fn second(value: u64, text: &str);

#[ringtrace::tracepoint(record)]
fn third();

fn toggles() -> u64 {
    std::env::var("RINGTRACE_TOGGLES").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000)
}

/// Moves the calling thread to another CPU, if there is one.
fn migrate(round: u64) {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // SAFETY: `set` is a plain bit mask, initialised to zeroes; the call concerns the calling thread.
    #[expect(unsafe_code, reason = "sched_setaffinity")]
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(round as usize % cpus, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// A probe in the middle of whose run the thread migrates: its leave is on another CPU than its enter.
#[derive(ringtrace::Event)]
struct Moved {
    round: u64,
}

#[ringtrace::tracepoint]
fn moving(round: u64);

#[ringtrace::probe(moving)]
fn record_moved(round: u64) -> Moved {
    migrate(round);
    Moved { round }
}

#[test]
fn toggling_under_load_loses_nothing_and_ends() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = |name: &str| {
        let builder = Session::builder(name).memory(4 << 20).overwrite().output(directory.path().join(name));
        builder.start().expect("a session")
    };
    let (a, b) = (session("a"), session("b"));
    let stop = AtomicBool::new(false);
    let (fired, busy) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _stop = common::SetOnDrop(&stop);
        for thread in 0..3_u64 {
            let (stop, fired) = (&stop, &fired);
            scope.spawn(move || {
                let mut round = thread;
                while !stop.load(Ordering::Relaxed) {
                    first(round);
                    second(round, "text");
                    third();
                    moving(round);
                    round += 1;
                }
                fired.fetch_add(round, Ordering::Relaxed);
            });
        }
        let togglers: Vec<_> = [
            (&a, "toggle:first 1 in 2 if value & 1", "toggle:first"),
            (&a, "toggle:moving", "toggle:moving"),
            (&b, "toggle:*", "toggle:*"),
            (&b, "toggle:second if text ~ \"t*\" && value >= 0", "toggle:second"),
        ]
        .into_iter()
        .map(|(session, rule, name)| {
            let busy = &busy;
            scope.spawn(move || {
                let persist = |change: &dyn Fn() -> Result<(), ringtrace::Error>| {
                    while let Err(error) = change() {
                        assert!(error.is_busy(), "{error}");
                        busy.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                };
                for _ in 0..toggles() / 4 {
                    persist(&|| session.enable(rule));
                    persist(&|| session.disable(name));
                }
            })
        })
        .collect();
        for toggler in togglers {
            toggler.join().expect("a toggler panicked");
        }
        // No lost update: the last word was `disable`, for each of them.
        assert!(!first::enabled() && !second::enabled() && !third::enabled() && !moving::enabled());
        // And switching on still works.
        a.enable("toggle:first").expect("it is enabled");
        assert!(first::enabled() && !second::enabled());
        a.disable("toggle:first").expect("it is disabled");
        assert!(!first::enabled());
    });
    assert!(fired.load(Ordering::Relaxed) > 0);
    // Stopping waits for a grace period, so every one of them ends.
    let recorded = a.stop().expect("it stops").events + b.stop().expect("it stops").events;
    assert!(recorded > 0);
    println!("{} firings, {recorded} records, {} refusals for want of a grace period", fired.into_inner(), busy.into_inner());
    drop((a, b));
    for name in ["a", "b"] {
        common::read_by_both(&directory.path().join(name));
    }
}

#[test]
fn a_session_may_go_while_its_events_fire() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let stop = AtomicBool::new(false);
    let rounds = toggles() / 100;
    std::thread::scope(|scope| {
        let _stop = common::SetOnDrop(&stop);
        for _ in 0..3 {
            scope.spawn(|| {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    second(round, "text");
                    moving(round);
                    round += 1;
                }
            });
        }
        let mut lost = 0;
        for round in 0..rounds {
            let path = directory.path().join(round.to_string());
            let session = Session::builder("short").enable("toggle:*").memory(128 << 10).sub_buffer(4096).output(&path).start();
            let session = session.expect("a session");
            // More at once than its rings hold.
            (0..2_000).for_each(|i| second(i, "a text that fills a ring of a few small sub-buffers quickly"));
            lost += session.stop().expect("it stops").lost.full;
            drop(session);
            std::fs::remove_dir_all(&path).expect("the trace is removed");
        }
        println!("{rounds} sessions, {lost} firings found the ring full");
        assert!(lost > 0, "the rings were never full");
    });
    assert!(!second::enabled() && !moving::enabled());
}
