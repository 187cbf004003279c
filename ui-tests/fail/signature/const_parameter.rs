//~ KEY: a tracepoint cannot have const parameters
#[ringtrace::tracepoint]
fn sent<const N: usize>(value: [u8; N]);

fn main() {
    sent([1, 2]);
}
