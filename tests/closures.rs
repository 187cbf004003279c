//! Closures as probes: attached and detached at run time, from anywhere.
//!
//! `RINGTRACE_TOGGLES` sets how often they are under load (20 000 by default).

mod common;

use ringtrace::{AttachGuard, Session};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Long enough for any grace period: reached only by a failure.
const AMPLE: Duration = Duration::from_secs(120);

struct Page {
    id: u64,
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, ringtrace::Field)]
enum Reason {
    Lru,
    Capacity,
}

#[ringtrace::tracepoint]
fn page_evicted(page: &Page, reason: Reason);

#[derive(ringtrace::Event)]
struct PageEvicted<'a> {
    id: u64,
    path: &'a str,
    reason: Reason,
}

fn page(id: u64) -> Page {
    Page { id, path: format!("{id}.db") }
}

#[test]
fn a_closure_records_what_it_borrows_through_a_recorder_that_it_captured() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t");
    let session = Session::builder("closure").output(&path).start().expect("a session");
    let recorder = session.recorder::<PageEvicted<'_>>().expect("a recorder");
    let threshold = 10;
    let guard = page_evicted::attach(move |page, reason| {
        if page.id >= threshold {
            recorder.record(PageEvicted { id: page.id, path: &page.path, reason });
        }
    });
    assert_eq!(guard.failure(), None);
    assert!(page_evicted::enabled());
    page_evicted(&page(9), Reason::Lru);
    page_evicted(&page(10), Reason::Lru);
    session.stop().expect("it stops");
    page_evicted(&page(11), Reason::Lru); // the session is stopped: the closure runs, and nothing is recorded
    session.start().expect("it starts again");
    page_evicted(&page(12), Reason::Capacity);
    guard.detach_and_wait(AMPLE).expect("it is detached");
    assert!(!page_evicted::enabled());
    page_evicted(&page(13), Reason::Lru);
    drop(session);
    let contents = common::read_by_both(&path);
    assert_eq!(contents.numbers("closures:PageEvicted", "id"), [10, 12]);
    assert_eq!(contents.values("closures:PageEvicted", "path"), ["10.db", "12.db"]);
}

#[ringtrace::tracepoint(record)]
fn plain(value: u64);

#[test]
fn closures_stand_behind_the_probes_in_the_order_they_came_and_leave_alone() {
    let _alone = common::alone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let attach = |name: &'static str| {
        let seen = seen.clone();
        plain::attach(move |value| seen.lock().expect("no panic").push((name, value)))
    };
    let (a, b) = (attach("a"), attach("b"));
    plain(1);
    drop(a);
    plain(2);
    let c = attach("c");
    plain(3);
    drop(b);
    drop(c);
    assert!(!plain::enabled());
    plain(4);
    assert_eq!(*seen.lock().expect("no panic"), [("a", 1), ("b", 1), ("b", 2), ("b", 3), ("c", 3)]);
}

#[test]
fn what_was_captured_is_dropped_when_waiting_ends() {
    let _alone = common::alone();
    let state = Arc::new(AtomicU64::new(0));
    let captured = state.clone();
    let guard = plain::attach(move |value| {
        captured.fetch_add(value, Ordering::Relaxed);
    });
    plain(3);
    plain(4);
    assert_eq!(Arc::strong_count(&state), 2);
    guard.detach_and_wait(AMPLE).expect("it is detached");
    assert_eq!((Arc::strong_count(&state), state.load(Ordering::Relaxed)), (1, 7));
}

#[ringtrace::tracepoint]
fn held(value: u64);

#[test]
fn what_a_closure_captured_that_could_not_be_attached_is_dropped_with_its_guard() {
    let _alone = common::alone();
    let ((hold, held_until), (entered, wait)) = (mpsc::channel::<()>(), mpsc::channel());
    let held_until = Mutex::new(held_until);
    let holder = held::attach(move |_| {
        let _ = entered.send(());
        let _ = held_until.lock().expect("no panic").recv();
    });
    let firing = std::thread::spawn(|| held(1));
    wait.recv().expect("the closure runs");
    // No grace period ends any more, and what waits for one is bounded.
    let refused = || std::iter::repeat_with(|| plain::attach(|_| {})).find(|guard| guard.failure().is_some());
    assert!(refused().is_some_and(|guard| guard.failure().is_some_and(|why| why.contains("wait"))));
    let state = Arc::new(());
    for waits in [false, true] {
        let captured = state.clone();
        let guard = plain::attach(move |_| drop(captured.clone()));
        assert!(guard.failure().is_some());
        assert_eq!(Arc::strong_count(&state), 2);
        if waits {
            guard.detach_and_wait(AMPLE).expect("nothing to wait for");
        } else {
            drop(guard);
        }
        assert_eq!(Arc::strong_count(&state), 1);
    }
    drop(hold);
    firing.join().expect("it ends");
    holder.detach_and_wait(AMPLE).expect("it is detached");
}

