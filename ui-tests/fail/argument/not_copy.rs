//~ KEY: `Page` cannot be an argument of a tracepoint
struct Page;

#[ringtrace::tracepoint]
fn evicted(page: Page);

fn main() {
    evicted(Page);
}
