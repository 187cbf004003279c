//~ KEY: cannot be an argument of a tracepoint
struct Page;

#[ringtrace::tracepoint]
fn evicted(page: &mut Page, id: u64);

fn main() {
    evicted(&mut Page, 1);
}
