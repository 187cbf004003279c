//! No sequences: every function declines.
#![expect(unsafe_code, reason = "the same signatures as with sequences")]

use super::{Hot, Switch};
use crate::ring_buffer::Config;
use trace_registry::field::Piece;

pub(in crate::ring_buffer) fn index<C: Config>() -> Option<u32> {
    None
}

pub(in crate::ring_buffer) fn has_mm_cid() -> bool {
    false
}

/// # Safety
///
/// None is needed.
#[inline(always)]
pub(in crate::ring_buffer) unsafe fn append<C: Config, const EXTENDED: bool>(
    _: &Hot,
    _: u64,
    _: u32,
    _: &[Piece],
    _: usize,
    _: u64,
) -> (bool, u64) {
    (false, 0)
}

/// # Safety
///
/// None is needed.
pub(in crate::ring_buffer) unsafe fn switch<C: Config>(_: &Hot, _: u64, _: u32, _: &Switch<'_>, _: u64) -> bool {
    false
}
