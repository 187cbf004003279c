//! Calls of the C library about threads, the end of the process, stderr, and local time.
#![expect(unsafe_code, reason = "calls the C library")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, Stat};
use std::ffi::{CStr, c_void};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use trace_registry::sync::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Marks the calling thread: its tracepoints are never traced.
pub(crate) fn mark_thread_untraced() {
    trace_registry::sys::with_thread(|thread| thread.set_untraced(true));
}

/// Runs `work` as if the calling thread had not been marked.
pub(crate) fn while_traced(work: impl FnOnce() -> bool) {
    trace_registry::sys::with_thread(|thread| {
        let was_untraced = thread.set_untraced(false);
        work();
        thread.set_untraced(was_untraced);
    });
}

/// Name of the calling thread as the kernel has it, filled up with zeroes, in the order of memory. Zeroes where it does not tell.
///
/// Async-signal-safe: one system call, and `errno` stays as it was.
pub(crate) fn thread_name() -> [u32; 4] {
    let mut name = [0_u32; 4];
    // SAFETY: PR_GET_NAME of prctl(2) writes 16 bytes at most; `errno` is this thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        *errno = before;
    }
    name
}

/// Starts a detached thread in which every signal is blocked, so that the program's handlers never run there.
///
/// Not by [`std::thread`]: its threads take a lock of the standard library's when they begin and end, and a child that was forked in
/// that moment hangs in its next thread and in its exit.
pub(crate) fn spawn_with_signals_blocked(name: &'static CStr, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    type Body = Box<dyn FnOnce() + Send>;
    extern "C" fn run(body: *mut c_void) -> *mut c_void {
        // SAFETY: what is given below, once.
        let (name, body) = *unsafe { Box::from_raw(body.cast::<(&'static CStr, Body)>()) };
        begin_thread(name, body)
    }
    let body: Box<(&'static CStr, Body)> = Box::new((name, Box::new(body)));
    let body = Box::into_raw(body);
    // SAFETY: `run` takes `body`, which is its own.
    unsafe { spawn(run, body.cast()) }.inspect_err(|_| {
        // SAFETY: nobody has it.
        drop(unsafe { Box::from_raw(body) });
    })
}

/// What a thread does that [`spawn`] started.
pub(crate) fn begin_thread(name: &CStr, body: impl FnOnce()) -> *mut c_void {
    let _ = rustix::thread::set_name(name);
    // The hook has told of a panic; what it was may panic again when it is dropped.
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        std::mem::forget(panic);
    }
    std::ptr::null_mut()
}

/// Starts a detached thread in which every signal is blocked. Calls no allocator but the C library's.
///
/// # Safety
///
/// `run` may be called with `argument`, once, in another thread.
pub(crate) unsafe fn spawn(run: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) -> io::Result<()> {
    if would_end_the_process() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, RSEQ));
    }
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: `sigfillset` and `pthread_attr_init` initialise, `pthread_sigmask` and `pthread_create` write what they are given; a new
    // thread inherits the mask. The rest is the caller's duty.
    let error = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        // As `std::thread` has it; where it is refused, the default stays, which is larger.
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let error = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        error
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

const RSEQ: &str = "the system call rseq is forbidden (seccomp), and the C library ends programs whose threads cannot make it";

/// Whether the C library ends the process when a thread begins: its registration fails, which that of the first thread did not.
/// Async-signal-safe.
///
/// # References
///
/// rseq(2): what it is given here is EINVAL, where it is there.
fn would_end_the_process() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: no area; `errno` is this thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let is_refused = trace_registry::sys::c_library_registers()
            && libc::syscall(libc::SYS_rseq, std::ptr::null_mut::<c_void>(), 0, 0, 0) != 0
            && *errno != libc::EINVAL;
        *errno = before;
        is_refused
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Bytes of the stack of such a thread.
const STACK: usize = 2 << 20;

/// Runs `handler` when the process ends by exit(3) or by returning from `main`.
pub(crate) fn at_exit(handler: extern "C" fn()) {
    // SAFETY: `handler` is a function of the process, or of a shared object that runs it when it is unloaded. Failure means
    // no memory for 32 pointers; then nothing is flushed at exit.
    unsafe { libc::atexit(handler) };
}

/// Runs handlers around each fork(3): `before`, then `in_parent` and `in_child`, all in the thread that forks.
pub(crate) fn at_fork(before: extern "C" fn(), in_parent: extern "C" fn(), in_child: extern "C" fn()) {
    // SAFETY: as for `at_exit`. Failure means no memory for three pointers; then they do not run.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Whether the calling thread may be in a handler of a signal: one that has a handler is blocked, as it is while that runs.
///
/// A handler that unblocks its own signal is not noticed, nor is one with SA_NODEFER for a signal that a fault raises, as run times of
/// WebAssembly have it. A program that forks while it has blocked such signals looks the same as a handler.
///
/// Async-signal-safe.
///
/// # References
///
/// sigaction(2), signal-safety(7).
pub(crate) fn may_be_in_handler() -> bool {
    const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: with no set of its own, `pthread_sigmask` only writes the present one.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr()) };
    (1..=64).any(|number| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: without an action of its own, `sigaction` only writes the present one, or fails: zeroes are the default action.
        let (action, is_blocked) = unsafe {
            libc::sigaction(number, std::ptr::null(), action.as_mut_ptr());
            (action.assume_init(), libc::sigismember(blocked.as_ptr(), number) == 1)
        };
        let is_reentrant = action.sa_flags & libc::SA_NODEFER != 0 && !FAULTS.contains(&number);
        !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) && (is_blocked || is_reentrant)
    })
}

