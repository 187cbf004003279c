//! The command from outside: output, messages, exit codes.

#[path = "../../trace-ctf/tests/common/mod.rs"]
mod common;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{Random, StreamWriter, field, schema, write_trace};
use serde_json::Value;
use trace_ctf::metadata;
use trace_ctf::packet::HEADER_LEN;
use trace_ctf::schema::{EventClass, EventHeader, Field, FieldClass, Label, Level, Schema};

fn ringtrace() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ringtrace"))
}

fn run(arguments: &[&str], directory: &Path) -> Output {
    ringtrace().args(arguments).current_dir(directory).output().unwrap()
}

fn sample() -> Schema {
    let reason = vec![Label { label: "LRU".into(), low: 1, high: 1 }];
    let fields = vec![
        Field { unit: Some("B".into()), ..field("bytes", FieldClass::unsigned(32)) },
        field("path", FieldClass::String { length_bits: 16 }),
        field("reason", FieldClass::Enumeration { bits: 8, signed: false, labels: reason }),
        field("parent", FieldClass::Optional(Box::new(FieldClass::hex(64)))),
        field("ok", FieldClass::Bool),
    ];
    schema(vec![field("vtid", FieldClass::signed(32))], vec![fields, Vec::new()])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A trace in `NAME.ringtrace`, and the number of its events.
fn recorded(directory: &Path, name: &str, seed: u64) -> u64 {
    write_trace(&directory.join(name), &sample(), 3, 8, seed)
}

#[test]
fn exact_text_is_that_of_babeltrace2() {
    let here = tempfile::tempdir().unwrap();
    let events = recorded(here.path(), "a.ringtrace", 7);
    for (zone, options) in [
        ("UTC", &["view", "--babeltrace", "a.ringtrace"][..]),
        ("America/St_Johns", &["view", "--babeltrace"]),
        ("Asia/Kolkata", &["view", "--babeltrace"]),
    ] {
        let ours = ringtrace().args(options).env("TZ", zone).current_dir(here.path()).output().unwrap();
        let theirs = Command::new("babeltrace2").arg("a.ringtrace").env("TZ", zone).current_dir(here.path()).output().unwrap();
        assert!(ours.stdout == theirs.stdout, "{zone}");
        assert_eq!(ours.status.code(), Some(0));
        let messages = text(&ours.stderr);
        let (ours, theirs) =
            (messages.matches("Tracer discarded").count(), text(&theirs.stderr).matches("Tracer discarded").count());
        assert!(ours == theirs && ours > 0, "{messages}");
        assert!(messages.lines().last().unwrap().starts_with(&format!("ringtrace: {events} events, ")), "{messages}");
    }
}

/// A trace of one stream, with one packet of events: ID, time in nanoseconds from the clock's origin, payload.
fn written(directory: &Path, payload: Vec<Field>, events: &[(u32, u64, &[u8])]) {
    let record = |(id, time, payload): &(u32, u64, &[u8])| (*id, *time, [&4242_i32.to_le_bytes()[..], payload].concat());
    let events: Vec<_> = events.iter().map(record).collect();
    written_with(directory, vec![field("vtid", FieldClass::signed(32))], payload, &events);
}

/// The same, with this context in front of each payload.
fn written_with(directory: &Path, context: Vec<Field>, payload: Vec<Field>, events: &[(u32, u64, Vec<u8>)]) {
    let fields = vec![field("tid", FieldClass::signed(32)), field("name", FieldClass::String { length_bits: 16 })];
    let schema = schema(context, vec![payload]);
    let mut named = Schema::new(schema.trace.clone()).unwrap();
    let mut class = schema.event(1, 0).unwrap().clone();
    class.name = "app:request".into();
    named.add(class.clone()).unwrap();
    named.add(EventClass { id: 1, name: "ringtrace:thread_name".into(), level: Some(Level::Info), fields, ..class }).unwrap();
    let mut stream = StreamWriter::new(1, 2, 1000);
    let mut content = Vec::new();
    for (id, time, record) in events {
        EventHeader::Large.encode(*id, *time, 1000, &mut content);
        content.extend(record);
    }
    stream.header.sequence = 1;
    stream.header.timestamp_end = 1 << 40;
    stream.header.content_bits = (HEADER_LEN + content.len()) as u64 * 8;
    stream.header.packet_bits = stream.header.content_bits;
    stream.header.events_discarded = 7;
    stream.file.extend(stream.header.encode(&common::UUID));
    stream.file.extend(content);
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("metadata"), metadata::write(&named)).unwrap();
    fs::write(directory.join("chan_2"), &stream.file).unwrap();
}

