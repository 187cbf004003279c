//! The restartable sequences of the ring buffer.
//!
//! | Target | File | |
//! | --- | --- | --- |
//! | x86-64 Linux | `sequence/append_x86_64.rs`, `sequence/linux_x86_64.rs` | rseq(2) in assembly |
//! | all others, and `--cfg ringtrace_portable` | `sequence/portable.rs` | declines: everything goes to the fallback region |

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
mod append_x86_64;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
mod linux_x86_64;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
pub(super) use append_x86_64::*;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
pub(super) use linux_x86_64::*;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable))))]
pub(super) use portable::*;

use super::Outcome;
use crate::clock::Calibration;
use core::mem::{offset_of, size_of};
use trace_registry::field::Piece;
use trace_registry::sync::{AtomicPtr, AtomicU64};

/// The slow path of one configuration; see [`Hot::slow`].
pub(super) type Slow = unsafe extern "C" fn(*const Hot, u64, u64, *const Piece, *const Piece, usize) -> Outcome;

/// What the sequences read of a channel: private memory.
#[repr(C, align(64))]
pub(super) struct Hot {
    /// Control page of the buffer of each CPU or concurrency ID; where there is none, a [`Control`](super::layout::Control) that
    /// is always closed.
    pub(super) table: *const AtomicPtr<u8>,
    /// Entries of `table`.
    pub(super) entries: u64,
    /// The channel's generation, in a page that fork(2) wipes.
    pub(super) generation: *const AtomicU64,
    /// The clock, whose first word points to the present calibration.
    pub(super) clock: *const AtomicPtr<Calibration>,
    /// Bytes of a sub-buffer, less 1.
    pub(super) sub_buffer_mask: u64,
    /// Bytes of a ring, less 1.
    pub(super) ring_mask: u64,
    /// Where a buffer's ring lies from its control page.
    pub(super) data: u64,
    /// Most bytes of context and payload in a record.
    pub(super) limit: u64,
    /// Distance of the rseq area from the thread pointer; the same for all threads, and set once (SYS-2).
    pub(super) rseq_offset: isize,
    /// [`CommitWord::ONE_RECORD`](super::position::CommitWord::ONE_RECORD).
    pub(super) one_record: u64,
    /// Where the short form goes that declines, with the arguments as they came.
    pub(super) slow: Slow,
}

const _: () = assert!(size_of::<Hot>() == 128 && offset_of!(Hot, rseq_offset) == 64);

/// A store that a sequence makes before its commit.
#[repr(C)]
pub(super) struct Store {
    pub(super) at: *mut u64,
    pub(super) value: u64,
}

/// A change of sub-buffer: its stores, in order, and its commit.
pub(super) struct Switch<'s> {
    /// The buffer's control page.
    pub(super) control: *mut u8,
    /// The commit word that it must find.
    pub(super) expected: u64,
    /// The commit word that it stores.
    pub(super) new: u64,
    /// Where the stamp goes besides the commit.
    pub(super) stamp_at: *mut u64,
    /// What is stored before.
    pub(super) stores: &'s [Store],
}
