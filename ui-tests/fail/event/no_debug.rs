//~ KEY: `Page` doesn't implement `std::fmt::Debug`
struct Page;

#[derive(ringtrace::Event)]
struct Evicted<'a> {
    #[field(debug)]
    page: &'a Page,
}

fn main() {}
