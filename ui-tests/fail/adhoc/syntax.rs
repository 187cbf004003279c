//~ KEY: expected the name of the event first
fn main() {
    let n = 1;
    ringtrace::event!(n);
    ringtrace::event!("net sent", n);
    ringtrace::event!("net:sent", n, if n > 0);
    ringtrace::event!("net:sent", n; level = Debgu);
    ringtrace::event!("net:sent", n; lvl = Debug);
    ringtrace::event!("net:sent", n; if n > 0, level = Debug);
    ringtrace::event!("net:sent" n);
}
