//! The verbs about programs that run, against one.

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use common::{Place, Program, eventually, is_program, orders, text};
use ringtrace::tracepoint;
use serde_json::Value;
use traces::read_by_both;

#[tracepoint(record)]
fn counted(number: u64);

#[tracepoint(record)]
fn texted(text: &str);

/// Nobody records it.
#[tracepoint]
fn unprobed(number: u64);

const PROGRAM: &str = "program";

/// The program of these tests: `count N` fires N events of each kind, the numbers going on from before.
#[test]
fn program() {
    if !is_program(PROGRAM) {
        return;
    }
    ringtrace::init();
    let mut next = 0;
    for order in orders() {
        match order.split_once(' ') {
            Some(("count", count)) => {
                let end = next + count.parse::<u64>().expect("a number");
                for number in next..end {
                    counted(number);
                    texted("some text");
                    unprobed(number);
                }
                next = end;
            }
            Some(("loop", seconds)) => {
                let begin = std::time::Instant::now();
                while begin.elapsed() < Duration::from_secs_f64(seconds.parse().expect("a number")) {
                    counted(next);
                    next += 1;
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
            _ if order == "close" => {
                for descriptor in 3..1024 {
                    // SAFETY: the mistake under test.
                    #[expect(unsafe_code, reason = "closes descriptors that it does not own")]
                    unsafe {
                        libc::close(descriptor)
                    };
                }
            }
            _ => panic!("{order}?"),
        }
        println!("done");
    }
}

#[test]
fn a_program_is_listed_with_what_can_be_traced_in_it() {
    let place = Place::new();
    let program = Program::start(&place, PROGRAM);
    let listed = &place.json(&["ps"])[0]["process"];
    assert_eq!((listed["pid"].as_u64(), listed["tracepoints"].as_u64()), (Some(program.pid().into()), Some(3)));
    let table = place.succeed(&["ps"]);
    assert!(table.contains("TRACEPOINTS") && table.contains(&program.pid().to_string()), "{table}");

    let all = place.json(&["list"]);
    let names: Vec<&str> = all.iter().filter_map(|line| line["tracepoint"]["name"].as_str()).collect();
    assert_eq!(names, ["live:counted", "live:texted", "live:unprobed"]);
    let counted = &all[0]["tracepoint"];
    assert_eq!(counted["signature"], "fn counted(number: u64)");
    assert!(counted["location"].as_str().is_some_and(|l| l.contains("live.rs:")));
    assert_eq!(counted["probes"][0]["fields"][0], serde_json::json!({ "name": "number", "type": "u64" }));
    assert_eq!(all[2]["tracepoint"]["probes"], serde_json::json!([]));
    let shown = place.succeed(&["list", "unprobed"]);
    assert!(shown.contains("no probe is linked") && !shown.contains("texted"), "{shown}");
    let (code, message) = place.fail(&["list", "cuonted"]);
    assert!(code == 1 && message.contains("did you mean `live:counted`?"), "{message}");

    // What lies on disk is the user's alone.
    let mut directories = vec![place.runtime()];
    while let Some(directory) = directories.pop() {
        assert_eq!(std::fs::metadata(&directory).expect("it").permissions().mode() & 0o777, 0o700);
        for entry in std::fs::read_dir(&directory).expect("a directory").flatten() {
            let kind = entry.file_type().expect("its kind");
            if kind.is_dir() {
                directories.push(entry.path());
            } else {
                assert_eq!(entry.metadata().expect("it").permissions().mode() & 0o777, 0o600, "{}", entry.path().display());
            }
        }
    }
    program.end();
    assert!(std::fs::read_dir(place.runtime()).expect("it").next().is_none(), "something was left");
    let (code, message) = place.fail(&["list"]);
    assert!(code == 4 && message.contains("no process can be traced"), "{message}");
}

fn numbers(place: &Place, trace: &str) -> Vec<u64> {
    let contents = read_by_both(&place.here().join(trace));
    assert_eq!(contents.discarded, 0);
    contents.numbers("live:counted", "number")
}

#[test]
fn rules_change_while_it_runs_and_the_trace_holds_exactly_what_they_select() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let created = place.succeed(&["session", "create", "all", "-r", "live:*", "-o", "all"]);
    assert!(created.contains("session all created, 2 probes matched"), "{created}");
    place.succeed(&["session", "create", "some", "-o", "some", "--overwrite", "--memory", "4M"]);
    program.tell("count 10");
    place.succeed(&["enable", "-s", "some", "counted"]);
    program.tell("count 100");
    place.succeed(&["disable", "-s", "some", "counted"]);
    place.succeed(&["disable", "-s", "all", "texted"]);
    program.tell("count 1000");

    let status = place.json(&["status", "--over", "1ms"]);
    let of = |name: &str| status.iter().map(|s| &s["session"]).find(|s| s["name"] == name).cloned().unwrap_or(Value::Null);
    assert_eq!((of("all")["events"].as_u64(), of("some")["events"].as_u64()), (Some(1110 + 110), Some(100)));
    assert_eq!(of("some")["mode"], "overwrite");
    assert_eq!(of("all")["rules"], serde_json::json!(["live:*", "!texted"]));
    assert!(of("some")["resident"].as_u64().is_some_and(|bytes| bytes > 0 && bytes <= 4 << 20), "{status:?}");
    let shown = place.succeed(&["session", "show", "all"]);
    assert!(shown.contains("live:*") && shown.contains("!texted") && shown.contains("discard mode"), "{shown}");
    let listed = place.json(&["list", "counted"]);
    assert_eq!(listed[0]["tracepoint"]["probes"][0]["sessions"], serde_json::json!(["all"]));

    place.succeed(&["session", "stop", "all"]);
    program.tell("count 5");
    place.succeed(&["session", "start", "all"]);
    program.tell("count 5");
    place.succeed(&["session", "destroy", "all"]);
    place.succeed(&["session", "destroy", "some"]);
    program.end();
    assert_eq!(numbers(&place, "all"), (0..1110).chain(1115..1120).collect::<Vec<_>>());
    assert_eq!(numbers(&place, "some"), (10..110).collect::<Vec<_>>());
}

#[test]
fn enable_alone_begins_the_default_session() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    program.tell("count 10");
    let said = text(&place.run(&["enable", "counted"]).stderr);
    assert!(said.contains("recording into ") && said.contains("session destroy default"), "{said}");
    program.tell("count 10");
    place.succeed(&["enable", "texted"]);
    program.tell("count 1");
    // It is complete when the program ends.
    program.end();
    let traces: Vec<_> = std::fs::read_dir(place.here()).expect("it").flatten().map(|e| e.path()).collect();
    assert_eq!(traces.len(), 1);
    assert_eq!(read_by_both(&traces[0]).counts.values().copied().collect::<Vec<_>>(), [11, 1]);
}

