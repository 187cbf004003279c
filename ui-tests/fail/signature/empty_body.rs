//~ KEY: end the declaration with `;`
#[ringtrace::tracepoint]
fn sent(bytes: u64) {}

fn main() {
    sent(1);
}
