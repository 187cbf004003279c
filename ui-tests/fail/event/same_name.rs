//~ KEY: the name `id` is used twice
#[derive(ringtrace::Event)]
struct Sent {
    id: u64,
    #[field(rename = "id")]
    other: u64,
}

fn main() {}
