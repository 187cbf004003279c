//~ KEY: argument requires that `total` is borrowed for `'static`
#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    let total = std::sync::atomic::AtomicU64::new(0);
    let borrowed = &total;
    let _guard = sent::attach(move |bytes| {
        borrowed.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
    });
}
