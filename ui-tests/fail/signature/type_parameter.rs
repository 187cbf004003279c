//~ KEY: a tracepoint cannot have type parameters
#[ringtrace::tracepoint]
fn sent<T: Copy>(value: T);

fn main() {
    sent(1);
    ringtrace::fire!(sent("a"));
}
