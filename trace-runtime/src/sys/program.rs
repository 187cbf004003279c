//! Calls of the C library about threads, the end of the process, and local time.
#![expect(unsafe_code, reason = "calls the C library")]

use std::io;
use std::mem::MaybeUninit;
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

fn local(seconds: i64) -> Option<libc::tm> {
    let seconds: libc::time_t = seconds;
    let mut local = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: `localtime_r` writes `local` unless it returns null.
    unsafe { if libc::localtime_r(&raw const seconds, local.as_mut_ptr()).is_null() { None } else { Some(local.assume_init()) } }
}

/// Seconds that local time is ahead of UTC at `seconds` from 1970.
pub(crate) fn utc_offset(seconds: i64) -> i32 {
    local(seconds).map_or(0, |l| i32::try_from(l.tm_gmtoff).unwrap_or(0))
}

/// The local time as `YYYYMMDD-HHMMSS`.
pub(crate) fn local_time_stamp() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(0);
    match local(seconds) {
        Some(l) => {
            let date = format!("{:04}{:02}{:02}", l.tm_year + 1900, l.tm_mon + 1, l.tm_mday);
            format!("{date}-{:02}{:02}{:02}", l.tm_hour, l.tm_min, l.tm_sec)
        }
        None => seconds.to_string(),
    }
}
