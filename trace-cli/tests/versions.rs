//! A process with two versions of ringtrace, each of which has tracepoints and an agent of its own: the command addresses both.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;
#[path = "../../tests/common/versions.rs"]
mod versions;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Place, Program, eventually, text};
use traces::read_by_both;

/// The program, which fires both events as often as it is told, with both agents listening.
fn start(place: &Place) -> Program {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).canonicalize().expect("a path");
    // The same as of the test of the linkers.
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("link-matrix/versions");
    let workspace = versions::workspace(&root, &dir);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet"]).current_dir(workspace).env("CARGO_TARGET_DIR", traces::nested_target()).env("RUSTFLAGS", "");
    assert!(cargo.status().expect("cargo runs").success());
    let program = Program::spawn(place.command(traces::nested_target().join("debug/both")), "live");
    eventually("both agents listen", || place.json(&["ps"]).len() == 2);
    program
}

/// Records while the program fires 100 of each. Returns what the command said.
fn record(place: &Place, program: &mut Program, arguments: &[&str], sessions: usize) -> String {
    let pid = program.pid().to_string();
    let mut command = place.ringtrace(&[&["record", "-p", &pid, "-o", "trace", "--memory", "1M"], arguments].concat());
    let recording = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let is_recording = |line: &serde_json::Value| line["session"]["recording"] == true;
    eventually("it records", || place.json(&["status", "--over", "1ms"]).iter().filter(|l| is_recording(l)).count() == sessions);
    program.tell("100");
    // SAFETY: a process of ours that has not been waited for.
    #[expect(unsafe_code, reason = "kill(2)")]
    unsafe {
        libc::kill(recording.id() as i32, libc::SIGINT)
    };
    let output = recording.wait_with_output().expect("it ends");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn both_versions_in_a_process_are_addressed() {
    let place = Place::new();
    let mut program = start(&place);
    let pid = program.pid().to_string();
    let trace = |name: &str| read_by_both(&place.here().join("trace").join(name));

    let shown = place.json(&["ps"]);
    let mut copies: Vec<_> = shown.iter().map(|line| line["copy"].as_str().expect("one of two")).collect();
    copies.sort_unstable();
    assert_eq!(copies, ["0.1.0", "0.2.0"]);
    assert!(shown.iter().all(|line| line["process"]["pid"] == program.pid()), "{shown:?}");
    let table = place.succeed(&["ps"]);
    assert!(table.contains("RINGTRACE") && table.contains("0.1.0") && table.contains("0.2.0"), "{table}");
    let said = text(&place.run(&["ps"]).stderr);
    assert!(said.contains(&format!("-p {pid} means all of them, -p {pid}@0.1.0 only that one")), "{said}");

    // A rule for each, one for both, and one that excludes what only one of them has.
    for rules in [&["older:fired; newer:fired"][..], &["*"], &[], &["*; !newer:nothing*"]] {
        let said = record(&place, &mut program, rules, 2);
        for (version, event, first) in [("0.1.0", "older:fired", 0), ("0.2.0", "newer:fired", 1000)] {
            let name = format!("both-{pid}-{version}");
            assert!(said.contains(&format!("both ({pid}, ringtrace {version}): 100 events")) && said.contains(&name), "{said}");
            assert!(trace(&name).numbers(event, "id").into_iter().eq(first..first + 100), "{rules:?}");
        }
        std::fs::remove_dir_all(place.here().join("trace")).expect("it goes");
    }
    // One of them.
    for rules in ["newer:*", "newer:fired; !older:fired"] {
        record(&place, &mut program, &[rules], 1);
        assert!(trace("").numbers("newer:fired", "id").into_iter().eq(1000..1100), "{rules}");
        std::fs::remove_dir_all(place.here().join("trace")).expect("it goes");
    }
    // What none of them has: each says so, since only one may have what is meant.
    for rule in ["nobody:fired", "older:fired; nobody:fired"] {
        let (code, said) = place.fail(&["record", "-p", &pid, rule, "-o", "trace"]);
        assert!(code == 1 && said.matches("no probe is called `nobody:fired`").count() == 2, "{said}");
        let _ = std::fs::remove_dir_all(place.here().join("trace"));
    }
    // One has it, and refuses it.
    let refused = "older:fired if nothing > 1";
    for arguments in
        [&["record", "-o", "trace", refused][..], &["enable", refused], &["enable", &format!("{refused}; newer:fired")]]
    {
        let (code, said) = place.fail(arguments);
        assert!([1, 3].contains(&code) && said.contains("no field is called `nothing`"), "{arguments:?}: {said}");
        let _ = std::fs::remove_dir_all(place.here().join("trace"));
    }
    place.succeed(&["session", "destroy"]);

    // Other verbs; without -p, it is the only process.
    assert!(place.succeed(&["list", "newer:fired"]).contains("newer:fired"));
    let (_, said) = place.fail(&["list", "nobody:fired"]);
    assert!(said.contains("nobody:fired"), "{said}");
    let said = place.succeed(&["session", "create", "both", "-r", "older:fired", "-r", "newer:fired", "-o", "trace"]);
    assert_eq!(said.matches("1 probe matched").count(), 2, "{said}");
    place.succeed(&["disable", "newer:fired", "-s", "both"]);
    program.tell("10");
    let said = place.succeed(&["session", "destroy", "both"]);
    assert!(said.contains("0.1.0): session both destroyed, 10 events"), "{said}");
    assert!(said.contains("0.2.0): session both destroyed, 0 events"), "{said}");
    place.succeed(&["enable", "newer:fired"]);
    let said = place.succeed(&["session", "destroy"]);
    assert!(said.contains("0.2.0): session default destroyed") && !said.contains("0.1.0"), "{said}");
    let figures = &place.json(&["count", "older:fired", "--for", "1ms"])[0];
    assert_eq!(figures["pid"].to_string(), pid);
    let (_, said) = place.fail(&["count", "older:fired.nothing", "--for", "1ms"]);
    assert!(said.contains("no field is called `nothing`"), "{said}");
    let said = text(&place.run(&["why", "older:fired", "--for", "1ms"]).stdout);
    assert!(said.contains("ringtrace 0.1.0") && !said.contains("0.2.0"), "{said}");
    // A file of sessions.
    let rules = ["older:fired; newer:fired", "newer:fired"]
        .map(|rules| format!("[[session]]\nname = \"{}\"\nrules = [\"{rules}\"]\n", &rules[..5]));
    std::fs::write(place.here().join("sessions.toml"), rules.concat()).expect("a file");
    let said = place.succeed(&["config", "load", "sessions.toml"]);
    assert_eq!(said.matches("1 probe matched").count(), 3, "{said}");
    place.succeed(&["trigger", "add", "when older:fired then notify as only", "-s", "older"]);
    place.succeed(&["trigger", "remove", "only", "-s", "older"]);
    assert_eq!(place.succeed(&["session", "destroy", "older"]).lines().count(), 2);
    assert_eq!(place.succeed(&["session", "destroy", "newer"]).lines().count(), 1);
    // One is chosen.
    let one = format!("{pid}@0.2.0");
    assert_eq!(place.json(&["ps", "-p", &one])[0]["copy"], "0.2.0");
    let (_, said) = place.fail(&["list", "-p", &format!("{pid}@0.3.0")]);
    assert!(said.contains(&format!("choose -p {pid}@0.1.0 or -p {one}")), "{said}");
    let (code, said) = place.fail(&["watch", "-p", &pid]);
    assert!(code == 4 && said.contains(&one), "{said}");
    program.end();
}
