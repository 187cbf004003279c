//! Triggers: the moment that one is about is in the snapshot, with what was promised before and after it, or the receipt says why
//! not.

mod common;

use common::{Contents, SetOnDrop, alone, child, is_child, read_by_both};
use ringtrace::{Firing, Saved, Session, TriggerState, tracepoint};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[tracepoint(record)]
fn request(id: u64, us: u64);

#[tracepoint(record)]
fn begin(id: u64, name: &str);

#[tracepoint(record)]
fn end(id: u64);

#[tracepoint(record)]
fn noise(number: u64);

const FIRED: &str = "ringtrace:trigger_fired";

fn flight_recorder(directory: &Path, memory: u64, trigger: &str) -> Session {
    let builder = Session::builder("flight").enable("triggers:*").overwrite().memory(memory).trigger(trigger);
    builder.output(directory.join("trace")).start().unwrap_or_else(|error| panic!("{error}"))
}

/// Waits until the only trigger has fired so often, and all was done.
fn fired(session: &Session, times: u64) -> (TriggerState, Firing) {
    loop {
        let state = session.triggers().remove(0);
        if let Some(last) = state.last.clone().filter(|last| last.number >= times) {
            return (state, last);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn saved(firing: &Firing) -> (&Saved, Contents) {
    assert!(firing.failures.is_empty(), "{firing:?}");
    let saved = firing.saved.as_ref().unwrap_or_else(|| panic!("no snapshot: {firing:?}"));
    // The other reader takes its time.
    let is_small = saved.receipt.events < 20_000;
    (saved, if is_small { read_by_both(&saved.receipt.path) } else { common::read(&saved.receipt.path) })
}

/// Fires `noise` on another thread until it is dropped.
struct Load {
    end: std::sync::Arc<AtomicBool>,
    count: std::sync::Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Load {
    fn begin() -> Load {
        let end = std::sync::Arc::new(AtomicBool::new(false));
        let count = std::sync::Arc::new(AtomicU64::new(0));
        let (until, counted) = (end.clone(), count.clone());
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                noise(counted.fetch_add(1, Ordering::Relaxed));
            }
        });
        let load = Load { end, count, thread: Some(thread) };
        load.pass(1000);
        load
    }

    /// Waits until so many more events came.
    fn pass(&self, events: u64) {
        let until = self.count.load(Ordering::Relaxed) + events;
        while self.count.load(Ordering::Relaxed) < until {
            std::thread::yield_now();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _end = SetOnDrop(&self.end);
        drop(_end);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends");
        }
    }
}

#[test]
fn an_event_with_a_filter_saves_its_moment_with_what_was_before() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let trigger = "when request if us > 5000 then snapshot before 10s as slow";
    let session = flight_recorder(directory.path(), 16 << 20, trigger);
    for id in 0..1000 {
        request(id, 10);
    }
    request(1000, 9000);
    let (state, firing) = fired(&session, 1);
    assert_eq!((state.name.as_str(), state.fired, state.lost), ("slow", 1, 0));
    assert!(firing.what.ends_with("triggers:request id = 1000, us = 9000"), "{firing:?}");
    let (saved, contents) = saved(&firing);
    // All of it, since nothing was overwritten.
    let ids = contents.numbers("triggers:request", "id");
    assert_eq!(ids, (0..=1000).collect::<Vec<u64>>());
    assert!(saved.has_moment && saved.receipt.path.to_string_lossy().ends_with("-trigger-slow.ringtrace"), "{saved:?}");
    assert_eq!(contents.values(FIRED, "trigger"), ["slow"]);
    assert_eq!(contents.numbers(FIRED, "at_ns"), [firing.at_ns]);
    assert_eq!(contents.values(FIRED, "what"), std::slice::from_ref(&firing.what));
    // Within its debounce, and beyond the filter.
    request(1001, 9001);
    request(1002, 10);
    let statistics = session.stop().expect("it stops");
    let state = session.triggers().remove(0);
    assert_eq!((state.fired, state.folded), (1, 1));
    assert_eq!(statistics.events, 1003 + 1);
}