#[test]
fn lines_are_for_people() {
    let here = tempfile::tempdir().unwrap();
    let fields = sample().event(0, 0).unwrap().fields.clone();
    let first = b"\0\x10\0\0\x01\0/\x01\x01\x0f\0\0\0\0\0\0\0\x01";
    let second = b"\x01\0\0\0\x08\0\x1b[2Ja\n\x07\xff\x09\0\0";
    let events = [(0, 2000, &first[..]), (0, 3500, second), (1, 9000, b"\x92\x10\0\0\x08\0worker-1")];
    written(&here.path().join("a.ringtrace"), fields, &events);
    let expected = "\
22:13:20.123458789  EMERG app:request  bytes=4096 B path=\"/\" reason=LRU parent=0xf ok=true  [cpu 2 vtid 4242 worker-1]
22:13:20.123460289  EMERG app:request  bytes=1 B path=\"\\u{1b}[2Ja\\n\\u{7}\\xff\" reason=9 parent=none ok=false  \
                    [cpu 2 vtid 4242 worker-1]
22:13:20.123465789  ringtrace:thread_name  tid=4242 name=\"worker-1\"  [cpu 2 vtid 4242 worker-1]
";
    let output = run(&["view", "--utc"], here.path());
    assert_eq!(text(&output.stdout), expected);
    let messages = text(&output.stderr);
    let warning = "ringtrace: warning: 7 events were discarded between 22:13:20.123457789 and 22:31:39.";
    assert!(
        messages.starts_with(warning) && messages.contains("  [stream class 1 stream 2 ./a.ringtrace/chan_2]\n"),
        "{messages}"
    );
    let zone = ringtrace().arg("view").env("TZ", "Asia/Kolkata").current_dir(here.path()).output().unwrap();
    assert!(text(&zone.stdout).starts_with("03:43:20.123458789  EMERG app:request  bytes"), "{}", text(&zone.stdout));

    let delta = text(&run(&["view", "--utc", "--delta"], here.path()).stdout);
    let deltas: Vec<&str> = delta.lines().map(|line| line.split("  ").nth(1).unwrap()).collect();
    assert_eq!(deltas, ["+0.000000000", "+0.000001500", "+0.000005500"]);
    for refused in [["--delta", "--json"], ["--delta", "--babeltrace"], ["--babeltrace", "--json"]] {
        assert_eq!(run(&[&["view"][..], &refused].concat(), here.path()).status.code(), Some(2));
    }
}

/// What clap refuses is JSON like any other error where that is asked for, with the same exit code.
#[test]
fn wrong_usage_is_json_where_that_is_asked_for() {
    let here = tempfile::tempdir().unwrap();
    for (arguments, phrase) in [
        (&["session", "lists"][..], "unrecognized subcommand 'lists'"),
        (&["view", "--nope"], "unexpected argument '--nope'"),
        (&["record", "*", "--for", "soon"], "invalid value 'soon'"),
        (&["module", "load"], "<FILE>"),
    ] {
        let plain = run(arguments, here.path());
        let json = run(&[&["--json"], arguments].concat(), here.path());
        assert_eq!((plain.status.code(), json.status.code()), (Some(2), Some(2)), "{arguments:?}");
        assert!(text(&plain.stderr).starts_with("error: ") && text(&plain.stderr).contains(phrase), "{}", text(&plain.stderr));
        let object: Value = serde_json::from_str(&text(&json.stderr)).unwrap();
        assert!(object["error"].as_str().unwrap().contains(phrase), "{object}");
        assert_eq!(text(&json.stderr).lines().count(), 1);
    }
    let help = run(&["--json", "--help"], here.path());
    assert!(help.status.success() && text(&help.stdout).starts_with("Records what"), "{}", text(&help.stdout));
    // What stands behind `--` is for the program that is run.
    let run_program = run(&["run", "--nope", "--", "true", "--json"], here.path());
    assert!(text(&run_program.stderr).starts_with("error: "), "{}", text(&run_program.stderr));
}

