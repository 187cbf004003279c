//~ KEY: `Page` cannot be a field of an event
struct Page;

#[derive(ringtrace::Event)]
struct Evicted<'a> {
    id: u64,
    page: &'a Page,
    #[field(sensitive)]
    old: Option<Page>,
}

fn main() {}