#[test]
fn a_snapshot_looks_forward_while_the_program_goes_on() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = flight_recorder(directory.path(), 64 << 20, "when request if us > 5000 then snapshot before 5s after 50ms");
    let begun = Instant::now();
    request(1, 9000);
    // Those that came within the time, by a clock that was started before the event.
    let (mut number, mut within) = (0_u64, 0);
    while session.triggers().remove(0).last.is_none() {
        noise(number);
        number += 1;
        if begun.elapsed() < Duration::from_millis(50) {
            within = number as usize;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    assert!(begun.elapsed() >= Duration::from_millis(50));
    let (_, firing) = fired(&session, 1);
    let (saved, contents) = saved(&firing);
    assert!(saved.has_moment && saved.covered_after_ns >= 50_000_000, "{saved:?}");
    assert_eq!(contents.numbers("triggers:request", "id"), [1]);
    let numbers = contents.numbers("triggers:noise", "number");
    assert!(numbers.len() >= within && numbers.iter().copied().eq(0..numbers.len() as u64), "{within}: {numbers:?}");
}

#[test]
fn what_ends_the_session_does_not_lose_a_firing_that_waits() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = flight_recorder(directory.path(), 4 << 20, "when request if us > 5000 then snapshot after 1h");
    request(1, 9000);
    session.stop().expect("it stops");
    let (_, firing) = fired(&session, 1);
    let (saved, contents) = saved(&firing);
    assert!(!saved.is_complete() && saved.covered_after_ns < saved.after_ns, "it says so: {saved:?}");
    assert_eq!(contents.numbers("triggers:request", "id"), [1]);
}

#[test]
fn a_frozen_channel_keeps_the_moment_under_any_load() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    // A ring of 128 KiB for each CPU is lapped within milliseconds.
    let session = flight_recorder(directory.path(), 1 << 20, "when request if us > 5000 then snapshot frozen debounce 0s");
    let load = Load::begin();
    for id in 1..=5 {
        load.pass(100_000);
        request(id, 9000);
        let (_, firing) = fired(&session, id);
        let (saved, contents) = saved(&firing);
        assert!(saved.has_moment && firing.frozen_ns.is_some(), "{firing:?}");
        assert_eq!(contents.numbers("triggers:request", "id").last(), Some(&id), "{firing:?}");
        assert_eq!(
            contents.values(FIRED, "number").last(),
            Some(&id.to_string()),
            "the firing is recorded where all else is not"
        );
        // It goes on: this comes into the rings again.
        let before = session.statistics().events;
        while session.statistics().events < before + 1000 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_receipt_says_where_the_look_back_was_overwritten() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = flight_recorder(directory.path(), 1 << 20, "when request if us > 5000 then snapshot before 1h");
    let load = Load::begin();
    load.pass(200_000);
    request(1, 9000);
    load.pass(200_000);
    drop(load);
    let (_, firing) = fired(&session, 1);
    let (saved, contents) = saved(&firing);
    assert!(!saved.is_complete() && saved.covered_before_ns < 3600 * 1_000_000_000, "{saved:?}");
    let has_it = contents.numbers("triggers:request", "id") == [1];
    assert!(has_it || !saved.has_moment, "what is promised is there: {saved:?}");
}

#[test]
fn stop_keeps_what_led_to_it() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = flight_recorder(directory.path(), 1 << 20, "when request if us > 5000 then stop");
    let load = Load::begin();
    load.pass(100_000);
    request(1, 9000);
    load.pass(200_000);
    let (_, firing) = fired(&session, 1);
    drop(load);
    assert!(firing.failures.is_empty(), "{firing:?}");
    let contents = read_by_both(session.path().expect("a trace"));
    assert_eq!(contents.numbers("triggers:request", "id"), [1]);
    assert_eq!(contents.payloads.last().map(|(name, _)| name.as_str()), Some(FIRED), "nothing came after it");
}

