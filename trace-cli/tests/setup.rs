//! Recording from the start, saved sessions, and why nothing is recorded.

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::{Place, Program, as_program, eventually, is_program, orders, text, this};
use ringtrace::{Key, Session, probe, tracepoint};
use trace_ctf::metadata::Format;
use traces::read_by_both;

#[tracepoint(record)]
fn counted(number: u64);

/// Nobody records it.
#[tracepoint]
fn unprobed(number: u64);

#[tracepoint(record)]
fn never(number: u64);

#[tracepoint]
fn fragile();

#[derive(ringtrace::Event)]
struct Broken {
    value: u64,
}

#[probe(fragile)]
fn record_fragile() -> Broken {
    panic!("as the test wants it")
}

#[tracepoint]
fn detailed(number: u64);

#[derive(ringtrace::Event)]
struct Detailed {
    number: u64,
}

#[probe(detailed, level = Debug)]
fn record_detailed(number: u64) -> Detailed {
    Detailed { number }
}

/// A traced function.
#[tracepoint]
fn worked(number: u64) -> u64 {
    number + 1
}

/// Its probe has another name.
#[tracepoint]
fn renamed();

#[probe(renamed, name = "setup:otherwise")]
fn record_renamed() -> Broken {
    Broken { value: 1 }
}

#[ringtrace::state_dump(name = "broken:state")]
fn broken_state(_: &ringtrace::StateDump<'_>) {
    panic!("as the test wants it")
}

const PROGRAM: &str = "program";

/// The program of these tests: each line fires the tracepoints once; `own` starts a session by the program's code; `keys REQUEST TENANT`
/// registers keys, and fires one with these values, of which `-` is none.
#[test]
fn program() {
    if !is_program(PROGRAM) {
        return;
    }
    ringtrace::init();
    let mut own = None;
    for (number, order) in (0_u64..).zip(orders()) {
        let words: Vec<&str> = order.split(' ').collect();
        match words[..] {
            ["keys", request, tenant] => {
                let request = Some(request).filter(|value| *value != "-").map(|value| value.parse().expect("a number"));
                let request = request.map(|value| (Key::register("request").expect("a key"), value));
                let tenant = Some(tenant).filter(|value| *value != "-");
                let tenant = tenant.map(|value| (Key::register_text("tenant").expect("a key"), value));
                let fire = || match tenant {
                    Some((key, value)) => key.scope(value, || counted(number)),
                    None => counted(number),
                };
                match request {
                    Some((key, value)) => key.scope(value, fire),
                    None => fire(),
                }
            }
            ["work"] => assert_eq!(worked(number), number + 1),
            ["own"] => own = Some(Session::builder("own").enable("counted").output("own").start().expect("a session")),
            _ => {
                counted(number);
                unprobed(number);
                fragile();
                detailed(number);
            }
        }
        println!("done");
    }
    drop(own);
    if number_of_arguments() == 0 {
        renamed();
        never(0); // so that it is used
    }
}

fn number_of_arguments() -> usize {
    std::env::args().count()
}

