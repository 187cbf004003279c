//~ KEY: mismatched types
#[ringtrace::tracepoint]
fn sent(bytes: u64, path: &str);

#[ringtrace::probe(sent)]
fn record_sent(_bytes: u64, _path: &[u8]) {}

fn main() {}
