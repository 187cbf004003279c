//! Places where a tracer must not be in the way: signal handlers, thread destructors, forked children, probes that panic, threads that
//! may make no system call.

mod common;

use ringtrace::{Context, Event, Session, probe, tracepoint};
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[tracepoint(record)]
fn worked(thread: u64, round: u64);

#[tracepoint(record, reentrant)]
fn interrupted(round: u64);

#[tracepoint(record)]
fn ended(thread: u64);

#[tracepoint(record)]
fn sturdy(round: u64);

#[tracepoint(record)]
fn in_process(pid: u32);

#[tracepoint(record)]
fn with_context(value: u32);

#[tracepoint(record)]
fn silent(round: u64);

#[tracepoint]
fn fragile(round: u64);

#[tracepoint]
fn outer(depth: u64);

fn session(name: &str, rules: &str, path: &Path) -> Session {
    let builder = Session::builder(name).enable(rules).memory(32 << 20).output(path);
    builder.start().expect("a session")
}

static INTERRUPTIONS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_alarm(_: libc::c_int) {
    interrupted(INTERRUPTIONS.fetch_add(1, Ordering::SeqCst));
}

/// Runs `work` in a thread that is interrupted every 200 us, by a timer of its own. At the end no handler runs or will run.
#[expect(unsafe_code, reason = "timer_create")]
fn interrupted_while<R>(work: impl FnOnce() -> R) -> R {
    let every = libc::timespec { tv_sec: 0, tv_nsec: 200_000 };
    // SAFETY: the timer is deleted by the thread that made it and is told; the structures are valid when they are zero.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_THREAD_ID, libc::SIGALRM);
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = std::mem::zeroed();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
        let times = libc::itimerspec { it_interval: every, it_value: every };
        assert_eq!(libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()), 0);
        let result = work();
        // What is pending is handled when this system call returns, so before this function does.
        assert_eq!(libc::timer_delete(timer), 0);
        result
    }
}

#[test]
#[expect(unsafe_code, reason = "sigaction")]
fn from_a_signal_handler() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = session("signal", "places:worked; places:interrupted", &path);
    // SAFETY: the handler is async-signal-safe: that is what is tested.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_alarm as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
    }
    let rounds: u64 = std::thread::scope(|scope| {
        let work = |thread| {
            move || {
                let begin = Instant::now();
                let mut round = 0;
                // A pause now and then, so that the consumer keeps up and nothing is discarded.
                while begin.elapsed() < Duration::from_millis(300) {
                    for _ in 0..500 {
                        worked(thread, round);
                        round += 1;
                    }
                    std::thread::sleep(Duration::from_micros(500));
                }
                round
            }
        };
        let threads: Vec<_> = (0..4).map(|t| scope.spawn(move || interrupted_while(work(t)))).collect();
        threads.into_iter().map(|t| t.join().expect("a thread panicked")).sum()
    });
    let statistics = session.stop().expect("it stops");
    let contents = common::read_by_both(&path);
    assert!(INTERRUPTIONS.load(Ordering::Relaxed) > 100);
    assert_eq!(
        contents.counts["places:worked"] + contents.counts["places:interrupted"] + statistics.lost.total(),
        rounds + INTERRUPTIONS.load(Ordering::Relaxed)
    );
    let mut seen = contents.numbers("places:interrupted", "round");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len() as u64, contents.counts["places:interrupted"]);
}

struct Last(u64);

impl Drop for Last {
    fn drop(&mut self) {
        ended(self.0);
    }
}

thread_local! {
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
}

#[test]
fn from_the_destructors_of_a_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = session("destructors", "places:ended", &path);
    for thread in 0..50 {
        std::thread::spawn(move || LAST.set(Some(Last(thread)))).join().expect("the thread ends");
    }
    assert_eq!(session.stop().expect("it stops").events, 50);
    assert_eq!(common::read_by_both(&path).numbers("places:ended", "thread"), (0..50).collect::<Vec<_>>());
}

/// Runs `body` in a child made by `fork`, and waits for it to end well.
#[expect(unsafe_code, reason = "fork and waitpid")]
fn in_a_child(fork: impl FnOnce() -> libc::pid_t, body: impl FnOnce()) {
    match fork() {
        0 => {
            body();
            // SAFETY: ends the child without the test harness's exit handlers.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = -1;
            // SAFETY: waits for the child; `status` is written.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0, "the child ended badly");
        }
    }
}

#[test]
#[expect(unsafe_code, reason = "fork and clone")]
fn after_a_fork_and_a_raw_clone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = session("forks", "places:in_process", &path);
    in_process(1);
    let fires = || {
        for _ in 0..10_000 {
            in_process(2);
        }
    };
    // SAFETY: the child fires tracepoints, which are async-signal-safe, and ends.
    in_a_child(|| unsafe { libc::fork() }, fires);
    in_process(3);
    // SAFETY: as above; without CLONE_VM this is a fork that the C library does not see.
    in_a_child(|| unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t }, fires);
    in_process(4);
    assert_eq!(session.stop().expect("it stops").events, 3);
    assert_eq!(common::read_by_both(&path).numbers("places:in_process", "pid"), [1, 3, 4]);
}

