//~ KEY: a declaration of a tracepoint ends with `;`
#[ringtrace::tracepoint]
fn sent(bytes: u64) {}

fn main() {
    sent(1);
}
