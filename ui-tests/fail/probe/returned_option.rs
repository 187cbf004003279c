//~ KEY: a probe cannot return `Option<Sent>`
struct Sent;

#[ringtrace::tracepoint]
fn sent();

#[ringtrace::probe(sent)]
fn record_sent() -> Option<Sent> {
    Some(Sent)
}

fn main() {}
