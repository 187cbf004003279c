//! Fired by a generic function.

/// One static, however often the function is instantiated.
#[ringtrace::tracepoint]
pub fn generic_called(value: u64);
