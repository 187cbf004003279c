//! A trimmed trace shows what the same options of `view` show of the whole one, to babeltrace2 too.

#[path = "../../trace-ctf/tests/common/mod.rs"]
mod common;
mod sample;

use std::path::Path;
use std::process::{Command, Output};

use common::{Random, StreamWriter, field, schema, write_trace};
use sample::Variation;
use trace_ctf::schema::FieldClass;

fn run(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringtrace")).args(arguments).env("TZ", "UTC").current_dir(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Trims, and compares; returns the number of events.
fn agrees(whole: &str, options: &[&str], here: &Path) -> usize {
    let part = here.join("part");
    if part.exists() {
        std::fs::remove_dir_all(&part).unwrap();
    }
    let trimmed = run(&[&["trim", whole, "-o", "part"], options].concat(), here);
    assert_eq!(trimmed.status.code(), Some(0), "{options:?}: {}", text(&trimmed.stderr));
    let expected = run(&[&["view", whole, "--babeltrace"], options].concat(), here).stdout;
    let ours = run(&["view", "part", "--babeltrace"], here).stdout;
    let without_names = |bytes: &[u8]| -> Vec<String> {
        let lines = text(bytes);
        let lines = lines.lines().filter(|line| !line.contains("ringtrace:thread_name"));
        // Without the distance from the line before.
        lines.map(|line| format!("{}{}", &line[..20], &line[line.find(") ").unwrap()..])).collect()
    };
    assert_eq!(without_names(&ours), without_names(&expected), "{options:?}");
    let theirs = Command::new("babeltrace2").args(["--clock-gmt", "part"]).current_dir(here).output().unwrap();
    assert_eq!(text(&theirs.stdout), text(&ours), "{}", text(&theirs.stderr));
    assert!(!text(&theirs.stderr).contains("ERROR"), "{}", text(&theirs.stderr));
    let check = run(&["check", "part"], here);
    assert_eq!(check.status.code(), Some(0), "{}", text(&check.stdout));
    without_names(&ours).len()
}

#[test]
fn a_part_is_what_was_asked_for() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    sample::write(&here.join("shop"), Variation { discarded: 3, ..Variation::default() });
    assert_eq!(agrees("shop", &[], here), 300);
    assert_eq!(agrees("shop", &["--from", "22:13:20.010", "--until", "22:13:20.030"], here), 120);
    let names = run(&["top", "part", "--by", "thread", "--json"], here);
    for name in ["worker-0", "worker-1"] {
        assert!(text(&names.stdout).contains(name), "its name was told before the part: {}", text(&names.stdout));
    }
    let first = run(&["view", "part", "--head", "1", "--utc"], here);
    assert!(text(&first.stdout).starts_with("22:13:20.010000000  ringtrace:thread_name"), "{}", text(&first.stdout));
    assert_eq!(agrees("shop", &["--event", "*request*"], here), 200);
    assert_eq!(agrees("shop", &["--if", "outcome == \"MISS\""], here), 10);
    let stats = |directory: &str| -> serde_json::Value {
        serde_json::from_slice(&run(&["stats", directory, "--json"], here).stdout).unwrap()
    };
    assert_eq!(stats("part")["losses"]["discarded_events"], 12);
    assert_eq!(stats("part")["threads"][0]["name"], "worker-0");
    let of_thread = run(&["trim", "shop", "-o", "thread", "--thread", "4202"], here);
    assert_eq!(of_thread.status.code(), Some(0));
    assert_eq!(stats("thread")["threads"].as_array().unwrap().len(), 2, "with the name of the other one");
    let again = run(&["trim", "shop", "-o", "thread"], here);
    assert!(again.status.code() == Some(1) && text(&again.stderr).contains("thread: "), "{}", text(&again.stderr));
}

#[test]
fn short_time_stamps_survive_gaps() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let fields = vec![field("number", FieldClass::unsigned(32)), field("path", FieldClass::String { length_bits: 16 })];
    let schema =
        schema(vec![field("vtid", FieldClass::signed(32))], vec![fields, Vec::new(), vec![field("n", FieldClass::Bool)]]);
    for seed in 1..12 {
        let whole = format!("whole{seed}");
        let events = write_trace(&here.join(&whole), &schema, 3, 8, seed);
        assert_eq!(agrees(&whole, &[], here) as u64, events);
        assert!(agrees(&whole, &["--event", "app:event1*"], here) > 0);
        agrees(&whole, &["--from", "+100ms", "--until", "+9s"], here);
    }
}

#[test]
fn a_packet_that_is_read_in_pieces_is_trimmed() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let wide = (0..48).map(|number| field(&format!("n{number}"), FieldClass::unsigned(64))).collect();
    let schema = schema(vec![field("vtid", FieldClass::signed(32))], vec![wide, vec![field("n", FieldClass::unsigned(8))]]);
    let (mut stream, mut random) = (StreamWriter::new(0, 0, 5_000_000_000), Random::new(5));
    stream.packet(&schema, 150_000, &mut random);
    stream.header.events_discarded += 4;
    stream.packet(&schema, 5, &mut random);
    assert!(stream.file.len() > 20 << 20, "{} bytes", stream.file.len());
    std::fs::create_dir(here.join("giant")).unwrap();
    std::fs::write(here.join("giant/metadata"), trace_ctf::metadata::write(&schema)).unwrap();
    stream.write(&here.join("giant"), "chan_0");
    let whole = agrees("giant", &["--event", "app:event1*"], here) as u64;
    assert!(whole > 10_000 && whole < stream.events);
    let counts = run(&["trim", "giant", "-o", "all"], here);
    assert!(
        text(&counts.stderr).contains(&format!("{} events, 4 discarded events, 0 lost packets", stream.events)),
        "{}",
        text(&counts.stderr)
    );
    let check = run(&["check", "all", "--json"], here);
    assert_eq!(check.status.code(), Some(0), "{}", text(&check.stdout));
    assert!(text(&check.stdout).contains(&format!("\"events\":{}", stream.events)), "{}", text(&check.stdout));
}