#[test]
fn texts_of_a_fixed_length_end_at_their_first_zero() {
    let here = tempfile::tempdir().unwrap();
    let fields = vec![field("name", FieldClass::Text { length: 8 }), field("n", FieldClass::unsigned(8))];
    written(&here.path().join("a.ringtrace"), fields, &[(0, 2000, b"abc\0\0\0\0\0\x01"), (0, 2001, b"abc\0xyz\0\x02")]);
    let shown = |arguments: &[&str]| text(&run(arguments, here.path()).stdout);
    assert_eq!(shown(&["view", "--columns", "name,n", "--if", "name == \"abc\""]), "abc\t1\nabc\t2\n");
    assert!(shown(&["hist", "request.name"]).starts_with("2 values, 1 different\n"));
    for line in shown(&["view", "--json"]).lines() {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["payload"]["name"], "abc");
    }
}

/// Where babeltrace2 reads none of more than 64 bits.
#[test]
fn long_integers_are_numbers_everywhere() {
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("long")).unwrap();
    let metadata = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\nclock { name = c; };\n\
        stream { event.header := struct { integer { size = 64; align = 8; map = clock.c.value; } timestamp; }; };\n\
        event { name = \"app:hash\"; fields := struct { integer { size = 128; align = 8; } hash; integer { size = 100; align = 8; \
        signed = true; } delta; integer { size = 8; align = 8; } n; }; };\n";
    fs::write(here.path().join("long/metadata"), metadata).unwrap();
    let event = |time: u64, hash: u128, delta: i128, n: u8| {
        let delta = delta.to_le_bytes();
        [&time.to_le_bytes()[..], &hash.to_le_bytes(), &delta[..12], &[delta[12] & 0xF, n]].concat()
    };
    let events = [event(5, u128::MAX, -5, 1), event(6, 7, 1 << 90, 2)];
    fs::write(here.path().join("long/stream"), events.concat()).unwrap();
    let of = |arguments: &[&str], trace: &str| {
        let output = run(&[arguments, &[trace]].concat(), here.path());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let (most, far) = (u128::MAX, 1_i128 << 90);
    assert!(run(&["convert", "long", "-o", "ctf2", "--format", "ctf2"], here.path()).status.success());
    for trace in ["long", "ctf2"] {
        let shown = |arguments: &[&str]| of(arguments, trace);
        let lines = shown(&["view"]);
        assert!(
            lines.contains(&format!("hash={most} delta=-5 n=1")) && lines.contains(&format!("hash=7 delta={far} n=2")),
            "{lines}"
        );
        let lines = shown(&["view", "--babeltrace"]);
        assert!(lines.contains(&format!("{{ hash = {most}, delta = -5, n = 1 }}")), "{lines}");
        assert_eq!(shown(&["view", "--columns", "hash,delta", "--if", "n == 2"]), format!("7\t{far}\n"));
        for arguments in [&["view", "--json"][..], &["export", "--to", "jsonl"], &["export", "--to", "chrome"]] {
            let lines = shown(arguments);
            assert!(lines.contains(&format!("{{\"hash\":{most},\"delta\":-5,\"n\":1}}")), "{lines}");
            lines
                .lines()
                .filter(|_| arguments.last() != Some(&"chrome"))
                .for_each(|line| drop(serde_json::from_str::<Value>(line).unwrap()));
        }
        assert!(shown(&["export", "--to", "csv"]).contains(&format!(",{most},-5,1\r\n")));
        assert!(shown(&["export", "--to", "perfetto"]).contains(&most.to_string()));
        assert!(shown(&["formats"]).contains("hash: u128; size: 16\n    delta: i100; bits: 100\n"));
        assert!(shown(&["hist", "app:hash.delta", "--in"]).starts_with("2 values: "));
    }
    let refused = run(&["view", "--if", "hash > 5", "long"], here.path());
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("`hash` is an integer of more than 64 bits"), "{said}");
}

