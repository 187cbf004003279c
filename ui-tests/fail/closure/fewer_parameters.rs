//~ KEY: closure is expected to take 2 arguments, but it takes 1 argument
#[ringtrace::tracepoint]
fn sent(bytes: u64, path: &str);

fn main() {
    let _guard = sent::attach(|_bytes| {});
}
