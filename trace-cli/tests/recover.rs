//! What is left of killed programs: shown, recovered, removed. And what one that runs holds: snapshots.

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;

use common::{Place, Program, eventually, is_program, orders, text};
use ringtrace::tracepoint;
use traces::read_by_both;

#[tracepoint(record)]
fn counted(number: u64);

const PROGRAM: &str = "program";

/// The program of these tests: `count N` fires N events.
#[test]
fn program() {
    if !is_program(PROGRAM) {
        return;
    }
    ringtrace::init();
    for order in orders() {
        if let Some(("count", count)) = order.split_once(' ') {
            (0..count.parse().expect("a number")).for_each(counted);
        }
        println!("done");
    }
}

/// A program that recorded 1000 events and was killed. Returns its process ID.
fn killed(place: &Place, overwrite: &[&str]) -> String {
    let mut program = Program::start(place, PROGRAM);
    let pid = program.pid().to_string();
    let output = place.here().join(&pid);
    let create = ["session", "create", "last", "-r", "recover:*", "-o", output.to_str().expect("a path"), "-p", &pid];
    place.succeed(&[&create[..], overwrite].concat());
    program.tell("count 1000");
    let (_, message) = place.fail(&["recover", &pid]);
    assert!(message.contains("its process runs"), "{message}");
    program.child.kill().expect("SIGKILL");
    program.child.wait().expect("it is dead");
    pid
}

#[test]
fn what_a_killed_program_left_is_shown_and_recovered() {
    let place = Place::new();
    let pids = [killed(&place, &[]), killed(&place, &["--overwrite"])];
    let mut shown = place.json(&["ps", "--dead"]);
    assert_eq!(shown.len(), 2, "{shown:?}");
    // They are shown by number, and numbers begin again at some time.
    if shown[1]["pid"] == pids[0].parse::<u32>().expect("a number") {
        shown.reverse();
    }
    for (line, pid) in shown.iter().zip(&pids) {
        assert_eq!((&line["pid"].to_string(), line["session"].as_str()), (pid, Some("last")));
        assert!(line["trace"].as_str().is_some_and(|t| t.ends_with(pid)) && line["problem"].is_null(), "{line}");
    }
    assert!(shown[1]["recoverable"].as_u64() >= Some(1000 * 16), "{}", shown[1]);
    let table = place.succeed(&["ps", "--dead"]);
    assert!(table.contains("RECOVERABLE") && table.contains(&pids[1]), "{table}");

    let said = place.succeed(&["recover", &pids[0]]);
    assert!(said.contains("recovered into") && said.contains("0 lost"), "{said}");
    let said = place.json(&["recover", "--all"]);
    assert_eq!((said.len(), said[0]["events"].as_u64()), (1, Some(1000)), "{said:?}");
    for pid in &pids {
        let contents = read_by_both(&place.here().join(pid));
        assert!(contents.numbers("recover:counted", "number").into_iter().eq(0..1000));
    }
    assert!(place.json(&["ps", "--dead"]).is_empty());
    assert_eq!(std::fs::read_dir(place.runtime()).expect("the base").count(), 0, "nothing is left");
    let (_, message) = place.fail(&["recover", &pids[0]]);
    assert!(message.contains("ringtrace ps --dead"), "{message}");
}

#[test]
fn a_recovery_without_room_says_that_nothing_is_lost_and_is_repeated() {
    let place = Place::new();
    let pid = killed(&place, &["--overwrite"]);
    // As on a full disk: no file of the trace becomes larger than 4 KiB.
    let words = place.ringtrace(&["recover", &pid]);
    let mut small = place.command("bash");
    small.args(["-c", "ulimit -f 4 && exec \"$0\" \"$@\""]).arg(words.get_program()).args(words.get_args());
    let output = small.output().expect("it starts");
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.matches("RLIMIT_FSIZE").count() == 1, "{said}");
    assert!(said.contains("is not lost") && said.contains("--output DIR") && !said.contains("new session"), "{said}");
    // What is to be run again is said as it is run.
    let (_, again) = said.split_once("`ringtrace recover ").expect(&said);
    let rings = again.split_once('`').expect(&said).0;
    place.succeed(&["recover", rings]);
    let contents = read_by_both(&place.here().join(&pid));
    assert!(contents.numbers("recover:counted", "number").into_iter().eq(0..1000));
}

