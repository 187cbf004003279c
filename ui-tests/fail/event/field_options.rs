//~ KEY: a field is shown one way
#[derive(ringtrace::Event)]
struct Sent {
    #[field(hex, debug)]
    address: u64,
    #[field(rename = "two words")]
    bytes: u64,
    #[field(unit = "")]
    count: u64,
    #[field(sensitve)]
    key: u64,
    #[field]
    other: u64,
    #[field(hex = true)]
    flags: u64,
}

fn main() {}
