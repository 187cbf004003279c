//~ KEY: type mismatch in closure arguments
#[ringtrace::tracepoint]
fn sent(bytes: u64, path: &str);

fn main() {
    let _guard = sent::attach(|_bytes: u32, _path| {});
}
