//! The program that is ended: threads that write into two or three sessions.

use crate::case::Means;
use crate::counts::{Counts, LISTENS, THREADS, WRITES};
use anyhow::{Context as _, Result, bail, ensure};
use ringtrace::{Context, Session, tracepoint};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Recorded by the program's own sessions.
#[tracepoint(record)]
fn counted(thread: u64, number: u64, text: &str);

/// Recorded by a session of the command, if there is one.
#[tracepoint(record)]
fn outside(thread: u64, number: u64, text: &str);

mod many {
    //! More classes than a compact header has.
    macro_rules! classes {
        ($($name:ident)*) => { $(#[ringtrace::tracepoint(record)] fn $name(); )* pub(super) fn fire() { $($name();)* } };
    }
    classes! { a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 d0 d1 }
}

/// The text of an event: what is torn differs.
pub(crate) fn text(thread: u64, number: u64) -> &'static str {
    const PATTERN: &str = include_str!("workload.rs");
    let at = (number.wrapping_mul(7) + thread * 131) % 512;
    let len = if number % 64 == 63 { 1500 } else { 1 + number.wrapping_mul(13) % 97 };
    // Not empty: babeltrace2 2.0 shows the text before then. ASCII, so that any place is one between characters.
    &PATTERN[at as usize..(at + len) as usize]
}

/// Events of a thread at full speed; what follows has pauses, so that traces can be read in the time there is.
const FLOOD: u64 = 2_000;
/// The same, where a write is to be long; and those of a thread after which it only trickles.
const MOST: u64 = 8_000;
/// The environment of such a program: directory, flags, memory, means, moment.
pub(crate) const VARIABLE: &str = "RINGTRACE_CRASH_PROGRAM";

pub(crate) fn run(words: &str) -> Result<()> {
    let [directory, flags, memory, means, moment_us] = words.split(';').collect::<Vec<_>>()[..] else {
        bail!("{VARIABLE}: {words}")
    };
    let directory = Path::new(directory);
    let has = |flag: &str| flags.split(',').any(|f| f == flag);
    let memory: u64 = memory.parse()?;
    let means = Means::ALL.into_iter().find(|m| m.name() == means).context("a means")?;
    let moment = Duration::from_micros(moment_us.parse()?);
    let most = if means == Means::InWrite { MOST } else { FLOOD };
    let counts = Counts::map(&directory.join("counts"))?;
    ringtrace::init();
    counts.stage.store(LISTENS, SeqCst);

    let rules = if has("large") { "crash:workload::counted; crash:workload::many::*" } else { "crash:workload::counted" };
    let context = if has("named") { Context::THREADS | Context::CPU | Context::NESTING } else { Context::VTID };
    let session = |name: &str| {
        let builder = Session::builder(name).enable(rules).context(context).memory(memory);
        builder.output(directory.join("traces").join(name))
    };
    let plain = session("plain").start()?;
    let flight = session("flight").overwrite().start()?;
    if has("large") {
        many::fire();
    }
    if means == Means::FileLimit {
        let limit = libc::rlimit { rlim_cur: 200_000, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a plain call; `limit` is one.
        ensure!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) } == 0, "setrlimit");
        // Who writes beyond gets an error; the signal would end the program, and the thread that writes has it blocked.
    }
    let begun = Instant::now();
    while has("external") && !outside::enabled() {
        ensure!(begun.elapsed() < Duration::from_secs(20), "nobody records from outside");
        std::thread::sleep(Duration::from_micros(100));
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (counts, fallback, flood, external) = (&*counts, has("fallback"), has("flood"), has("external"));
            let writer = move || {
                stay_on_a_cpu(thread);
                if fallback {
                    unregister_sequences();
                }
                write(thread, counts, if flood { most } else { 0 }, external);
            };
            let named = std::thread::Builder::new().name(format!("writer-{thread}"));
            named.spawn_scoped(scope, writer).expect("a thread");
        }
        // Moments are counted from here.
        while counts.threads.iter().any(|thread| thread.fired.load(SeqCst) == 0) {
            std::thread::yield_now();
        }
        counts.stage.store(WRITES, SeqCst);
        if means.is_own() {
            std::thread::sleep(moment);
            end(means, &counts, directory, [plain, flight]);
        }
        loop {
            std::thread::park(); // until it is killed
        }
    });
    Ok(())
}