#[test]
fn a_recording_ends_with_the_command() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let sessions = || place.json(&["ps"])[0]["process"]["sessions"].as_array().map_or(0, Vec::len);
    // By its own limit.
    let line = place.json(&["record", "counted", "--for", "1ms", "-o", "short"]);
    assert_eq!((&line[0]["ended"], sessions()), (&false.into(), 0));
    // By signals: one that it can take, and one that it cannot.
    for (signal, trace) in [(libc::SIGINT, "interrupted"), (libc::SIGKILL, "killed")] {
        let mut command = place.ringtrace(&["record", "counted", "-o", trace]);
        let mut recording = command.stdout(Stdio::piped()).spawn().expect("it starts");
        eventually("it records", || sessions() == 1);
        program.tell("count 100");
        // SAFETY: a process of ours that has not been waited for.
        #[expect(unsafe_code, reason = "kill(2)")]
        unsafe {
            libc::kill(recording.id() as i32, signal)
        };
        let status = recording.wait().expect("it ends");
        assert_eq!(status.success(), signal == libc::SIGINT);
        eventually("the session ends", || sessions() == 0);
        assert_eq!(numbers(&place, trace).len(), 100);
    }
    // By the end of the program.
    let recording = place.ringtrace(&["record", "-o", "ended"]).stdout(Stdio::piped()).spawn().expect("it starts");
    eventually("it records", || sessions() == 1);
    program.tell("count 100");
    program.end();
    let output = recording.wait_with_output().expect("it ends");
    assert!(output.status.success() && text(&output.stdout).contains("the process has ended"), "{output:?}");
    assert_eq!(read_by_both(&place.here().join("ended")).events(), 200);
}

