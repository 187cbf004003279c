//~ KEY: a probe cannot be generic
#[ringtrace::tracepoint]
fn sent(bytes: u64);

#[ringtrace::probe(sent)]
async fn later(_bytes: u64) {}

#[ringtrace::probe(sent)]
unsafe fn dangerous(_bytes: u64) {}

#[ringtrace::probe(sent)]
fn generic<T: From<u64>>(_bytes: T) {}

#[ringtrace::probe(sent)]
fn opaque(_bytes: impl Copy) {}

fn main() {}