/// Whether the program runs with more privileges than its user (AT_SECURE, getauxval(3)).
pub(crate) fn is_secure_execution() -> bool {
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// What descriptor 2 refers to: the device and the number of its file, before the tracer wrote there.
static STDERR: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static IS_STDERR_KNOWN: AtomicBool = AtomicBool::new(false);

/// Remembers what stderr is, once in a family of processes.
pub(crate) fn remember_stderr() {
    // Relaxed, here and below: whoever finds a part of it writes one message less.
    if !IS_STDERR_KNOWN.load(Ordering::Relaxed) {
        if let Ok(stat) = rustix::fs::fstat(io::stderr()) {
            STDERR[0].store(stat.st_dev, Ordering::Relaxed);
            STDERR[1].store(stat.st_ino, Ordering::Relaxed);
        }
        IS_STDERR_KNOWN.store(true, Ordering::Relaxed);
    }
}

/// Whether descriptor 2 is what it was; or something that can only be written, as logs and pipes are, and databases and connections,
/// which get the descriptor of a program that has closed its stderr, are not.
fn is_stderr() -> bool {
    remember_stderr();
    let is_same = |stat: &Stat| [stat.st_dev, stat.st_ino] == [&STDERR[0], &STDERR[1]].map(|word| word.load(Ordering::Relaxed));
    let is_log = || rustix::fs::fcntl_getfl(io::stderr()).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::WRONLY);
    is_open(2, is_same) || is_log()
}

/// Writes to stderr as far as that goes. While nobody reads, `may_wait` is asked time and again, with the time since something was
/// written.
///
/// Not by way of the standard library's lock: a program that holds it when it calls exit(3) waits for the consumer's thread,
/// and a child that is forked while that thread holds it could never write again.
///
/// # Errors
///
/// How many bytes are left, and why: [`TimedOut`](io::ErrorKind::TimedOut) where nobody reads.
///
/// # Signal safety
///
/// Async-signal-safe where `may_wait` is.
///
/// # References
///
/// pipe(7): where poll(2) finds room, PIPE_BUF bytes fit, unless somebody else is faster.
pub(crate) fn write_stderr(mut bytes: &[u8], mut may_wait: impl FnMut(Duration) -> bool) -> Result<(), (usize, io::ErrorKind)> {
    const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    if !is_stderr() {
        return Err((bytes.len(), io::ErrorKind::NotFound));
    }
    let (stderr, mut last, mut step) = (io::stderr(), Instant::now(), Timespec::default());
    while !bytes.is_empty() {
        if !poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&step)).is_ok_and(|ready| ready > 0) {
            if !may_wait(last.elapsed()) {
                return Err((bytes.len(), io::ErrorKind::TimedOut));
            }
            step = STEP;
            continue;
        }
        let most = &bytes[..bytes.len().min(libc::PIPE_BUF)];
        // Whole lines, where that is possible: other threads write too.
        let piece = most.iter().rposition(|byte| *byte == b'\n').map_or(most, |end| &most[..=end]);
        match super::without_signals(|| Ok(rustix::io::write(stderr.as_fd(), piece)?)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((bytes.len(), error.kind())),
            Ok(0) => return Err((bytes.len(), io::ErrorKind::WriteZero)),
            Ok(written) => (bytes, last) = (bytes.get(written..).unwrap_or_default(), Instant::now()),
        }
    }
    Ok(())
}

/// Closes a descriptor of this process where what it refers to is what `is_it` says.
pub(crate) fn close_if(descriptor: i32, is_it: impl Fn(&Stat) -> bool) {
    if is_open(descriptor, is_it) {
        // SAFETY: what the caller says: it is the tracer's own, and nobody uses it any more.
        unsafe { libc::close(descriptor) };
    }
}

/// Whether a descriptor is open, and what it refers to is what `is_it` says. Async-signal-safe.
pub(crate) fn is_open(descriptor: i32, is_it: impl Fn(&Stat) -> bool) -> bool {
    // SAFETY: used at once, for fstat(2), which any number is good for.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::fstat(borrowed).is_ok_and(|stat| is_it(&stat))
}

