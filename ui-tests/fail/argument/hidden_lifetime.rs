//~ KEY: missing lifetime specifier
#[derive(Clone, Copy, ringtrace::Field)]
struct Key<'a> {
    text: &'a str,
}

#[ringtrace::tracepoint(record)]
fn found(key: Key);

fn main() {}