#[test]
fn what_is_not_wanted_is_removed() {
    let place = Place::new();
    let pids = [killed(&place, &["--overwrite"]), killed(&place, &["--overwrite"])];
    assert_eq!(place.succeed(&["clean", "--all", "--older-than", "1h"]), "");
    assert_eq!(place.json(&["ps", "--dead"]).len(), 2);
    // The first ended two hours ago.
    let images = std::fs::read_dir(place.runtime()).expect("the base").flatten();
    let old = images.map(|image| image.path()).find(|path| path.to_string_lossy().contains(&format!("/{}-", pids[0])));
    let journal = std::fs::File::options().write(true).open(old.expect("its directory").join("last/journal")).expect("a file");
    let two_hours = std::time::Duration::from_secs(2 * 60 * 60);
    journal.set_modified(std::time::SystemTime::now() - two_hours).expect("its time");
    let said = place.succeed(&["clean", "--all", "--older-than", "1h"]);
    assert!(said.lines().count() == 1 && said.contains(&format!("/{}-", pids[0])), "{said}");
    assert_eq!(place.json(&["ps", "--dead"])[0]["pid"].to_string(), pids[1]);
    assert!(place.succeed(&["clean", &pids[1]]).starts_with("removed "));
    assert!(place.json(&["ps", "--dead"]).is_empty());
}

/// What was held back until it is decided whose events stay is in a trace beside the other; of a flight recorder, in the trace.
#[test]
fn what_was_not_yet_decided_is_recovered_whole() {
    let place = Place::new();
    let keep = ["--trigger", "keep counted if number > 990 by number wait 1h"];
    for mode in [&[][..], &["--overwrite"]] {
        let pid = killed(&place, &[&keep[..], mode].concat());
        let said = place.succeed(&["recover", &pid]);
        let to = format!("{pid}{}", if mode.is_empty() { "-undecided" } else { "" });
        assert!(said.contains(&format!("/{to};")), "{said}");
        let contents = read_by_both(&place.here().join(to));
        assert!(contents.numbers("recover:counted", "number").into_iter().eq(0..1000), "{said}");
        assert_eq!(contents.counts.get("ringtrace:not_kept"), None);
    }
}

#[test]
fn a_snapshot_that_was_not_completed_is_removed_with_what_its_program_left() {
    let place = Place::new();
    for verb in ["recover", "clean"] {
        let pid = killed(&place, &["--overwrite"]);
        let image = std::fs::read_dir(place.runtime()).expect("the base").flatten().next().expect("one").file_name();
        // As a kill in the middle of a snapshot leaves it; and one of a program that runs.
        let unfinished = place.here().join(format!("last.snapshots/.unfinished-{}-0", image.display()));
        let other = place.here().join("last.snapshots/.unfinished-1-2-00000003-0");
        for path in [&unfinished, &other] {
            std::fs::create_dir_all(path).expect("a directory");
            std::fs::write(path.join("metadata"), "/* CTF 1.8 */").expect("a file");
        }
        let said = place.succeed(&[verb, &pid]);
        assert!(verb == "clean" || said.contains("; 1 unfinished snapshot removed"), "{said}");
        assert!(!unfinished.exists() && other.exists(), "{verb}");
    }
}

#[test]
fn a_program_that_ended_before_it_could_be_reached_leaves_nothing() {
    use std::os::unix::fs::DirBuilderExt as _;
    let place = Place::new();
    for arguments in [&["ps"][..], &["ps", "--dead"], &["recover", "--all"], &["clean", "--all"]] {
        let mut builder = std::fs::DirBuilder::new();
        // Of no process that runs, with the name of a socket that does not listen yet.
        builder.mode(0o700).create(place.runtime().join("1-1-00000001")).expect("a directory");
        std::fs::write(place.runtime().join("1-1-00000001/control.new"), "").expect("a file");
        place.succeed(arguments);
        assert_eq!(std::fs::read_dir(place.runtime()).expect("the base").count(), 0, "{arguments:?}");
    }
    // The next one that starts removes it too.
    std::fs::DirBuilder::new().mode(0o700).create(place.runtime().join("1-1-00000001")).expect("a directory");
    let program = Program::start(&place, PROGRAM);
    // Its agent does when it listens.
    eventually("it is gone", || std::fs::read_dir(place.runtime()).expect("the base").count() == 1);
    program.end();
}