/// As LTTng has them, where all programs of a user share the buffers.
#[test]
fn names_of_threads_and_processes_may_stand_in_the_context() {
    let here = tempfile::tempdir().unwrap();
    let number = |name| field(name, FieldClass::signed(32));
    let context = vec![number("vpid"), number("vtid"), field("procname", FieldClass::Text { length: 8 })];
    let record = |pid: i32, tid: i32, name: &[u8; 8]| [&pid.to_le_bytes()[..], &tid.to_le_bytes(), name].concat();
    let events = [
        (0, 2000, record(7, 8, b"srv-io\0\0")),
        (0, 2001, record(9, 9, b"cli\0\0\0\0\0")),
        (0, 2002, record(7, 7, b"srv\0\0\0\0\0")),
    ];
    written_with(&here.path().join("a.ringtrace"), context, Vec::new(), &events);
    let stats = text(&run(&["top", "--by", "thread"], here.path()).stdout);
    assert!(["srv-io 8", "cli 9", "srv 7"].iter().all(|thread| stats.contains(thread)), "{stats}");
    let exported = text(&run(&["export", "--to", "chrome"], here.path()).stdout);
    let exported: Value = serde_json::from_str(&exported).unwrap();
    let names = |kind: &str| {
        let told = exported["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == kind);
        let mut names: Vec<_> =
            told.map(|event| format!("{} {} {}", event["pid"], event["tid"], event["args"]["name"])).collect();
        names.sort();
        names
    };
    assert_eq!(names("thread_name"), ["7 7 \"srv\"", "7 8 \"srv-io\"", "9 9 \"cli\""]);
    // The first event that tells a process's name is of another thread than the process's first event.
    assert_eq!(names("process_name"), ["7 7 \"srv\"", "9 9 \"cli\""]);
}

/// Of which babeltrace2 2.0.4 makes an internal error, and shows nothing of the trace.
#[test]
fn files_that_are_no_streams_are_passed_over() {
    let here = tempfile::tempdir().unwrap();
    recorded(here.path(), "a.ringtrace", 7);
    let stats = |here: &Path| text(&run(&["stats", "--json"], here).stdout);
    let before = stats(here.path());
    let trace = here.path().join("a.ringtrace");
    for (name, bytes) in
        [("README", &b"what this is"[..]), ("core", b"\x7fELF\x02\x01"), ("notes~", b"x"), (".metadata.swp", b"b0VIM")]
    {
        fs::write(trace.join(name), bytes).unwrap();
        let output = run(&["stats", "--json"], here.path());
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), before.clone()), "{told}");
        let line = format!("./a.ringtrace/{name}: no stream of this trace: it begins with no packet\\n  it is passed over");
        assert_eq!(told.contains(&line), !name.starts_with('.'), "{told}");
        assert_eq!(run(&["check"], here.path()).status.code(), Some(if name.starts_with('.') { 0 } else { 5 }));
        let _ = fs::remove_dir_all(here.path().join("new"));
        assert!(run(&["convert", "a.ringtrace", "-o", "new", "--format", "ctf2"], here.path()).status.success());
        assert!(!here.path().join("new").join(name).exists());
        fs::remove_file(trace.join(name)).unwrap();
    }
    // What was a stream is told as damage.
    for bytes in [&[0; 8][..], &[0xC1, 7, 7, 7, 7], &[0xC1]] {
        fs::write(trace.join("was_a_stream"), bytes).unwrap();
        let output = run(&["stats"], here.path());
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    }
}