#[tracepoint(record, reentrant)]
fn said(text: &str);

/// A page that cannot be read until the handler of the fault has forked.
static PAGE: AtomicUsize = AtomicUsize::new(0);
static CHILD: AtomicI32 = AtomicI32::new(-1);
static PIPE: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

/// Forks in the middle of the event that reads the page. What the event then finds there is the process's own.
#[expect(unsafe_code, reason = "fork, mprotect")]
extern "C" fn fork_at_a_fault(_: libc::c_int) {
    let page = PAGE.load(Ordering::SeqCst) as *mut u8;
    // SAFETY: the page is the test's, and nothing else faults. The child goes on with the event.
    unsafe {
        let child = libc::fork();
        CHILD.store(child, Ordering::SeqCst);
        assert_eq!(libc::mprotect(page.cast(), 4096, libc::PROT_READ | libc::PROT_WRITE), 0);
        page.write_bytes(if child == 0 { b'c' } else { b'p' }, TEXT);
        if child == 0 {
            // Until the parent's event is a record.
            let mut byte = 0_u8;
            libc::read(PIPE[0].load(Ordering::SeqCst), (&raw mut byte).cast(), 1);
        }
    }
}

const TEXT: usize = 40;

const AT_A_FAULT: &str = "a_handlers_fork_in_the_middle_of_an_event_leaves_the_parents_record_alone";

/// On a CPU that has no ring, so that the event goes to the region that all threads share, without a restartable sequence.
#[test]
#[expect(unsafe_code, reason = "handlers of signals, a page")]
fn a_handlers_fork_in_the_middle_of_an_event_leaves_the_parents_record_alone() {
    if !common::is_child(AT_A_FAULT) {
        let output = common::child(AT_A_FAULT).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let run_on = |cpus: &[usize]| {
        // SAFETY: a set of bits is valid when it is zero; the calling thread is moved.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
            assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0, "two CPUs are needed");
        }
    };
    run_on(&[0]);
    let session = Session::builder("fault").enable("places:said").overwrite().output(&path).start().expect("a session");
    run_on(&[1]);
    // SAFETY: the handler is made for this page, which is the test's alone.
    let text = unsafe {
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, anonymous, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        PAGE.store(page as usize, Ordering::SeqCst);
        let mut ends = [-1; 2];
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        PIPE.iter().zip(ends).for_each(|(place, end)| place.store(end, Ordering::SeqCst));
        let handler = fork_at_a_fault as extern "C" fn(libc::c_int);
        assert_ne!(libc::signal(libc::SIGSEGV, handler as libc::sighandler_t), libc::SIG_ERR);
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(page.cast::<u8>(), TEXT))
    };
    said(text);
    let child = CHILD.load(Ordering::SeqCst);
    if child == 0 {
        // SAFETY: ends the child without the test harness's exit handlers.
        unsafe { libc::_exit(0) }
    }
    // The child's append ends behind the parent's.
    // SAFETY: the byte is read; `status` is written.
    unsafe {
        assert_eq!(libc::write(PIPE[1].load(Ordering::SeqCst), b"!".as_ptr().cast(), 1), 1);
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0);
        assert_eq!(status, 0, "the child ended badly");
    }
    let statistics = session.stop().expect("it stops");
    assert_eq!((statistics.events, statistics.lost.diverted, statistics.lost.total()), (1, 1, 0), "{statistics}");
    assert_eq!(common::read_by_both(&path).values("places:said", "text"), ["p".repeat(TEXT)]);
}

#[derive(Event)]
struct Fragile {
    round: u64,
}

#[probe(fragile)]
fn record_fragile(round: u64) -> Fragile {
    assert!(round < 3, "the probe cannot do this");
    Fragile { round }
}