#[test]
fn a_latency_is_found_between_threads_and_among_many() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let trigger = "when latency(begin, end by id) > 40ms then snapshot before 10s after 5ms debounce 0s as stalls";
    let session = flight_recorder(directory.path(), 32 << 20, trigger);
    let (ask, asked) = std::sync::mpsc::channel::<u64>();
    let worker = std::thread::spawn(move || {
        for id in asked {
            if id == 777 {
                std::thread::sleep(Duration::from_millis(60));
            }
            end(id);
        }
    });
    for id in 0..778 {
        begin(id, "a request");
        ask.send(id).expect("it listens");
    }
    drop(ask);
    worker.join().expect("it ends");
    let (state, firing) = fired(&session, 1);
    // A machine that is busy may stall others as well: then they fired too.
    assert!(firing.what.contains(" from begin to end, id = "), "{firing:?}");
    session.stop().expect("it stops");
    let last = session.triggers().remove(0).last.expect("a firing");
    assert!(last.what.ends_with("id = 777"), "{last:?}");
    let (saved, contents) = saved(&last);
    assert!(saved.has_moment && state.lost == 0);
    assert!(contents.numbers("triggers:begin", "id").contains(&777) && contents.numbers("triggers:end", "id").contains(&777));
}

/// A trigger has a clock of its own: what it saves has the events in their order, and no times.
#[test]
fn a_session_without_a_clock_has_triggers_too() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let trigger = "when latency(begin, end by id) > 40ms then snapshot before 10s as stalls";
    let builder = Session::builder("flight").enable("triggers:*").overwrite().memory(4 << 20).clock(ringtrace::Clock::None);
    let builder = builder.trigger(trigger).output(directory.path().join("trace"));
    let session = builder.start().unwrap_or_else(|error| panic!("{error}"));
    (0..100).for_each(|id| begin(id, "a request"));
    (0..99).for_each(end);
    std::thread::sleep(Duration::from_millis(60));
    end(99);
    let (_, firing) = fired(&session, 1);
    assert!(firing.what.contains(" from begin to end, id = "), "{firing:?}");
    let (_, contents) = saved(&firing);
    let mut ids = contents.numbers("triggers:end", "id");
    ids.sort_unstable(); // the test's thread may have changed its CPU
    assert!(ids.into_iter().eq(0..100));
}

/// What is forked is followed with the triggers of the session.
#[test]
#[expect(unsafe_code, reason = "fork(2)")]
fn a_followed_child_saves_its_own_moment() {
    const NAME: &str = "a_followed_child_saves_its_own_moment";
    if is_child(NAME) {
        ringtrace::init();
        request(1, 10);
        // SAFETY: the child uses what a child of a threaded process may, and ringtrace.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            request(2, 10);
            request(3, 9000);
            std::process::exit(0);
        }
        let mut status = -1;
        // SAFETY: `status` is written.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(status, 0);
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let rules = "follow; overwrite; memory 4M; output trace; when request if us > 5000 then snapshot before 10s as slow";
    let done = child(NAME).env("RINGTRACE", rules).current_dir(directory.path()).output().expect("it runs");
    assert!(done.status.success(), "{done:?}");
    let snapshot = saved_below(directory.path(), &done);
    let contents = read_by_both(&snapshot);
    assert_eq!(contents.numbers("triggers:request", "id"), [2, 3], "{done:?}");
}

