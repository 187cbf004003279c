//~ KEY: a tracepoint has a fixed number of arguments
#[ringtrace::tracepoint]
fn printed(format: &str, args: ...);

fn main() {}
