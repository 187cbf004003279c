//! No sequences: every function declines.
#![expect(unsafe_code, clippy::extra_unused_type_parameters, reason = "the same signatures as with sequences")]

use super::{Hot, Switch};
use crate::ring_buffer::{Config, Outcome, Placement};
use trace_registry::field::Piece;

pub(in crate::ring_buffer) fn index<C: Config>() -> Option<u32> {
    None
}

pub(in crate::ring_buffer) fn index_by(_: Placement) -> Option<u32> {
    None
}

pub(in crate::ring_buffer) fn rseq_offset() -> isize {
    0
}

pub(in crate::ring_buffer) fn has_mm_cid() -> bool {
    false
}

/// Takes the slow path.
///
/// # Safety
///
/// As for the slow path.
#[inline(always)]
pub(in crate::ring_buffer) unsafe fn append<C: Config>(
    hot: *const Hot,
    generation: u64,
    ids: u64,
    pieces: &[Piece],
    total: usize,
    _: impl FnOnce() -> u64,
) -> Outcome {
    let pieces = pieces.as_ptr_range();
    // SAFETY: the caller's duty; `hot` belongs to a core.
    unsafe { ((*hot).slow)(hot, generation, ids, pieces.start, pieces.end, total) }
}

/// # Safety
///
/// None is needed.
pub(in crate::ring_buffer) unsafe fn append_extended<C: Config>(
    _: *const Hot,
    _: u64,
    _: u64,
    _: &[Piece],
    _: usize,
    _: impl FnOnce() -> u64,
) -> Option<u64> {
    None
}

/// # Safety
///
/// None is needed.
pub(in crate::ring_buffer) unsafe fn switch<C: Config>(_: &Hot, _: u64, _: u32, switch: &Switch<'_>, _: u64) -> bool {
    let Switch { control: _control, expected: _expected, new: _new, stamp_at: _stamp_at, stores: _stores } = switch;
    false
}
