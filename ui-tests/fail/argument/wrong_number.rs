//~ KEY: 1 argument but 2 arguments were supplied
#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    sent(1, 2);
}
