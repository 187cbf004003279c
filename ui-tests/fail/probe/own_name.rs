//~ KEY: a probe needs another name than its tracepoint
#[ringtrace::tracepoint]
fn sent(bytes: u64);

#[ringtrace::probe(sent)]
fn sent(_bytes: u64) {}

fn main() {
    sent(1);
}