#[test]
fn a_closure_detaches_itself() {
    let _alone = common::alone();
    let (runs, slot) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None::<AttachGuard>)));
    let (count, own) = (runs.clone(), slot.clone());
    *slot.lock().expect("no panic") = Some(plain::attach(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        drop(own.lock().expect("no panic").take());
    }));
    (0..3).for_each(plain);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert!(!plain::enabled());
}

#[test]
fn waiting_from_inside_is_an_error_and_detaches_all_the_same() {
    let _alone = common::alone();
    let (sender, answers) = mpsc::channel();
    let slot = Arc::new(Mutex::new(None::<AttachGuard>));
    let own = slot.clone();
    *slot.lock().expect("no panic") = Some(plain::attach(move |_| {
        if let Some(guard) = own.lock().expect("no panic").take() {
            let _ = sender.send(guard.detach_and_wait(AMPLE));
        }
    }));
    (0..3).for_each(plain);
    let answers: Vec<_> = answers.iter().collect(); // ends when the closure, and with it the sender, has been dropped
    assert_eq!(answers.len(), 1);
    let error = answers[0].expect_err("it would wait for itself");
    assert!(error.is_inside() && error.to_string().contains("from inside a probe"), "{error}");
    assert!(!plain::enabled());
}

#[test]
fn waiting_for_a_closure_that_does_not_return_ends() {
    let _alone = common::alone();
    let (release, gate) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    let (gate, held) = (Mutex::new(gate), Arc::new(()));
    let captured = held.clone();
    let guard = plain::attach(move |_| {
        let _ = &captured;
        let _ = entered.send(());
        let _ = gate.lock().expect("no panic").recv();
    });
    let firing = std::thread::spawn(|| plain(1));
    inside.recv().expect("it runs");
    let error = guard.detach_and_wait(Duration::from_millis(20)).expect_err("it runs");
    assert!(error.is_stuck() && error.to_string().contains("has not returned within 20ms"), "{error}");
    assert!(!plain::enabled());
    assert_eq!(Arc::strong_count(&held), 2);
    drop(release);
    firing.join().expect("it returns");
    // Another one waits for all that was retired before.
    plain::attach(|_| {}).detach_and_wait(AMPLE).expect("it is detached");
    assert_eq!(Arc::strong_count(&held), 1);
}

#[ringtrace::tracepoint(reentrant)]
fn anywhere(depth: u64);

#[test]
fn a_nested_closure_is_skipped_and_counted_unless_its_tracepoint_is_reentrant() {
    let _alone = common::alone();
    let runs = Arc::new(AtomicU64::new(0));
    let (count, nested) = (runs.clone(), runs.clone());
    let inner = page_evicted::attach(move |_, _| {
        nested.fetch_add(1, Ordering::Relaxed);
    });
    let outer = plain::attach(move |value| {
        count.fetch_add(100, Ordering::Relaxed);
        page_evicted(&page(value), Reason::Lru);
        plain(value); // inside itself
    });
    plain(1);
    page_evicted(&page(2), Reason::Lru);
    assert_eq!((runs.load(Ordering::Relaxed), inner.skipped(), outer.skipped()), (101, 1, 1));
    drop((inner, outer));

    let deepest = Arc::new(AtomicU64::new(0));
    let seen = deepest.clone();
    // SAFETY: it counts, and fires at most a few times deep; it neither allocates nor locks.
    #[expect(unsafe_code, reason = "what the test is about")]
    let guard = unsafe {
        anywhere::attach_reentrant(move |depth| {
            seen.fetch_max(depth, Ordering::Relaxed);
            anywhere(depth + 1);
        })
    };
    anywhere(1);
    assert_eq!((deepest.load(Ordering::Relaxed), guard.skipped()), (4, 0)); // as deep as tracepoints nest
}

#[test]
fn a_panic_detaches_the_closure_and_is_reported() {
    if common::is_child("a_panic_detaches_the_closure_and_is_reported") {
        let guard = plain::attach(|value| assert_ne!(value, 2, "as the test wants"));
        (1..4).for_each(plain);
        assert!(guard.is_panicked());
        while plain::enabled() {
            std::thread::yield_now(); // until the consumer's thread has come by
        }
        drop(guard);
        // A guard that is dropped before that thread has come by takes no report with it.
        let session = Session::builder("told").enable("nothing:*").print().start().expect("a session");
        let guard = plain::attach(|_| panic!("and again"));
        plain(5);
        drop(guard);
        while !session.warnings().iter().any(|w| w.contains("a closure attached to closures:plain")) {
            std::thread::yield_now();
        }
        return;
    }
    let output = common::child("a_panic_detaches_the_closure_and_is_reported").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("a closure attached to closures:plain at tests/closures.rs:").count(), 2, "{said}");
    assert_eq!(said.matches("as the test wants").count(), 1, "{said}");
}

