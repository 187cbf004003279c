//~ KEY: a recorded type cannot be generic
#[derive(ringtrace::Event)]
struct Sent<T> {
    value: T,
}

#[ringtrace::tracepoint]
fn sent(bytes: u64);

#[ringtrace::probe(sent)]
fn record_sent(value: u64) -> Sent<u64> {
    Sent { value }
}

fn main() {}
