//! No sequences: every function declines.
#![expect(unsafe_code, clippy::extra_unused_type_parameters, reason = "the same signatures as with sequences")]

use super::{AppendPieces, AppendTail, AppendWords, Appender, PerCpu, Switch};
use crate::ring_buffer::{Config, Placement};
use trace_registry::field::Piece;

pub(in crate::ring_buffer) fn index<C: Config>() -> Option<u32> {
    None
}

pub(in crate::ring_buffer) fn index_by(_: Placement) -> Option<u32> {
    None
}

/// There is no such word.
pub(in crate::ring_buffer) fn index_distance(_: Placement) -> isize {
    0
}

/// Nothing is numbered.
pub(in crate::ring_buffer) fn number_threads() -> std::io::Result<()> {
    Ok(())
}

/// There is none.
pub(in crate::ring_buffer) fn thread_number() -> Option<u32> {
    None
}

/// No thread is numbered.
pub(in crate::ring_buffer) const MOST_THREADS: usize = 1;

pub(in crate::ring_buffer) fn has_mm_cid() -> bool {
    false
}

/// Takes the slow path.
///
/// # Safety
///
/// As for the slow path.
pub(in crate::ring_buffer) unsafe fn append<C: Config>(
    appender: &Appender,
    pieces: &[Piece],
    total: usize,
    _: impl FnOnce() -> u64,
) -> u8 {
    // SAFETY: the caller's duty.
    unsafe { (appender.slow)(appender, pieces.as_ptr(), pieces.len(), total) }
}

pub(in crate::ring_buffer) fn direct_words<C: Config>(_: usize) -> Option<AppendWords> {
    None
}

pub(in crate::ring_buffer) fn direct_tail<C: Config>(_: usize) -> Option<AppendTail> {
    None
}

pub(in crate::ring_buffer) fn direct_pieces<C: Config>() -> Option<AppendPieces> {
    None
}

/// Not 0, which would say that records do not carry the thread's ID.
pub(in crate::ring_buffer) fn tid_offset() -> i32 {
    1
}

/// # Safety
///
/// None is needed.
pub(in crate::ring_buffer) unsafe fn append_extended<C: Config>(
    _: &Appender,
    _: &[Piece],
    _: usize,
    _: impl FnOnce() -> u64,
) -> Option<u64> {
    None
}

/// # Safety
///
/// None is needed.
pub(in crate::ring_buffer) unsafe fn switch<C: Config>(_: &PerCpu, _: u64, _: u32, switch: &Switch<'_>, _: u64) -> bool {
    let Switch { control: _control, expected: _expected, new: _new, stamp_at: _stamp_at, stores: _stores } = switch;
    false
}
