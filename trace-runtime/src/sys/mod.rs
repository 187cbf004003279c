//! System calls and counters, apart from the ring buffer's sequences.

pub(crate) mod counter;
pub(crate) mod memory;