/// Writes, the first `flood` events without a pause.
fn write(thread: usize, counts: &Counts, flood: u64, external: bool) {
    let own = &counts.threads[thread];
    let mut number = 0;
    loop {
        own.begun.store(number + 1, SeqCst);
        let text = text(thread as u64, number);
        counted(thread as u64, number, text);
        if external {
            outside(thread as u64, number, text);
        }
        number += 1;
        own.fired.store(number, SeqCst);
        if number > MOST {
            std::thread::sleep(Duration::from_micros(200));
        } else if number > flood && number % 32 == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

fn end(means: Means, counts: &Counts, directory: &Path, sessions: [Session; 2]) {
    match means {
        Means::Panic => {
            counts.end();
            // What unwinding drops ends; the threads of this scope never do.
            let unwound = std::panic::catch_unwind(move || {
                let _sessions = sessions;
                panic!("the program's own");
            });
            std::process::exit(if unwound.is_err() { 101 } else { 0 });
        }
        Means::Exit => {
            counts.end();
            std::process::exit(0); // with both sessions open
        }
        // SAFETY: ends the process.
        Means::UnderscoreExit => unsafe { libc::_exit(0) },
        Means::Abort => std::process::abort(),
        // SAFETY: none; it is to be ended for this. The address is that of no mapping.
        Means::Segfault => unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) },
        Means::StackOverflow => drop(std::hint::black_box(deep(std::hint::black_box(1)))),
        _ => run_out_of_memory(&directory.join("cgroup.procs")),
    }
    std::mem::forget(sessions);
}

#[expect(unconditional_recursion, reason = "it is to overflow")]
fn deep(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 512]);
    deep(depth + 1) + frame[511]
}

/// Joins the cgroup whose list of processes `link` names, and needs more than that has.
fn run_out_of_memory(link: &Path) {
    if std::fs::write(link, std::process::id().to_string()).is_err() {
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        // SAFETY: a plain call; `limit` is one.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    }
    let mut all: Vec<Vec<u8>> = Vec::new();
    for _ in 0..4096 {
        all.push(std::hint::black_box(vec![1; 1 << 20]));
    }
    std::process::abort(); // a cgroup that does not limit
}

/// A thread's numbers lie in one ring.
fn stay_on_a_cpu(thread: usize) {
    // SAFETY: both calls touch only `set`, which is of the size that they are told.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) == 0 {
            let cpus: Vec<usize> = (0..1024).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect();
            libc::CPU_ZERO(&mut set);
            libc::CPU_SET(cpus[thread % cpus.len()], &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        }
    }
}

/// Takes the calling thread's restartable sequences away, as a thread has it under valgrind or another C library.
fn unregister_sequences() {
    // SAFETY: the symbol is a constant of glibc 2.35 and later.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    if symbol.is_null() {
        return; // there are none
    }
    // SAFETY: as above: `const ptrdiff_t __rseq_offset`.
    let offset = unsafe { *symbol.cast::<isize>() };
    let thread_pointer: *mut u8;
    // SAFETY: the word at fs:0 is the thread pointer on x86-64.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread_pointer) };
    let area = thread_pointer.wrapping_offset(offset);
    const UNREGISTER: libc::c_int = 1;
    const SIGNATURE: u32 = 0x5305_3053;
    for size in [32_u32, 64, 256] {
        // SAFETY: the area that the C library registered for this thread; nothing else uses it.
        unsafe { libc::syscall(libc::SYS_rseq, area, size, UNREGISTER, SIGNATURE) };
    }
}