#[test]
fn another_process_consumes_and_outlives_the_program() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let recording = |trace: &str, more: &[&str]| {
        let arguments = [&["record", "live:*", "--external", "--json", "-o", trace][..], more].concat();
        let recording = place.ringtrace(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        eventually("it records", || {
            let shown = place.json(&["session", "show"]);
            shown.iter().any(|s| s["session"]["external"] == true && s["session"]["recording"] == true)
        });
        recording
    };
    let ended = |recording: std::process::Child| {
        let output = recording.wait_with_output().expect("it ends");
        let line: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
        line
    };
    // More than the rings hold: they are consumed while it records.
    let first = recording("first", &["-m", "1M"]);
    for _ in 0..20 {
        program.tell("count 1000");
        std::thread::sleep(Duration::from_millis(20));
    }
    program.tell("count 7");
    signal(first.id(), libc::SIGINT);
    let line = ended(first);
    assert_eq!((&line["ended"], line["recorded"]["events"].as_u64()), (&false.into(), Some(40_014)), "{line}");
    assert_eq!(numbers(&place, "first"), (0..20_007).collect::<Vec<_>>());
    eventually("the rings are gone", || images(&place).iter().all(|i| i.sessions().is_empty()));

    // One at a time: a second one has rings of its own. This one is killed, and what it left is recovered while the program runs.
    let killed = recording("killed", &[]);
    eventually("it consumes", || place.here().join("killed/metadata").exists());
    program.tell("count 500");
    assert_eq!(place.json(&["ps", "--dead"]), Vec::<Value>::new());
    signal(killed.id(), libc::SIGKILL);
    drop(killed.wait_with_output());
    eventually("its rings are left", || place.json(&["ps", "--dead"]).len() == 1);
    assert!(text(&place.run(&["ps"]).stderr).contains("1 session was left"));
    let advice = place.succeed(&["doctor"]);
    assert!(advice.contains("its consumer was killed") && advice.contains("ringtrace recover "), "{advice}");
    let recovered = place.succeed(&["recover", "--all"]);
    assert_eq!(numbers(&place, "killed"), (20_007..20_507).collect::<Vec<_>>(), "{recovered}");
    assert_eq!(place.json(&["ps"]).len(), 1);
    assert!(images(&place)[0].sessions().is_empty());

    // Another command ends the session, and the program goes on. Its rings lie apart from its socket.
    let volume = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let destroyed = recording("destroyed", &["-s", "mine", "--rings", volume.path().to_str().expect("text")]);
    eventually("it consumes", || place.here().join("destroyed/metadata").exists());
    program.tell("count 3");
    place.succeed(&["session", "destroy", "mine"]);
    program.tell("count 4");
    let line = ended(destroyed);
    assert_eq!((&line["ended"], line["recorded"]["events"].as_u64()), (&false.into(), Some(6)), "{line}");
    assert_eq!(numbers(&place, "destroyed"), (20_507..20_510).collect::<Vec<_>>());
    assert_eq!(std::fs::read_dir(volume.path().join("ringtrace")).expect("it").count(), 0, "something was left");

    // The program is killed in the middle: what it committed is in the trace.
    let last = recording("last", &["-m", "8M"]);
    program.tell("count 5000");
    signal(program.pid(), libc::SIGKILL);
    let line = ended(last);
    assert_eq!((&line["ended"], line["recorded"]["events"].as_u64()), (&true.into(), Some(10_000)), "{line}");
    assert_eq!(numbers(&place, "last"), (20_514..25_514).collect::<Vec<_>>());
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a process of ours that has not been waited for.
    #[expect(unsafe_code, reason = "kill(2)")]
    unsafe {
        libc::kill(pid as i32, signal)
    };
}

