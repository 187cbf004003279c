//~ KEY: a probe is a function with a body
#[ringtrace::tracepoint]
fn sent(bytes: u64);

#[ringtrace::probe(sent)]
fn record_sent(bytes: u64);

fn main() {}
