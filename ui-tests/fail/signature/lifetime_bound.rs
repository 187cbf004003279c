//~ KEY: a lifetime of a tracepoint cannot have bounds
#[ringtrace::tracepoint]
fn linked<'a: 'b, 'b>(from: &'a str, to: &'b str);

fn main() {
    linked("a", "b");
}
