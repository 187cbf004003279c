//~ KEY: the span ends where this is dropped, which is at once: `let _span = span!(…)`
#![deny(unused_must_use)]

fn main() {
    ringtrace::span!("net:batch", n = 1);
}
