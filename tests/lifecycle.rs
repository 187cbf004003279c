//! Sessions that end badly: their output fails, their process is forked, their probes never return. Each in a process of its own.

mod common;

use ringtrace::{Event, Session, probe, tracepoint};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[tracepoint(record)]
fn numbered(number: u64);

#[tracepoint(record)]
fn texted(text: &str);

#[tracepoint]
fn acted();

static ACTIONS: AtomicU32 = AtomicU32::new(0);

#[probe(acted)]
fn act() {
    ACTIONS.fetch_add(1, Ordering::Relaxed);
}

#[tracepoint]
fn blocking();

#[probe(blocking)]
fn block() {
    loop {
        std::thread::sleep(Duration::from_secs(100));
    }
}

#[derive(Event)]
struct InChild {
    a: u64,
}

#[derive(Event)]
struct InParent {
    b: u32,
    c: u32,
}

/// Runs `name` as a child in an empty directory, and expects it to end well.
fn run(name: &str) -> (tempfile::TempDir, Output) {
    let directory = tempfile::tempdir().expect("a directory");
    let output = common::child(name).current_dir(directory.path()).output().expect("the child runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (directory, output)
}

fn start(name: &str, rules: &str) -> Session {
    Session::builder(name).enable(rules).output(PathBuf::from(name)).start().expect("a session")
}

#[test]
#[expect(unsafe_code, reason = "setrlimit")]
fn a_session_whose_output_fails_takes_nothing_with_it() {
    let name = "a_session_whose_output_fails_takes_nothing_with_it";
    if !common::is_child(name) {
        run(name);
        return;
    }
    let (all, other) = (start("all", "lifecycle:numbered; lifecycle:texted"), start("other", "lifecycle:numbered"));
    other.stop().expect("it stops");
    // SAFETY: both calls concern this process.
    unsafe {
        let limit = libc::rlimit { rlim_cur: 1, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    // The description of `texted` cannot be written: it is refused, and nothing is half done.
    let error = other.enable("lifecycle:texted").expect_err("its output is full");
    // Told with its cause, once.
    let told = error.to_string();
    assert!(error.is_io() && told.matches("RLIMIT_FSIZE").count() == 1 && format!("{error:?}") == told, "{told}");
    drop(all);
    assert!(!numbered::enabled() && !texted::enabled(), "a gate leads to a session that is gone");
    (0..10_000).for_each(numbered);
}

#[test]
#[expect(unsafe_code, reason = "fork")]
fn a_forked_child_runs_no_probe_and_writes_no_file() {
    let name = "a_forked_child_runs_no_probe_and_writes_no_file";
    if !common::is_child(name) {
        let (directory, _) = run(name);
        let contents = common::read_by_both(&directory.path().join("forked"));
        assert_eq!(contents.numbers("lifecycle:InParent", "c"), [2]);
        assert!(!contents.counts.contains_key("lifecycle:InChild"));
        return;
    }
    let session = start("forked", "lifecycle:*; !lifecycle:block*");
    acted();
    // SAFETY: the child uses what a forked child may, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        acted();
        let refused = session.recorder::<InChild>().is_err_and(|e| e.is_off()) && session.stop().is_err_and(|e| e.is_off());
        let code = i32::from(!refused || ACTIONS.load(Ordering::Relaxed) != 1);
        drop(session);
        // Exit handlers run here too, and must leave the parent's files alone.
        std::process::exit(code);
    }
    let mut status = -1;
    // SAFETY: waits for the child; `status` is written.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(status, 0, "the child did something");
    session.recorder::<InParent>().expect("a recorder").record(InParent { b: 1, c: 2 });
    drop(session);
}

#[test]
fn a_probe_that_never_returns_keeps_nobody() {
    let name = "a_probe_that_never_returns_keeps_nobody";
    if !common::is_child(name) {
        let (directory, _) = run(name);
        assert_eq!(common::read_by_both(&directory.path().join("stuck")).numbers("lifecycle:numbered", "number"), [1, 2]);
        return;
    }
    let session = start("stuck", "lifecycle:numbered; lifecycle:blocking");
    let other = start("healthy", "lifecycle:texted");
    numbered(1);
    std::thread::spawn(blocking);
    std::thread::sleep(Duration::from_millis(100));
    numbered(2);
    // It is told, and what is committed is delivered all the same.
    let error = session.stop().expect_err("a probe is still running");
    assert!(error.to_string().contains("has not returned"), "{error}");
    // Other sessions go on.
    texted("x");
    let deadline = Instant::now() + Duration::from_secs(20);
    while other.statistics().bytes == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(other.statistics().bytes > 0, "nothing is delivered any more");
    std::mem::forget((session, other)); // the end of the process must come by itself
}

/// Whether the consumer's thread waits in ppoll(2) for whoever reads stderr.
fn is_consumer_waiting() -> bool {
    let is_waiting = |task: &std::path::Path| {
        let of = |file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        of("comm").trim() == "ringtrace" && of("syscall").starts_with(&format!("{} ", libc::SYS_ppoll))
    };
    std::fs::read_dir("/proc/self/task").expect("it").flatten().any(|task| is_waiting(&task.path()))
}

#[test]
#[expect(unsafe_code, reason = "fills a pipe")]
fn an_output_that_hangs_holds_up_nobody() {
    let name = "an_output_that_hangs_holds_up_nobody";
    if !common::is_child(name) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = common::child(name);
        command.current_dir(directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the child starts");
        let (stdout, mut stderr) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let (sender, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        let mut last = String::from("nothing");
        while !last.contains("all returned") {
            match said.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => last = line,
                Err(_) => {
                    child.kill().expect("it is ended");
                    panic!("it hangs, or ended; the last that returned: {last}");
                }
            }
        }
        // Only now does anybody read what it prints.
        let mut printed = String::new();
        stderr.read_to_string(&mut printed).expect("text");
        assert!(child.wait().expect("it ends").success(), "{printed}");
        // What was enabled meanwhile is described before its first event.
        assert!(printed.contains("lifecycle:texted") && printed.contains("lifecycle:InParent"), "{printed}");
        return;
    }
    // SAFETY: stderr is a pipe, which takes no more when this is done; nobody else writes to it.
    unsafe {
        let flags = libc::fcntl(2, libc::F_GETFL);
        libc::fcntl(2, libc::F_SETFL, flags | libc::O_NONBLOCK);
        while libc::write(2, [b'\n'; 4096].as_ptr().cast(), 4096) > 0 || libc::write(2, [b'\n'].as_ptr().cast(), 1) > 0 {}
        libc::fcntl(2, libc::F_SETFL, flags);
    }
    let session = Session::builder("hangs").enable("lifecycle:numbered").print().start().expect("a session");
    let guard = acted::attach(|| {});
    while !is_consumer_waiting() {
        numbered(1);
        std::thread::yield_now();
    }
    session.disable("lifecycle:numbered").expect("it is known");
    println!("disable");
    session.enable("lifecycle:texted").expect("the output may yet take it");
    assert!(texted::enabled() && !numbered::enabled());
    texted("meanwhile");
    println!("enable");
    drop(guard);
    println!("the guard");
    session.recorder::<InParent>().expect("a recorder").record(InParent { b: 1, c: 2 });
    println!("recorder");
    assert!(session.statistics().events > 2);
    println!("statistics");
    let other = Session::builder("other").enable("lifecycle:*").output("other").start().expect("its own output is well");
    acted();
    assert!(other.enable("nowhere:at_all").is_err_and(|e| e.is_rule()));
    std::mem::forget((session, other)); // their end waits for the consumer's thread
    println!("all returned");
}

#[test]
fn a_session_is_not_starved_by_others_that_come_and_go() {
    let name = "a_session_is_not_starved_by_others_that_come_and_go";
    if !common::is_child(name) {
        run(name);
        return;
    }
    let busy = start("busy", "lifecycle:numbered");
    let restless = start("restless", "lifecycle:texted");
    // What is committed is delivered once a second. A request without a pause in between for as long as that takes, on any
    // machine: were rounds put off for requests, it would be for ever, and this many of them last for minutes.
    const REQUESTS: u64 = 1_000_000;
    let requests = (1..=REQUESTS).find(|request| {
        numbered(*request);
        restless.stop().expect("it stops");
        restless.start().expect("it starts");
        busy.statistics().bytes > 0
    });
    let fired = requests.expect("no round was run in the meantime");
    assert_eq!(busy.stop().expect("it stops").events, fired);
}
