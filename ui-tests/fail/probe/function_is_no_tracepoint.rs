//~ KEY: expected type, found function `evicted`
fn evicted(_id: u64) {}

#[ringtrace::probe(evicted)]
fn record_evicted(_id: u64) {}

fn main() {
    evicted(1);
}