#[test]
fn what_a_closure_captured_may_do_anything_when_it_is_dropped() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("as the test wants");
        }
    }
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = Session::builder("captured").enable("*:plain").output(directory.path().join("t")).start().expect("a session");
    let recording = plain::attach(move |value| assert!(value > 0 && session.statistics().events > 0));
    let panics = Panics;
    let other = plain::attach(move |_| _ = std::hint::black_box(&panics));
    plain(1);
    recording.detach_and_wait(AMPLE).expect("the session ends in the consumer's thread");
    other.detach_and_wait(AMPLE).expect("the panic is contained");
    // The consumer's thread is alive.
    plain::attach(|_| {}).detach_and_wait(AMPLE).expect("it is detached");
    while plain::enabled() {
        std::thread::yield_now();
    }
    assert_eq!(common::read_by_both(&directory.path().join("t")).counts["closures:plain"], 1);
}

#[test]
fn where_tracing_is_off_a_closure_says_so_and_never_runs() {
    if common::is_child("where_tracing_is_off_a_closure_says_so_and_never_runs") {
        let guard = plain::attach(|_| unreachable!());
        println!("failure: {}", guard.failure().expect("it is off"));
        plain(1);
        guard.detach_and_wait(AMPLE).expect("there is nothing to wait for");
        return;
    }
    let mut child = common::child("where_tracing_is_off_a_closure_says_so_and_never_runs");
    let output = child.env("RINGTRACE", "off").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("failure: tracing is off in this process: the environment variable RINGTRACE says so"), "{said}");
}

#[ringtrace::tracepoint]
fn loaded(a: &u64, b: &u64);

/// Notices when it is used after it was dropped.
struct Canary(AtomicU64);

const ALIVE: u64 = 0x5eed_5eed_5eed_5eed;

impl Drop for Canary {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[test]
fn attaching_and_detaching_under_load_uses_nothing_that_was_dropped() {
    let _alone = common::alone();
    let toggles: u64 = std::env::var("RINGTRACE_TOGGLES").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let (stop, wrong, runs) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let dropped = Arc::new(AtomicU64::new(0));
    struct Counted(Arc<AtomicU64>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let attached = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _stop = common::SetOnDrop(&stop);
        for _ in 0..3 {
            scope.spawn(|| {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    loaded(&round, &(round ^ ALIVE));
                    round += 1;
                }
            });
        }
        let togglers: Vec<_> = (0..3)
            .map(|_| {
                let seen = runs.clone();
                let (wrong, dropped, runs, attached) = (&wrong, &dropped, &runs, &attached);
                scope.spawn(move || {
                    for round in 0..toggles / 3 {
                        let canary = Box::new(Canary(AtomicU64::new(ALIVE)));
                        let (wrong, runs, counted) = (wrong.clone(), runs.clone(), Counted(dropped.clone()));
                        let guard = loaded::attach(move |a, b| {
                            let _ = &counted;
                            if canary.0.load(Ordering::Relaxed) != ALIVE || a ^ b != ALIVE {
                                wrong.fetch_add(1, Ordering::Relaxed);
                            }
                            runs.fetch_add(1, Ordering::Relaxed);
                        });
                        if guard.failure().is_some() {
                            std::thread::yield_now(); // too many wait for their grace period
                        }
                        attached.fetch_add(1, Ordering::Relaxed);
                        if round % 64 == 0 && guard.failure().is_none() {
                            let before = seen.load(Ordering::Relaxed);
                            while seen.load(Ordering::Relaxed) == before {
                                std::thread::yield_now(); // until it, or another, has run
                            }
                            guard.detach_and_wait(AMPLE).expect("it is detached");
                        }
                    }
                })
            })
            .collect();
        togglers.into_iter().for_each(|t| t.join().expect("a toggler panicked"));
    });
    assert!(!loaded::enabled());
    loaded::attach(|_, _| {}).detach_and_wait(AMPLE).expect("all are dropped");
    assert_eq!(wrong.load(Ordering::Relaxed), 0);
    assert_eq!(dropped.load(Ordering::Relaxed), attached.load(Ordering::Relaxed), "one is not dropped, or twice");
    println!("{} closures, {} runs", attached.into_inner(), runs.load(Ordering::Relaxed));
    assert!(runs.load(Ordering::Relaxed) > 0);
}