#[test]
fn a_flight_recorder_is_saved_while_it_records() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let (_, message) = place.fail(&["snapshot"]);
    assert!(message.contains("no session is in overwrite mode") && message.contains("--overwrite"), "{message}");
    place.succeed(&["session", "create", "plain", "-r", "recover:*"]);
    let (_, message) = place.fail(&["snapshot", "plain"]);
    assert!(message.contains("no flight recorder"), "{message}");
    place.succeed(&["session", "create", "flight", "-r", "recover:*", "--overwrite"]);
    program.tell("count 1000");
    let said = place.succeed(&["snapshot", "--reason", "it is slow"]);
    assert!(said.contains("flight.snapshots") && said.trim_end().ends_with("-it-is-slow.ringtrace"), "{said}");
    let contents = read_by_both(std::path::Path::new(said.trim_end()));
    assert!(contents.numbers("recover:counted", "number").into_iter().eq(0..1000));
    let receipt = &place.json(&["snapshot", "flight", "--keep", "1", "--last", "1h"])[0]["snapshot"];
    assert_eq!((receipt["events"].as_u64(), receipt["lost"].as_u64()), (Some(1000), Some(0)), "{receipt}");
    assert_eq!(std::fs::read_dir(place.here().join("flight.snapshots")).expect("it is there").count(), 1);
    // How many there are, and where, is told as long as the session is.
    let kept = format!("1 snapshot in {}", place.here().canonicalize().expect("a path").join("flight.snapshots").display());
    for arguments in [&["status"][..], &["session", "show", "flight"], &["session", "destroy", "flight"]] {
        let said = place.succeed(arguments);
        assert!(said.contains(&kept), "{arguments:?}: {said}");
    }
    program.end();
}

#[test]
fn a_fifo_in_place_of_a_file_is_named_and_not_waited_for() {
    let place = Place::new();
    let pid = killed(&place, &["--overwrite"]);
    let image = std::fs::read_dir(place.runtime()).expect("the base").flatten().next().expect("one").path();
    let session = image.join("last");
    let fifo = |path: &std::path::Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    };
    // A metadata file of its trace, and the journal; each in place of the file.
    let (metadata, journal) = (place.here().join(&pid).join("metadata"), session.join("journal"));
    std::fs::rename(&metadata, place.here().join("saved")).expect("it is there");
    fifo(&metadata);
    let (_, message) = place.fail(&["recover", &pid]);
    assert!(message.contains("metadata is not a regular file"), "{message}");
    std::fs::rename(place.here().join("saved"), &metadata).expect("it is there");
    std::fs::rename(&journal, session.join("saved")).expect("it is there");
    fifo(&journal);
    let shown = &place.json(&["ps", "--dead"])[0];
    assert!(shown["problem"].as_str().is_some_and(|p| p.contains("journal is not a regular file")), "{shown}");
    for verb in ["recover", "clean"] {
        let (_, message) = place.fail(&[verb, session.to_str().expect("a path")]);
        assert!(message.contains("journal is not a regular file"), "{message}");
    }
    std::fs::rename(session.join("saved"), &journal).expect("it is there");
    assert!(place.succeed(&["recover", &pid]).starts_with("1000 events"));
}

#[test]
fn control_characters_of_a_name_do_not_reach_the_terminal() {
    const NAME: &str = "\x1b]0;title\x07\x1b[2J\u{9b}31m";
    let place = Place::new();
    for (verb, word) in [("recover", "recovered into"), ("clean", "removed")] {
        for json in [&[][..], &["--json"]] {
            let pid = killed(&place, &[]);
            let image = std::fs::read_dir(place.runtime()).expect("the base").flatten().next().expect("one").path();
            std::fs::rename(image.join("last"), image.join(NAME)).expect("it is renamed");
            let output = place.here().join(format!("{pid}{NAME}"));
            let to = ["-o", output.to_str().expect("a path")];
            let to = if verb == "recover" { &to[..] } else { &[] };
            let said = place.succeed(&[&[verb, &pid][..], json, to].concat());
            assert!(said.contains("31m") && (said.contains(word) || !json.is_empty()), "{said}");
            assert_eq!(said.find(|c: char| c.is_control() && c != '\n'), None, "{said:?}");
        }
    }
}

#[test]
fn what_made_room_for_new_rings_is_told() {
    let place = Place::new();
    std::fs::write(place.runtime().join("removed-3-2097152"), "").expect("a file");
    let said = || text(&place.run(&["ps", "--dead"]).stderr);
    assert!(said().contains("3 sessions were removed unrecovered (2.0 MiB)"), "{}", said());
    place.succeed(&["clean", "--all"]);
    assert!(!said().contains("unrecovered"), "{}", said());
    assert_eq!(std::fs::read_dir(place.runtime()).expect("the base").count(), 0);
}
