//! The rings and the journal of a process that was killed suffice to read every committed event, without the process.

mod common;

use ringtrace::ring_buffer::{Purpose, Reader};
use ringtrace::{Session, journal, tracepoint};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use trace_ctf::packet::PacketHeader;
use trace_ctf::reader::Decoder;

#[tracepoint(record)]
fn counted(number: u64, text: &str);

/// Kills a child whatever happens.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const NAME: &str = "what_a_killed_process_committed_can_be_read";

#[test]
fn what_a_killed_process_committed_can_be_read() {
    if common::is_child(NAME) {
        child();
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = common::child(NAME);
    command.env("XDG_RUNTIME_DIR", "/dev/shm").current_dir(directory.path()).stdout(Stdio::piped());
    let mut process = Kill(command.spawn().expect("the child starts"));
    // The child tells how many events it has recorded, each time after they are committed.
    let mut told = 0;
    for line in BufReader::new(process.0.stdout.take().expect("its output")).lines() {
        if let Some(count) = line.expect("text").strip_prefix("recorded ") {
            told = count.parse().expect("a number");
        }
        if told >= 5_000 {
            break;
        }
    }
    let pid = process.0.id();
    process.0.kill().expect("SIGKILL");
    process.0.wait().expect("it is dead");

    let left = left_behind(pid);
    let mut numbers = read(&left);
    numbers.sort_unstable();
    assert!(numbers.len() as u64 >= told, "{} events of at least {told}", numbers.len());
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "events are missing, or there twice");
    std::fs::remove_dir_all(left.parent().expect("the process's directory")).expect("it is removed");
}

