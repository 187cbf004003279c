//~ KEY: unknown option `names`
#[ringtrace::tracepoint(names = "net:sent")]
fn sent(bytes: u64);

fn main() {
    let _guard = sent::attach(|_bytes| {});
}
