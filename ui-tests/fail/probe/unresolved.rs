//~ KEY: cannot find module or crate `nowhere`
#[ringtrace::probe(nowhere::evicted)]
fn record_evicted(_id: u64) {}

fn main() {}
