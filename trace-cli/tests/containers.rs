//! Programs in containers, whose run-time directory is seen from outside; and consumers that end badly.

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Place, Program, an_agent_answers, eventually, is_program, orders, text, this};
use ringtrace::tracepoint;
use trace_control::Client;
use trace_control::place::{OpenedSession, images};
use trace_control::protocol::{Request, SessionName, SessionPlan, SessionState};
use trace_runtime::external::Consumer;
use traces::{Contents, read, read_by_both};

#[tracepoint(record)]
fn counted(number: u64);

const PROGRAM: &str = "program";

/// `count N` fires N events, the numbers going on from before.
#[test]
fn program() {
    if !is_program(PROGRAM) {
        return;
    }
    ringtrace::init();
    let mut next = 0;
    for order in orders() {
        let count: u64 = order.strip_prefix("count ").and_then(|n| n.parse().ok()).expect("an order");
        (next..next + count).for_each(counted);
        next += count;
        println!("done");
    }
}

const CONSUMER: &str = "consumer";

fn open(session: &Path) -> OpenedSession {
    OpenedSession::open(session).expect("its directory")
}

/// Consumes the rings in the directory of its environment: `round` delivers what is committed.
#[test]
fn consumer() {
    if !is_program(CONSUMER) {
        return;
    }
    let session = std::env::var_os("RINGTRACE_TEST_SESSION").expect("a session");
    let mut consumer =
        Consumer::open(open(Path::new(&session)), Path::new("first"), &Default::default()).expect("nobody has them");
    for _ in orders() {
        consumer.round(true).expect("it is written");
        println!("done");
    }
}

/// The program as the first process of a PID namespace, with mounts of its own. `None`: that is not allowed here.
fn contained(place: &Place) -> Option<Program> {
    let isolate = ["--pid", "--mount", "--fork", "--mount-proc", "--kill-child"];
    let allowed = Command::new("unshare").args(isolate).arg("true").stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: unshare(1) is not allowed to make namespaces");
        return None;
    }
    let mut command = place.command("unshare");
    command.args(isolate).arg(this());
    let program = Program::spawn(command, PROGRAM);
    an_agent_answers(place);
    Some(program)
}

fn numbers(contents: &Contents) -> Vec<u64> {
    contents.numbers("containers:counted", "number")
}

#[test]
fn a_program_in_a_container_is_recorded_from_outside() {
    let place = Place::new();
    let Some(mut program) = contained(&place) else { return };
    // By its number there, which is not the one that it has here.
    let listed = &place.json(&["ps"])[0]["process"];
    assert_eq!((listed["pid"].as_u64(), listed["tracepoints"].as_u64()), (Some(1), Some(1)));
    assert!(place.succeed(&["list", "-p", "1"]).contains("containers:counted"));
    for (trace, external) in [("by-itself", None), ("from-here", Some("--external"))] {
        let arguments = ["record", "-p", "1", "counted", "-o", trace];
        let mut command = place.ringtrace(&[&arguments[..], external.as_slice()].concat());
        let recording = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        eventually("it records", || place.json(&["status", "--over", "1ms"]).iter().any(|s| s["session"]["recording"] == true));
        program.tell("count 1000");
        // SAFETY: a process of ours that has not been waited for.
        #[expect(unsafe_code, reason = "kill(2)")]
        unsafe {
            libc::kill(recording.id() as i32, libc::SIGINT)
        };
        let output = recording.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    }
    program.end();
    assert!(numbers(&read_by_both(&place.here().join("by-itself"))).into_iter().eq(0..1000));
    assert!(numbers(&read_by_both(&place.here().join("from-here"))).into_iter().eq(1000..2000));
}

/// What a container's program leaves that is killed with all of it is recovered from outside.
#[test]
fn what_a_killed_container_leaves_is_recovered() {
    let place = Place::new();
    let Some(mut program) = contained(&place) else { return };
    place.succeed(&["session", "create", "all", "-r", "counted", "-o", "trace", "--memory", "2M"]);
    program.tell("count 1000");
    drop(program); // kills unshare, and with it the namespace
    eventually("it is gone", || images(&place.runtime()).expect("the base").iter().all(|image| image.is_dead()));
    // The kernel closes its files a moment later.
    eventually("it is recovered", || place.run(&["recover", "--all"]).status.success());
    assert!(numbers(&read_by_both(&place.here().join("trace"))).into_iter().eq(0..1000));
}

#[test]
fn a_consumer_that_is_killed_is_succeeded_by_the_next() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let image = images(&place.runtime()).expect("the base").remove(0);
    let mut client = Client::connect(&image).expect("the agent");
    let plan = SessionPlan {
        session: "shared".to_owned(),
        rules: vec!["counted".to_owned()],
        memory: Some(4 << 20),
        external: true,
        ..SessionPlan::default()
    };
    let state: SessionState = client.ask(&Request::Create(Box::new(plan))).expect("a session");
    let rings = state.rings.expect("its rings have a name");
    let session = rings.parent().expect("a directory");

    let mut command = place.command(this());
    command.env("RINGTRACE_TEST_SESSION", session);
    let mut first = Program::spawn(command, CONSUMER);
    program.tell("count 100");
    first.tell("round");
    program.tell("count 50");
    drop(first); // kills it
    let second = place.here().join("second");
    // Its claim holds until it has not been seen for a while. Then what it did not deliver is the next one's.
    let refused = Consumer::open(open(session), &second, &Default::default()).expect_err("the claim is fresh");
    assert!(refused.is_io(), "{refused}");
    let mut successor = None;
    eventually("the claim is stale", || {
        successor = Consumer::open(open(session), &second, &Default::default()).ok();
        successor.is_some()
    });
    let mut successor = successor.expect("it is there");
    successor.round(true).expect("it is written");
    program.tell("count 30");
    let name = || SessionName { session: "shared".to_owned() };
    client.ask::<SessionState>(&Request::Stop(name())).expect("it stops");
    successor.finish(true).expect("it is written");
    drop(successor);
    client.ask::<SessionState>(&Request::Destroy(name())).expect("it is destroyed");
    program.end();
    assert!(numbers(&read(&place.here().join("first"))).into_iter().eq(0..100));
    assert!(numbers(&read(&second)).into_iter().eq(100..180));
    assert!(std::fs::read_dir(place.runtime()).expect("it").next().is_none(), "something was left");
}
