//! Snapshots of a flight recorder while it records: whole, in order, with everything that is needed to read them.

mod common;

use common::{SetOnDrop, alone, read_by_both};
use ringtrace::{Context, Receipt, Session, tracepoint};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[tracepoint(record)]
fn counted(thread: u64, number: u64);

fn flight_recorder(directory: &Path, memory: u64) -> Session {
    let builder = Session::builder("flight").enable("snapshot:*").overwrite().memory(memory).context(Context::THREADS);
    builder.keep(3).output(directory.join("trace")).start().expect("a session")
}

/// Files of a trace, by name.
fn files(trace: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(trace).expect("a trace").flatten().map(|entry| entry.path());
    entries.filter(|p| p.is_file()).map(|p| (p.file_name().expect("a name").into(), std::fs::read(&p).expect("a file"))).collect()
}

#[test]
fn snapshots_of_a_ring_that_rests_are_equal_and_the_newest_are_kept() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = flight_recorder(directory.path(), 4 << 20);
    // Several laps.
    let thread = std::thread::Builder::new().name("a-mayfly".to_owned());
    let ended = thread.spawn(|| (0..1_000_000).for_each(|number| counted(0, number))).expect("a thread");
    ended.join().expect("it ends");
    let receipts: Vec<Receipt> = (0..10).map(|_| session.snapshot("At rest?").expect("a snapshot")).collect();
    let kept: Vec<PathBuf> = receipts[7..].iter().map(|receipt| receipt.path.clone()).collect();
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(directory.path().join("flight.snapshots")).expect("it is there").flatten().map(|e| e.path()).collect();
    found.sort();
    assert_eq!(found, kept, "the newest three, and nothing unfinished");
    assert!(kept[0].to_string_lossy().ends_with("-at-rest.ringtrace"), "{kept:?}");
    for pair in receipts.windows(2) {
        assert_eq!((pair[0].events, &pair[0].rings), (pair[1].events, &pair[1].rings));
    }
    assert_eq!(files(&kept[0]), files(&kept[2]));
    let receipt = &receipts[9];
    let contents = read_by_both(&receipt.path);
    let numbers = contents.numbers("snapshot:counted", "number");
    assert_eq!((numbers.len() as u64, receipt.overwritten, receipt.lost, contents.discarded), (receipt.events, 0, 0, 0));
    assert_eq!(numbers.last(), Some(&999_999));
    assert!(numbers.len() > 10_000 && contents.counts.contains_key("ringtrace:thread_name"), "{:?}", contents.counts);
    // A part of it.
    let last = session.snapshot_last(std::time::Duration::from_nanos(1), "").expect("a snapshot");
    assert_eq!((last.events, &*last.rings), (0, &[][..]));
    // What is recorded later is another trace.
    counted(1, 1);
    let later = session.snapshot("at rest?").expect("a snapshot");
    assert!(later.rings.iter().map(|ring| ring.end_ns).max() > receipt.rings.iter().map(|ring| ring.end_ns).max());
    session.stop().expect("it stops");
    let refused = session.snapshot("too late").expect_err("all is delivered").to_string();
    assert!(refused.contains("is in its trace"), "{refused}");
}