#[test]
fn with_a_probe_that_panics() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = session("panics", "places:fragile; places:sturdy", &path);
    for round in 0..10 {
        fragile(round); // does not unwind into this test
    }
    // The consumer's thread takes the probe out, and then says so.
    let says_so = || session.warnings().iter().any(|w| w.contains("places:fragile") && w.contains("panicked"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !says_so() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(says_so(), "{:?}", session.warnings());
    assert!(!fragile::enabled(), "the probe is still attached");
    sturdy(7); // other probes go on
    let statistics = session.stop().expect("it stops");
    assert_eq!((statistics.events, statistics.lost.panicked, statistics.lost.total()), (4, 1, 1));
    let contents = common::read_by_both(&path);
    assert_eq!(contents.numbers("places:fragile", "round"), [0, 1, 2]);
    assert_eq!(contents.discarded, 1);
}

static SYSTEM_CALLS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_system_call(_: libc::c_int) {
    SYSTEM_CALLS.fetch_add(1, Ordering::SeqCst);
}

/// Counts the system calls that the calling thread tries to make from now on; it can only end, by exit(2).
#[expect(unsafe_code, reason = "seccomp")]
fn trap_system_calls() {
    // seccomp(2), `<linux/bpf_common.h>`: load the number of the call; allow these two, else SIGSYS.
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        instruction(0x20, 0, 0, 0),
        instruction(0x15, 2, 0, libc::SYS_exit as u32),
        instruction(0x15, 1, 0, libc::SYS_rt_sigreturn as u32),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_TRAP),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the handler changes an atomic; the program lives until the call returns, and concerns this thread.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_system_call as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_seccomp, 1, 0, &raw const program), 0);
    }
}

/// From a thread's second event on: also where sub-buffers change, where there is no room, and for whoever consumes.
#[test]
fn without_a_system_call() {
    const EVENTS: u64 = 300_000;
    static MADE: AtomicU64 = AtomicU64::new(u64::MAX);
    static CONTROL: AtomicU64 = AtomicU64::new(u64::MAX);
    let directory = tempfile::tempdir().expect("a directory");
    let session = |name: &str| Session::builder(name).enable("places:silent").memory(1 << 20).output(directory.path().join(name));
    let keeps_newest = session("newest").overwrite().start().expect("a session");
    let keeps_oldest = session("oldest").start().expect("a session");
    std::thread::spawn(|| {
        silent(0); // asks for the thread's ID
        trap_system_calls();
        (1..EVENTS).for_each(silent);
        MADE.store(SYSTEM_CALLS.load(Ordering::SeqCst), Ordering::SeqCst);
        // SAFETY: the first is counted, and does nothing; the second ends the thread, whose memory stays.
        #[expect(unsafe_code, reason = "system calls")]
        unsafe {
            libc::syscall(libc::SYS_getppid);
            CONTROL.store(SYSTEM_CALLS.load(Ordering::SeqCst), Ordering::SeqCst);
            libc::syscall(libc::SYS_exit, 0);
        }
    });
    let limit = Instant::now() + Duration::from_secs(60);
    while CONTROL.load(Ordering::SeqCst) == u64::MAX {
        assert!(Instant::now() < limit, "the thread hangs; system calls: {}", SYSTEM_CALLS.load(Ordering::SeqCst));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((MADE.load(Ordering::SeqCst), CONTROL.load(Ordering::SeqCst)), (0, 1), "system calls, and with one to be counted");
    let (newest, oldest) = (keeps_newest.stop().expect("it stops"), keeps_oldest.stop().expect("it stops"));
    assert!(newest.lost.overwritten > 0 && newest.events == EVENTS, "{newest}");
    assert_eq!(oldest.events + oldest.lost.total(), EVENTS, "{oldest}");
}

#[derive(Event)]
struct Outer {
    depth: u64,
}

#[probe(outer)]
fn record_outer(depth: u64) -> Outer {
    outer(depth + 1); // recursion that only the tracer ends
    Outer { depth }
}

#[test]
fn from_inside_a_probe() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = session("nested", "places:outer", &path);
    outer(0);
    let statistics = session.stop().expect("it stops");
    assert_eq!((statistics.events, statistics.lost.nested), (4, 1), "four levels are recorded, the fifth is counted");
    let contents = common::read_by_both(&path);
    assert_eq!((contents.numbers("places:outer", "depth"), contents.discarded), (vec![3, 2, 1, 0], 1));
}

#[test]
fn context_fields_say_where() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let context = Context::VPID | Context::VTID | Context::CPU | Context::THREADS;
    let session =
        Session::builder("contexts").enable("places:with_context").context(context).output(&path).start().expect("a session");
    let named = std::thread::Builder::new().name("a named thread".to_owned());
    let (fired, has_fired) = std::sync::mpsc::channel();
    let (end, is_over) = std::sync::mpsc::channel::<()>();
    let thread = named.spawn(move || {
        with_context(9);
        fired.send(()).expect("the test waits");
        // Lives until it is found among the threads.
        let _ = is_over.recv();
    });
    has_fired.recv().expect("it fires");
    session.stop().expect("it stops");
    drop(end);
    thread.expect("it starts").join().expect("it ends");
    let contents = common::read_by_both(&path);
    let line = contents.lines.iter().find(|l| l.contains("with_context")).expect("the event");
    assert!(
        line.contains(&format!("vpid = {}", std::process::id())) && line.contains("vtid = ") && line.contains("cpu = "),
        "{line}"
    );
    let names = contents.values("ringtrace:thread_name", "name");
    assert!(names.iter().any(|n| n == "a named thread"), "{names:?}");
}
