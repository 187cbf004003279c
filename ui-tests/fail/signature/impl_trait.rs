//~ KEY: a tracepoint cannot be `impl Trait`
#[ringtrace::tracepoint]
fn sent(value: impl Copy);

fn main() {
    sent(1);
}