/// A recording of `counted` that has begun, and the program has fired 100 events since.
fn begun(place: &Place, program: &mut Program, trace: &str, more: &[&str]) -> std::process::Child {
    let mut command = place.ringtrace(&[&["record", "counted", "-m", "4M", "-o", trace][..], more].concat());
    let recording = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // The agent has answered the command when it answers somebody after it.
    eventually("it records", || place.succeed(&["session", "show"]).contains(trace));
    eventually("it is written", || place.here().join(trace).join("metadata").exists());
    program.tell("count 100");
    recording
}

#[test]
fn a_recording_of_a_program_that_is_stopped_ends_in_time() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    for (trace, more) in [("inside", &["--for", "3s"][..]), ("outside", &["--for", "3s", "--external"])] {
        let recording = begun(&place, &mut program, trace, more);
        signal(program.pid(), libc::SIGSTOP);
        let output = recording.wait_with_output().expect("it ends");
        signal(program.pid(), libc::SIGCONT);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.code() == Some(3) && out.contains("the process does not answer"), "{trace}: {out}{err}");
        assert!(err.contains("is it stopped? Its session ends when it goes on"), "{trace}: {err}");
        assert!(err.contains("`ringtrace recover /"), "{trace}: {err}");
        eventually("the session ends", || place.json(&["ps"])[0]["process"]["sessions"] == serde_json::json!([]));
        assert_eq!(numbers(&place, trace).len(), 100, "{trace}");
    }
}

#[test]
fn a_second_interrupt_does_not_take_the_summary() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let recording = begun(&place, &mut program, "twice", &[]);
    // So that its end takes a while.
    signal(program.pid(), libc::SIGSTOP);
    [libc::SIGINT, libc::SIGTERM].into_iter().for_each(|number| signal(recording.id(), number));
    let output = recording.wait_with_output().expect("it ends");
    signal(program.pid(), libc::SIGCONT);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.code() == Some(3) && out.contains("/twice; "), "{out}{err}");
    assert!(err.contains("the recording is ending") && err.contains("a third interrupt abandons that"), "{err}");
    // The third does.
    let recording = begun(&place, &mut program, "thrice", &[]);
    signal(program.pid(), libc::SIGSTOP);
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().for_each(|number| signal(recording.id(), number));
    let output = recording.wait_with_output().expect("it ends");
    signal(program.pid(), libc::SIGCONT);
    let by = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert!(by.is_some() && output.stdout.is_empty(), "{output:?}");
}

/// What cannot be written is kept, and the command says where and what to do.
#[test]
fn another_process_that_finds_no_room_says_what_is_left() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let words = place.ringtrace(&["record", "counted", "--external", "-m", "16M", "-o", "full"]);
    let mut small = place.command("bash");
    small.args(["-c", "ulimit -f 64 && exec \"$0\" \"$@\""]).arg(words.get_program()).args(words.get_args());
    let recording = small.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    eventually("it records", || place.here().join("full/metadata").exists());
    program.tell("count 20000");
    let output = recording.wait_with_output().expect("it ends");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.code() == Some(3) && out.contains("the rest waits in the rings"), "{out}{err}");
    assert!(!out.contains("all that it committed") && err.matches("RLIMIT_FSIZE").count() == 1, "{out}{err}");
    let (_, rings) = err.split_once("`ringtrace recover ").expect(&err);
    let rings = rings.split_once('`').expect(&err).0;
    eventually("the session has ended", || place.run(&["recover", rings]).status.success());
    assert!(numbers(&place, "full").into_iter().eq(0..20_000));
    program.end();
}