fn child() -> ! {
    // Overwrite mode: nothing is delivered before the end, which does not come.
    let session = Session::builder("dead").enable("dead_process:*").overwrite().memory(16 << 20).output("trace").start();
    let _session = session.expect("a session");
    let mut number = 0;
    loop {
        for _ in 0..100 {
            counted(number, "some text");
            number += 1;
        }
        println!("recorded {number}");
        // Slow enough that the rings are never overwritten before the kill.
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// The directory of the session's rings.
fn left_behind(pid: u32) -> PathBuf {
    let images = std::fs::read_dir("/dev/shm/ringtrace").expect("the user's directory");
    let of_child = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{pid}-")));
    let image = images.flatten().map(|e| e.path()).find(of_child).expect("the process's directory");
    image.join("dead")
}

/// Reads the numbers of all events, from the two files alone.
fn read(directory: &Path) -> Vec<u64> {
    let path = directory.join("journal");
    let contents = journal::read(&std::fs::read(&path).expect("the journal"), &path).expect("a journal").expect("events");
    let schema = contents.schema;
    assert_eq!(contents.rest, 0);
    let mut decoder = Decoder::new(&schema).expect("a schema");
    let file = File::options().read(true).write(true).open(directory.join("rings")).expect("the rings");
    // SAFETY: the process that used the file is dead, and nobody else knows of it.
    #[expect(unsafe_code, reason = "maps a file that others could cut")]
    let mut reader = unsafe { Reader::open(&file, Purpose::Consume) }.expect("a ring file");
    let uuid = [reader.caller_word(0), reader.caller_word(1)].map(|w| w.expect("the caller's area").to_le_bytes()).concat();
    assert_eq!(uuid, schema.trace.uuid, "rings and journal belong together");
    let mut numbers = Vec::new();
    for buffer in 0..reader.geometry().buffers {
        while let Some(packet) = reader.next(buffer, true) {
            let header =
                PacketHeader { timestamp_begin: packet.begin_ns, timestamp_end: packet.end_ns, ..PacketHeader::default() };
            let decoded = decoder.packet(&header, &packet.to_vec()).expect("a packet");
            let mut events = decoded.events();
            while let Some(event) = events.next_event() {
                let event = event.expect("whole records only");
                let payload = event.payload();
                assert_eq!(payload.member("text").and_then(|t| t.as_str()), Some("some text"));
                numbers.push(payload.member("number").and_then(|n| n.as_u64()).expect("a number"));
            }
            reader.consume(packet);
        }
    }
    numbers
}

const LOOP: &str = "what_a_crash_loop_leaves_is_bounded_whenever_a_session_begins";
/// Memory of a session of the loop.
const MEMORY: u64 = 512 << 10;

/// A program that aborts as soon as it has a session: of the environment's, with an agent, or its own and nothing else.
fn aborting() -> ! {
    if std::env::var_os("OWN").is_some() {
        let session = Session::builder("own").enable("dead_process:*").memory(MEMORY).output("trace").start();
        std::mem::forget(session.expect("a session"));
    } else {
        ringtrace::init();
    }
    counted(1, "event");
    std::process::abort();
}

/// Sessions and bytes of rings and journals below a base directory.
fn left_in(base: &Path) -> (usize, u64) {
    use std::os::unix::fs::MetadataExt as _;
    let below = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path()).collect::<Vec<_>>();
    let sessions: Vec<PathBuf> = below(base).iter().flat_map(|image| below(image)).filter(|s| s.is_dir()).collect();
    let files = sessions.iter().flat_map(|session| below(session));
    let bytes = files.map(|file| std::fs::metadata(file).map_or(0, |m| m.blocks() * 512)).sum();
    (sessions.len(), bytes)
}

/// Runs the loop below `base` so many times, of which none may leave more than the bound. Returns what went, as the last one says.
fn crash_loop(base: &Path, times: usize, (most, most_bytes): (usize, u64)) -> Option<String> {
    let mut removed = None;
    for number in 0..times {
        let here = tempfile::tempdir().expect("a directory");
        let mut command = common::child(LOOP);
        command.env("RINGTRACE_DIR", base).current_dir(here.path()).env_remove("RINGTRACE").env_remove("SMALL");
        match number % 2 {
            0 => command.env("RINGTRACE", format!("dead_process:*; memory {MEMORY}; output trace")),
            _ => command.env("OWN", ""),
        };
        let output = command.output().expect("the child starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6), "{number}: {}: {said}", output.status);
        assert!(!said.contains("no name"), "{number} found no room: {said}");
        removed = said.lines().find(|line| line.contains("to make room")).map(str::to_owned).or(removed);
        let (sessions, bytes) = left_in(base);
        assert!(sessions <= most && bytes <= most_bytes, "{number}: {sessions} sessions, {bytes} bytes");
        assert!(std::fs::read_dir(base).expect("it").count() <= most + 2, "directories without rings stay");
    }
    removed
}

#[test]
fn what_a_crash_loop_leaves_is_bounded_whenever_a_session_begins() {
    if common::is_child(LOOP) {
        match std::env::var_os("SMALL") {
            Some(base) => {
                // The file system has 16 MiB, and each of them gets its rings.
                let removed = crash_loop(Path::new(&base).join("ringtrace").as_ref(), 40, (64, 8 << 20));
                assert!(removed.is_some_and(|said| said.contains("half of the file system")), "nobody says what went");
                return;
            }
            None => aborting(),
        }
    }
    let runtime = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let base = runtime.path().join("ringtrace");
    let removed = crash_loop(&base, 100, (64, 1 << 30));
    assert!(removed.is_some_and(|said| said.contains("1 session ")), "nobody says what went");
    let counts: Vec<_> = std::fs::read_dir(&base).expect("it").flatten().map(|e| e.file_name()).collect();
    assert!(counts.iter().any(|name| name.to_string_lossy().starts_with("removed-36-")), "{counts:?}");
    std::fs::remove_dir_all(&base).expect("it goes");

    // Bytes, where there are few.
    let own = std::env::current_exe().expect("a path");
    let mut small = std::process::Command::new("unshare");
    let mount = "mount -t tmpfs -o size=16m,mode=700 tmpfs \"$SMALL\" || exit 77; exec \"$@\"";
    small.args(["-m", "sh", "-c", mount, "sh"]).arg(own).args([LOOP, "--exact", "--nocapture", "--test-threads=1"]);
    small.env("RINGTRACE_TEST_CHILD", LOOP).env("SMALL", runtime.path());
    let output = small.output().expect("unshare(1)");
    if matches!(output.status.code(), Some(1 | 77)) && !output.stdout.starts_with(b"\nrunning") {
        eprintln!("in part skipped: unshare(1) and mount(8) are not allowed here");
        return;
    }
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}
