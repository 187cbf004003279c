//~ KEY: a closure is attached to a reentrant tracepoint by `unsafe attach_reentrant` only
#[ringtrace::tracepoint(reentrant)]
fn allocated(bytes: u64);

fn main() {
    let _guard = allocated::attach(|_bytes| {});
}
