//~ KEY: the layout of `Owner` is not known
struct Owner(u32);

#[derive(ringtrace::Abi)]
struct Page {
    id: u64,
    owner: Owner,
}

fn main() {}
