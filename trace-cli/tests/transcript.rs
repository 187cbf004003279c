//! docs/control.md is run as it stands, against the real program.

mod common;
mod page;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Stdio;

use common::{Place, eventually};
use page::{example, follow, root, steps};

#[test]
fn the_page_about_the_flight_recorder_is_true() {
    let page = std::fs::read_to_string(root().join("docs/flight-recorder.md")).expect("the page");
    let steps = steps(&page);
    let start =
        page.lines().find_map(|line| line.strip_prefix("RINGTRACE='")?.strip_suffix("' cargo run --release --example service"));
    // And that.
    assert_eq!(steps.len(), 4);
    let place = Place::new();
    let service = example("service");
    let mut running = place.command(&service);
    running.env("RINGTRACE", start.expect("the command that starts it")).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut running = running.spawn().expect("it starts");
    eventually("the agent listens", || place.json(&["ps"]).len() == 1);
    eventually("something was recorded", || {
        let shown = place.json(&["status", "--over", "1ms"]);
        shown.iter().any(|line| line["session"]["events"].as_u64() > Some(10_000))
    });
    follow("docs/flight-recorder.md", &steps, &place, &service, running.id());
    assert!(!running.wait().expect("it is dead").success());
    // Both are whole, and the one that was recovered has what the other one has.
    let found = std::fs::read_dir(place.here()).expect("it is there").flatten().map(|e| e.path());
    let (saved, recovered): (Vec<PathBuf>, Vec<PathBuf>) = found.partition(|path| path.ends_with("service.snapshots"));
    let saved: Vec<PathBuf> = std::fs::read_dir(&saved[0]).expect("a snapshot").flatten().map(|e| e.path()).collect();
    let [saved, recovered] = [&saved, &recovered].map(|found| traces::read_by_both(&found[0]));
    let last = |contents: &traces::Contents| contents.numbers("service:accepted", "id").into_iter().max();
    assert!(last(&saved) > Some(0) && last(&saved) < last(&recovered));
    assert!(saved.counts.contains_key("ringtrace:thread_name"), "{:?}", saved.counts);
}

#[test]
fn the_page_about_crash_safety_is_true() {
    let page = std::fs::read_to_string(root().join("docs/crash-safety.md")).expect("the page");
    let steps = steps(&page);
    assert_eq!(steps.len(), 7);
    let place = Place::new();
    let service = example("service");
    let mut running = place.command(&service);
    running
        .env("RINGTRACE", "service:*; overwrite; memory 4M; output trace")
        .env("MALLOC_ARENA_MAX", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut running = running.spawn().expect("it starts");
    eventually("the agent listens", || place.json(&["ps"]).len() == 1);
    eventually("something was recorded", || {
        let shown = place.json(&["status", "--over", "1ms"]);
        shown.iter().any(|line| line["session"]["events"].as_u64() > Some(1_000))
    });
    follow("docs/crash-safety.md", &steps, &place, &service, running.id());
    assert!(!running.wait().expect("it is dead").success());
    // Both are whole, and the second one goes on where the first one ended.
    let [dumped, recovered] = ["from-core", "trace"].map(|name| traces::read_by_both(&place.here().join(name)));
    let last = |contents: &traces::Contents| contents.numbers("service:accepted", "id").into_iter().max();
    assert!(last(&dumped) > Some(0) && last(&dumped) <= last(&recovered));
}

#[test]
fn the_page_about_control_is_true() {
    let page = std::fs::read_to_string(root().join("docs/control.md")).expect("the page");
    let steps = steps(&page);
    assert!(steps.len() > 15, "{} commands", steps.len());
    let place = Place::new();
    let service = example("service");

    // In another terminal.
    let mut running = place.command(&service).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    eventually("the agent listens", || place.json(&["ps"]).len() == 1);

    let printed = follow("docs/control.md", &steps, &place, &service, running.id());
    // How many requests failed, as the program counts them, each time that it is run.
    let counted = |line: &String| line.split_once(" requests, ")?.1.split(' ').next()?.parse::<u64>().ok();
    let own: Vec<u64> = printed.iter().filter_map(counted).collect();
    drop(running.stdin.take());
    let mut said = String::new();
    running.stdout.take().expect("its output").read_to_string(&mut said).expect("text");
    assert!(running.wait().expect("it ends").success());

    // The traces hold exactly what the rules select.
    let contents = |name: &str| traces::read_by_both(&place.here().join(name));
    let warnings = contents("warnings");
    assert!(warnings.events() > 0 && warnings.counts.keys().eq(["service:failed"]), "{:?}", warnings.counts);
    let everything = contents("everything");
    let ids = |contents: &traces::Contents, event: &str| contents.numbers(event, "id").into_iter().collect::<BTreeSet<u64>>();
    let (answered, failed) = (ids(&everything, "service:answered"), ids(&everything, "service:failed"));
    let (first, last) = (answered.first().expect("events"), answered.last().expect("events"));
    // Of each request between the first and the last, and of those that failed by the program's own rule.
    assert!(answered.len() as u64 + 100 >= last - first, "{} of {}", answered.len(), last - first);
    let fails = |id: &&u64| ((id.wrapping_mul(0x9E37_79B9) >> 7) as u32 % 10_000) < 100;
    let expected: BTreeSet<u64> = answered.iter().filter(fails).copied().collect();
    assert!(expected.symmetric_difference(&failed).count() <= 1, "{expected:?} {failed:?}");
    // Recorded by another session at the same time.
    let recent = ids(&contents("recent"), "service:failed");
    let within: BTreeSet<u64> = failed.range(recent.first().expect("events")..=recent.last().expect("events")).copied().collect();
    assert_eq!(recent, within);
    // A filter lets through exactly what the program's own arithmetic says, of all requests between the first and the last.
    let size = |id: u64| (id.wrapping_mul(0x9E37_79B9) >> 7) as u32 % 10_000;
    let small = ids(&contents("small"), "service:answered");
    let (first, last) = (*small.first().expect("events"), *small.last().expect("events"));
    let expected: BTreeSet<u64> = (first..=last).filter(|id| size(*id) < 500).collect();
    // Each worker may have been inside of a request when the session began, and when it ended.
    assert!(small.is_subset(&expected) && expected.len() - small.len() <= 4, "{expected:?} {small:?}");
    // From the first event to the last: what the program counted itself.
    assert_eq!(own, [contents("failures").events(), contents("filtered").events()]);
}