/// Runs the program by `ringtrace run`, with three events.
fn run(place: &Place, arguments: &[&str]) -> (i32, String) {
    let mut command = place.ringtrace(&["run"]);
    command.args(arguments).arg("--").arg(this());
    let mut child = as_program(&mut command, PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("its input").write_all(b"fire\nfire\nfire\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    (output.status.code().unwrap_or(-1), text(&output.stderr))
}

#[test]
fn run_records_a_program_from_its_start() {
    let place = Place::new();
    let (code, said) = run(&place, &["setup:counted", "-o", "a trace; its name", "--memory", "4M", "--overwrite"]);
    assert!(code == 0 && said.contains("3 events"), "{said}");
    let contents = read_by_both(&place.here().join("a trace; its name"));
    assert_eq!(contents.numbers("setup:counted", "number"), [0, 1, 2]);
    // The name is taken: as for a program that the first one starts.
    let (_, said) = run(&place, &["counted", "-o", "a trace; its name"]);
    let second = said.trim_end().rsplit("0 lost in ").next().expect("it says where").to_owned();
    assert!(second.contains("a trace; its name-"), "{said}");
    assert_eq!(read_by_both(second.as_ref()).events(), 3);

    // The rules of a file, and further parts behind it.
    std::fs::write(place.here().join("rules"), "# of a file\nsetup:*\n").expect("a file");
    let (code, said) = run(&place, &["@rules; overwrite", "!setup:fragile; !setup:detailed", "-o", "of a file"]);
    assert!(code == 0 && said.contains("3 events"), "{said}");
    // What is shown is what was written.
    let (_, said) = run(&place, &["setup:counted if (number > 1"]);
    assert!(said.contains("\n  setup:counted if (number > 1\n") && !said.contains("output"), "{said}");
    let (_, said) = run(&place, &["@rules", "counted level", "-m", "4M"]);
    assert!(said.contains("\n  counted level\n               ^\n"), "{said}");
    let (code, said) = run(&place, &["counted", "--print", "--context", "none"]);
    assert!(code == 0 && said.matches("setup:counted").count() == 3, "{said}");
    let (code, said) = run(&place, &["cuonted"]);
    assert!(code == 0 && said.contains("did you mean `setup:counted`?") && said.contains("recorded nothing"), "{said}");
    let everything = run(&place, &["-o", "everything"]).1;
    assert!(everything.contains("1 lost: ") || everything.contains("6 events"), "{everything}");
}

#[test]
fn run_passes_on_every_option_of_a_recording() {
    let place = Place::new();
    let trigger = "when counted if number == 1 then snapshot";
    let (code, said) = run(
        &place,
        &[
            "counted",
            "-o",
            "flight",
            "-m",
            "4M",
            "--overwrite",
            "--trigger",
            trigger,
            "--snapshot-on",
            "SIGUSR2,panic",
            "--sub-buffer",
            "64K",
        ],
    );
    assert!(code == 0 && said.contains(" 0 lost in ") && said.contains("/flight; 1 snapshot in "), "{said}");
    let names = || std::fs::read_dir(place.here()).expect("it").flatten().map(|entry| entry.path());
    assert!(names().any(|path| path.extension().is_some_and(|e| e == "snapshots")), "{said}");
    let (code, said) = run(&place, &["counted", "-o", "cut", "-m", "4M", "--rotate", "1h", "--quota", "1G", "--clock", "os"]);
    assert!(code == 0 && said.contains("3 events"), "{said}");
    assert_eq!(read_by_both(&place.here().join("cut/000001")).events(), 3);
    // What is no trigger would be a rule.
    let (code, said) = run(&place, &["counted", "--trigger", "setup:*"]);
    assert!(code == 1 && said.contains("`setup:*` is no trigger"), "{said}");
    // What cannot be read is told before the program starts.
    for wrong in [&["run", "x if"][..], &["run", "x", "--trigger", "when x then fly"], &["run", "memry 5"]] {
        let output = place.ringtrace(wrong).args(["--", "touch", "begun"]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", text(&output.stderr));
        assert!(!place.here().join("begun").exists(), "{wrong:?}");
    }
    let output = place.ringtrace(&["run", "--json", "--", "sh", "-c", "exit 7"]).output().expect("it starts");
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&line["program"], &line["code"], &line["trace"]), (&"sh".into(), &7.into(), &serde_json::Value::Null));
}

#[test]
fn run_ends_as_its_program_does() {
    let place = Place::new();
    for (program, code) in
        [(&["sh", "-c", "exit 7"][..], 7), (&["sh", "-c", "kill -TERM $$"], 143), (&["/nowhere"], 127), (&["/"], 126)]
    {
        let output = place.ringtrace(&["run", "--"]).args(program).output().expect("it starts");
        assert_eq!(output.status.code(), Some(code), "{program:?}: {}", text(&output.stderr));
    }
    // What kills the command reaches the program.
    let mut running = place.ringtrace(&["run", "--", "sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done"]);
    let mut running = running.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut up = [0; 3];
    std::io::Read::read_exact(running.stdout.as_mut().expect("its output"), &mut up).expect("it is up");
    let killed = Command::new("sh").args(["-c", &format!("kill -TERM {}", running.id())]).status().expect("sh");
    assert!(killed.success());
    assert_eq!(running.wait().expect("it ends").code(), Some(9));
}

#[test]
fn the_environment_is_read_once_and_its_mistakes_are_shown() {
    let place = Place::new();
    std::fs::write(place.here().join("rules"), "# nothing else\nsetup:counted\nmemory 2M; output trace\n").expect("a file");
    let mut program = Program::start_with(&place, PROGRAM, &[("RINGTRACE", "@rules")]);
    program.tell("fire");
    let state = &place.json(&["session", "show"])[0]["session"];
    assert!(state["memory"].as_u64().is_some_and(|bytes| bytes <= 2 << 20), "{state}");
    program.end();
    assert_eq!(read_by_both(&place.here().join("trace")).events(), 1);
    for (value, phrases) in [
        ("@nowhere", &["RINGTRACE: cannot read nowhere", "\n  @nowhere\n  ^\n", "nothing is recorded"][..]),
        ("counted; memory lots", &["`lots` is no size", "\n  counted; memory lots\n                  ^\n"]),
        ("overwrite; cuonted", &["did you mean `setup:counted`?", "\n  overwrite; cuonted\n             ^\n"]),
        ("unprobed", &["setup:unprobed is declared at", "no probe for it is linked"]),
        ("counted; memroy 4M", &["did you mean `memory`?", "\n  counted; memroy 4M\n           ^\n"]),
        ("counted; memory 4K", &["too small", "\n  counted; memory 4K\n           ^\n"]),
        ("counted; output /proc/x/y", &["/proc/x/y", "\n  counted; output /proc/x/y\n           ^\n"]),
        ("setup:counted; setup:count", &["no probe is called `setup:count`", "\n                 ^\n"]),
        ("counted; memory 4M; memory 8M", &["`memory` was given before", "\n                      ^\n"]),
        ("@rules; counted lvel info", &["found `lvel`", "\n  @rules; counted lvel info\n                  ^\n"]),
        ("counted lvel info", &["found `lvel`", "\n  counted lvel info\n          ^\n"]),
    ] {
        let mut command = place.command(this());
        let command = as_program(&mut command, PROGRAM).env("RINGTRACE", value).stdin(Stdio::null());
        let output = command.output().expect("it starts");
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        phrases.iter().for_each(|phrase| assert!(said.contains(phrase), "{value}: {said}"));
    }
}

/// Keys are registered after `init()`, and by programs that run already.
#[test]
fn what_names_a_key_begins_when_the_program_registers_it() {
    let place = Place::new();
    let start = |value: &str| {
        let mut command = place.command(std::env::current_exe().expect("the test binary has a path"));
        command.env("RINGTRACE", value).stderr(std::fs::File::create(place.here().join("said")).expect("a file"));
        let program = Program::spawn(command, PROGRAM);
        eventually("the agent listens", || place.json(&["ps"]).len() == 1);
        program
    };
    let said = || std::fs::read_to_string(place.here().join("said")).expect("it");
    let shown = |arguments: &[&str]| text(&place.run(arguments).stdout);

    // A rule alone waits, for all keys that it names.
    let mut program = start("detailed; counted if $ctx.request == 7 && $ctx.tenant ~ \"a*\"; output rule");
    assert_eq!(said().matches("records nothing until the program registers the key `request`").count(), 1, "{}", said());
    program.tell("fire");
    for verb in [&["why", "setup:counted", "--for", "10ms"][..], &["doctor"]] {
        let found = shown(verb);
        assert!(found.contains("registers the key `request`") && !found.contains("matches no probe"), "{found}");
    }
    program.tell("keys 7 -");
    let found = shown(&["why", "setup:counted", "--for", "10ms"]);
    assert!(found.contains("registers the key `tenant`"), "{found}");
    program.tell("keys 7 acme");
    program.tell("keys 8 acme");
    program.tell("keys 7 other");
    let found = shown(&["doctor"]);
    assert!(found.contains("records since the program registered the key `tenant`") && !found.contains("until"), "{found}");
    program.end();
    let contents = read_by_both(&place.here().join("rule"));
    assert_eq!(contents.numbers("setup:counted", "number"), [2]);
    assert_eq!(contents.numbers("setup:detailed", "number"), [0]);

    // What all records carry, the session waits for.
    let mut program = start("counted; context vtid,tenant; output record");
    assert_eq!(said().matches("nothing is recorded until the program registers the key `tenant`").count(), 1, "{}", said());
    program.tell("fire");
    for verb in [&["why", "setup:counted", "--for", "10ms"][..], &["doctor"]] {
        let found = shown(verb);
        assert!(found.contains("its session begins when the program registers the key `tenant`"), "{found}");
    }
    program.tell("keys - acme");
    program.tell("fire");
    program.end();
    let lines = read_by_both(&place.here().join("record")).lines;
    let is_told = lines.len() == 2 && lines[0].contains("tenant = \"acme\"") && lines[1].contains("tenant = \"\"");
    assert!(is_told, "{lines:?}");

    // So it does for what a trigger needs.
    let mut program = start("counted; overwrite; output flight; when counted if $ctx.request == 7 then snapshot");
    program.tell("fire");
    program.tell("keys 7 -");
    let is_saved = |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "snapshots");
    eventually("a snapshot", || place.here().read_dir().expect("it").flatten().any(|entry| is_saved(&entry)));
    program.end();

    // From outside, while it runs. What does not fit is told when it is known.
    let mut program = start("");
    let rules = "counted if $ctx.request == 7; detailed if $ctx.tenant > 5";
    let created = place.run(&["session", "create", "late", "-r", rules, "-o", "late"]);
    let warned = text(&created.stderr);
    assert!(created.status.success() && warned.contains("until the program registers the key `request`"), "{warned}");
    program.tell("keys 7 acme");
    let found = shown(&["doctor"]);
    assert!(found.contains("setup:detailed is not recorded by `detailed if $ctx.tenant > 5`"), "{found}");
    let warned = text(&place.run(&["enable", "-s", "late", "setup:otherwise if $ctx.requst == 7"]).stderr);
    assert!(warned.contains("did you mean `request`?"), "{warned}");
    place.succeed(&["session", "destroy", "late"]);
    program.end();
    assert_eq!(read_by_both(&place.here().join("late")).numbers("setup:counted", "number"), [0]);
}

