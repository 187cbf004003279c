//~ KEY: this value has no name of its own: write `name = value`
struct NoField;

fn main() {
    let n = 1;
    ringtrace::event!("net:sent", n + 1);
    ringtrace::event!("net:sent", n, n);
    ringtrace::event!("net:sent", what = NoField);
    ringtrace::event!("net:sent", what = ?NoField);
    let _span = ringtrace::span!("net:batch", what = NoField);
}
