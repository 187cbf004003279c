//! What rustix does not have about files: writing without a signal, and early write-out.
#![expect(unsafe_code, reason = "calls the C library")]

use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;

/// Runs `write`, which makes a file longer or writes to a pipe, and keeps the signals from the program that the kernel sends with an
/// error: SIGXFSZ beyond RLIMIT_FSIZE, SIGPIPE where nobody reads. At first each of them ends the process. The program may lower the
/// limit at any time, so all that the tracer writes is written by way of this.
///
/// The kernel sends both to the thread that writes, so they are blocked there, and taken while they are. One that was pending before
/// stays: it is the program's.
///
/// # Errors
///
/// Those of `write`. One that the limit causes says so.
///
/// # References
///
/// pwrite(2), ftruncate(2), fallocate(2), setrlimit(2), sigtimedwait(2).
pub(crate) fn without_signals<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let (mut both, mut before, mut pending) = (MaybeUninit::uninit(), MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: each call initialises the set that it is given, or uses one that is initialised; the mask is this thread's own.
    unsafe {
        libc::sigemptyset(both.as_mut_ptr());
        libc::sigaddset(both.as_mut_ptr(), libc::SIGXFSZ);
        libc::sigaddset(both.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, both.as_ptr(), before.as_mut_ptr());
        libc::sigpending(pending.as_mut_ptr());
    }
    let result = write();
    let raised = match result.as_ref().err().and_then(io::Error::raw_os_error) {
        Some(libc::EFBIG) => Some(libc::SIGXFSZ),
        Some(libc::EPIPE) => Some(libc::SIGPIPE),
        _ => None,
    };
    // SAFETY: as above; a time of zero only asks.
    unsafe {
        if let Some(signal) = raised.filter(|signal| libc::sigismember(pending.as_ptr(), *signal) == 0) {
            let mut one = MaybeUninit::uninit();
            libc::sigemptyset(one.as_mut_ptr());
            libc::sigaddset(one.as_mut_ptr(), signal);
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            while libc::sigtimedwait(one.as_ptr(), std::ptr::null_mut(), &raw const at_once) < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
    result.map_err(explained)
}

/// Says of an error that the process's own limit causes what is to be done about it.
fn explained(error: io::Error) -> io::Error {
    let limit = getrlimit(Resource::Fsize).current.filter(|_| error.raw_os_error() == Some(libc::EFBIG));
    limit.map_or(error, |limit| {
        let problem = format!(
            "this process may make no file larger than {limit} bytes (RLIMIT_FSIZE); raise the limit (`ulimit -f unlimited`)"
        );
        io::Error::new(io::ErrorKind::FileTooLarge, problem)
    })
}

/// Has the device begin to write `len` bytes at `from`, and does not wait for it, but for room in the device's queue; see
/// sync_file_range(2). Nothing is promised about when they are safe, and a file system that cannot does nothing.
pub(crate) fn start_writing(file: &File, from: u64, len: u64) {
    #[cfg(target_os = "linux")]
    if let (Ok(from), Ok(len)) = (libc::off64_t::try_from(from), libc::off64_t::try_from(len)) {
        use std::os::fd::AsRawFd as _;
        // SAFETY: sync_file_range(2) takes numbers only.
        unsafe { libc::sync_file_range(file.as_raw_fd(), from, len, libc::SYNC_FILE_RANGE_WRITE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, from, len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_was_pending_before_stays() {
        let raised = std::thread::spawn(|| {
            // SAFETY: a mask and signals of this thread's own.
            unsafe {
                let mut set = MaybeUninit::uninit();
                libc::sigemptyset(set.as_mut_ptr());
                libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
                libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
                libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE);
                let result = without_signals(|| Err::<(), _>(io::Error::from_raw_os_error(libc::EPIPE)));
                result.expect_err("as it says");
                let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                libc::sigtimedwait(set.as_ptr(), std::ptr::null_mut(), &raw const at_once)
            }
        });
        assert_eq!(raised.join().expect("a number"), libc::SIGPIPE);
    }
}
