//~ KEY: a recorded type cannot be generic
#[derive(ringtrace::Field)]
struct Pair<T> {
    left: T,
    right: T,
}

fn main() {}