#[test]
fn traces_without_a_clock_have_no_times_to_choose_by() {
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("a")).unwrap();
    let metadata = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\nstream { };\n\
        event { name = \"app:tick\"; fields := struct { integer { size = 8; align = 8; } n; }; };\n";
    fs::write(here.path().join("a/metadata"), metadata).unwrap();
    fs::write(here.path().join("a/stream"), [1, 2]).unwrap();
    let shown = run(&["view", "--columns", "time,n", "a"], here.path());
    assert_eq!(text(&shown.stdout), "-\t1\n-\t2\n");
    assert!(text(&run(&["stats", "a"], here.path()).stdout).contains("in 1 stream\n"));
    for times in [["--from", "+1s"], ["--until", "2026-01-31 14:05:09"]] {
        let refused = run(&[&["view", "a"], &times[..]].concat(), here.path());
        assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("no clock"), "{}", text(&refused.stderr));
    }
    let refused = run(&["view", "a/metadata"], here.path());
    assert!(text(&refused.stderr).contains("name the directory of the trace, not a file in it"), "{}", text(&refused.stderr));
}

#[test]
fn what_is_damaged_is_told_once() {
    let here = tempfile::tempdir().unwrap();
    recorded(here.path(), "a.ringtrace", 7);
    let streams = fs::read_dir(here.path().join("a.ringtrace")).unwrap().map(|entry| entry.unwrap().path());
    let stream = streams.filter(|path| path.is_file() && !path.ends_with("metadata")).min().unwrap();
    // The beginning of another packet.
    fs::write(&stream, [&fs::read(&stream).unwrap()[..], b"\xC1\x1F\xFC\xC1"].concat()).unwrap();
    for arguments in [&["report"][..], &["hist", "bytes", "--linear", "5"], &["stats"]] {
        let arguments: Vec<&str> = arguments.iter().map(|word| if *word == "bytes" { "*.bytes" } else { *word }).collect();
        let output = run(&arguments, here.path());
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(3) && told.matches("error: ").count() == 1, "{arguments:?}: {told}");
    }
}

#[test]
fn where_nothing_matches_it_is_said_what_could() {
    let here = tempfile::tempdir().unwrap();
    recorded(here.path(), "a.ringtrace", 7);
    let told = |arguments: &[&str]| text(&run(arguments, here.path()).stderr);
    let times =
        [["--from", "+999h"], ["--until", "2020-01-01 00:00:00"]].map(|times| told(&[&["view", "--utc"], &times[..]].concat()));
    for told in times {
        let (_, told) = told.split_once("no event lies between these times: they go from 2023-11-14 22:1").unwrap();
        assert!(told.contains(" to 2023-11-14 22:1") && told.contains("; +1s means a second after the first one\n"), "{told}");
    }
    assert!(
        told(&["stats", "--if", "path == \"none such\""]).contains("--if holds for no event: without it, `ringtrace hist EVENT")
    );
    assert!(!told(&["stats"]).contains("no event"));
    assert!(told(&["trim", "a.ringtrace", "-o", "a.ringtrace"]).contains("nothing is overwritten"));
    let written = text(&run(&["export", "--to", "csv", "-o", "a.csv", "--json"], here.path()).stdout);
    let written: Value = serde_json::from_str(&written).unwrap();
    assert!(written["output"] == "a.csv" && written["events"].as_u64() > Some(0) && written["losses"].is_object(), "{written}");
}

#[test]
fn a_pipe_gets_no_colors() {
    let here = tempfile::tempdir().unwrap();
    recorded(here.path(), "a.ringtrace", 7);
    let output = ringtrace().arg("view").env("TERM", "xterm").env_remove("NO_COLOR").current_dir(here.path()).output().unwrap();
    assert!(!output.stdout.is_empty());
    assert!(!text(&output.stdout).contains(|char: char| char.is_control() && char != '\n'));
}

