//! Agents that mean harm, or are none: what they answer neither fills memory, nor holds up the command, nor reaches the terminal.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::{Place, is_program, text};
use serde_json::{Value, json};
use trace_control::protocol::{
    AggregateBucket, AggregateGroup, Aggregates, Aggregating, Changed, Diagnosis, Field, Finding, Firing, Firings, Hit, Hits,
    Listing, Module, Modules, Probe, Process, Receipt, SessionState, Snapshots, StateDump, Status, Tracepoint, TriggerState,
    Triggered, Verdict,
};

/// Every verb that talks to an agent.
const VERBS: [&[&str]; 24] = [
    &["ps"],
    &["list"],
    &["list", "--hits", "1ms"],
    &["status", "--over", "1ms"],
    &["why", "x"],
    &["doctor"],
    &["record", "x", "--for", "1ms"],
    &["record", "x", "--for", "1ms", "--external"],
    &["record", "x", "--for", "1ms", "--follow"],
    &["enable", "x"],
    &["disable", "x"],
    &["session", "create", "x"],
    &["session", "show"],
    &["session", "start", "x"],
    &["session", "stop", "x"],
    &["session", "destroy", "x"],
    &["config", "save", "file"],
    &["snapshot", "x"],
    &["trigger", "list"],
    &["trigger", "add", "-s", "x", "when x then stop"],
    &["watch", "--all", "--count", "1"],
    &["count", "x", "--for", "1ms", "--table"],
    &["module", "list"],
    &["module", "load", "x.so"],
];

/// What a hostile peer does when it has been asked.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// Answers without end.
    Endless,
    /// One byte now and then.
    Slow,
    /// Nothing.
    Silent,
    /// Another version of the protocol.
    Version,
    /// No JSON.
    Nonsense,
    /// JSON that is nested deeply.
    Deep,
    /// What was asked for, full of control characters.
    Escapes,
    /// What was asked for, with lines in it that look like others.
    Lines,
    /// Refusals that are.
    Refusals,
}

/// A text that moves a terminal's cursor, colours it and sets its title.
const ESCAPES: &str = "\x1b[2J\x1b]0;title\x07\u{9b}31m\r\u{7f}";

/// Another line, as the command might say it.
const FORGED: &str = "\nFORGED\n";

fn poisoned(value: Value, by: &str) -> Value {
    match value {
        Value::String(text) => format!("{by}{text}{by}").into(),
        Value::Array(values) => values.into_iter().map(|value| poisoned(value, by)).collect(),
        Value::Object(members) => {
            let is_word = |name: &str| matches!(name, "verdict" | "kind");
            members.into_iter().map(|(name, of)| if is_word(&name) { (name, of) } else { (name, poisoned(of, by)) }).collect()
        }
        other => other,
    }
}

