//~ KEY: unknown option `record`
#[ringtrace::tracepoint(record)]
fn sent(bytes: u64) {
    println!("{bytes}");
}

fn main() {
    sent(1);
}