#[test]
fn head_tail_and_names() {
    let here = tempfile::tempdir().unwrap();
    recorded(here.path(), "a.ringtrace", 7);
    let all = text(&run(&["view", "--utc"], here.path()).stdout);
    let lines: Vec<&str> = all.lines().collect();
    let shown = |arguments: &[&str]| text(&run(arguments, here.path()).stdout).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(shown(&["view", "--utc", "--head", "3"]), lines[..3]);
    assert_eq!(shown(&["view", "--utc", "--head", "0"]), [""; 0]);
    assert_eq!(shown(&["view", "--utc", "--tail", "2"]), lines[lines.len() - 2..]);
    assert_eq!(shown(&["view", "--utc", "--tail", "0"]), [""; 0]);
    let named = shown(&["view", "--utc", "--event", "app:event1*"]);
    assert_eq!(named.len(), lines.iter().filter(|line| line.contains("app:event1")).count());
    assert!(named.iter().all(|line| line.contains("app:event1")));
    assert_eq!(run(&["view", "--head", "1", "--tail", "1"], here.path()).status.code(), Some(2));
}

#[test]
fn json_lines() {
    let here = tempfile::tempdir().unwrap();
    let events = recorded(here.path(), "a.ringtrace", 9);
    let output = text(&run(&["view", "--json"], here.path()).stdout);
    let values: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len() as u64, events);
    let first = values.iter().find(|value| value["name"].as_str().unwrap().starts_with("app:event0")).unwrap();
    assert!(first["timestamp_ns"].is_i64() && first["payload"]["path"].is_string(), "{first}");
    assert!(first["payload"]["ok"].is_boolean() && first["payload"].get("_path_length").is_none(), "{first}");

    let formats = text(&run(&["formats", "--json"], here.path()).stdout);
    let values: Vec<Value> = formats.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 6);
    let fields = values[0]["fields"].as_array().unwrap();
    assert_eq!(fields.len(), 5);
    assert_eq!((&fields[0]["unit"], &fields[1]["type"]["kind"]), (&"B".into(), &"text".into()));
}

