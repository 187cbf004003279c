//! Keeping only what is interesting: traces and snapshots have all events of the keys that a rule marked, those that carry no
//! key, and how many were left out.

mod common;

use common::{Contents, alone, read_by_both};
use ringtrace::{NotKept, Session, tracepoint};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[tracepoint(record)]
fn received(id: u64, name: &str);

#[tracepoint(record)]
fn step(id: u64, number: u32);

#[tracepoint(record)]
fn answered(id: u64, us: u64, name: &str);

/// Of no request.
#[tracepoint(record)]
fn collected(pages: u64);

const STEPS: u32 = 3;

/// One request: five events of one key.
fn request(id: u64, us: u64) {
    let name = format!("request-{id}");
    received(id, &name);
    (0..STEPS).for_each(|number| step(id, number));
    answered(id, us, &name);
}

fn builder(directory: &Path, keep: &str) -> ringtrace::Builder {
    // One that a test leaves behind ends a moment later.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("kept-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    Session::builder(&name).enable("keep:*").trigger(keep).output(directory.join("trace"))
}

fn start(builder: ringtrace::Builder) -> Session {
    builder.start().unwrap_or_else(|error| panic!("{error}"))
}

/// Asserts that the requests of these keys are there as a whole, and no other.
fn only(contents: &Contents, ids: &[u64]) {
    for event in ["keep:received", "keep:answered"] {
        assert_eq!(contents.numbers(event, "id"), ids, "{event}");
    }
    let steps: Vec<u64> = ids.iter().flat_map(|id| [*id; STEPS as usize]).collect();
    assert_eq!(contents.numbers("keep:step", "id"), steps);
}

/// Sums over the events that tell what was left out.
fn told(contents: &Contents, field: &str) -> u64 {
    contents.numbers("ringtrace:not_kept", field).iter().sum()
}

#[test]
fn a_snapshot_has_slow_requests_alone_with_all_their_events() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = start(builder(directory.path(), "keep answered if us > 5000 by id as slow").overwrite());
    let slow = [0, 500, 501, 999];
    for id in 0..1000 {
        if id % 250 == 7 {
            // Longer than the shortest time stamps reach.
            std::thread::sleep(Duration::from_millis(150));
        }
        if id % 100 == 0 {
            collected(id);
        }
        request(id, if slow.contains(&id) { 9000 } else { 10 });
    }
    let receipt = session.snapshot("slow ones").expect("a snapshot");
    let contents = read_by_both(&receipt.path);
    only(&contents, &slow);
    assert_eq!(contents.numbers("keep:collected", "pages"), (0..10).map(|n| n * 100).collect::<Vec<u64>>());
    assert_eq!((receipt.not_kept, told(&contents, "events")), (996 * 5, 996 * 5));
    assert_eq!((receipt.events, receipt.keys_gone, receipt.lost), (4 * 5 + 10, 0, 0));
    assert_eq!(receipt.rings.iter().map(|ring| ring.events).sum::<u64>(), receipt.events);
    // Bytes of what is in it, and not of what was looked at: a record has 16 at least, and fewer than 64.
    assert!((receipt.events * 16..receipt.events * 64).contains(&receipt.bytes), "{}", receipt.bytes);
    let state = session.triggers().remove(0);
    assert_eq!((state.name.as_str(), state.fired, state.lost), ("slow", 4, 0));
    // A snapshot decides nothing for the next one: this request became interesting later.
    answered(7, 5001, "again");
    let later = read_by_both(&session.snapshot("").expect("a snapshot").path);
    assert_eq!(later.numbers("keep:received", "id"), [0, 7, 500, 501, 999]);
    // When recording ends, the rest of the rings is decided in the same way.
    let statistics = session.stop().expect("it stops");
    let contents = read_by_both(&directory.path().join("trace"));
    assert_eq!(contents.numbers("keep:received", "id"), [0, 7, 500, 501, 999]);
    assert_eq!((statistics.not_kept.events, told(&contents, "events")), (995 * 5, 995 * 5));
}

#[test]
fn keys_whose_events_were_overwritten_are_told() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = start(builder(directory.path(), "keep answered if us > 5000 by id").overwrite().memory(1 << 20));
    request(1, 9000);
    // Around every ring: threads enough for every CPU.
    let flood = || (0..100_000).for_each(|_| step(2, 0));
    while session.snapshot("").expect("a snapshot").keys_gone == 0 {
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(flood))));
    }
    request(3, 9000);
    let receipt = session.snapshot("").expect("a snapshot");
    assert!(receipt.rings.iter().any(|ring| ring.was_lapped), "{receipt:?}");
    let contents = read_by_both(&receipt.path);
    only(&contents, &[3]);
    assert_eq!((receipt.keys_gone, receipt.events), (1, 5));
}

