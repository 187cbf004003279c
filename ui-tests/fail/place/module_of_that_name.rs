//~ KEY: the name `sent` is defined multiple times
mod sent {
    pub fn all() {}
}

#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    sent(1);
}
