//~ KEY: dropping the guard detaches the closure
#![deny(unused_must_use)]
#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    sent::attach(|_bytes| {});
}
