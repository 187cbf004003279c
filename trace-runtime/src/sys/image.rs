//! System calls about the process image: membarrier(2), CPUs, threads.
#![expect(unsafe_code, reason = "makes system calls that rustix does not offer")]

use trace_registry::sync::{AtomicBool, Ordering};

static MEMBARRIER: AtomicBool = AtomicBool::new(false);

// membarrier(2); `<linux/membarrier.h>`.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn membarrier_command(command: libc::c_int) -> bool {
    // SAFETY: a system call that touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Registers the process for membarrier(2), if that has not been done. Returns whether it is registered.
///
/// Takes 3 µs while the process has one thread, and 5 to 45 ms later.
pub(crate) fn register_membarrier() -> bool {
    if !has_membarrier() && membarrier_command(REGISTER_PRIVATE_EXPEDITED) {
        MEMBARRIER.store(true, Ordering::Relaxed);
    }
    has_membarrier()
}

/// Forgets that the process was registered; for a forked child.
pub(crate) fn forget_membarrier() {
    MEMBARRIER.store(false, Ordering::Relaxed);
}

/// Whether [`membarrier`] works.
pub(crate) fn has_membarrier() -> bool {
    // Relaxed: set before the read side's counters are installed with Release, or not at all.
    MEMBARRIER.load(Ordering::Relaxed)
}

/// Makes every running thread of the process pass a full fence. Returns false where the kernel no longer does so.
pub(crate) fn membarrier() -> bool {
    membarrier_command(PRIVATE_EXPEDITED)
}

/// Runs when the program or shared object is loaded, most often while the process has one thread.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: `.init_array` holds functions of this type, which the loader calls once.
#[unsafe(link_section = ".init_array")]
static REGISTER_EARLY: extern "C" fn() = {
    extern "C" fn register_early() {
        // Two links (`.`, `..`) and one for each thread.
        if rustix::fs::stat("/proc/self/task").is_ok_and(|s| s.st_nlink == 3) {
            register_membarrier();
        }
    }
    register_early
};

/// CPUs below `limit` that the calling thread may run on, ascending; at least one.
pub(crate) fn allowed_cpus(limit: u32) -> Vec<u32> {
    let mut mask = vec![0_u8; (limit as usize).div_ceil(64) * 8];
    // SAFETY: the kernel writes at most as many bytes as the vector has.
    let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, mask.len(), mask.as_mut_ptr()) };
    mask.truncate(usize::try_from(written).unwrap_or(0));
    let cpus: Vec<u32> =
        (0..limit).filter(|cpu| mask.get(*cpu as usize / 8).is_some_and(|byte| byte >> (cpu % 8) & 1 == 1)).collect();
    if cpus.is_empty() { (0..limit).collect() } else { cpus }
}

/// This thread's ID, by a raw system call that leaves `errno` alone.
pub(crate) fn gettid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Finds the area of restartable sequences.
pub(crate) fn init_sequences() {
    trace_registry::sys::init();
}

/// Number of the PID namespace of this process; 0: it is not known.
pub(crate) fn pid_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino)
}
