//~ KEY: the tracepoint takes another number of arguments than 1
#[ringtrace::tracepoint]
fn sent(bytes: u64, path: &str);

#[ringtrace::probe(sent)]
fn record_sent(_bytes: u64) {}

fn main() {}
