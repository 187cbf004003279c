//~ KEY: `Page` is not a tracepoint
struct Page;

#[ringtrace::probe(Page)]
fn record_page(_id: u64) {}

fn main() {}