#[test]
fn formats_are_readable() {
    let here = tempfile::tempdir().unwrap();
    recorded(here.path(), "a.ringtrace", 9);
    let output = run(&["formats", "a.ringtrace"], here.path());
    let expected = "name: app:event0\"\\é\nID: 0\nstream class: 0\nlevel: EMERG\nsource: src/a b.rs:7 (app::<f>)\n\
                    context:\n    vtid: i32; size: 4\nfields:\n    bytes: u32; size: 4; unit: B\n    path: text, length u16\n";
    assert!(text(&output.stdout).starts_with(expected), "{}", text(&output.stdout));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_newest_recording_and_traces_below() {
    let here = tempfile::tempdir().unwrap();
    recorded(here.path(), "old.ringtrace", 3);
    let count = |arguments: &[&str]| text(&run(arguments, here.path()).stdout).lines().count() as u64;
    let newer = recorded(here.path(), "new.ringtrace/ust/process", 4);
    let time = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
    fs::File::open(here.path().join("new.ringtrace")).unwrap().set_modified(time).unwrap();
    assert_eq!(count(&["view"]), newer);
    let other = recorded(here.path(), "new.ringtrace/ust/archives/1/ust/uid/0/64-bit", 5);
    become_another(&here.path().join("new.ringtrace/ust/archives/1/ust/uid/0/64-bit"));
    assert_eq!(count(&["view", "new.ringtrace"]), newer + other);
    // What is of one trace is there once.
    recorded(here.path(), "new.ringtrace/copy", 4);
    assert_eq!(count(&["view", "new.ringtrace"]), newer + other);
}

/// Gives a trace another UUID, which sorts before the first one.
fn become_another(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let mut bytes = fs::read(entry.path()).unwrap();
        let (old, new) = if entry.file_name() == "metadata" {
            (&b"11223344-"[..], &b"01223344-"[..])
        } else {
            (&common::UUID[..4], &[1, 0x22, 0x33, 0x44][..])
        };
        let places: Vec<usize> = (0..bytes.len() - old.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
        places.iter().for_each(|&at| bytes[at..at + new.len()].copy_from_slice(new));
        fs::write(entry.path(), bytes).unwrap();
    }
}

#[test]
fn several_traces_are_merged_as_babeltrace2_does() {
    let here = tempfile::tempdir().unwrap();
    recorded(here.path(), "both/a", 21);
    recorded(here.path(), "both/b", 22);
    become_another(&here.path().join("both/b"));
    let theirs = Command::new("babeltrace2").args(["--clock-gmt", "both"]).current_dir(here.path()).output().unwrap();
    let ours = run(&["view", "--utc", "--babeltrace", "both"], here.path());
    assert_eq!(ours.status.code(), Some(0), "{}", text(&ours.stderr));
    assert!(!ours.stdout.is_empty() && ours.stdout == theirs.stdout, "{}", text(&theirs.stderr));
    // Lines for people tell whose they are, in the same order.
    let lines = text(&run(&["view", "--utc", "both"], here.path()).stdout);
    assert!(lines.lines().all(|line| line.contains("  [host \"q\":proc:42 cpu ")), "{lines}");
    let time = |line: &str| line.split(['[', ']', ' ']).find(|word| word.contains(':')).map(str::to_owned);
    assert!(lines.lines().map(time).eq(text(&theirs.stdout).lines().map(time)));
}

#[test]
fn what_cannot_be_read_says_where_and_what_to_do() {
    let here = tempfile::tempdir().unwrap();
    let failed = |arguments: &[&str], code: i32, phrases: &[&str]| {
        let output = run(arguments, here.path());
        let messages = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{messages}");
        phrases.iter().for_each(|phrase| assert!(messages.contains(phrase), "{phrase} in {messages}"));
    };
    failed(&["view"], 1, &["no directory *.ringtrace", "name the directory of a trace"]);
    failed(&["view", "nowhere"], 1, &["nowhere: ", "check that it exists"]);
    failed(&["view", "."], 1, &["no trace here", "`metadata`"]);
    failed(&["view", "--nonsense"], 2, &["--nonsense"]);
    fs::create_dir(here.path().join("bad")).unwrap();
    fs::write(here.path().join("bad/metadata"), "/* CTF 1.8 */\ntrace { major = 1; nonsense };\n").unwrap();
    failed(&["view", "bad"], 1, &["bad/metadata: line 2: ", "metadata is damaged"]);
    fs::write(here.path().join("bad/metadata"), "\u{1e}{\"type\":\"preamble\",\"version\":3}").unwrap();
    failed(&["formats", "bad"], 1, &["version 3 of the format is not supported", "babeltrace2"]);
}

#[test]
fn a_cut_trace_shows_what_is_whole() {
    let here = tempfile::tempdir().unwrap();
    let schema = sample();
    fs::write(here.path().join("metadata"), metadata::write(&schema)).unwrap();
    let mut stream = StreamWriter::new(0, 0, 1000);
    let mut random = Random::new(3);
    stream.packet(&schema, 5, &mut random);
    stream.packet(&schema, 5, &mut random);
    let end = stream.entries[1].offset as usize + 100;
    fs::write(here.path().join("chan_0"), &stream.file[..end]).unwrap();
    let output = run(&["view", "."], here.path());
    let messages = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{messages}");
    assert!(text(&output.stdout).lines().count() >= 5);
    assert!(messages.contains("chan_0: packet 2, byte ") && messages.contains("truncated"), "{messages}");
    assert!(messages.contains("1 damaged file"), "{messages}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let here = tempfile::tempdir().unwrap();
    write_trace(&here.path().join("a.ringtrace"), &sample(), 3, 500, 11);
    let mut child =
        ringtrace().args(["view"]).current_dir(here.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("error"));
}

#[test]
fn completions_and_manual_pages_know_every_verb() {
    let here = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&run(&["completions", shell], here.path()).stdout);
        assert!(script.contains("formats") && script.contains("babeltrace"), "{shell}: {script}");
    }
    let pages = here.path().join("man1");
    assert_eq!(run(&["man", "man1"], here.path()).status.code(), Some(0));
    assert!(fs::read_to_string(pages.join("ringtrace-view.1")).unwrap().contains("babeltrace"));
    assert_eq!(run(&["man", "/dev/null/man1"], here.path()).status.code(), Some(1));
}

