//! Child processes of what is recorded: by fork(2), and by exec(2).

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{Place, Program, as_program, eventually, is_program, orders, text, this};
use ringtrace::tracepoint;
use traces::{Contents, read_by_both};

#[tracepoint(record)]
fn numbered(number: u64);

const PROGRAM: &str = "program";

/// The program of these tests. `fork N`: children that fire N events and end by exit; `leave N`: by _exit; `stay N`: they wait for
/// the parent's end, which closes their pipe; `linger N`: for the end of the input; `exec`: a program that fires when it is told to end.
#[test]
#[expect(unsafe_code, reason = "fork(2)")]
fn program() {
    if !is_program(PROGRAM) {
        return;
    }
    ringtrace::init();
    let mut started = Vec::new();
    for order in orders() {
        let (what, count) = order.split_once(' ').unwrap_or((&order, "0"));
        let count: u64 = count.parse().expect("a number");
        match what {
            "fire" => (0..count).for_each(numbered),
            "exec" => {
                let mut command = Command::new(this());
                command.args([PROGRAM, "--exact", "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
                started.push(command.spawn().expect("it starts"));
            }
            "tell" => {
                // To the last that was started.
                use std::io::{BufRead as _, Write as _};
                let child = started.last_mut().expect("one was started");
                writeln!(child.stdin.as_mut().expect("a pipe"), "fire {count}").expect("it reads");
                let lines = std::io::BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
                assert!(lines.map_while(Result::ok).any(|line| line.ends_with("done")));
            }
            "fork" | "leave" | "stay" | "linger" => {
                let mut ends = [0; 2];
                // SAFETY: two descriptors are written; the child goes on as the only thread of its process.
                let pid = unsafe {
                    assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
                    libc::fork()
                };
                if pid == 0 {
                    (0..count).for_each(numbered);
                    if what == "stay" {
                        let mut byte = 0_u8;
                        // SAFETY: as above; the parent holds the other end until it ends.
                        unsafe {
                            libc::close(ends[1]);
                            libc::read(ends[0], (&raw mut byte).cast(), 1);
                        }
                    }
                    if what == "linger" {
                        // SAFETY: as above; nothing is written to the input any more.
                        unsafe { libc::read(0, (&raw mut ends).cast(), 1) };
                    }
                    if what == "leave" {
                        // SAFETY: ends the child.
                        unsafe { libc::_exit(0) };
                    }
                    std::process::exit(0);
                }
                if !matches!(what, "stay" | "linger") {
                    let mut status = -1;
                    // SAFETY: waits for the child; `status` is written.
                    unsafe { libc::waitpid(pid, &raw mut status, 0) };
                    assert_eq!(status, 0);
                }
            }
            _ => panic!("{order}?"),
        }
        println!("done");
    }
    for mut child in started {
        drop(child.stdin.take());
        let _ = child.wait();
    }
}

/// The traces that are called `trace` or `trace-…`, in the order of their names.
fn traces(place: &Place) -> Vec<Contents> {
    let entries = std::fs::read_dir(place.here()).expect("it").flatten().map(|e| e.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("trace"))).collect();
    paths.sort();
    paths.iter().map(|path| read_by_both(path)).collect()
}

fn events(place: &Place) -> Vec<u64> {
    let mut events: Vec<u64> = traces(place).iter().map(Contents::events).collect();
    events.sort_unstable();
    events
}

fn sessions(place: &Place) -> usize {
    place.json(&["ps"]).iter().map(|line| line["process"]["sessions"].as_array().map_or(0, Vec::len)).sum()
}

#[test]
fn record_follows_children() {
    follow_children(&[], "300 more events");
}

#[test]
fn record_follows_children_whose_rings_are_on_disk() {
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    follow_children(&["--rings", disk.path().to_str().expect("text")], "300 more events");
    assert_eq!(std::fs::read_dir(disk.path().join("ringtrace")).expect("it").count(), 0, "something was left");
}

/// What is consumed by the command is complete whoever ends how.
#[test]
fn record_consumes_the_rings_of_children() {
    follow_children(&["--external"], "");
}

fn follow_children(more: &[&str], says: &str) {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let pid = program.pid().to_string();
    let arguments = ["record", "--follow", "-p", &pid, "-o", "trace", "--memory", "2M", "numbered"];
    let mut command = place.ringtrace(&[&arguments[..], more].concat());
    let recording = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    eventually("it records", || sessions(&place) == 1);
    program.tell("fire 1");
    program.tell("fork 20");
    program.tell("leave 300");
    program.tell("stay 4000");
    // Both are seen by others, too.
    eventually("the child has its session", || sessions(&place) == 2);
    program.tell("exec");
    eventually("what it started has its session", || sessions(&place) == 3);
    program.tell("tell 20000");
    program.end();
    let output = recording.wait_with_output().expect("it ends");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(events(&place), [1, 20, 300, 4000, 20000], "{out}{err}");
    assert!(output.status.success() && err.contains(says), "{out}{err}");
    assert!(std::fs::read_dir(place.runtime()).expect("it").next().is_none(), "something was left");
}

/// A child that is not followed has the sockets of its parent open, and neither answers nor keeps anybody waiting.
#[test]
fn a_process_is_gone_though_a_child_of_it_lives() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    let pid = program.pid().to_string();
    let mut command = place.ringtrace(&["record", "-p", &pid, "-o", "trace", "--memory", "2M", "numbered"]);
    let recording = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    eventually("it records", || sessions(&place) == 1);
    program.tell("fire 7");
    program.tell("linger 0");
    program.child.kill().and_then(|()| program.child.wait()).expect("it ends");
    let output = recording.wait_with_output().expect("it ends");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("left its last events in its rings"), "{out}{err}");
    assert!(place.json(&["ps"]).is_empty());
    assert_eq!(place.json(&["ps", "--dead"]).len(), 1);
    place.succeed(&["recover", "--all"]);
    assert_eq!(events(&place), [7]);
}

