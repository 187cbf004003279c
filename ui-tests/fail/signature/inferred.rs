//~ KEY: the type of an argument must be written out
#[ringtrace::tracepoint]
fn sent(value: &_);

fn main() {}
