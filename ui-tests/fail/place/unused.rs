//~ KEY: function `sent` is never used
#![deny(dead_code)]

#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {}
