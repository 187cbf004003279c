//~ KEY: a type with type or const parameters has many layouts
#[derive(ringtrace::Abi)]
struct Page<T> {
    id: T,
}

fn main() {}
