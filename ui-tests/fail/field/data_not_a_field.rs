//~ KEY: `Page` cannot be a field of an event
struct Page;

#[derive(ringtrace::Field)]
enum Change {
    None,
    Of(Page),
}

fn main() {}
