//! Where pthread_exit(3) does not unwind, or nobody knows how to go on.
#![expect(unsafe_code, reason = "callers promise what they promise elsewhere")]

use core::mem::MaybeUninit;

/// Does nothing.
///
/// # Safety
///
/// None.
pub(crate) unsafe fn end_behind(_: *const MaybeUninit<u8>) {}
