//! Peers that mean harm, and peers that are many: other users, garbage, floods, a hundred recordings.

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Place, Program, as_program, eventually, is_program, is_root, orders, text, this};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ringtrace::tracepoint;
use serde_json::Value;
use trace_control::Client;
use trace_control::place::Image;
use trace_control::protocol::{Process, Request};

#[tracepoint(record)]
fn counted(thread: u64, number: u64);

const PROGRAM: &str = "program";
const STRANGER: &str = "stranger";
/// A user that owns nothing: `nobody`.
const NOBODY: u32 = 65534;

/// The program of these tests: `load` fires events in two threads until the program ends.
#[test]
fn program() {
    if !is_program(PROGRAM) {
        return;
    }
    ringtrace::init();
    for order in orders() {
        match order.as_str() {
            "load" => (0..2).for_each(|thread| drop(std::thread::spawn(move || load(thread)))),
            "one" => counted(9, 9),
            _ => panic!("{order}?"),
        }
        println!("done");
    }
}

fn load(thread: u64) -> ! {
    let mut number = 0;
    loop {
        for _ in 0..20 {
            counted(thread, number);
            number += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What another user can do with a path: one word for each attempt.
#[test]
fn stranger() {
    if !is_program(STRANGER) {
        return;
    }
    let path = PathBuf::from(std::env::var_os("PLACE").expect("a place"));
    let verdict = |result: std::io::Result<()>| result.map_or_else(|e| format!("{:?}", e.kind()), |()| "done".to_owned());
    println!(); // the harness has begun a line
    println!("list {}", verdict(fs::read_dir(&path).map(drop)));
    println!("read {}", verdict(fs::read(path.join("session/rings")).map(drop)));
    println!("write {}", verdict(fs::write(path.join("planted"), "")));
    let answer = UnixStream::connect(path.join("control")).map(|mut stream| {
        // The agent may have closed it before this is written.
        let _ = stream.write_all(b"{\"v\":1,\"do\":\"hello\"}\n");
        let mut answer = String::new();
        let _ = BufReader::new(stream).read_line(&mut answer);
        println!("answer [{}]", answer.trim());
    });
    println!("connect {}", verdict(answer));
}

/// A copy of this test binary that every user can run.
fn public_copy(place: &Place) -> PathBuf {
    let copy = place.here().join("copy");
    fs::set_permissions(place.here(), fs::Permissions::from_mode(0o755)).expect("its mode");
    // By a process of its own: a descriptor that a child of another test inherits would keep the file busy.
    let copied = Command::new("cp").arg(this()).arg(&copy).status();
    assert!(copied.expect("cp").success());
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("its mode");
    copy
}

/// Runs this binary's `stranger` as nobody, and returns what it could do.
fn as_stranger(place: &Place, path: &Path) -> BTreeMap<String, String> {
    let mut command = Command::new(public_copy(place));
    let command = as_program(&mut command, STRANGER).env("PLACE", path);
    let output = command.uid(NOBODY).gid(NOBODY).current_dir("/").output().expect("it starts");
    let said = text(&output.stdout);
    let words = ["list", "read", "write", "answer", "connect"];
    said.lines().filter_map(|l| l.split_once(' ')).filter(|(w, _)| words.contains(w)).map(|(w, r)| (w.into(), r.into())).collect()
}

/// What these tests need root for.
const USERS: &str = "two users";

fn image(place: &Place) -> PathBuf {
    let mut found = None;
    eventually("the agent listens", || {
        found =
            fs::read_dir(place.runtime()).into_iter().flatten().flatten().map(|e| e.path()).find(|p| p.join("control").exists());
        found.is_some()
    });
    found.expect("the program's directory")
}

#[test]
fn another_user_gets_nothing() {
    if !is_root(USERS) {
        return;
    }
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let image = image(&place);
    place.succeed(&["session", "create", "session", "-r", "*", "-o", "trace"]);
    program.tell("one");
    // The way to the directory is open; the directory is not.
    for directory in [place.runtime(), place.runtime().parent().expect("one").to_owned()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let could = as_stranger(&place, &image);
    for attempt in ["list", "read", "write", "connect"] {
        assert_eq!(could[attempt], "PermissionDenied", "{could:?}");
    }
    // Even where somebody opened the directory and the socket, the agent asks the kernel who is there.
    fs::set_permissions(&image, fs::Permissions::from_mode(0o755)).expect("its mode");
    fs::set_permissions(image.join("control"), fs::Permissions::from_mode(0o777)).expect("its mode");
    let could = as_stranger(&place, &image);
    assert_eq!((&*could["connect"], &*could["answer"]), ("done", "[]"), "{could:?}");
    assert_eq!((&*could["read"], &*could["write"]), ("PermissionDenied", "PermissionDenied"), "{could:?}");
    // And the command does not believe what is open to others.
    let (code, message) = place.fail(&["status"]);
    assert!(matches!(code, 1 | 4), "{message}");
    fs::set_permissions(place.runtime(), fs::Permissions::from_mode(0o700)).expect("its mode");
    fs::set_permissions(&image, fs::Permissions::from_mode(0o700)).expect("its mode");
    assert_eq!(place.json(&["status", "--over", "1ms"])[0]["session"]["events"], 1);
    program.end();
}

#[test]
fn a_directory_that_another_user_planted_is_not_used() {
    if !is_root(USERS) {
        return;
    }
    let place = Place::new();
    let planted = place.runtime();
    fs::remove_dir(&planted).expect("it is empty");
    let elsewhere = place.here().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).expect("its mode");
    let plant = [
        // Another user's, and a link to one of our own.
        (|at: &Path, _: &Path| fs::create_dir(at).and_then(|()| chown(at, Some(NOBODY), Some(NOBODY)))) as fn(&Path, &Path) -> _,
        |at, own| symlink(own, at),
    ];
    for plant in plant {
        plant(&planted, &elsewhere).expect("it is planted");
        let mut command = place.command(this());
        let parent = planted.parent().expect("one");
        as_program(&mut command, PROGRAM).env("RINGTRACE", "print");
        command.env_remove("RINGTRACE_DIR").env("XDG_RUNTIME_DIR", parent);
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(fs::read_dir(&planted).expect("it").next().is_none(), "something was put there");
        let mut command = place.command(env!("CARGO_BIN_EXE_ringtrace"));
        let output = command.arg("ps").env_remove("RINGTRACE_DIR").env("XDG_RUNTIME_DIR", parent).output().expect("it starts");
        assert!(text(&output.stderr).contains("somebody may have put it there"), "{}", text(&output.stderr));
        fs::remove_dir(&planted).or_else(|_| fs::remove_file(&planted)).expect("it goes");
    }
}

/// As where root has another user's `XDG_RUNTIME_DIR` in the environment.
#[test]
fn nothing_is_put_into_a_directory_of_another_user() {
    if !is_root(USERS) {
        return;
    }
    let place = Place::new();
    fs::remove_dir(place.runtime()).expect("it is empty");
    let theirs = place.runtime().parent().expect("one").to_owned();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).expect("it is theirs");
    for variable in ["XDG_RUNTIME_DIR", "RINGTRACE_DIR"] {
        let mut command = place.command(this());
        as_program(&mut command, PROGRAM).env("RINGTRACE", "1; output trace");
        let value = if variable == "RINGTRACE_DIR" { place.runtime() } else { theirs.clone() };
        command.env_remove("RINGTRACE_DIR").env(variable, value);
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        let said = text(&output.stderr);
        assert!(output.status.success() && place.here().join("trace").exists(), "{said}");
        assert!(fs::read_dir(&theirs).expect("it").next().is_none(), "something was put there");
        // Elsewhere there is another place.
        assert_eq!(said.contains("belongs to another user (user ID 65534)"), variable == "RINGTRACE_DIR", "{said}");
        fs::remove_dir_all(place.here().join("trace")).expect("it goes");
    }
}

/// Root is told of other users' programs, by names alone, and reaches them where it says so.
#[test]
fn root_is_told_where_other_users_programs_are() {
    if !is_root(USERS) {
        return;
    }
    let place = Place::new();
    let theirs = Path::new("/dev/shm/ringtrace-65534");
    let mut command = place.command(public_copy(&place));
    command.env_remove("RINGTRACE_DIR").env_remove("XDG_RUNTIME_DIR").uid(NOBODY).gid(NOBODY);
    let program = Program::spawn(command, PROGRAM);
    eventually("the agent listens", || trace_control::place::images_of_owner(theirs).is_ok_and(|all| !all.is_empty()));
    // A directory with another user's number is not believed.
    let planted = Path::new("/dev/shm/ringtrace-65533");
    for directory in [planted, &planted.join("1-1-00000001")] {
        fs::create_dir(directory).expect("a directory");
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).expect("its mode");
        chown(directory, Some(NOBODY), Some(NOBODY)).expect("it is theirs");
    }
    let ringtrace = |arguments: &[&str]| {
        let mut command = place.command(env!("CARGO_BIN_EXE_ringtrace"));
        command.args(arguments).env_remove("RINGTRACE_DIR").env("XDG_RUNTIME_DIR", place.runtime().parent().expect("one"));
        command.output().expect("it starts")
    };
    let (found, pid) = (ringtrace(&["ps"]), program.pid().to_string());
    let refused = ringtrace(&["list", "-p", &pid]);
    let shown = ringtrace(&["ps", "--dir", "/dev/shm/ringtrace-65534"]);
    fs::remove_dir_all(planted).expect("it goes");
    let said = text(&found.stderr);
    assert!(said.contains("user 65534 has ") && said.contains("ringtrace ps --dir /dev/shm/ringtrace-65534"), "{said}");
    assert!(!said.contains("65533") && !text(&found.stdout).contains(&pid), "{said}");
    assert!(text(&refused.stderr).contains("try --dir /dev/shm/ringtrace-65534"), "{}", text(&refused.stderr));
    assert!(text(&shown.stdout).contains(&pid), "{}", text(&shown.stderr));
    program.end();
}

#[test]
fn a_setuid_program_ignores_the_environment_and_opens_no_socket() {
    if !is_root(USERS) {
        return;
    }
    let place = Place::new();
    let copy = public_copy(&place);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("its mode");
    fs::set_permissions(place.here(), fs::Permissions::from_mode(0o777)).expect("its mode");
    let mut command = place.command(&copy);
    let command = as_program(&mut command, PROGRAM).env("RINGTRACE", "1; output trace");
    let mut child = command.uid(NOBODY).gid(NOBODY).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    child.stdin.as_mut().expect("its input").write_all(b"one\n").expect("it reads");
    assert!(lines.any(|line| line.is_ok_and(|l| l.ends_with("done"))));
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).expect("its threads").flatten();
    let names: Vec<String> = tasks.filter_map(|t| fs::read_to_string(t.path().join("comm")).ok()).collect();
    assert!(!names.iter().any(|n| n.starts_with("ringtrace")), "{names:?}");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    assert!(!place.here().join("trace").exists());
    assert!(fs::read_dir(place.runtime()).expect("it").next().is_none());
}

