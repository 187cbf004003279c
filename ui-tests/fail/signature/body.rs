//~ KEY: what is recorded is written in a probe: end the declaration with `;`
#[ringtrace::tracepoint]
fn sent(bytes: u64) {
    println!("{bytes}");
}

fn main() {
    sent(1);
}
