//! What outlives more than the process: rings in a directory on disk.

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Place, Program, eventually, is_program, orders, text};
use ringtrace::{Session, tracepoint};
use traces::read_by_both;

#[tracepoint(record)]
fn counted(number: u64);

const PROGRAM: &str = "program";

/// `count N` fires N events, the numbers going on from before; `own DIR` starts a session with its rings there.
#[test]
fn program() {
    if !is_program(PROGRAM) {
        return;
    }
    ringtrace::init();
    let (mut next, mut own) = (0, None);
    for order in orders() {
        match order.split_once(' ') {
            Some(("count", count)) => {
                let end = next + count.parse::<u64>().expect("a number");
                (next..end).for_each(counted);
                next = end;
            }
            Some(("own", directory)) => {
                own = Some(Session::builder("own").enable("counted").overwrite().rings(directory).output("own").start());
            }
            _ => panic!("{order}: no order"),
        }
        println!("done");
    }
    own.map(|session| session.expect("a session"));
}

/// A directory that is not in memory, unless everything here is.
fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Has `program` as the first process of a PID namespace. `None`: that is not allowed here.
fn contained(place: &Place, program: &Command) -> Option<Command> {
    let isolate = ["--pid", "--mount", "--fork", "--mount-proc", "--kill-child"];
    let allowed = Command::new("unshare").args(isolate).arg("true").stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: unshare(1) is not allowed to make namespaces");
        return None;
    }
    let mut command = place.command("unshare");
    command.args(isolate).arg("--").arg(program.get_program()).args(program.get_args());
    Some(command)
}

#[test]
fn rings_on_disk_outlive_the_container_and_its_run_time_directory() {
    let (first, second, disk) = (Place::new(), Place::new(), disk());
    let volume = shown(disk.path());
    let own = std::env::current_exe().expect("a path");
    let Some(command) = contained(&first, &Command::new(&own)) else { return };
    let mut program = Program::spawn(command, PROGRAM);
    eventually("the agent answers", || !first.json(&["ps"]).is_empty());
    let trace = disk.path().join("trace");
    let create = ["session", "create", "all", "-r", "counted", "--overwrite", "--rings", volume, "-o", shown(&trace)];
    first.succeed(&create);
    program.tell("count 1000");

    // Seen from another container, where a process has the same number: it is in use.
    let inside = |arguments: &[&str]| {
        let mut ringtrace = Command::new(env!("CARGO_BIN_EXE_ringtrace"));
        ringtrace.args(arguments);
        contained(&second, &ringtrace).expect("as before").output().expect("it starts")
    };
    let refused = inside(&["recover", volume]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("another container"), "{}", text(&refused.stderr));

    drop(program); // kills unshare, and with it the namespace
    std::fs::remove_dir_all(first.runtime()).expect("the container's memory is gone");
    eventually("the kernel has closed its files", || {
        let dead = text(&inside(&["ps", "--dead", "--dir", volume, "--json"]).stdout);
        dead.contains("\"session\":\"all\"") && dead.contains("\"problem\":null")
    });
    let recovered = inside(&["recover", volume, "--json"]);
    let said = text(&recovered.stdout);
    assert!(recovered.status.success() && said.contains("\"events\":1000"), "{said}{}", text(&recovered.stderr));
    assert!(said.contains("\"earlier_boot\":false"), "{said}");
    assert!(read_by_both(&trace).numbers("rings:counted", "number").into_iter().eq(0..1000));
    assert_eq!(std::fs::read_dir(disk.path().join("ringtrace")).expect("it").count(), 0, "something was left");
}

#[test]
fn a_directory_for_the_rings_is_given_in_every_way() {
    let (place, disk) = (Place::new(), disk());
    let volume = shown(disk.path());
    let environment = format!("counted; rings '{volume}'; output by-environment");
    let mut program = Program::start_with(&place, PROGRAM, &[("RINGTRACE", &environment)]);
    program.tell(&format!("own {volume}"));
    place.succeed(&["session", "create", "cli", "-r", "counted", "--rings", volume, "-o", "by-command"]);
    let sessions = || {
        let all = place.json(&["session", "show"]);
        let mut all: Vec<(String, String)> = all
            .iter()
            .map(|line| &line["session"])
            .map(|s| (s["name"].to_string(), s["rings"].as_str().unwrap_or_default().to_owned()))
            .collect();
        all.sort();
        all
    };
    let before = sessions();
    assert_eq!(before.len(), 3);
    assert!(before.iter().all(|(_, rings)| rings.starts_with(volume) && Path::new(rings).is_file()), "{before:?}");
    place.succeed(&["config", "save", "sessions.toml"]);
    let saved = std::fs::read_to_string(place.here().join("sessions.toml")).expect("it was saved");
    assert_eq!(saved.matches(&format!("rings = \"{volume}\"")).count(), 3, "{saved}");
    place.succeed(&["session", "destroy", "cli"]);
    std::fs::write(place.here().join("one.toml"), format!("[[session]]\nname = 'cli'\nrings = '{volume}'\n")).expect("a file");
    place.succeed(&["config", "load", "one.toml"]);
    assert_eq!(sessions(), before);
    program.tell("count 10");
    program.end();
    assert_eq!(read_by_both(&place.here().join("by-environment")).events(), 10);
    assert_eq!(read_by_both(&place.here().join("own")).events(), 10);
    assert_eq!(std::fs::read_dir(disk.path().join("ringtrace")).expect("it").count(), 0, "what ended well leaves nothing");

    let mut program = Program::start(&place, PROGRAM);
    let (_, message) = place.fail(&["session", "create", "refused", "-r", "counted", "--rings", "/dev/null/below"]);
    assert!(message.contains("cannot keep ring buffers in") && message.contains("/dev/null/below"), "{message}");
    program.tell("count 1");
    program.end();
}
