//~ KEY: expected an option
#[ringtrace::tracepoint("sent")]
fn sent();

fn main() {}
