//~ KEY: expected the path of a tracepoint first
#[ringtrace::probe]
fn first() {}

#[ringtrace::probe(name = "x")]
fn second() {}

fn main() {}
