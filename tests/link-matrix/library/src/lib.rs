//! A library as most are: no features of ringtrace, no standard library, tracepoints in several modules.
#![no_std]
#![forbid(unsafe_code)]

pub mod inner;
pub mod quiet;

/// Fired by the application.
#[ringtrace::tracepoint]
pub fn opened(id: u64);

/// In a function of each type.
pub fn generic<T: Copy + Into<u64>>(value: T) {
    inner::generic_called(value.into());
}
