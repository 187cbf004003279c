//! The restartable sequences of the ring buffer.
//!
//! | Target | File | |
//! | --- | --- | --- |
//! | x86-64 Linux | `sequence/append_x86_64.rs`, `sequence/linux_x86_64.rs`, `sequence/thread_number.rs` | rseq(2) in assembly |
//! | all others, and `--cfg ringtrace_portable` | `sequence/portable.rs` | declines: everything goes to the fallback region |

#![expect(unsafe_code, reason = "says that appenders may be shared")]

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
mod append_x86_64;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
mod linux_x86_64;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
mod thread_number;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
pub(super) use append_x86_64::*;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
pub(super) use linux_x86_64::*;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
pub(super) use thread_number::*;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable))))]
pub(super) use portable::*;

use crate::clock::Calibration;
use core::mem::size_of;
use trace_registry::field::Piece;
use trace_registry::sync::{AtomicPtr, AtomicU64};

/// Appends a record whose payload is given in words: the address of an [`Appender`], and the words.
pub(super) type AppendWords = unsafe extern "C" fn(*const Appender, u64, u64, u64) -> u8;
/// Appends a record whose payload is given in words and a piece behind them: the address of an [`Appender`], the words, the piece.
pub(super) type AppendTail = unsafe extern "C" fn(*const Appender, u64, u64, u64, *const u8, usize) -> u8;
/// Appends a record whose payload is given in pieces: the address of an [`Appender`], the pieces, their number, their bytes.
pub(super) type AppendPieces = unsafe extern "C" fn(*const Appender, *const Piece, usize, usize) -> u8;

/// What the sequences read of a channel, for one CPU, concurrency ID or thread: private memory.
#[repr(C, align(64))]
pub(super) struct PerCpu {
    /// Control page of the buffer; where there is none, a [`Control`](super::layout::Control) that is always closed.
    pub(super) control: AtomicPtr<u8>,
    /// Beginning of the ring.
    pub(super) ring: AtomicPtr<u8>,
    /// The channel's generation, in a page that fork(2) wipes.
    pub(super) generation: *const AtomicU64,
    /// The clock, whose first word points to the present calibration.
    pub(super) clock: *const AtomicPtr<Calibration>,
    /// Bytes of a sub-buffer, less 1.
    pub(super) sub_buffer_mask: u64,
    /// Bytes of a ring, less 1.
    pub(super) ring_mask: u64,
    /// Most bytes of payload, and of context that is not the appender's, in a record.
    pub(super) limit: u64,
    /// The channel's [`Core`](super::Core).
    pub(super) core: AtomicPtr<()>,
}

const _: () = assert!(size_of::<PerCpu>() == 64);

/// What appends the records of one event class to a channel: all that the sequences read of it, in a cache line.
///
/// It is made by [`Core::appender`](super::Core::appender), and copied at will.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Appender {
    /// By CPU, concurrency ID or number of a thread.
    pub(super) table: *const PerCpu,
    /// Entries of `table`.
    pub(super) entries: u32,
    /// Event ID.
    pub(super) id: u32,
    /// The generation for which it was made.
    pub(super) generation: u64,
    /// Payload in words: what must fit behind the position, less 1.
    pub(super) reach: u64,
    /// Payload in words: what the commit adds to the commit word.
    pub(super) advance: u64,
    /// Distance of the word that holds the thread's ID from the thread pointer; 0: records do not carry it.
    pub(super) tid: i32,
    /// Bytes of the header, and of the thread ID behind it.
    pub(super) prefix: u32,
    /// Where the short form goes that declines, with the arguments as they came, but words in pieces.
    pub(super) slow: AppendPieces,
    /// Distance from the thread pointer of the word that is the index of the table.
    pub(super) index: i32,
    /// Bytes of the header, the thread ID, and a payload in words: where a piece behind them goes.
    pub(super) behind: u32,
}

const _: () = assert!(size_of::<Appender>() == 64);

// SAFETY: it is a number of constants; what `table` points to is read by sequences and through atomics (RB-1).
unsafe impl Send for Appender {}
// SAFETY: as above.
unsafe impl Sync for Appender {}

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
