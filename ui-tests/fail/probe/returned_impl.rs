//~ KEY: a probe cannot return `impl Trait`
#[ringtrace::tracepoint]
fn sent(bytes: u64);

#[derive(ringtrace::Event)]
struct Sent {
    bytes: u64,
}

#[ringtrace::probe(sent)]
fn record_sent(bytes: u64) -> impl ringtrace::Event {
    Sent { bytes }
}

fn main() {}
