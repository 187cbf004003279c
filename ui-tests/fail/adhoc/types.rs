//~ KEY: options stand behind a `;`: `…; level = Info`
fn main() {
    let n = 1;
    ringtrace::event!("net:sent", n, level = Info);
    ringtrace::event!("net:sent", n; if n);
}