/// An answer in which everything that can be said is said.
fn answer(verb: &str) -> Value {
    let some = || vec!["text".to_owned()];
    let process = || Process {
        pid: 1,
        program: "p".into(),
        command: some(),
        sessions: some(),
        directory: "/d".into(),
        ..Process::default()
    };
    let firing =
        || Firing { session: "s".into(), trigger: "t".into(), message: Some("m".into()), failures: some(), ..Firing::default() };
    let session = || SessionState {
        name: "s".into(),
        rules: some(),
        mode: "discard".into(),
        context: some(),
        header: "compact".into(),
        output: Some("/nowhere/o".into()),
        rings: Some("/nowhere/r/rings".into()),
        warnings: some(),
        failure: Some("f".into()),
        snapshots: Some(Snapshots { kept: 1, directory: "/nowhere/s".into() }),
        triggers: vec![TriggerState { name: "t".into(), trigger: "w".into(), last: Some(firing()), ..TriggerState::default() }],
        ..SessionState::default()
    };
    let value = match verb {
        "hello" => serde_json::to_value(process()),
        "list" => {
            let field = Field { name: "f".into(), class: "u64".into(), unit: "ns".into(), sensitive: true };
            let probe = Probe {
                name: "n".into(),
                level: "info".into(),
                location: "l".into(),
                records: true,
                fields: vec![field],
                skipped: some(),
                sessions: some(),
                panics: 1,
            };
            let tracepoint = Tracepoint {
                name: "n".into(),
                signature: "s".into(),
                location: "l".into(),
                probes: vec![probe],
                ..Tracepoint::default()
            };
            let dump = StateDump { name: "d".into(), location: "l".into(), sessions: some() };
            serde_json::to_value(Listing { tracepoints: vec![tracepoint], state_dumps: vec![dump] })
        }
        "status" => serde_json::to_value(Status { now_ns: 1, process: process(), sessions: vec![session()] }),
        "create" | "bind" | "start" | "stop" | "destroy" => serde_json::to_value(session()),
        "enable" | "disable" => serde_json::to_value(Changed { session: "s".into(), warnings: some(), ..Changed::default() }),
        "watch" => serde_json::to_value(Hits { ns: 1, hits: vec![Hit { name: "n".into(), count: 1, last_ns: Some(1) }] }),
        "why" | "doctor" => {
            let finding = Finding { about: "a".into(), verdict: Verdict::Bad, says: "s".into(), remedy: "r".into() };
            serde_json::to_value(Diagnosis { events: some(), findings: vec![finding] })
        }
        "snapshot" => {
            serde_json::to_value(Receipt { session: "s".into(), path: "/p".into(), reason: "r".into(), ..Receipt::default() })
        }
        "trigger" | "untrigger" => serde_json::to_value(Triggered { session: "s".into(), triggers: some(), warnings: some() }),
        "firings" => serde_json::to_value(Firings { last: 1, forgotten: 1, firings: vec![firing()] }),
        "modules" | "load-module" | "unload-module" => {
            let module = Module { name: "m".into(), version: "1".into(), path: "/p".into(), probes: some() };
            if verb == "modules" { serde_json::to_value(Modules { modules: vec![module] }) } else { serde_json::to_value(module) }
        }
        "aggregate" => serde_json::to_value(Aggregating { number: 0, warnings: some() }),
        "aggregates" => {
            let bucket = AggregateBucket { low: json!("low"), high: json!("high"), count: 1 };
            let group = AggregateGroup {
                event: "e".into(),
                keys: Some(vec![json!("k")]),
                count: 1,
                buckets: vec![bucket],
                ..AggregateGroup::default()
            };
            serde_json::to_value(Aggregates { field: Some("f".into()), by: some(), groups: vec![group], ..Aggregates::default() })
        }
        _ => Ok(Value::Null),
    };
    value.expect("JSON")
}

/// Answers the requests of one peer: as any agent does, until it is asked something else than `hello`, unless it begins with
/// that.
fn serve(stream: UnixStream, harm: Harm, at_once: bool) -> std::io::Result<()> {
    let lines = BufReader::new(stream.try_clone()?).lines();
    let mut stream = stream;
    for line in lines {
        let request: Value = serde_json::from_str(&line?)?;
        let (id, verb) = (request["id"].clone(), request["do"].as_str().unwrap_or_default().to_owned());
        if verb == "hello" && !at_once {
            writeln!(stream, "{}", json!({ "v": 1, "id": id, "ok": answer("hello") }))?;
            continue;
        }
        match harm {
            Harm::Endless => {
                stream.write_all(format!("{{\"v\":1,\"id\":{id},\"ok\":[\"").as_bytes())?;
                loop {
                    stream.write_all(&[b'x'; 1 << 16])?;
                }
            }
            Harm::Slow => loop {
                stream.write_all(b" ")?;
                std::thread::sleep(Duration::from_millis(50));
            },
            Harm::Silent => _ = stream.read(&mut [0; 1])?,
            Harm::Version => writeln!(stream, "{}", json!({ "v": 3, "id": id, "ok": {} }))?,
            Harm::Nonsense => stream.write_all(b"\x1b[2JSSH-2.0-OpenSSH_9.9\r\n")?,
            Harm::Deep => writeln!(stream, "{{\"v\":1,\"id\":{id},\"ok\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000))?,
            Harm::Escapes => writeln!(stream, "{}", json!({ "v": 1, "id": id, "ok": poisoned(answer(&verb), ESCAPES) }))?,
            Harm::Lines => writeln!(stream, "{}", json!({ "v": 1, "id": id, "ok": poisoned(answer(&verb), FORGED) }))?,
            Harm::Refusals => {
                writeln!(stream, "{}", json!({ "v": 1, "id": id, "error": { "kind": "other", "message": ESCAPES } }))?
            }
        }
    }
    Ok(())
}

/// Listens as a process image would; the process is this one.
fn listening(place: &Place, number: u32) -> UnixListener {
    let stat = fs::read_to_string("/proc/self/stat").expect("proc");
    let start = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)).expect("its start").to_owned();
    let directory = place.runtime().join(format!("{}-{start}-{number:08x}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&directory).expect("it is made");
    UnixListener::bind(directory.join("control")).expect("it listens")
}

fn hostile(place: &Place, number: u32, harm: Harm, at_once: bool) {
    let listener = listening(place, number);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The peer goes away.
            std::thread::spawn(move || serve(stream, harm, at_once));
        }
    });
}