#[test]
fn off_means_off() {
    let place = Place::new();
    let program = Program::start_with(&place, PROGRAM, &[("RINGTRACE", "off")]);
    let (code, message) = place.fail(&["status", "-p", &program.pid().to_string()]);
    assert!(code == 4 && message.contains("was started with RINGTRACE=off"), "{message}");
    assert!(std::fs::read_dir(place.runtime()).expect("it").next().is_none());
    // And one that has no ringtrace at all.
    let (code, message) = place.fail(&["status", "-p", &std::process::id().to_string()]);
    assert!(code == 4 && message.contains("does not call ringtrace::init()"), "{message}");
}

#[test]
fn sessions_are_saved_and_made_again() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let options =
        ["-m", "6M", "--overwrite", "--context", "vtid,cpu", "--clock", "os", "--sub-buffer", "16K", "--format", "ctf2"];
    let (_, message) = place.fail(&["config", "save", "sessions.toml"]);
    assert!(message.contains("no session to save"), "{message}");
    let (_, message) = place.fail(&["enable", "\u{1b}[2Jx"]);
    assert!(message.contains("\u{fffd}[2Jx") && !message.contains('\u{1b}'), "{message}");
    place.succeed(&[&["session", "create", "saved", "-r", "setup:*; !setup:fragile", "-o", "first"][..], &options].concat());
    place.succeed(&["config", "save", "sessions.toml"]);
    place.succeed(&["session", "destroy", "saved"]);
    place.succeed(&["config", "load", "sessions.toml"]);
    program.tell("fire");
    let before = place.json(&["session", "show", "saved"])[0]["session"]["plan"].clone();
    assert_eq!((&before["memory"], &before["sub_buffer"]), (&(6 << 20).into(), &(16 << 10).into()));
    assert_eq!((&before["clock"], &before["context"]), (&"os".into(), &serde_json::json!(["vtid", "cpu"])));
    assert_eq!((&before["overwrite"], &before["rules"]), (&true.into(), &serde_json::json!(["setup:*", "!setup:fragile"])));
    let snapshot = place.json(&["snapshot", "saved"])[0]["snapshot"]["path"].as_str().map(std::path::PathBuf::from);
    place.succeed(&["session", "destroy", "saved"]);
    program.end();
    let is_saved = |path: &std::path::PathBuf| path.to_string_lossy().contains("/saved-");
    let trace = std::fs::read_dir(place.here()).expect("it").flatten().map(|e| e.path()).find(is_saved).expect("a trace");
    for trace in [&trace, &snapshot.expect("a path")] {
        assert_eq!(format(trace), Format::Ctf2);
    }
    // What reads no CTF 2 reads it as CTF 1.8.
    place.succeed(&["convert", trace.to_str().expect("text"), "-o", "older", "--format", "ctf1.8"]);
    assert_eq!(read_by_both(&place.here().join("older")).events(), 2);

    let _program = Program::start(&place, PROGRAM);
    for (content, phrase) in [
        ("[[session]]\nname = 'a'\nmemroy = 5\n", "memroy"),
        ("[[session]]\nname = 'a'\nmemory = 'lots'\n", "session a: `lots` is no size"),
        ("[[session]]\nname = 'a'\nformat = 'xml'\n", "no format is called `xml`; there are ctf1.8, ctf2"),
        ("", "no [[session]] in it"),
    ] {
        std::fs::write(place.here().join("wrong.toml"), content).expect("a file");
        let (code, message) = place.fail(&["config", "load", "wrong.toml"]);
        assert!(code == 1 && message.contains(phrase) && (content.is_empty() || message.contains("a")), "{message}");
    }
    // All or none.
    let sessions = "[[session]]\nname = 'good'\nrules = ['*']\n[[session]]\nname = 'bad'\nrules = ['* if (']\n";
    std::fs::write(place.here().join("half.toml"), sessions).expect("a file");
    let (code, message) = place.fail(&["config", "load", "half.toml"]);
    assert!(code == 1 && message.contains("session good was begun and is ended again"), "{message}");
    assert!(!place.succeed(&["status"]).contains("good"));
}

