//~ KEY: `span` is the number by which the entry and the exit of a span belong together: choose another name
fn main() {
    let span = 1u32;
    let _span = ringtrace::span!("net:batch", span);
}
