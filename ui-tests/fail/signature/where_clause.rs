//~ KEY: a tracepoint cannot have a `where` clause
#[ringtrace::tracepoint]
fn linked<'a>(from: &'a str) where 'a: 'static;

fn main() {
    linked("a");
}
