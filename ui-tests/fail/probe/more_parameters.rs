//~ KEY: takes another number of arguments than 2
#[ringtrace::tracepoint]
fn sent(bytes: u64);

#[ringtrace::probe(sent)]
fn record_sent(_bytes: u64, _path: &str) {}

fn main() {}