/// The form of a trace's metadata.
fn format(trace: &std::path::Path) -> Format {
    trace_ctf::reader::Trace::open(trace).expect("a trace").format()
}

/// What a session found questionable while it recorded is told at its end.
#[test]
fn a_recording_tells_of_a_broken_state_dump() {
    let place = Place::new();
    let _program = Program::start(&place, PROGRAM);
    for (trace, more) in [("inside", &[][..]), ("outside", &["--external"])] {
        let mut round = 0;
        eventually("the dump has run before the recording ended", || {
            round += 1;
            let trace = format!("{trace}-{round}");
            let output = place.run(&[&["record", "broken:state", "--for", "50ms", "-o", &trace][..], more].concat());
            let said = text(&output.stderr);
            assert!(output.status.success() && !said.contains("takes no probe"), "{said}");
            said.contains("the state dump broken:state panicked")
        });
    }
}

#[test]
fn a_level_that_no_probe_has_is_told_wherever_rules_are_given() {
    let place = Place::new();
    let _program = Program::start(&place, PROGRAM);
    let rule = "counted level crit";
    for command in [
        &["session", "create", "few", "-r", rule, "-o", "few"][..],
        &["session", "create", "more", "-r", "never", "-o", "more"],
        &["enable", rule, "-s", "more"],
        &["record", rule, "--for", "10ms", "-o", "recorded"],
    ] {
        let said = text(&place.run(command).stderr);
        let told = said.matches("takes no probe").count();
        assert_eq!(told, usize::from(command.contains(&rule)), "{command:?}: {said}");
        assert!(told == 0 || said.contains("setup:counted, has level info"), "{command:?}: {said}");
    }
}

