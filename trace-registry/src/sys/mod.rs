//! Per-thread block and restartable sequences: the only assembly of this crate.
//!
//! | Target | File | Per-thread block | Per-CPU additions |
//! | --- | --- | --- | --- |
//! | x86-64 Linux | `linux_x86_64.rs` | initial-exec thread-local storage, reached from assembly | rseq(2) |
//! | all others, and `--cfg ringtrace_portable` | `portable.rs` | `thread_local!`, constant and without destructor | none: [`count_on_cpu`] declines |
//!
//! What generic code declares (the emitters of [sites](crate::site)) is collected so:
//!
//! | Target | File | By |
//! | --- | --- | --- |
//! | x86-64 and aarch64 Linux | `collect.rs` | an entry in a section: known from the beginning |
//! | all others, and `--cfg ringtrace_portable` | `first_hit.rs` | a note in a table, by who is hit first |
//!
//! A thread that is ended inside a probe (`thread_end.rs`) goes on ending where x86-64 and aarch64 Linux have glibc; musl ends it without
//! unwinding; elsewhere the program is aborted.
//!
//! # Signal safety
//!
//! Everything here is async-signal-safe and wait-free.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
mod linux_x86_64;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
pub use linux_x86_64::*;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable))))]
pub use portable::*;

/// Something that generic code declares.
pub(crate) trait Collected {
    /// Describes it.
    fn describe() -> crate::probe::ProbeDescriptor;
}

#[cfg_attr(
    not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(ringtrace_portable))),
    path = "first_hit.rs"
)]
mod collect;
pub(crate) use collect::{IS_LINKED, collect, collected, hit, hits};

#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), path = "no_images.rs")]
mod images;
pub use images::{Found, images};

#[cfg(feature = "std")]
#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "no_thread_end.rs"
)]
mod thread_end;
#[cfg(feature = "std")]
pub(crate) use thread_end::end_behind;

/// Bit of [`ThreadBlock::nesting`] that marks a thread whose tracepoints are never traced: the tracer's own.
pub const UNTRACED: u32 = 1 << 31;
/// Bit of [`ThreadBlock::nesting`] that marks a thread before its first event, which has yet to [prepare](prepare_thread) it.
pub const FRESH: u32 = 1 << 30;
/// [`ThreadBlock::number`] of a thread that has none: above all others.
pub const NO_NUMBER: u32 = u32::MAX;
/// The bits of [`ThreadBlock::nesting`] that count.
pub const DEPTH: u32 = !(UNTRACED | FRESH);

/// Returns how many emitters this thread is inside of.
#[inline(always)]
pub fn depth() -> u32 {
    with_thread(|thread| thread.nesting() & DEPTH).unwrap_or(0)
}

/// What the tracer keeps for each thread: 64 bytes, no destructor, no lazy initialisation.
///
/// Fields are atomics because a signal handler of the same thread may nest at any instruction; no other thread reads them. A thread
/// gets at its block by [`with_thread`], which lends it: it goes with its thread. Words that others rely on are written by the tracer only:
/// a depth that is not the thread's lets probes run where nobody expects them, and a number of two threads lets both write to one buffer.
#[repr(C, align(64))]
pub struct ThreadBlock {
    /// Number of emitters this thread is inside of, [`UNTRACED`] and [`FRESH`].
    pub(crate) nesting: AtomicU32,
    /// Thread ID as the kernel knows it; 0: not asked for yet.
    pub tid: AtomicU32,
    /// What a ring buffer that places by thread numbers this thread with; [`NO_NUMBER`]: not numbered yet.
    pub(crate) number: AtomicU32,
    /// Name of the thread as the kernel has it, where an event asked for it.
    pub name: [AtomicU32; 4],
    /// State of the program's names when [`name`](Self::name) was asked for; 0: it was not.
    pub named: AtomicU32,
    /// rseq area of our own, where the C library registered none.
    pub(crate) rseq: RseqArea,
}

impl ThreadBlock {
    /// Where a thread's number lies in its block, for sequences that read it.
    pub const NUMBER_AT: usize = core::mem::offset_of!(ThreadBlock, number);

    // Relaxed, in all of these: the thread's own words.

    /// Returns the number of emitters this thread is inside of, with [`UNTRACED`] and [`FRESH`].
    #[inline(always)]
    pub fn nesting(&self) -> u32 {
        self.nesting.load(Ordering::Relaxed)
    }

    /// Says whether this thread's tracepoints are never traced. Returns what was said before.
    pub fn set_untraced(&self, is_untraced: bool) -> bool {
        let before = if is_untraced {
            self.nesting.fetch_or(UNTRACED, Ordering::Relaxed)
        } else {
            self.nesting.fetch_and(!UNTRACED, Ordering::Relaxed)
        };
        before & UNTRACED != 0
    }

    /// Has this thread prepare itself in its next event, as in its first.
    pub fn set_fresh(&self) {
        self.nesting.fetch_or(FRESH, Ordering::Relaxed);
    }

    /// Returns the number that ring buffers that place by thread know this thread by.
    pub fn number(&self) -> Option<u32> {
        Some(self.number.load(Ordering::Relaxed)).filter(|number| *number != NO_NUMBER)
    }

    /// Gives this thread its number.
    ///
    /// # Errors
    ///
    /// The number that it has already: a signal handler was faster.
    ///
    /// # Safety
    ///
    /// No other thread that is there has `number`, nor gets it as long as this one is there: whoever has it writes to the buffers of that
    /// number alone.
    #[expect(unsafe_code, reason = "a number is promised")]
    pub unsafe fn set_number(&self, number: u32) -> Result<(), u32> {
        self.number.compare_exchange(NO_NUMBER, number, Ordering::Relaxed, Ordering::Relaxed).map(drop)
    }
}

/// The kernel's `struct rseq` in its original size of 32 bytes.
///
/// # References
///
/// `include/uapi/linux/rseq.h`.
#[repr(C, align(32))]
pub struct RseqArea {
    pub(crate) cpu_id_start: AtomicU32,
    pub(crate) cpu_id: AtomicU32,
    pub(crate) rseq_cs: AtomicU64,
    pub(crate) flags: AtomicU32,
    pub(crate) node_id: AtomicU32,
    pub(crate) mm_cid: AtomicU32,
    /// 1 after a registration of our own succeeded, 2 after one was refused: it is tried once per thread.
    pub(crate) registration: AtomicU32,
}

static_assertions::const_assert_eq!(core::mem::size_of::<ThreadBlock>(), 64);
static_assertions::const_assert_eq!(core::mem::offset_of!(ThreadBlock, tid), 4);
static_assertions::const_assert_eq!(core::mem::offset_of!(ThreadBlock, number), 8);
static_assertions::const_assert_eq!(core::mem::offset_of!(ThreadBlock, rseq), 32);
static_assertions::const_assert_eq!(core::mem::offset_of!(RseqArea, cpu_id), 4);
static_assertions::const_assert_eq!(core::mem::offset_of!(RseqArea, rseq_cs), 8);
static_assertions::const_assert_eq!(core::mem::offset_of!(RseqArea, mm_cid), 24);
static_assertions::const_assert_eq!(core::mem::offset_of!(RseqArea, registration), 28);
