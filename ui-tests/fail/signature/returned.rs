//~ KEY: a tracepoint returns nothing
#[ringtrace::tracepoint]
fn sent(bytes: u64) -> bool;

fn main() {
    if sent(1) {}
}
