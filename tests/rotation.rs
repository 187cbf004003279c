//! Recordings that are cut: each trace complete, none of the events lost between.

mod common;

use ringtrace::recovery::Remains;
use ringtrace::{Context, Session, tracepoint};
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Barrier;

#[tracepoint(record)]
fn counted(thread: u64, number: u64);

/// The traces of a recording, in order.
fn traces(output: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(output).expect("the traces").flatten().map(|e| e.path()).collect();
    found.sort();
    found
}

#[test]
fn each_trace_is_complete_and_no_event_is_lost_between() {
    let _alone = common::alone();
    let place = tempfile::tempdir().expect("a directory");
    let output = place.path().join("cut");
    let builder = Session::builder("cut").enable("rotation:*").memory(512 << 10).context(Context::THREADS);
    let session = builder.rotate_size(128 << 10).output(&output).start().expect("a session");
    let (written, stopped) = (&Barrier::new(3), &Barrier::new(3));
    let statistics = std::thread::scope(|scope| {
        for thread in 0..2 {
            let writer = move || {
                (0..100_000).for_each(|number| counted(thread, number));
                written.wait();
                // Threads that end at once may stay without a name.
                stopped.wait();
            };
            std::thread::Builder::new().name(format!("writer-{thread}")).spawn_scoped(scope, writer).expect("a thread");
        }
        written.wait();
        let statistics = session.stop().expect("it stops");
        stopped.wait();
        statistics
    });
    let all = traces(&output);
    assert!(all.len() > 3, "{all:?}");
    let (mut events, mut lost) = (0, 0);
    let (mut seen, mut named) = (std::collections::BTreeSet::new(), Vec::new());
    for trace in &all {
        let contents = common::read_by_both(trace);
        let threads = contents.numbers("rotation:counted", "thread");
        let numbers = contents.numbers("rotation:counted", "number");
        for (thread, number) in threads.into_iter().zip(&numbers) {
            assert!(seen.insert((thread, *number)), "an event is there twice");
        }
        (events, lost) = (events + numbers.len() as u64, lost + contents.discarded);
        let names = contents.values("ringtrace:thread_name", "name");
        // Those that were known so far, and more.
        assert!(names.len() >= named.len() && named.iter().all(|name| names.contains(name)), "{names:?} after {named:?}");
        named = names;
    }
    assert!(named.iter().any(|name| name == "writer-0"), "{named:?}");
    assert_eq!((events, lost), (statistics.events, statistics.lost.total()));
    assert_eq!(events + lost, 200_000);
    let written: u64 = all.iter().map(|trace| size(trace)).sum();
    assert_eq!(statistics.written, written);
}

/// Bytes of the streams of a trace.
fn size(trace: &Path) -> u64 {
    let files = std::fs::read_dir(trace).expect("a trace").flatten().filter(|e| e.path().is_file());
    files.filter(|e| e.file_name() != "metadata").map(|e| e.metadata().expect("a file").len()).sum()
}

#[test]
fn the_oldest_go_by_a_quota() {
    let _alone = common::alone();
    let place = tempfile::tempdir().expect("a directory");
    let output = place.path().join("cut");
    let builder = Session::builder("cut").enable("rotation:*").rotate_size(64 << 10).quota(300 << 10).sub_buffer(16 << 10);
    let session = builder.output(&output).start().expect("a session");
    for number in 0..100_000 {
        counted(0, number);
    }
    session.stop().expect("it stops");
    let all = traces(&output);
    let bytes: u64 = all.iter().map(|trace| size(trace)).sum();
    assert!(bytes <= 300 << 10 && all.len() > 1, "{bytes} bytes in {}", all.len());
    assert!(!all[0].ends_with("000001"), "{all:?}");
    assert!(all.iter().all(|trace| common::read_by_both(trace).counts["rotation:counted"] > 0));
}

#[test]
fn time_cuts_too() {
    let _alone = common::alone();
    let place = tempfile::tempdir().expect("a directory");
    let output = place.path().join("cut");
    let builder = Session::builder("cut").enable("rotation:*").rotate_time(std::time::Duration::from_millis(1));
    let session = builder.sub_buffer(4 << 10).output(&output).start().expect("a session");
    let mut number = 0;
    while traces(&output).len() < 3 {
        counted(0, number);
        number += 1;
    }
    let statistics = session.stop().expect("it stops");
    let events: u64 =
        traces(&output).iter().map(|t| common::read_by_both(t).counts.get("rotation:counted").copied().unwrap_or(0)).sum();
    assert_eq!(events + statistics.lost.total(), number);
}

const KILLED: &str = "a_killed_recording_goes_on_where_it_was_cut_last";

#[test]
fn a_killed_recording_goes_on_where_it_was_cut_last() {
    if common::is_child(KILLED) {
        let builder = Session::builder("killed").enable("rotation:*").rotate_size(64 << 10).sub_buffer(16 << 10);
        let _session = builder.output("cut").start().expect("a session");
        let mut number = 0;
        loop {
            for _ in 0..100 {
                counted(0, number);
                number += 1;
            }
            println!("recorded {number}");
            // Slow enough that nothing is lost before the kill.
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    for copied in [false, true] {
        let mut command = common::child(KILLED);
        command.env("XDG_RUNTIME_DIR", place.path()).current_dir(place.path()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().expect("the child starts");
        let (mut told, mut cut) = (0, false);
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        for line in output.by_ref().lines() {
            if let Some(count) = line.expect("text").strip_prefix("recorded ") {
                told = count.parse().expect("a number");
                cut = place.path().join("cut/000002").exists();
            }
            if told >= 20_000 && cut {
                break;
            }
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("it is dead");
        let image = std::fs::read_dir(place.path().join("ringtrace")).expect("the user's").flatten().map(|e| e.path());
        let of_child = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{}-", child.id())));
        let session = image.into_iter().find(of_child).expect("the process's").join("killed");
        let copy = place.path().join("copy");
        let recovered = Remains::open(&session).expect("it is gone").recover(copied.then_some(&*copy)).expect("traces");
        assert_eq!(recovered.lost.total(), 0, "{recovered:?}");
        let mut numbers = Vec::new();
        for trace in traces(&recovered.path) {
            let contents = common::read_by_both(&trace);
            assert_eq!(contents.discarded, 0);
            numbers.extend(contents.numbers("rotation:counted", "number"));
        }
        numbers.sort_unstable();
        assert!(numbers.len() as u64 >= told && numbers.iter().copied().eq(0..numbers.len() as u64), "{}", numbers.len());
        std::fs::remove_dir_all(place.path().join("cut")).expect("it is removed");
    }
}
