//~ KEY: a tracepoint is declared as a function without a body
#[ringtrace::tracepoint]
struct Sent {
    bytes: u64,
}

fn main() {}
