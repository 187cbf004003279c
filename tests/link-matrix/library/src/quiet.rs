//! Nothing refers to this module.

/// Never fired, never named.
#[ringtrace::tracepoint]
pub fn never_named(value: u32);
