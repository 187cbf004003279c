//~ KEY: expected `name = "…"`
#[ringtrace::tracepoint(name = 3)]
fn first();

#[ringtrace::tracepoint(name)]
fn second();

#[ringtrace::tracepoint(record = true)]
fn third();

#[ringtrace::tracepoint(name = "")]
fn fourth();

#[ringtrace::tracepoint(name = "a b")]
fn fifth();

#[ringtrace::tracepoint(name = "all*")]
fn sixth();

fn main() {}
