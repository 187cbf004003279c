//~ KEY: the level belongs to the probe
#[ringtrace::tracepoint(level = Debug)]
fn sent();

fn main() {}