/// Memory that the command may map, in KiB as `ulimit -v` takes it: 32 threads take most of it, but never use it.
const MEMORY: &str = "4000000";

/// Runs the command with little memory, and returns what it prints.
fn tried(place: &Place, arguments: &[&str], harm: Harm) -> (String, String) {
    let words = place.ringtrace(arguments);
    let mut command = place.command("timeout");
    command.args(["--signal=KILL", "100", "sh", "-c", "ulimit -v $0 && exec \"$@\"", MEMORY]);
    command.arg(words.get_program()).args(words.get_args()).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let code = output.status.code();
    assert!(code.is_some_and(|c| c < 100), "{harm:?} {arguments:?}: {}\n{out}\n{err}", output.status);
    for said in [&out, &err] {
        let harmful = said.find(|c: char| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(harmful, None, "{harm:?} {arguments:?}: {said:?}");
    }
    (out, err)
}

const GIVEN_UP: &str = "the process does not answer; is it stopped?";

/// Tries verbs against agents of their own.
fn try_all(harm: Harm, at_once: bool, verbs: &[&[&str]], phrases: &[&str]) {
    std::thread::scope(|scope| {
        for verb in verbs {
            scope.spawn(move || {
                let place = Place::new();
                hostile(&place, 1, harm, at_once);
                let (out, err) = tried(&place, verb, harm);
                let is_told = at_once || verb[0] != "ps";
                assert!(!is_told || phrases.iter().any(|phrase| err.contains(phrase)), "{harm:?} {verb:?}: {out}\n{err}");
                let json = [verb, &["--json"][..]].concat();
                let (out, _) = tried(&place, &json, harm);
                out.lines().for_each(|line| drop(serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"))));
            });
        }
    });
}

#[test]
fn control_characters_of_an_answer_do_not_reach_the_terminal() {
    for some in VERBS.chunks(6) {
        try_all(Harm::Escapes, true, some, &[""]);
        try_all(Harm::Escapes, false, some, &[""]);
    }
}

#[test]
fn no_name_begins_a_line_of_its_own() {
    let place = Place::new();
    hostile(&place, 1, Harm::Lines, true);
    for verb in [&["ps"][..], &["list"], &["status", "--over", "1ms"], &["session", "show"], &["doctor"], &["why", "x"]] {
        let (out, _) = tried(&place, verb, Harm::Lines);
        assert!(out.contains("FORGED") && !out.lines().any(|line| line.starts_with("FORGED")), "{verb:?}: {out}");
    }
}

#[test]
fn control_characters_of_a_refusal_do_not_reach_the_terminal() {
    for some in VERBS.chunks(6) {
        try_all(Harm::Refusals, false, some, &["\u{fffd}[2J"]);
    }
}

#[test]
fn nonsense_is_an_error_for_every_verb() {
    for some in VERBS.chunks(6) {
        for (harm, phrase) in [
            (Harm::Nonsense, "does not speak the control protocol"),
            (Harm::Deep, "the answer is not understood"),
            (Harm::Version, "the process speaks version 3 of the control protocol, and this ringtrace"),
        ] {
            try_all(harm, true, some, &[phrase]);
            try_all(harm, false, some, &[phrase]);
        }
    }
}

#[test]
fn an_answer_without_end_takes_little_memory() {
    for some in VERBS.chunks(4) {
        // On a slow machine patience ends first.
        try_all(Harm::Endless, false, some, &["the answer has more than 67108864 bytes", GIVEN_UP]);
    }
    try_all(Harm::Endless, true, &VERBS[..2], &["the answer has more than 1048576 bytes", GIVEN_UP]);
}

#[test]
fn a_slow_peer_is_given_up_by_every_verb() {
    try_all(Harm::Slow, true, &VERBS, &[GIVEN_UP]);
    // Those that wait for a session's end wait for a minute more; they are asked by the same function.
    let waits = |verb: &&&[&str]| !matches!(verb[..], ["session", "stop" | "destroy", ..] | ["record", ..] | ["watch", ..]);
    let others: Vec<&[&str]> = VERBS.iter().filter(waits).copied().collect();
    try_all(Harm::Slow, false, &others, &[GIVEN_UP]);
}

#[test]
fn many_that_do_not_answer_cost_their_time_once() {
    let place = Place::new();
    (0..40).for_each(|number| hostile(&place, number, if number % 2 == 0 { Harm::Slow } else { Harm::Silent }, true));
    hostile(&place, 99, Harm::Escapes, true);
    let (out, err) = tried(&place, &["ps"], Harm::Slow);
    assert_eq!(err.matches("does not answer").count(), 40, "{err}");
    assert!(out.contains("COMMAND") && out.lines().count() == 2, "{out}");
}

/// Gives this process mappings that have the names of secrets, for as long as it lives.
#[expect(unsafe_code, reason = "mmap(2)")]
fn have_secrets() {
    for number in 0..24 {
        let name = std::ffi::CString::new(format!("ringtrace-proof-{number:032x}")).expect("a name");
        // SAFETY: new mappings of new files, which nobody touches.
        unsafe {
            let file = OwnedFd::from_raw_fd(libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC));
            assert_eq!(libc::ftruncate(file.as_raw_fd(), 4096), 0);
            let mapped = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(mapped, libc::MAP_FAILED);
        }
    }
}

/// Wants a proof for everything, is content with none, and notes in a file what it was asked, before it says anything. `is_silent`:
/// when it gets one. `is_early`: its answers are to no request, as if they had been sent before.
fn refuse(mut stream: UnixStream, notes: &Path, is_silent: bool, is_early: bool) -> std::io::Result<()> {
    for line in BufReader::new(stream.try_clone()?).lines() {
        let request: Value = serde_json::from_str(&line?)?;
        writeln!(fs::File::options().append(true).create(true).open(notes)?, "{}", request["do"])?;
        let error = json!({ "kind": "unproven", "message": "not yet" });
        if !(is_silent && request["do"] == "prove") {
            let id = if is_early { Value::Null } else { request["id"].clone() };
            writeln!(stream, "{}", json!({ "v": 1, "id": id, "error": error }))?;
        }
    }
    Ok(())
}

#[test]
fn no_peer_has_the_command_try_secrets_without_end() {
    have_secrets();
    for (is_silent, is_early, most) in [(false, false, 4), (true, false, 1), (false, true, 0)] {
        let place = Place::new();
        let (listener, notes) = (listening(&place, 1), place.here().join("notes"));
        std::thread::spawn({
            let notes = notes.clone();
            move || listener.incoming().flatten().for_each(|stream| drop(refuse(stream, &notes, is_silent, is_early)))
        });
        let (_, said) = place.fail(&["list"]);
        assert!(said.contains(if is_silent { GIVEN_UP } else { "not yet" }), "{said}");
        let asked = fs::read_to_string(notes).expect("it was asked");
        assert_eq!(asked.matches("prove").count(), most, "{asked}");
    }
}

const RELAY: &str = "relay";

/// Answers in place of the process that listened, on the connection that is its standard input.
#[test]
fn relay() {
    if is_program(RELAY) {
        let stream = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from).expect("a connection");
        // The peer goes away.
        let _ = refuse(stream, Path::new("notes"), false, false);
    }
}

/// This process is the one that is to be looked into; another one, which may not, would show its secret to it.
#[test]
fn a_secret_is_shown_to_no_other_process_than_its_own() {
    have_secrets();
    let place = Place::new();
    let (listener, mut relay) = (listening(&place, 1), place.command(std::env::current_exe().expect("a path")));
    relay.args([RELAY, "--exact", "--nocapture"]).env("RINGTRACE_TEST_CHILD", RELAY).stdout(Stdio::null());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut child = relay.stdin(OwnedFd::from(stream)).spawn().expect("it starts");
            relay.stdin(Stdio::null());
            child.wait().expect("it ends");
        }
    });
    let (_, said) = place.fail(&["list"]);
    // Under load its start may take longer than the command waits.
    assert!(said.contains("not yet") || said.contains(GIVEN_UP), "{said}");
    let asked = fs::read_to_string(place.here().join("notes")).unwrap_or_default();
    assert_eq!(asked.matches("prove").count(), 0, "{asked}");
}