#[test]
fn snapshots_under_load_have_no_holes_but_those_they_state() {
    let _alone = alone();
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let session = flight_recorder(directory.path(), 1 << 20);
    let (end, begun) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&end);
        for thread in 0..2 {
            let (end, begun) = (&end, &begun);
            let writer = move || {
                stay_on_a_cpu(thread);
                let mut number = 0;
                while !end.load(Ordering::Relaxed) {
                    counted(thread, number);
                    number += 1;
                    if number == 1000 {
                        begun.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            std::thread::Builder::new().name(format!("writer-{thread}")).spawn_scoped(scope, writer).expect("a thread");
        }
        while begun.load(Ordering::Relaxed) < 2 {
            std::thread::yield_now();
        }
        let (mut holes, mut events) = (0, 0);
        for round in 0..rounds() {
            let receipt = session.snapshot("under load").expect("a snapshot");
            // The other reader takes its time.
            let contents = if round % 50 == 0 { read_by_both(&receipt.path) } else { common::read(&receipt.path) };
            let threads = contents.numbers("snapshot:counted", "thread");
            let numbers = contents.numbers("snapshot:counted", "number");
            assert_eq!((numbers.len() as u64, contents.discarded), (receipt.events, receipt.lost));
            let mut last = BTreeMap::new();
            let mut missing = 0;
            for (thread, number) in threads.into_iter().zip(numbers) {
                if let Some(last) = last.insert(thread, number) {
                    assert!(number > last, "out of order");
                    missing += number - last - 1;
                }
            }
            assert_eq!(missing, receipt.lost, "{receipt:?}");
            assert!(missing <= receipt.overwritten, "{receipt:?}");
            (holes, events) = (holes + missing, events + receipt.events);
            let names = contents.values("ringtrace:thread_name", "name");
            assert!((0..2).all(|thread| names.contains(&format!("writer-{thread}"))), "{names:?}");
        }
        println!("{} snapshots, {events} events; {holes} were overwritten while they were copied, all stated", rounds());
    });
}

#[test]
fn each_stream_begins_when_it_is_whole() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = flight_recorder(directory.path(), 4 << 20);
    // A few events of one thread, and several laps of another; where there is one CPU only, both lie in one ring.
    let on = |thread, numbers: std::ops::Range<u64>| {
        let writer = move || {
            stay_on_a_cpu(thread);
            numbers.for_each(|number| counted(thread, number));
        };
        std::thread::spawn(writer).join().expect("it ends");
    };
    on(0, 0..10);
    let begun = std::time::Instant::now();
    on(1, 0..1_000_000);
    let took = begun.elapsed();
    on(0, 10..20);
    let begins = |receipt: &Receipt| -> BTreeMap<u64, u64> {
        let trace = trace_ctf::reader::Trace::open(&receipt.path).expect("a trace");
        let rings = trace.streams().iter().filter(|stream| stream.class_id() == 0);
        let begin = |stream| trace.packets(stream).next_header().expect("a packet").expect("its header").info;
        rings.map(begin).map(|info| (info.cpu_id.expect("a CPU"), info.timestamp_begin.expect("a time"))).collect()
    };
    let receipt = session.snapshot("").expect("a snapshot");
    let of = begins(&receipt);
    assert!(receipt.rings.iter().any(|ring| ring.was_lapped), "{receipt:?}");
    for ring in &receipt.rings {
        let begin = of[&u64::from(ring.cpu.expect("a ring"))];
        // One that lacks nothing is whole from the beginning of the session, before its first event.
        assert!(if ring.was_lapped { begin == ring.begin_ns } else { begin < ring.begin_ns }, "{begin} {ring:?}");
    }
    // Of the last moment, a ring has only what is not older: it is whole from then on, whether it has something or not.
    let recent = begins(&session.snapshot_last(took / 2, "").expect("a snapshot"));
    assert_eq!(recent.keys().collect::<Vec<_>>(), of.keys().collect::<Vec<_>>());
    let latest = receipt.rings.iter().map(|ring| ring.begin_ns).max();
    let at_once = begins(&session.snapshot_last(std::time::Duration::from_nanos(1), "").expect("a snapshot"));
    let ends: BTreeMap<u64, u64> = receipt.rings.iter().map(|ring| (u64::from(ring.cpu.expect("a ring")), ring.end_ns)).collect();
    assert!(at_once == ends && ends.values().copied().min() > latest, "{at_once:?} {receipt:?}");
    read_by_both(&receipt.path);
}

/// Snapshots under load: 20, or as many as `RINGTRACE_SNAPSHOTS` says.
fn rounds() -> usize {
    std::env::var("RINGTRACE_SNAPSHOTS").map_or(20, |rounds| rounds.parse().expect("a number"))
}

/// So that a thread's numbers lie in one ring, in which a hole can be seen.
#[expect(unsafe_code, reason = "calls the C library")]
fn stay_on_a_cpu(thread: u64) {
    // SAFETY: both calls touch only `set`, which is of the size that they are told.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
        let cpus: Vec<usize> = (0..1024).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect();
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(cpus[thread as usize % cpus.len()], &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
    }
}

