//~ KEY: function `sent` is not a crate or module
fn sent(_bytes: u64) {}

fn main() {
    ringtrace::fire!(sent(1));
}
