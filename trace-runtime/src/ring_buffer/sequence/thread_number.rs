//! Numbers of threads: small ones, so that they index a table, and each its thread's own, so that nobody else writes to the buffer
//! that it stands for.
//!
//! ```text
//! owner of a number   63                32 31         0
//!                     │ process generation │ thread ID │     0: nobody
//! ```
//!
//! | Owner | Becomes | By |
//! | --- | --- | --- |
//! | nobody | this thread | compare-and-swap, in its first event |
//! | a thread of this process that has ended | this thread | the same, after tgkill(2) said that there is no such thread |
//! | a thread with this thread's ID | this thread | the same: that one has ended, or this is its own signal handler |
//! | of an earlier generation | – | a forked child inherits the number of the thread that forked, and gives away none of those before |
//!
//! There is no destructor: a thread may record until its last instruction, and nothing of it needs to run when it ends.
//!
//! # Invariants
//!
//! - TN-1: Of the threads that are there, at most one has a number in its block.
//! - TN-2: A number that a thread took over belonged to one whose last instruction was over, so its stores are visible and it is
//!   inside no sequence.
//!
//! # References
//!
//! tgkill(2): signal 0 sends none, and ESRCH says that the thread has ended.
#![expect(unsafe_code, reason = "a system call that leaves errno alone, and numbers that are promised")]

use crate::sys::memory::WipedWord;
use core::arch::asm;
use std::sync::OnceLock;
use trace_registry::is_mutated;
use trace_registry::sync::{AtomicU32, AtomicU64, Ordering};
use trace_registry::sys::ThreadBlock;

/// Threads beyond have no number.
pub(in crate::ring_buffer) const MOST_THREADS: usize = 4096;
/// Owners that are looked for in a thread's first event, whether they have ended; beyond, others are when the next thread comes.
const PROBED: u32 = 64;

static OWNERS: [AtomicU64; MOST_THREADS] = [const { AtomicU64::new(0) }; MOST_THREADS];
/// Numbers below have, or had, an owner.
static USED: AtomicU32 = AtomicU32::new(0);
/// Where the next thread begins to look.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Generations of this process and of those that it was forked from.
static GENERATIONS: AtomicU32 = AtomicU32::new(0);
/// That of this process; a forked child finds 0, and takes the next.
static GENERATION: OnceLock<WipedWord> = OnceLock::new();

/// Makes it possible to number threads. To be called before any is.
pub(in crate::ring_buffer) fn number_threads() -> std::io::Result<()> {
    if GENERATION.get().is_none() {
        let word = WipedWord::new(0)?;
        // Whoever came first: the word is the same.
        let _ = GENERATION.set(word);
    }
    Ok(())
}

/// Returns this thread's number, and gives it one where it has none.
///
/// # Signal safety
///
/// Async-signal-safe and lock-free; some system calls, once in a thread's life.
pub(in crate::ring_buffer) fn thread_number() -> Option<u32> {
    trace_registry::sys::with_thread(number_of)?
}

fn number_of(thread: &ThreadBlock) -> Option<u32> {
    if let Some(number) = thread.number() {
        return Some(number);
    }
    let taken = take(generation()?, crate::sys::gettid())?;
    // SAFETY: TN-1: it was taken for this thread.
    match unsafe { thread.set_number(taken) } {
        Ok(()) => Some(taken),
        // A signal handler was faster: back, if it is not the same.
        Err(number) => {
            if number != taken {
                OWNERS[taken as usize].store(0, Ordering::Release);
            }
            Some(number)
        }
    }
}

/// The generation of this process: another one in every child that was forked, whatever process ID it has.
fn generation() -> Option<u32> {
    let word = GENERATION.get()?.get();
    // Relaxed: a number that is the same for all threads; the page was wiped before any of them ran.
    let known = word.load(Ordering::Relaxed);
    if known != 0 {
        return Some(known as u32);
    }
    let fresh = u64::from(GENERATIONS.fetch_add(1, Ordering::Relaxed)) + 1;
    Some(word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|known| known, |_| fresh) as u32)
}

/// Takes a number for the thread `tid`.
fn take(generation: u32, tid: u32) -> Option<u32> {
    let own = u64::from(generation) << 32 | u64::from(tid);
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let used = USED.load(Ordering::Acquire).min(MOST_THREADS as u32);
    for _ in 0..used.min(PROBED) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % used;
        let slot = &OWNERS[number as usize];
        let owner = slot.load(Ordering::Acquire);
        let is_free = owner == 0 || owner == own || owner >> 32 == u64::from(generation) && has_ended(process, owner as u32);
        // AcqRel: one of all that want it; TN-2.
        if is_free && slot.compare_exchange(owner, own, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Some(number);
        }
    }
    loop {
        let more = |used| (used < MOST_THREADS as u32).then_some(used + 1);
        let number = USED.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).ok()?;
        // Another may find the number without an owner meanwhile.
        if OWNERS[number as usize].compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Some(number);
        }
    }
}

/// Whether this process has no thread `tid` any more.
fn has_ended(process: i32, tid: u32) -> bool {
    let result: isize;
    // SAFETY: tgkill(process, tid, 0) sends nothing, and touches no memory.
    unsafe {
        asm!("syscall", inlateout("rax") libc::SYS_tgkill as isize => result, in("rdi") process, in("rsi") tid, in("rdx") 0,
             lateout("rcx") _, lateout("r11") _, options(nostack, nomem));
    }
    result == -(libc::ESRCH as isize) || is_mutated!(number_given_twice)
}
