//~ KEY: write `unsafe(crate = path)` where `path` is ringtrace itself
#[ringtrace::tracepoint(crate = ringtrace)]
fn sent(bytes: u64);

#[derive(ringtrace::Event)]
#[field(crate = ringtrace)]
struct Sent {
    bytes: u64,
}

#[ringtrace::probe(sent, unsafe(level = Debug), unsafe(crate = ringtrace))]
fn record_sent(bytes: u64) -> Sent {
    Sent { bytes }
}

fn main() {}
