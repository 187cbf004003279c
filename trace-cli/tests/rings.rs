//! What outlives more than the process: rings in a directory on disk, and in core dumps.

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Place, Program, an_agent_answers, eventually, is_program, orders, text, this};
use ringtrace::{Session, tracepoint};
use traces::read_by_both;

#[tracepoint(record)]
fn counted(number: u64);

const PROGRAM: &str = "program";

/// `count N` fires N events, the numbers going on from before; `own DIR` starts a session with its rings there; `abort now` has a
/// core dumped, if the limit allows it.
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
                own = Some(
                    Session::builder("own").enable("counted").overwrite().memory(1 << 20).rings(directory).output("own").start(),
                );
            }
            Some(("abort", _)) => std::process::abort(),
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
    let Some(command) = contained(&first, &Command::new(this())) else { return };
    let mut program = Program::spawn(command, PROGRAM);
    an_agent_answers(&first);
    let trace = disk.path().join("trace");
    let create = ["session", "create", "all", "-r", "counted", "--overwrite", "-m", "1M", "--rings", volume, "-o", shown(&trace)];
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
    let environment = format!("counted; memory 1M; rings '{volume}'; output by-environment");
    let mut program = Program::start_with(&place, PROGRAM, &[("RINGTRACE", &environment)]);
    program.tell(&format!("own {volume}"));
    place.succeed(&["session", "create", "cli", "-r", "counted", "-m", "1M", "--rings", volume, "-o", "by-command"]);
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
    assert_eq!(place.succeed(&["config", "save", "-"]), saved);
    place.succeed(&["session", "destroy", "cli"]);
    std::fs::write(place.here().join("one.toml"), format!("[[session]]\nname = 'cli'\nmemory = '1M'\nrings = '{volume}'\n"))
        .expect("a file");
    let input = std::fs::File::open(place.here().join("one.toml")).expect("it is there");
    let loaded = place.ringtrace(&["config", "load", "-"]).stdin(input).output().expect("it starts");
    assert!(loaded.status.success() && !place.here().join("-").exists(), "{}", text(&loaded.stderr));
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