#[test]
fn maxima_fire_when_they_are_exceeded() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let trigger = "when max(request.us if id != 3) > 100 then notify debounce 0s";
    let session = Session::builder("max").enable("noise").trigger(trigger).output(directory.path().join("trace")).start();
    let session = session.unwrap_or_else(|e| panic!("{e}"));
    for (id, us) in [(0, 50), (1, 200), (2, 150), (3, 900), (4, 201), (5, 201), (6, 1000)] {
        request(id, us);
    }
    session.stop().expect("it stops");
    let state = session.triggers().remove(0);
    assert_eq!((state.fired, state.folded), (3, 0), "{state:?}");
    assert!(state.last.is_some_and(|last| last.what.ends_with("id = 6, us = 1000")));
    // The session itself recorded none of the requests, and the firings.
    let contents = read_by_both(session.path().expect("a trace"));
    assert_eq!((contents.counts.get("triggers:request"), contents.counts.get(FIRED)), (None, Some(&3)));
}

#[test]
fn counts_and_what_is_missing() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let triggers = "when count(end by id) >= 3 within 10s then notify as often debounce 0s\n\
                    when missing(begin if name ~ \"job*\", end by id) within 30ms then notify as lost debounce 0s";
    let session = Session::builder("some").enable("noise").trigger(triggers).output(directory.path().join("trace")).start();
    let session = session.unwrap_or_else(|e| panic!("{e}"));
    for id in [1, 2, 1, 2, 2] {
        end(id);
    }
    begin(10, "job 10");
    begin(11, "job 11");
    begin(12, "other");
    end(10);
    let state = |name: &str| session.triggers().into_iter().find(|t| t.name == name).expect("it is there");
    while state("lost").last.is_none() || state("often").last.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let often = state("often");
    assert_eq!(often.fired, 1);
    assert!(often.last.is_some_and(|f| f.what.starts_with("3 of end within ") && f.what.ends_with(", id = 2")));
    let lost = state("lost").last.expect("it fired");
    if state("lost").fired == 1 {
        assert_eq!(lost.what, "no end within 30.000 ms of begin, id = 11");
    } else {
        // The machine was so busy that the end of 10 came too late.
        assert!(lost.what.starts_with("no end within 30.000 ms of begin, id = 1"), "{lost:?}");
    }
    session.stop().expect("it stops");
}

#[test]
fn sessions_start_and_rules_change() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let triggers = "when request if us == 1 then start as on; when request if us == 2 then enable \"noise\" as more; \
                    when request if us == 3 then disable \"noise\" as less";
    let session = Session::builder("changes").enable("end").trigger(triggers).output(directory.path().join("trace")).start();
    let session = session.unwrap_or_else(|e| panic!("{e}"));
    session.stop().expect("it stops");
    let fire = |us: u64, place: usize| {
        request(0, us);
        while session.triggers().remove(place).last.is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    end(0);
    fire(1, 0);
    end(1);
    noise(1);
    fire(2, 1);
    noise(2);
    fire(3, 2);
    noise(3);
    session.stop().expect("it stops");
    let contents = read_by_both(session.path().expect("a trace"));
    assert_eq!(contents.numbers("triggers:end", "id"), [1]);
    assert_eq!(contents.numbers("triggers:noise", "number"), [2]);
    assert_eq!(contents.values(FIRED, "trigger"), ["on", "more", "less"]);
}

