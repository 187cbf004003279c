//~ KEY: `String` cannot be an argument of a tracepoint
#[ringtrace::tracepoint]
fn opened(path: String);

fn main() {
    opened(String::new());
}
