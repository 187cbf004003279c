//~ KEY: usage of an `unsafe` block
//! Expansions do not hide the user's own.
#![forbid(unsafe_code)]

#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    sent(unsafe { 1 });
}