#[test]
fn what_follows_ends_with_the_command() {
    let place = Place::new();
    let mut program = Program::start(&place, PROGRAM);
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let pid = program.pid().to_string();
        let mut command = place.ringtrace(&["record", "--follow", "-p", &pid, "--memory", "2M", "numbered"]);
        let mut recording = command.stdout(Stdio::piped()).spawn().expect("it starts");
        eventually("it records", || sessions(&place) > 0);
        program.tell("stay 10");
        // SAFETY: a process of ours that has not been waited for.
        #[expect(unsafe_code, reason = "kill(2)")]
        unsafe {
            libc::kill(recording.id() as i32, signal)
        };
        recording.wait().expect("it ends");
        // Where the command never saw the child, that notices after a while.
        eventually("the sessions end", || sessions(&place) == 0);
    }
    program.end();
}

#[test]
fn run_follows_children() {
    let place = Place::new();
    let program = this().display().to_string();
    let mut command = place.ringtrace(&["run", "numbered", "--follow", "-o", "trace", "--memory", "2M", "--", &program]);
    let mut running = as_program(&mut command, PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = running.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, b"fire 1\nfork 20\nleave 300\nexec\ntell 4000\n").expect("it reads");
    drop(input);
    let output = running.wait_with_output().expect("it ends");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(events(&place), [1, 20, 300, 4000], "{out}{err}");
    assert!(std::fs::read_dir(place.runtime()).expect("it").next().is_none(), "something was left");
}

/// `program & ringtrace record -p $!`: the command may be there before the agent is.
#[test]
fn a_program_that_has_just_begun_is_waited_for() {
    let place = Place::new();
    for _ in 0..8 {
        let mut command = place.command(this());
        let mut program =
            as_program(&mut command, PROGRAM).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        place.succeed(&["status", "-p", &program.id().to_string()]);
        drop(program.stdin.take());
        assert!(program.wait().expect("it ends").success());
    }
    // One that is none of ours is refused when it is older than that.
    let mut other = Command::new("sleep").arg("1000").spawn().expect("it starts");
    let (code, message) = place.fail(&["status", "-p", &other.id().to_string()]);
    other.kill().and_then(|()| other.wait()).expect("it ends");
    assert!(code == 4 && message.contains("does not call ringtrace::init()"), "{message}");
}
