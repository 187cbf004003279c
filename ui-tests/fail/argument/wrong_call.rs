//~ KEY: mismatched types
#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    sent("12");
    ringtrace::fire!(sent("12"));
}
