//~ KEY: borrowed data escapes
#[ringtrace::tracepoint]
fn opened(path: &str);

#[ringtrace::probe(opened)]
fn record_opened(_path: &'static str) {}

fn main() {}
