//! Ringtrace.

pub mod clock;
pub mod ring_buffer;
mod sys;
