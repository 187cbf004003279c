//~ KEY: an event is a struct
#[derive(ringtrace::Event)]
enum Moved {
    Up,
    Down { by: u32 },
}

fn main() {}
