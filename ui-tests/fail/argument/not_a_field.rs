//~ KEY: `Page` cannot be a field of an event
#[derive(Clone, Copy)]
struct Page;

#[ringtrace::tracepoint(record)]
fn evicted(page: &Page, id: u64);

fn main() {
    evicted(&Page, 1);
}