fn images(place: &Place) -> Vec<trace_control::place::Image> {
    trace_control::place::images(&place.runtime()).expect("the run-time directory")
}

/// Lets a process make no file larger than this.
fn limit_files(pid: u32, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is read; nothing is written.
    #[expect(unsafe_code, reason = "prlimit(2)")]
    let result = unsafe { libc::prlimit(pid as i32, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn the_doctor_has_one_verdict_for_a_session() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    place.succeed(&["session", "create", "all", "-r", "live:*", "-o", "all"]);
    let doctor = || text(&place.run(&["doctor"]).stdout);
    program.tell("count 20000");
    // What takes most of a trace is named.
    eventually("it is written", || doctor().contains("% of the bytes of its trace"));
    let said = doctor();
    assert!(said.contains("ok    session all: records the events of 2 probes"), "{said}");
    assert!(said.contains("note  session all: live:texted takes 5"), "{said}");
    // Its output fails.
    limit_files(program.pid(), 4096);
    program.tell("count 20000");
    eventually("the output has failed", || place.json(&["status"])[0]["session"]["failure"].is_string());
    let said = doctor();
    assert!(said.contains("BAD   session all: recording ended: "), "{said}");
    assert!(!said.contains("ok    session all"), "{said}");
    assert!(said.contains("`ringtrace session destroy all` and create it again"), "{said}");
}

#[test]
fn hits_are_counted_while_somebody_looks() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let mut command = place.ringtrace(&["list", "counted", "--hits", "1s", "--json"]);
    let looking = command.stdout(Stdio::piped()).spawn().expect("it starts");
    program.tell("loop 2");
    let line: Value = serde_json::from_slice(&looking.wait_with_output().expect("it ends").stdout).expect("JSON");
    assert!(line["hits"][0]["count"].as_u64().is_some_and(|count| count > 0), "{line}");
    let listed = place.json(&["list", "counted"]);
    assert_eq!(listed[0]["tracepoint"]["on"], false);
}

#[test]
fn several_processes_are_told_apart() {
    let place = Place::new();
    let mut programs = [Program::start(&place, PROGRAM), Program::start(&place, PROGRAM)];
    let pids = programs.each_ref().map(|p| p.pid().to_string());
    let (code, message) = place.fail(&["status"]);
    assert!(code == 4 && pids.iter().all(|pid| message.contains(pid)) && message.contains("-p"), "{message}");
    let (code, message) = place.fail(&["status", "-p", "1"]);
    assert!(code == 4 && message.contains("process 1 "), "{message}");
    for verb in ["status", "ps"] {
        let (code, message) = place.fail(&[verb, "-p", "livf-0"]);
        assert!(code == 4 && message.contains("no program called `livf-0`"), "{verb}: {message}");
    }
    assert_eq!(place.json(&["ps", "-p", &pids[1]]).len(), 1);
    place.succeed(&["session", "create", "-r", "counted", "-o", "one", "-p", &pids[0]]);
    programs.iter_mut().for_each(|p| drop(p.tell("count 7")));
    // One has it, and the other does not: partly done.
    let output = place.run(&["session", "stop", "-p", &pids[0], "-p", &pids[1]]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no session is called `default`"));
    assert_eq!(numbers(&place, "one").len(), 7);
    // By name, both, each into a directory of its own.
    let program = place.json(&["ps"])[0]["process"]["program"].as_str().expect("a name").to_owned();
    place.succeed(&["session", "create", "both", "-r", "counted", "-o", "both", "-p", &program]);
    programs.iter_mut().for_each(|p| drop(p.tell("count 3")));
    place.succeed(&["session", "destroy", "both", "-p", &program]);
    for pid in &pids {
        assert_eq!(numbers(&place, &format!("both/{program}-{pid}")), [7, 8, 9]);
    }
}

#[test]
fn what_cannot_be_done_says_why() {
    let place = Place::new();
    let (code, message) = place.fail(&["status"]);
    assert!(code == 4 && message.contains("no process can be traced"), "{message}");
    std::fs::set_permissions(place.runtime(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let (code, message) = place.fail(&["status"]);
    assert!(code == 1 && message.contains("closed to others"), "{message}");
    std::fs::set_permissions(place.runtime(), std::fs::Permissions::from_mode(0o700)).expect("its mode");
    let _program = Program::start(&place, PROGRAM);
    place.succeed(&["session", "create", "taken", "-o", "taken"]);
    for (arguments, phrases) in [
        (&["session", "create", "taken"][..], &["a session called `taken` exists already"][..]),
        (&["session", "create", "a/b"], &["cannot name a session"]),
        (&["session", "create", "small", "-m", "1K"], &["too small", "×"]),
        (&["session", "create", "odd", "--context", "vtdi"], &["no context field is called `vtdi`", "vpid"]),
        (&["session", "create", "lost", "-o", "/proc/nowhere"], &["/proc/nowhere"]),
        (&["session", "destroy", "nobody"], &["no session is called `nobody`; there are: taken"]),
        (&["session", "show", "nobody"], &["no session is called `nobody`; there are: taken"]),
        (&["enable", "-s", "taken", "live:* levle info"], &["found `levle`", "^^^^^"]),
        (&["enable", "-s", "taken", "cuonted"], &["no probe is called `cuonted`; did you mean `live:counted`?"]),
        (&["enable", "-s", "taken", "unprobed"], &["live:unprobed is declared at", "no probe for it is linked"]),
        (&["disable", "counted"], &["no session is called `default`"]),
    ] {
        let (code, message) = place.fail(arguments);
        assert_eq!(code, 1, "{arguments:?}: {message}");
        phrases.iter().for_each(|phrase| assert!(message.contains(phrase), "{arguments:?}: {message}"));
    }
    assert_eq!(place.run(&["record", "--for", "soon"]).status.code(), Some(2));
    let warned = text(&place.run(&["enable", "-s", "taken", "nothing:*"]).stderr);
    assert!(warned.contains("`nothing:*` matches no probe"), "{warned}");
    let (code, message) = place.fail(&["enable", "-s", "taken", &"live:*;".repeat(10_000)]);
    assert!(code == 1 && message.contains("a request has at most 65536 bytes"), "{message}");
    // What is told is JSON where that is wanted.
    let (code, message) = place.fail(&["session", "show", "nobody", "--json"]);
    let error: Value = serde_json::from_str(&message).expect("JSON");
    assert!(code == 1 && error["error"].as_str().is_some_and(|e| e.contains("`nobody`; there are: taken")), "{message}");
    let warned = text(&place.run(&["enable", "-s", "taken", "nothing:*", "--json"]).stderr);
    let warning: Value = serde_json::from_str(&warned).expect("JSON");
    assert!(warning["warning"].as_str().is_some_and(|w| w.contains("matches no probe")), "{warned}");
    place.succeed(&["session", "destroy", "taken"]);
    assert_eq!(place.json(&["status"])[0]["session"], Value::Null);
}

#[test]
fn a_program_that_closes_all_descriptors_stays_reachable() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    program.tell("close");
    eventually("the agent listens again", || place.run(&["ps", "--json"]).stdout.contains(&b'{'));
    place.succeed(&["session", "create", "-r", "counted", "-o", "after"]);
    program.tell("count 10");
    place.succeed(&["session", "destroy"]);
    program.end();
    assert_eq!(numbers(&place, "after").len(), 10);
}
