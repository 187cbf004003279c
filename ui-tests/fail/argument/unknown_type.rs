//~ KEY: cannot find type `Page` in this scope
#[ringtrace::tracepoint]
fn evicted(page: &Page);

fn main() {}
