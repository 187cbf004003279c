//~ KEY: missing documentation for a function
//! A tracepoint's own line of documentation is no documentation.
#![deny(missing_docs)]

#[ringtrace::tracepoint]
pub fn sent(bytes: u64);

fn main() {}