#[test]
fn every_way_to_record_takes_a_format() {
    let place = Place::new();
    let of = |trace: &str| (format(&place.here().join(trace)), place.succeed(&["view", trace, "--json"]).lines().count());
    // With an event to end it: a recording of the command itself.
    for (trace, more) in [("inside", &[][..]), ("outside", &["--external"])] {
        let mut program = Program::start(&place, PROGRAM);
        let arguments = [&["record", "counted", "--format", "ctf2", "-o", trace][..], more].concat();
        let recording = place.ringtrace(&arguments).stdout(Stdio::null()).spawn().expect("it starts");
        eventually("it records", || place.json(&["session", "show"]).iter().any(|shown| shown["session"]["recording"] == true));
        // An external consumer has begun when its trace is there.
        eventually("its trace is there", || place.here().join(trace).join("metadata").exists());
        program.tell("fire");
        program.end();
        assert!(recording.wait_with_output().expect("it ends").status.success());
        assert_eq!((format(&place.here().join(trace)), of(trace).1 > 0), (Format::Ctf2, true), "{trace}");
    }
    let begun = |environment: &str| {
        let mut program = Program::start_with(&place, PROGRAM, &[("RINGTRACE", environment)]);
        program.tell("fire");
        program.end();
    };
    begun("counted; format ctf2; output new");
    begun("counted; format ctf1.8; output old");
    assert_eq!((of("new"), of("old").0), ((Format::Ctf2, of("old").1), Format::Ctf18));
    let mut run = place.ringtrace(&["run", "counted", "--format", "ctf2", "-o", "run", "--"]);
    run.arg(this());
    let mut child = as_program(&mut run, PROGRAM).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    child.stdin.take().expect("its input").write_all(b"fire\n").expect("it reads");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(of("run").0, Format::Ctf2);
    let wrong = place.run(&["record", "counted", "--format", "xml"]);
    assert!(wrong.status.code() == Some(2) && text(&wrong.stderr).contains("ctf1.8, ctf2"), "{}", text(&wrong.stderr));
}