#[test]
fn a_recording_says_where_a_killed_program_left_its_rings() {
    let (place, disk) = (Place::new(), disk());
    for (trace, rings) in [("in-memory", &[][..]), ("on-disk", &["--rings", shown(disk.path())])] {
        let mut program = Program::start(&place, PROGRAM);
        let arguments = [&["record", "counted", "-m", "1M", "-o", trace][..], rings].concat();
        let recording = place.ringtrace(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        eventually("it records", || !place.json(&["session", "show"]).is_empty());
        program.tell("count 1000");
        drop(program); // by SIGKILL
        let ended = recording.wait_with_output().expect("it ends");
        let (out, err) = (text(&ended.stdout), text(&ended.stderr));
        assert!(ended.status.code() == Some(3) && out.contains("left its last events in its rings"), "{trace}: {out}{err}");
        let (_, left) = err.split_once("`ringtrace recover ").expect(&err);
        let (left, _) = left.split_once('`').expect(&err);
        eventually("the kernel has closed its files", || place.run(&["recover", left]).status.success());
        assert!(read_by_both(&place.here().join(trace)).numbers("rings:counted", "number").into_iter().eq(0..1000), "{trace}");
    }
}

/// Lets core dumps of a process have its rings, or not.
fn set_filter(pid: u32, filter: &str) {
    std::fs::write(format!("/proc/{pid}/coredump_filter"), filter).expect("it is this user's");
}

/// gdb writes memory that was only reserved too, which malloc does for each thread: 64 MiB.
const SMALL: [(&str, &str); 1] = [("MALLOC_ARENA_MAX", "1")];

/// A core dump, in memory, of a process that goes on. `None`: nobody may look into it here.
fn gcore(place: &Place, pid: u32, name: &str) -> Option<PathBuf> {
    // As gcore(1), without reading the program's symbols.
    let dump = place.runtime().join(name);
    let (make, pid) = (format!("generate-core-file {}", shown(&dump)), pid.to_string());
    let gdb = ["-nx", "-batch", "-readnever", "-p", &pid, "-ex", &make];
    let output = place.command("gdb").args(gdb).output().expect("gdb is needed: apt-get install gdb");
    if !dump.exists() {
        let said = text(&output.stderr);
        assert!(said.contains("ptrace: "), "{said}");
        eprintln!("skipped: {said}");
        return None;
    }
    Some(dump)
}

#[test]
fn a_core_dump_has_the_rings_of_every_session() {
    let place = Place::new();
    let mut program = Program::start_with(&place, PROGRAM, &SMALL);
    let pid = program.pid();
    for (name, mode) in [("flight", &["--overwrite", "-m", "1M"][..]), ("plain", &["-m", "1M"])] {
        place.succeed(&[&["session", "create", name, "-r", "counted", "-o", name][..], mode].concat());
    }
    program.tell("count 1000");
    set_filter(pid, "0x33");
    let said = place.succeed(&["doctor"]);
    assert!(said.contains("it would not have the rings: coredump_filter is 0x33"), "{said}");
    assert!(said.contains(&format!("echo 0x3b > /proc/{pid}/coredump_filter")), "{said}");
    let Some(without) = gcore(&place, pid, "without") else { return };
    let (_, message) = place.fail(&["core", shown(&without)]);
    assert!(message.contains("their memory is not in this dump") && message.contains("0x3b"), "{message}");

    set_filter(pid, "0x3b");
    let said = place.succeed(&["doctor"]);
    assert!(said.contains("it has the rings (coredump_filter 0x3b)") || said.contains("limited to 0"), "{said}");
    let dump = gcore(&place, pid, "with").expect("as before");
    // What happens later is not in it.
    program.tell("count 500");
    program.end();
    let said = place.succeed(&["core", shown(&dump), "-o", "cores"]);
    assert_eq!(said.matches(" recovered into ").count(), 2, "{said}");
    let flight = read_by_both(&place.here().join(format!("cores/flight-{pid}")));
    assert!(flight.numbers("rings:counted", "number").into_iter().eq(0..1000));
    // The other one was delivered from time to time: its dump has the end of what there was.
    let plain = read_by_both(&place.here().join(format!("cores/plain-{pid}"))).numbers("rings:counted", "number");
    assert!(plain.iter().copied().eq(1000 - plain.len() as u64..1000), "{plain:?}");
    let (_, message) = place.fail(&["core", shown(&dump), "-o", "cores"]);
    assert!(message.contains("exists already"), "{message}");
    damaged(&place, &dump);
}

/// Changes the headers of a dump, and cuts it off: each is refused, or what is left is a trace.
fn damaged(place: &Place, dump: &Path) {
    let file = std::fs::File::options().read(true).write(true).open(dump).expect("it is ours");
    let len = file.metadata().expect("its size").len();
    let attempt = |what: &str| {
        let output = place.ringtrace(&["core", shown(dump), "-o", "from-bad"]).output().expect("it starts");
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)) && !said.contains("panicked"), "{what}: {}: {said}", output.status);
        let _ = std::fs::remove_dir_all(place.here().join("from-bad"));
        said
    };
    let mut random = 1_u64;
    let mut next = |limit: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % limit
    };
    for round in 0..16 {
        // Headers lie in front; notes there or at the end.
        let begin = if round % 2 == 0 { 0 } else { len - 8192 };
        let mut before = [0; 8192];
        file.read_exact_at(&mut before, begin).expect("it is read");
        let mut bytes = before;
        for _ in 0..1 + next(6) {
            bytes[next(8192) as usize] = [0, 0xff, 0x7f, next(256) as u8][next(4) as usize];
        }
        file.write_all_at(&bytes, begin).expect("it is written");
        attempt(&format!("round {round}"));
        file.write_all_at(&before, begin).expect("it is written");
    }
    for cut in [len - 5000, len / 2, 200, 63, 0] {
        file.set_len(cut).expect("it is cut");
        let said = attempt(&format!("{cut} bytes"));
        assert!(said.starts_with("ringtrace: error: ") && said.contains(shown(dump)), "{cut} bytes: {said}");
    }
}

#[test]
fn the_kernels_dump_of_an_aborted_program_has_what_it_had_recorded() {
    let place = Place::new();
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("it is read");
    if pattern.starts_with(['|', '/']) {
        eprintln!("skipped: core dumps do not lie where their program works: {pattern}");
        return;
    }
    let mut command = place.command(this());
    command.env("RINGTRACE", "counted; overwrite; memory 1M; output trace");
    #[expect(unsafe_code, reason = "setrlimit(2) between fork and exec")]
    // SAFETY: it is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const all);
            Ok(())
        });
    }
    let mut program = Program::spawn(command, PROGRAM);
    set_filter(program.pid(), "0x3b");
    program.tell("count 1000");
    let pid = program.abort();
    let is_dump = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core"));
    let Some(dump) = std::fs::read_dir(place.here()).expect("it").flatten().map(|entry| entry.path()).find(is_dump) else {
        eprintln!("skipped: no core dump was made: a hard limit, or {pattern}");
        return;
    };
    // Nothing but the dump.
    std::fs::remove_dir_all(place.runtime()).expect("it goes");
    let said = place.succeed(&["core", shown(&dump)]);
    assert!(said.contains("1000 events"), "{said}");
    let trace = place.here().join(format!("default-{pid}.ringtrace"));
    assert!(read_by_both(&trace).numbers("rings:counted", "number").into_iter().eq(0..1000));
}
