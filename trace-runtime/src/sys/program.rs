//! Calls of the C library about threads, the end of the process, stderr, and local time.
#![expect(unsafe_code, reason = "calls the C library")]

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use trace_registry::sync::Ordering;

/// Marks the calling thread: its tracepoints are never traced.
pub(crate) fn mark_thread_untraced() {
    if let Some(thread) = trace_registry::sys::thread() {
        thread.nesting.fetch_or(trace_registry::sys::UNTRACED, Ordering::Relaxed);
    }
}

/// Starts a detached thread in which every signal is blocked, so that the program's handlers never run there.
pub(crate) fn spawn_with_signals_blocked(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises `all`, and `pthread_sigmask` writes `before`; a new thread inherits the mask.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    // SAFETY: `before` was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    spawned.map(drop)
}

/// Runs `handler` when the process ends by exit(3) or by returning from `main`.
pub(crate) fn at_exit(handler: extern "C" fn()) {
    // SAFETY: `handler` is a function of the process, or of a shared object that runs it when it is unloaded. Failure means
    // no memory for 32 pointers; then nothing is flushed at exit.
    unsafe { libc::atexit(handler) };
}

/// Whether the program runs with more privileges than its user (AT_SECURE, getauxval(3)).
pub(crate) fn is_secure_execution() -> bool {
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Writes to stderr as far as that goes: nobody may read it, and that is no reason to end anything.
///
/// Not by way of the standard library's lock: a program that holds it when it calls exit(3) waits for the consumer's thread,
/// and a child that is forked while that thread holds it could never write again.
pub(crate) fn write_stderr(mut bytes: &[u8]) {
    let stderr = io::stderr();
    while !bytes.is_empty() {
        // write(2).
        match rustix::io::write(stderr.as_fd(), bytes) {
            Err(rustix::io::Errno::INTR) => {}
            // Closed (EBADF, EPIPE), full and not to be waited for (EAGAIN), or a device that takes nothing.
            Err(_) | Ok(0) => return,
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
        }
    }
}

fn local(seconds: i64) -> Option<libc::tm> {
    let seconds: libc::time_t = seconds;
    let mut local = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: `localtime_r` writes `local` unless it returns null.
    unsafe { if libc::localtime_r(&raw const seconds, local.as_mut_ptr()).is_null() { None } else { Some(local.assume_init()) } }
}

/// Offsets from UTC change at quarters of an hour only.
const QUARTER: i64 = 900;

/// Returns what tells how many seconds local time is ahead of UTC, at a time in seconds from 1970.
///
/// It asks the C library now, and again in each later quarter of an hour: `localtime_r` holds a lock that a child, forked
/// meanwhile, could never take.
pub(crate) fn utc_offset() -> impl Fn(i64) -> i32 + Send + 'static {
    let ask = |seconds| local(seconds).map_or(0, |l| i32::try_from(l.tm_gmtoff).unwrap_or(0));
    let now = seconds_from_1970();
    let known = Cell::new((now.div_euclid(QUARTER), ask(now)));
    move |seconds| {
        let quarter = seconds.div_euclid(QUARTER);
        if quarter > known.get().0 {
            known.set((quarter, ask(seconds)));
        }
        known.get().1
    }
}

fn seconds_from_1970() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(0)
}

/// The local time as `YYYYMMDD-HHMMSS`.
pub(crate) fn local_time_stamp_ms() -> String {
    let millis = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.subsec_millis());
    format!("{}.{millis:03}", local_time_stamp())
}

pub(crate) fn local_time_stamp() -> String {
    let seconds = seconds_from_1970();
    match local(seconds) {
        Some(l) => {
            let date = format!("{:04}{:02}{:02}", l.tm_year + 1900, l.tm_mon + 1, l.tm_mday);
            format!("{date}-{:02}{:02}{:02}", l.tm_hour, l.tm_min, l.tm_sec)
        }
        None => seconds.to_string(),
    }
}
