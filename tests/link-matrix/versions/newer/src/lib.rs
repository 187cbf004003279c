//! A library that uses the newer of two versions of ringtrace.

/// Fired by the program.
#[ringtrace::tracepoint(record)]
pub fn fired(id: u64);