#[test]
fn why_names_what_is_missing() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let why = |event: &str, code: i32| {
        let output = place.run(&["why", event, "--for", "10ms"]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{said}{}", text(&output.stderr));
        said
    };
    let has =
        |said: String, phrases: &[&str]| phrases.iter().for_each(|phrase| assert!(said.contains(phrase), "{phrase} in {said}"));
    has(why("counted", 5), &["there is no session", "ringtrace record 'setup:counted'", "did not make an event within"]);
    has(why("unprobed", 5), &["setup:unprobed is declared at", "no probe for it is linked", "use storage_probes as _;"]);
    has(why("renamed", 5), &["setup:renamed is declared at", "names of their own: setup:otherwise", "why 'setup:otherwise'"]);
    let (_, message) = place.fail(&["enable", "setup:renamed"]);
    assert!(message.contains("did you mean `setup:otherwise`?"), "{message}");
    has(why("cuonted", 5), &["is called `cuonted`", "did you mean `setup:counted`?", "use the_crate as _;"]);
    has(why("setup:*", 5), &["matches 7 events", "setup:never"]);
    place.succeed(&["session", "create", "-r", "setup:* level info; !counted", "-o", "trace"]);
    has(why("counted", 5), &["the rule `!counted` leaves it out", "ringtrace enable -s default 'setup:counted'"]);
    has(why("detailed", 5), &["its level debug is less severe", "'setup:* level debug'"]);
    has(why("never", 5), &["the rule `setup:* level info` takes it", "did not make an event within"]);
    program.tell("fire");
    // What is not hit while somebody looks is found in the trace, which is written once a second.
    place.succeed(&["session", "create", "second", "-r", "setup:counted", "-o", "second"]);
    (0..3).for_each(|_| drop(program.tell("fire")));
    eventually("its trace has them", || {
        let output = place.run(&["why", "counted", "--for", "1ms"]);
        let said = text(&output.stdout);
        said.contains("session second: 3 of it are in its trace so far, the last of ")
    });
    place.succeed(&["session", "destroy", "second"]);
    eventually("the probe that panicked is detached", || {
        text(&place.run(&["why", "fragile", "--for", "1ms"]).stdout).contains("setup:fragile panicked, and is detached")
    });
    place.succeed(&["session", "stop"]);
    has(why("never", 5), &["the session is stopped", "ringtrace session start default"]);
    place.succeed(&["session", "start"]);
    place.succeed(&["enable", "counted"]);
    let mut looking = place.ringtrace(&["why", "counted", "--for", "2s"]);
    let looking = looking.stdout(Stdio::piped()).spawn().expect("it starts");
    eventually("it looks", || {
        program.tell("fire");
        // Whoever looks makes the probe of an event run that no session wants.
        looking_ended(&looking) || place.json(&["list", "counted"])[0]["tracepoint"]["on"] == true
    });
    (0..200).for_each(|_| {
        program.tell("fire");
        std::thread::sleep(std::time::Duration::from_millis(10));
    });
    let output = looking.wait_with_output().expect("it ends");
    has(text(&output.stdout), &["the rule `counted` takes it", "events within 2.0 s, the last"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

fn looking_ended(child: &std::process::Child) -> bool {
    !std::path::Path::new(&format!("/proc/{}/fd", child.id())).exists()
}

/// A function's name is a rule that takes all its events, so it is asked about as one thing, too.
#[test]
fn why_takes_the_name_of_a_function_as_a_rule_does() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let why = |name: &str, code: i32| {
        let output = place.run(&["why", name, "--for", "1ms"]);
        assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    let said = why("setup:worked", 5);
    for phrase in ["function: setup:worked is traced, at ", "its events are setup:worked::entry, setup:worked::exit"] {
        assert!(said.contains(phrase), "{phrase} in {said}");
    }
    assert!(said.contains("ringtrace record 'setup:worked'") && said.contains("no setup:worked::exit within"), "{said}");
    place.succeed(&["session", "create", "all", "-r", "setup:worked", "-o", "all"]);
    program.tell("work");
    eventually("its trace has both", || {
        let said = text(&place.run(&["why", "worked", "--for", "1ms"]).stdout);
        ["1 of setup:worked::entry are in its trace", "1 of setup:worked::exit are"].iter().all(|phrase| said.contains(phrase))
    });
    assert_eq!(why("*p:worked", 0), why("setup:worked", 0), "a pattern of one function is its name");
    let said = why("worked", 0);
    assert_eq!((said.matches("the rule `setup:worked` takes it").count(), said.matches("BAD").count()), (1, 0), "{said}");
    place.succeed(&["disable", "-s", "all", "worked::exit"]);
    let said = why("worked", 5);
    assert!(said.contains("the rule `!worked::exit` leaves it out"), "{said}");
    program.end();
}

#[test]
fn the_doctor_sees_what_is_wrong() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let output = place.run(&["doctor"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for phrase in
        ["7, with 7 probes", "1 without a probe", "setup:unprobed (", "use setup_probes as _;", "clock: ", "sessions: none"]
    {
        assert!(said.contains(phrase), "{phrase} in {said}");
    }
    place.succeed(&["session", "create", "over", "-r", "setup:never for 1ms", "-o", "over"]);
    eventually("its time is over", || text(&place.run(&["why", "setup:never"]).stdout).contains("session over: it has no rules"));
    let output = place.run(&["doctor"]);
    let said = text(&output.stdout);
    assert!(output.status.code() == Some(0) && said.contains("session over: it has no rules, or their time"), "{said}");
    place.succeed(&["session", "create", "empty", "-r", "other:*", "-o", "empty"]);
    place.succeed(&["session", "create", "all", "-r", "setup:*", "-o", "all"]);
    program.tell("fire");
    eventually("the panic is seen", || text(&place.run(&["doctor"]).stdout).contains("panicked and is detached"));
    let output = place.run(&["doctor"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{said}");
    for phrase in ["session empty: its rules match no probe", "session empty: `other:*` matches no probe", "session all: records"]
    {
        assert!(said.contains(phrase), "{phrase} in {said}");
    }
    // A session that the program's own code holds can be looked at and stopped, and is not taken away.
    program.tell("own");
    let (code, message) = place.fail(&["session", "destroy", "own"]);
    assert!(code == 1 && message.contains("belongs to the program's own code"), "{message}");
    place.succeed(&["session", "stop", "own"]);
    program.end();
}
