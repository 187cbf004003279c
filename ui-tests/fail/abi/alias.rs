//~ KEY: `&'static str` has lifetimes, and is not written by its own name
type Name<'a> = &'a str;

#[derive(ringtrace::Abi)]
struct Page<'a> {
    id: u64,
    name: Name<'a>,
}

fn main() {}
