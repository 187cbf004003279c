//~ KEY: `Page` refers to itself, so that its hash would be made from itself: it has no `Abi`
#[derive(ringtrace::Abi)]
struct Page {
    id: u64,
    next: Option<Box<Page>>,
}

#[derive(ringtrace::Abi)]
enum List<'a> {
    End,
    More(&'a List<'a>),
}

fn main() {}
