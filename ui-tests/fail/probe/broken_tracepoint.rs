//~ KEY: a tracepoint returns nothing
#[ringtrace::tracepoint]
fn sent(bytes: u64) -> bool;

#[ringtrace::probe(sent)]
fn record_sent(_bytes: u64) {}

fn main() {
    if sent::enabled() {
        ringtrace::fire!(sent(1));
    }
}