#[test]
fn a_session_that_is_no_flight_recorder_says_so() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = Session::builder("plain").enable("snapshot:*").output(directory.path().join("trace")).start().expect("it");
    let refused = session.snapshot("why not").expect_err("discard mode").to_string();
    assert!(refused.contains("`plain` is no flight recorder"), "{refused}");
    assert!(!directory.path().join("plain.snapshots").exists());
}

const SHARED: &str = "processes_leave_each_others_snapshots_alone";

/// Takes so many snapshots for each line of the input.
fn take_as_told() {
    let output = format!("trace-{}", std::process::id());
    let session = Session::builder("flight").enable("snapshot:*").overwrite().memory(1 << 20).output(output).start();
    let session = session.expect("a session");
    for line in std::io::stdin().lines() {
        let snapshots: u64 = line.expect("text").parse().expect("a number");
        for number in 0..snapshots {
            counted(0, number);
            session.snapshot("shared").expect("a snapshot");
        }
        println!("taken {snapshots}");
    }
}

const DEAF: &str = "a_signal_that_takes_snapshots_ends_a_child_that_is_not_traced";

#[test]
#[expect(unsafe_code, reason = "fork, kill, waitpid")]
fn a_signal_that_takes_snapshots_ends_a_child_that_is_not_traced() {
    if !common::is_child(DEAF) {
        let output = common::child(DEAF).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn own(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    let own = own as extern "C" fn(libc::c_int) as libc::sighandler_t;
    let handled = |signal| {
        let before = HANDLED.load(Ordering::Relaxed);
        // SAFETY: to this thread.
        unsafe { libc::raise(signal) };
        HANDLED.load(Ordering::Relaxed) - before
    };
    // SAFETY: the handler adds to a word. The child makes async-signal-safe calls only.
    unsafe {
        libc::signal(libc::SIGHUP, own);
        let directory = tempfile::tempdir().expect("a directory");
        let builder =
            Session::builder("flight").enable("snapshot:*").overwrite().snapshot_on(libc::SIGTERM).snapshot_on(libc::SIGHUP);
        let session = builder.output(directory.path().join("trace")).start().expect("a session");
        let child = libc::fork();
        if child == 0 {
            // The program's handler still runs, here and in the program; the default action does where there is none.
            if handled(libc::SIGHUP) != 1 {
                libc::_exit(1);
            }
            libc::raise(libc::SIGTERM);
            libc::_exit(2);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTERM, "{status:x}");
        assert_eq!((handled(libc::SIGHUP), handled(libc::SIGTERM)), (1, 0));
        let snapshots = directory.path().join("flight.snapshots");
        while std::fs::read_dir(&snapshots).map_or(0, Iterator::count) < 1 {
            std::thread::yield_now();
        }
        drop(session);
    }
}

#[test]
fn processes_leave_each_others_snapshots_alone() {
    if common::is_child(SHARED) {
        return take_as_told();
    }
    let directory = tempfile::tempdir().expect("a directory");
    let start = || {
        let mut command = common::child(SHARED);
        command.current_dir(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the child starts");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        (process, lines)
    };
    let take = |(process, lines): &mut (std::process::Child, std::io::Lines<BufReader<ChildStdout>>), snapshots: u64| {
        writeln!(process.stdin.as_mut().expect("its input"), "{snapshots}").expect("it listens");
        let taken = format!("taken {snapshots}");
        assert!(lines.any(|line| line.expect("text").ends_with(&taken)), "it has ended");
    };
    let left = || std::fs::read_dir(directory.path().join("flight.snapshots")).expect("it is there").count();
    let mut both = [start(), start()];
    both.iter_mut().for_each(|one| take(one, 8));
    assert_eq!(left(), 16, "each has its own");
    both.iter_mut().for_each(|one| take(one, 4));
    assert_eq!(left(), 20, "each keeps its newest ten");
    for (mut process, _) in both {
        drop(process.stdin.take());
        assert!(process.wait().expect("it ends").success());
    }
    // What those left that are gone is bounded with its own.
    let mut third = start();
    take(&mut third, 3);
    assert_eq!(left(), 10);
    drop(third.0.stdin.take());
    assert!(third.0.wait().expect("it ends").success());
}
