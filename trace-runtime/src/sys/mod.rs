//! System calls and counters, apart from the ring buffer's sequences.

pub(crate) mod counter;
mod image;
pub(crate) mod library;
pub(crate) mod memory;
mod program;
mod random;

pub(crate) use image::*;
pub(crate) use program::*;
pub(crate) use random::random;
