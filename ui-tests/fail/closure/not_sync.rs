//~ KEY: `Cell<u64>` cannot be shared between threads safely
#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    let total = std::cell::Cell::new(0);
    let _guard = sent::attach(move |bytes| total.set(bytes));
}