#[test]
fn limits_hold() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let triggers = "when request then notify times 2 debounce 0s as twice; when request then notify max 3/h debounce 0s as hourly; \
                    when request then notify debounce 1h as once";
    let session = Session::builder("limits").enable("noise").trigger(triggers).output(directory.path().join("trace")).start();
    let session = session.unwrap_or_else(|e| panic!("{e}"));
    (0..10).for_each(|id| request(id, 0));
    session.stop().expect("it stops");
    let counts: Vec<_> = session.triggers().into_iter().map(|t| (t.fired, t.folded, t.is_exhausted)).collect();
    assert_eq!(counts, [(2, 8, true), (3, 7, false), (1, 9, false)]);
    session.remove_trigger("hourly").expect("it is there");
    let error = session.remove_trigger("hourly").expect_err("it is gone").to_string();
    assert!(error.ends_with("has no trigger called `hourly`; there are: twice, once"), "{error}");
    let error = session.trigger("when request then notify as once").expect_err("it is taken").to_string();
    assert!(error.contains("has a trigger called `once` already"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_where_it_stands() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = Session::builder("plain").enable("noise").output(directory.path().join("trace")).start().expect("a session");
    for (trigger, place, words) in [
        ("when request if u > 5 then stop", 16, "no field is called `u`"),
        ("when latency(begin, end by nam) > 5ms then stop", 27, "no field is called `nam`"),
        ("when latency(begin if idd > 1, end) > 5ms then stop", 22, "no field is called `idd`"),
        ("when request then snapshot", 18, "snapshots are taken of sessions in overwrite mode"),
    ] {
        let error = session.trigger(trigger).expect_err(trigger).to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert!(error.contains(words) && lines[1] == format!("  {trigger}"), "{error}");
        assert_eq!(lines[2].find('^'), Some(2 + place), "{error}");
    }
    let error = session.trigger("when requets then stop").expect_err("no such event").to_string();
    assert!(error.contains("did you mean `triggers:request`"), "{error}");
    let builder = Session::builder("other").enable("noise").trigger("when noise then").output(directory.path().join("other"));
    assert!(builder.start().is_err_and(|error| error.is_rule()) && !directory.path().join("other").exists());
    assert_eq!(session.triggers().len(), 0);
}

#[test]
fn a_signal_saves_what_led_to_it() {
    const NAME: &str = "a_signal_saves_what_led_to_it";
    if !is_child(NAME) {
        let done = child(NAME).output().expect("it runs");
        assert!(done.status.success(), "{done:?}");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let session = flight_recorder(directory.path(), 4 << 20, "when signal SIGUSR2 then snapshot");
    request(1, 1);
    raise(libc::SIGUSR2);
    let (_, firing) = fired(&session, 1);
    let (saved, contents) = saved(&firing);
    assert!(saved.has_moment && firing.what == "signal SIGUSR2", "{firing:?}");
    assert_eq!(contents.numbers("triggers:request", "id"), [1]);
}

#[expect(unsafe_code, reason = "calls the C library")]
fn raise(signal: i32) {
    // SAFETY: it has a handler.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

#[test]
fn the_environment_sets_triggers_and_a_program_that_ends_keeps_its_snapshot() {
    const NAME: &str = "the_environment_sets_triggers_and_a_program_that_ends_keeps_its_snapshot";
    if is_child(NAME) {
        ringtrace::init();
        request(1, 9000);
        return; // at once
    }
    let directory = tempfile::tempdir().expect("a directory");
    let run = |text: &str| {
        let output = directory.path().join("trace");
        let command = &mut child(NAME);
        command.env("RINGTRACE", text.replace("OUTPUT", &output.to_string_lossy())).current_dir(directory.path());
        command.output().expect("it runs")
    };
    let done = run("overwrite; memory 4M; output OUTPUT; when request if us > 5000 then snapshot before 1s as slow");
    assert!(done.status.success(), "{done:?}");
    let snapshot = saved_below(directory.path(), &done);
    let contents = read_by_both(&snapshot);
    assert_eq!((contents.numbers("triggers:request", "id"), contents.counts[FIRED]), (vec![1], 1));
    let done = run("overwrite; when request if us > 5000 then snpshot");
    let message = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(message.contains("no action is called `snpshot`"), "{message}");
    assert_eq!(message.lines().find_map(|line| line.find('^')), Some(2 + 42), "{message}");
}

/// The only snapshot of the trigger `slow` that a program left.
fn saved_below(directory: &Path, done: &std::process::Output) -> std::path::PathBuf {
    let all = walk(directory);
    let is_saved = |path: &&std::path::PathBuf| path.to_string_lossy().ends_with("-trigger-slow.ringtrace");
    let found: Vec<_> = all.iter().filter(is_saved).collect();
    let [snapshot] = found[..] else { panic!("{all:?}: {done:?}") };
    snapshot.clone()
}

fn walk(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { [vec![path.clone()], walk(&path)].concat() } else { vec![path] }).collect()
}
