//! System calls and counters, apart from the ring buffer's sequences.

pub(crate) mod counter;
mod file;
mod image;
pub(crate) mod library;
pub(crate) mod memory;
pub(crate) mod object_file;
mod program;
mod random;
mod signal;

pub(crate) use file::{start_writing, without_signals};
pub(crate) use image::*;
pub(crate) use program::*;
pub(crate) use random::random;
pub(crate) use signal::on_signal;