/// Connects as the command does, for requests that it would not make: the program wants a proof.
fn connect(directory: &Path) -> UnixStream {
    let image = Image::at(directory.to_owned()).expect("an image");
    let mut client = Client::connect(&image).expect("it listens");
    client.ask::<Process>(&Request::Hello).expect("it answers");
    client.into_stream()
}

/// Sends bytes and returns what comes back, up to the end of the connection or until nothing comes.
fn send(image: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(image);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    // It may end the connection before it has read all.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
    answers
}

#[test]
fn no_bytes_upset_the_agent() {
    let place = Place::new();
    let program = Program::start(&place, PROGRAM);
    let image = image(&place);
    let verbs = prop_oneof![
        Just("hello"),
        Just("list"),
        Just("status"),
        Just("create"),
        Just("enable"),
        Just("disable"),
        Just("start"),
        Just("stop"),
        Just("destroy"),
        Just("why"),
        Just("doctor"),
        Just("snapshot"),
        Just("watch"),
        Just("modules"),
        Just("load-module"),
        Just("unload-module"),
        Just("bind"),
        Just("prove"),
        Just("trigger"),
        Just("untrigger"),
        Just("firings"),
        Just("aggregate"),
        Just("aggregates"),
        Just("erase")
    ];
    let with = prop_oneof![
        Just(String::from("null")),
        Just(String::from(r#"{"session":"default","rules":"*"}"#)),
        Just(String::from(r#"{"session":"../../x"}"#)),
        Just(String::from(r#"{"event":"*","ms":0}"#)),
        Just(String::from(r#"{"session":"fuzzed","rules":["counted if number % 0 == 1"],"memory":0,"sub_buffer":4294967295}"#)),
        Just(String::from(r#"{"session":"fuzzed","rules":["*"],"memory":18446744073709551615,"output":"/proc/x"}"#)),
        Just(String::from(r#"{"session":"default","triggers":"when counted then snapshot","name":"x"}"#)),
        Just(String::from(r#"{"what":"counted.number by thread","quantize":true,"keys":18446744073709551615}"#)),
        Just(String::from(r#"{"after":18446744073709551615,"ms":0,"number":7}"#)),
        Just(String::from(r#"{"rules":"*","ms":18446744073709551615,"x":1}"#)),
        "[\\[\\]{}\",:0-9a-z]{0,40}",
    ];
    let line = prop_oneof![
        4 => (verbs, with).prop_map(|(verb, with)| format!("{{\"v\":1,\"id\":5,\"do\":\"{verb}\",\"with\":{with}}}\n").into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => Just(b"\n\n \n".to_vec()),
        1 => "[\\[{\"]{1,400}".prop_map(String::into_bytes),
    ];
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let is_answered = |lines: Vec<Vec<u8>>| {
        let answers = send(&image, &lines.concat());
        for answer in answers.split(|b| *b == b'\n').filter(|a| !a.is_empty()) {
            let answer: Value = serde_json::from_slice(answer).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert!(answer["v"] == 1 && (answer.get("ok").is_some() != answer.get("error").is_some()), "{answer}");
        }
        Ok(())
    };
    runner.run(&proptest::collection::vec(line, 1..6), is_answered).expect("each line is answered or ends the connection");
    let unknown = text(&send(&image, b"{\"v\":1,\"id\":[1],\"do\":\"erase\"}\n"));
    assert!(unknown.contains("\"id\":[1]") && unknown.contains("unknown request `erase`"), "{unknown}");
    let too_long = text(&send(&image, &vec![b'x'; 100_000]));
    assert!(too_long.contains("too-long"), "{too_long}");
    assert_eq!(place.json(&["ps"]).len(), 1);
    program.end();
}

#[test]
fn peers_that_stall_and_flood_hold_up_nobody() {
    let place = Place::new();
    let program = Program::start(&place, PROGRAM);
    let image = image(&place);
    place.json(&["ps"]);
    let connect = || connect(&image);
    // Half a line each; more than there is room for.
    let stalling: Vec<UnixStream> = (0..60)
        .map(|_| {
            let mut stream = connect();
            let _ = stream.write_all(b"{\"v\":1,");
            stream
        })
        .collect();
    // Requests without end, whose answers nobody reads.
    let flooding: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = connect();
            stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a limit");
            std::thread::spawn(move || {
                let line = b"{\"v\":1,\"do\":\"list\"}\n".repeat(1000);
                while stream.write_all(&line).is_ok() {}
                stream
            })
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(place.json(&["list"]).len(), 1);
    }
    let held: Vec<UnixStream> = flooding.into_iter().map(|f| f.join().expect("it floods")).collect();
    assert_eq!(place.json(&["list"]).len(), 1);
    drop((stalling, held));
    program.end();
}

/// Hands on to a real agent what the command asks, and what that answers; but has the command believe that the program is called
/// like a path, and that it is to consume the rings, which are moved to `moved`. When the command has looked at the recording for a while, a link to `victim` lies in place of
/// `gate`, and the process seems to have ended.
fn stand_between(place: &Place, real: PathBuf, program: PathBuf, [gate, moved, victim]: [PathBuf; 3]) {
    let directory = place.runtime().join(real.file_name().expect("its name"));
    fs::DirBuilder::new().mode(0o700).create(&directory).expect("it is made");
    let listener = UnixListener::bind(directory.join("control")).expect("it listens");
    let serve = move |mut stream: UnixStream| -> std::io::Result<()> {
        let mut agent = connect(&real);
        let mut answers = BufReader::new(agent.try_clone()?).lines();
        let mut looks = 0;
        for line in BufReader::new(stream.try_clone()?).lines() {
            let mut request: Value = serde_json::from_str(&line?)?;
            let is_create = request["do"] == "create";
            if is_create {
                request["with"]["external"] = true.into();
            }
            looks += u32::from(request["do"] == "status");
            writeln!(agent, "{request}")?;
            let mut answer: Value = serde_json::from_str(&answers.next().expect("an answer")?)?;
            if request["do"] == "hello" {
                answer["ok"]["program"] = program.to_str().into();
            }
            if is_create {
                let rings = PathBuf::from(answer["ok"]["rings"].as_str().expect("a path"));
                let above = moved.parent().expect("a directory");
                fs::DirBuilder::new().mode(0o700).recursive(true).create(above)?;
                fs::rename(rings.parent().expect("a directory"), &moved)?;
                answer["ok"]["rings"] = moved.join("rings").to_str().into();
            }
            writeln!(stream, "{answer}")?;
            if looks == 3 {
                fs::rename(&gate, gate.with_extension("aside"))?;
                symlink(&victim, &gate)?;
                break;
            }
        }
        Ok(())
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The peer goes away.
            let _ = serve(stream);
        }
    });
}

#[test]
fn a_process_that_says_where_its_rings_lie_has_nothing_else_removed_or_written() {
    for (is_asked, is_named_so) in [(false, false), (true, false), (true, true)] {
        let (real, place) = (Place::new(), Place::new());
        let mut program = Program::start(&real, PROGRAM);
        program.tell("load");
        let image = image(&real);
        let below = if is_named_so { Path::new(image.file_name().expect("its name")).join("default") } else { "etc".into() };
        // In one file system with the rings.
        let at = |name: &str| place.runtime().parent().expect("a directory").join(name);
        let (gate, victim, evil) = (at("gate"), at("victim"), at("evil"));
        fs::create_dir_all(victim.join(&below)).expect("a directory");
        let files = ["rings", "journal", "precious"].map(|name| victim.join(&below).join(name));
        files.iter().for_each(|file| fs::write(file, "").expect("a file"));
        stand_between(&place, image, evil.join("program"), [gate.clone(), gate.join(&below), victim]);
        // Its trace is named by the program.
        let record = ["record", "--for", "60s", "--session", "default", "-m", "1M"];
        let external: &[&str] = if is_asked { &["--external"] } else { &[] };
        let output = place.run(&[&record[..], external].concat());
        let said = text(&output.stdout) + &text(&output.stderr);
        for file in files {
            assert!(file.exists(), "{} was removed: {said}", file.display());
        }
        assert!(!evil.exists(), "a trace is where the process wants it: {said}");
        match (is_asked, is_named_so) {
            (false, _) => assert!(said.contains("the process has ended"), "{said}"),
            (true, false) => assert!(said.contains("this is no directory of a session of process"), "{said}"),
            (true, true) => {
                assert!(said.contains("this is all that it committed"), "{said}");
                assert!(!gate.with_extension("aside").join(&below).exists(), "what was consumed is left: {said}");
            }
        }
        program.end();
    }
}

#[test]
fn a_link_leads_the_command_to_no_socket() {
    let place = Place::new();
    let elsewhere = UnixListener::bind(place.here().join("socket")).expect("it listens");
    elsewhere.set_nonblocking(true).expect("its mode");
    let image = place.runtime().join("1-1-00000001");
    for is_link in [true, false] {
        fs::DirBuilder::new().mode(0o700).create(&image).expect("a directory");
        let mut theirs = None;
        if is_link {
            symlink(place.here().join("socket"), image.join("control")).expect("a link");
        } else if is_root(USERS) {
            // One of another user, as it may come there by rename(2).
            let listener = UnixListener::bind(image.join("control")).expect("it listens");
            listener.set_nonblocking(true).expect("its mode");
            chown(image.join("control"), Some(NOBODY), Some(NOBODY)).expect("it is theirs");
            theirs = Some(listener);
        }
        for verb in [&["list"][..], &["record", "--for", "1ms"], &["ps"], &["ps", "--dead"], &["clean", "--all"]] {
            place.run(verb);
            for listener in [Some(&elsewhere), theirs.as_ref()].into_iter().flatten() {
                assert!(listener.accept().is_err(), "{verb:?} connected");
            }
        }
        assert!(!image.exists(), "it is of no process");
    }
}

/// Bytes of memory that a process has for itself.
fn own_memory(program: &Program) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.pid())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Descriptors, threads and mappings of a process; files in its directory.
fn belongings(program: &Program, image: &Path) -> [usize; 4] {
    let count = |what: &str| fs::read_dir(format!("/proc/{}/{what}", program.pid())).map_or(0, Iterator::count);
    let maps = fs::read_to_string(format!("/proc/{}/maps", program.pid())).unwrap_or_default();
    let rings = maps.lines().filter(|l| l.contains("/rings")).count();
    [count("fd"), count("task"), rings, fs::read_dir(image).map_or(0, Iterator::count)]
}

#[test]
fn a_hundred_recordings_by_several_commands_at_once_leave_nothing_and_are_right() {
    const COMMANDS: usize = 4;
    const EACH: usize = 25;
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let image = image(&place);
    program.tell("load");
    // What the first session makes and keeps: threads, atexit.
    place.succeed(&["record", "--for", "1ms", "-m", "2M", "-o", "first"]);
    let mut before = [0; 4];
    eventually("the first session is gone", || {
        before = belongings(&program, &image);
        before[2] == 0 && before[3] == 1
    });
    let memory = own_memory(&program);
    std::thread::scope(|scope| {
        for command in 0..COMMANDS {
            let place = &place;
            scope.spawn(move || {
                for cycle in 0..EACH {
                    let trace = format!("{command}-{cycle}");
                    place.succeed(&["record", "strangers:counted", "--for", "10ms", "-m", "2M", "-o", &trace]);
                }
            });
        }
    });
    eventually("all sessions are gone, with all they had", || {
        let now = belongings(&program, &image);
        now[1] <= before[1] && now == [now[0].min(before[0]), now[1], 0, 1]
    });
    // A session takes some MiB: what stays is what the allocator keeps.
    let grown = own_memory(&program).saturating_sub(memory);
    assert!(grown < 4 << 20, "{grown} bytes");
    program.end();
    let mut events = 0;
    for (command, cycle) in (0..COMMANDS).flat_map(|command| (0..EACH).map(move |cycle| (command, cycle))) {
        let path = place.here().join(format!("{command}-{cycle}"));
        // babeltrace2 for some: it is slow.
        let contents = if cycle % 8 == 0 { traces::read_by_both(&path) } else { traces::read(&path) };
        let threads = contents.numbers("strangers:counted", "thread");
        let numbers = contents.numbers("strangers:counted", "number");
        assert_eq!((contents.discarded, threads.len(), numbers.len()), (0, numbers.len(), contents.events() as usize));
        for thread in 0..2 {
            let of: Vec<u64> = threads.iter().zip(&numbers).filter(|(t, _)| **t == thread).map(|(_, n)| *n).collect();
            assert!(
                of.windows(2).all(|pair| pair[1] == pair[0] + 1),
                "events of thread {thread} are missing in {}",
                path.display()
            );
        }
        events += contents.events();
    }
    assert!(events > 0);
}
