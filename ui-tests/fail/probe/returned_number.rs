//~ KEY: a probe cannot return `u64`
#[ringtrace::tracepoint]
fn sent(bytes: u64);

#[ringtrace::probe(sent)]
fn record_sent(bytes: u64) -> u64 {
    bytes
}

fn main() {}
