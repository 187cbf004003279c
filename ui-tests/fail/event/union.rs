//~ KEY: a union cannot be recorded
#[derive(ringtrace::Event)]
union Word {
    number: u32,
    bytes: [u8; 4],
}

fn main() {}
