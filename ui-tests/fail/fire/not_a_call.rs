//~ KEY: `fire!` takes the call of a tracepoint
#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    ringtrace::fire!(sent);
}
