//~ KEY: `reentrant` is given twice
#[ringtrace::tracepoint(reentrant, reentrant)]
fn sent();

fn main() {}