#[test]
fn help_and_version() {
    let here = tempfile::tempdir().unwrap();
    let help = text(&run(&["--help"], here.path()).stdout);
    assert!(help.contains("Exit codes:") && help.contains("view") && help.contains("formats"), "{help}");
    let version = text(&run(&["--version"], here.path()).stdout);
    assert_eq!(version.trim(), concat!("ringtrace ", env!("CARGO_PKG_VERSION")));
}

/// A text that moves a terminal's cursor, colours it and sets its title.
const ESCAPES: &str = "a\x1b[2J\x1b]0;t\x07\u{9b}31m\r\u{7f}";

#[test]
fn no_control_character_of_a_trace_reaches_the_terminal() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let label = vec![Label { label: ESCAPES.into(), low: 1, high: 1 }];
    let fields = vec![
        Field { unit: Some(ESCAPES.into()), ..field("bytes", FieldClass::unsigned(8)) },
        field("path", FieldClass::String { length_bits: 16 }),
        field("reason", FieldClass::Enumeration { bits: 8, signed: false, labels: label }),
    ];
    let mut named = Schema::new(schema(vec![field("vtid", FieldClass::signed(32))], Vec::new()).trace.clone()).unwrap();
    let fields_of_names = vec![field("tid", FieldClass::signed(32)), field("name", FieldClass::String { length_bits: 16 })];
    for (id, name, fields) in [
        (0, format!("{ESCAPES}:work_begin"), fields.clone()),
        (1, format!("{ESCAPES}:work_end"), fields),
        (2, "ringtrace:thread_name".into(), fields_of_names),
    ] {
        named.add(EventClass { stream_id: 1, id, name, level: None, source: None, fields }).unwrap();
    }
    let text_of = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let payload = [&[7][..], &text_of(ESCAPES), &[1]].concat();
    let name = [&4242_i32.to_le_bytes()[..], &text_of(ESCAPES)].concat();
    let mut content = Vec::new();
    // The time goes back, which `check` reports.
    for (id, time, payload) in [(2, 1000, &name), (0, 3000, &payload), (1, 2000, &payload)] {
        EventHeader::Large.encode(id, time, 0, &mut content);
        content.extend(4242_i32.to_le_bytes());
        content.extend(payload);
    }
    let mut stream = StreamWriter::new(1, 2, 1000);
    stream.header.sequence = 1;
    stream.header.timestamp_end = 5000;
    stream.header.content_bits = (HEADER_LEN + content.len()) as u64 * 8;
    stream.header.packet_bits = stream.header.content_bits;
    stream.file.extend(stream.header.encode(&common::UUID));
    stream.file.extend(content);
    let trace = here.join("a.ringtrace");
    fs::create_dir_all(&trace).unwrap();
    fs::write(trace.join("metadata"), metadata::write(&named)).unwrap();
    fs::write(trace.join("chan_2"), &stream.file).unwrap();
    for command in [
        &["view"][..],
        &["view", "--columns", "time,event,bytes,path,reason"],
        &["formats"],
        &["stats"],
        &["top"],
        &["top", "--by", "thread"],
        &["hist", "*begin.path"],
        &["hist", "*begin.reason", "by", "path"],
        &["latency", "*begin", "*end"],
        &["latency", "*begin", "*end", "by", "reason"],
        &["tree"],
        &["diff", "a.ringtrace", "a.ringtrace"],
        &["check"],
        &["export", "--to", "jsonl"],
        &["export", "--to", "chrome"],
        &["view", "--event", "nothing"],
        &["view", "--if", "nothing == 1"],
    ] {
        for form in [&[][..], &["--json"]] {
            let output = run(&[command, form].concat(), here);
            for said in [text(&output.stdout), text(&output.stderr)] {
                let harmful = said.find(|c: char| c.is_control() && !matches!(c, '\n' | '\t'));
                assert_eq!(harmful, None, "{command:?}: {said:?}");
                let is_one = command.contains(&"chrome");
                assert!(
                    form.is_empty() || is_one || said.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()),
                    "{said}"
                );
            }
        }
    }
}
