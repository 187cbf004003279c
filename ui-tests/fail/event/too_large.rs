//~ KEY: more than 384 bytes
#[derive(ringtrace::Event)]
struct Evicted {
    left: [Option<u32>; 40],
    right: [Option<u32>; 40],
}

fn main() {}
