//~ KEY: cannot assign to `total`, as it is a captured variable in a `Fn` closure
#[ringtrace::tracepoint]
fn sent(bytes: u64);

fn main() {
    let mut total = 0;
    let _guard = sent::attach(move |bytes| total += bytes);
}