/// Reads one of the kernel's files, up to 4 KiB.
///
/// Unlike `std::fs::read_to_string` it does not close what the program may have opened meanwhile under the descriptor's number, after
/// it closed that: by all odds that is of another file system.
///
/// # Errors
///
/// The file cannot be read, or is no UTF-8.
pub(crate) fn read_kernel_file(path: &str) -> io::Result<String> {
    let device = rustix::fs::stat(path)?.st_dev;
    let is_it = |stat: &Stat| stat.st_dev == device;
    let file = ManuallyDrop::new(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
    let mut text = vec![0; 4096];
    let read =
        if is_it(&rustix::fs::fstat(&*file)?) { rustix::io::pread(&*file, &mut text, 0) } else { Err(rustix::io::Errno::BADF) };
    close_if(file.as_raw_fd(), is_it);
    text.truncate(read?);
    String::from_utf8(text).map_err(io::Error::other)
}

/// How many seconds local time is ahead of UTC, as it was when a session that follows began, and whether this process is a child.
static REMEMBERED: AtomicI64 = AtomicI64::new(0);
static IS_KEPT: AtomicBool = AtomicBool::new(false);

/// Asks for the offset from UTC, for children that are forked from now on: `localtime_r` holds a lock that a child, forked
/// meanwhile, could never take.
pub(crate) fn remember_utc_offset() {
    // Relaxed, here and below: a number.
    REMEMBERED.store(ahead_of_utc(seconds_from_1970()), Ordering::Relaxed);
}

/// Uses what was remembered from now on; for the child.
pub(crate) fn keep_utc_offset() {
    IS_KEPT.store(true, Ordering::Relaxed);
}

fn ahead_of_utc(seconds: i64) -> i64 {
    if IS_KEPT.load(Ordering::Relaxed) {
        return REMEMBERED.load(Ordering::Relaxed);
    }
    let mut local = MaybeUninit::<libc::tm>::uninit();
    let seconds = seconds as libc::time_t;
    // SAFETY: `localtime_r` writes `local` unless it returns null.
    let ahead = unsafe {
        if libc::localtime_r(&raw const seconds, local.as_mut_ptr()).is_null() { 0 } else { local.assume_init().tm_gmtoff }
    };
    #[allow(clippy::useless_conversion, reason = "32 bits on some systems")]
    ahead.into()
}

/// Offsets from UTC change at quarters of an hour only.
const QUARTER: i64 = 900;

/// Returns what tells how many seconds local time is ahead of UTC, at a time in seconds from 1970.
///
/// It asks the C library now, and again in each later quarter of an hour.
pub(crate) fn utc_offset() -> impl Fn(i64) -> i32 + Send + Sync + 'static {
    let ask = |seconds| i32::try_from(ahead_of_utc(seconds)).unwrap_or(0);
    let now = seconds_from_1970();
    let known = Mutex::new((now.div_euclid(QUARTER), ask(now)));
    move |seconds| {
        let quarter = seconds.div_euclid(QUARTER);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if quarter > known.0 {
            *known = (quarter, ask(seconds));
        }
        known.1
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
    let now = seconds_from_1970();
    stamp(now + ahead_of_utc(now))
}

/// Seconds from 1970 as `YYYYMMDD-HHMMSS`.
fn stamp(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin in March, so that the day that is added is the last; 400 of them are an era.
    let since_0000_march = days + 719_468;
    let (era, day) = (since_0000_march.div_euclid(146_097), since_0000_march.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year + i64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::{spawn_with_signals_blocked, stamp};
    use std::mem::MaybeUninit;

    #[test]
    fn threads_take_no_lock_of_the_standard_library() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let body = move || {
            let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
            // SAFETY: without a stack of its own, `sigaltstack` only writes the present one.
            let stack = unsafe {
                libc::sigaltstack(std::ptr::null(), stack.as_mut_ptr());
                stack.assume_init()
            };
            let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
            sender.send((stack.ss_flags, name)).expect("who waits");
        };
        spawn_with_signals_blocked(c"ringtrace-test", body).expect("a thread");
        let (flags, name) = receiver.recv().expect("a thread that runs");
        assert_eq!(name, "ringtrace-test\n");
        // Whoever makes one, which std does, does so behind its lock.
        assert_eq!(flags, libc::SS_DISABLE, "the thread has an alternate stack for signals");
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let body = move || {
            let _sender = sender;
            panic!("meant");
        };
        spawn_with_signals_blocked(c"ringtrace-test", body).expect("a thread");
        assert!(receiver.recv().is_err(), "its destructors ran, and the process lives");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, said) in [
            (0, "19700101-000000"),
            (951_782_400, "20000229-000000"),
            (1_735_689_599, "20241231-235959"),
            (4_107_542_400, "21000301-000000"),
            (-1, "19691231-235959"),
        ] {
            assert_eq!(stamp(seconds), said);
        }
    }
}