#[test]
fn a_recording_holds_events_back_until_their_keys_are_decided() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = start(builder(directory.path(), "keep latency(received, answered by id) > 20ms wait 300ms"));
    let trace = directory.path().join("trace");
    let slow = [3, 40, 77];
    for id in 0..100 {
        let name = format!("request-{id}");
        received(id, &name);
        (0..STEPS).for_each(|number| step(id, number));
        if slow.contains(&id) {
            std::thread::sleep(Duration::from_millis(30));
        }
        answered(id, 0, &name);
    }
    // It is written while the session records: when the wait is over.
    while session.statistics().not_kept.events < 97 * 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    collected(1);
    request(1000, 0);
    let statistics = session.stop().expect("it stops");
    let contents = read_by_both(&trace);
    only(&contents, &slow);
    assert_eq!(contents.numbers("keep:collected", "pages"), [1]);
    let NotKept { events, hurried, late, forgotten, .. } = statistics.not_kept;
    assert_eq!((events, hurried, late, forgotten), (98 * 5, 0, 0, 0));
    assert_eq!((told(&contents, "events"), told(&contents, "hurried")), (events, 0));
    assert!(statistics.to_string().contains("490 not kept"), "{statistics}");
}

#[test]
fn a_ring_that_fills_does_not_wait_and_says_so() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = start(builder(directory.path(), "keep answered if us > 5000 by id wait 1h").memory(512 << 10));
    let mut slow = BTreeSet::new();
    let mut id = 0;
    while session.statistics().not_kept.hurried == 0 || id < 20_000 {
        let us = if id % 1000 == 0 { 9000 } else { 10 };
        if us > 5000 {
            slow.insert(id);
        }
        request(id, us);
        id += 1;
    }
    // What was let go too early cannot be had again, and that is told.
    answered(1, 9000, "late");
    let statistics = session.stop().expect("it stops");
    let contents = read_by_both(&directory.path().join("trace"));
    let kept: BTreeSet<u64> = contents.numbers("keep:step", "id").into_iter().collect();
    assert!(kept.is_subset(&slow), "{kept:?}");
    let NotKept { events, hurried, late, .. } = statistics.not_kept;
    assert!(hurried > 0 && hurried <= events && late >= 1, "{statistics}");
    assert_eq!(["events", "hurried", "late_keys"].map(|field| told(&contents, field)), [events, hurried, late]);
    let recorded: u64 = ["received", "step", "answered"].iter().filter_map(|n| contents.counts.get(&format!("keep:{n}"))).sum();
    assert_eq!(recorded + events, statistics.events, "{statistics}");
    assert_eq!(contents.discarded, statistics.lost.total());
}

#[test]
fn texts_are_keys_and_what_is_missing_is_kept() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = start(builder(directory.path(), "keep missing(received, answered by name) within 20ms as hung").overwrite());
    for id in 0..100 {
        received(id, &format!("request-{id}"));
        if id != 50 {
            answered(id, 1, &format!("request-{id}"));
        }
    }
    while session.triggers()[0].fired == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    step(7, 0);
    let contents = read_by_both(&session.snapshot("hung").expect("a snapshot").path);
    assert_eq!((contents.numbers("keep:received", "id"), contents.counts.get("keep:answered")), (vec![50], None));
    // It has no name, so it is of none.
    assert_eq!(contents.numbers("keep:step", "id"), [7]);
    // Without the rule everything is there again.
    session.remove_trigger("hung").expect("it is there");
    let receipt = session.snapshot("all").expect("a snapshot");
    assert_eq!((receipt.events, receipt.not_kept), (100 + 99 + 1, 0));
    let contents = read_by_both(&receipt.path);
    assert_eq!((contents.counts["keep:received"], contents.counts["keep:answered"]), (100, 99));
}

#[test]
fn rules_that_could_never_keep_are_refused() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |keep: &str| builder(directory.path(), keep).start().expect_err(keep).to_string();
    assert!(refused("keep answered if us > 5000").contains("by which field is missing"));
    assert!(refused("keep collected by id").contains("id"), "{}", refused("keep collected by id"));
    assert!(refused("keep latency(received, answered) > 5ms").contains("no key"));
}
