//~ KEY: mismatched types
#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    let _guard = sent::attach(|bytes| bytes + 1);
}
