//~ KEY: a tracepoint returns nothing
#[ringtrace::tracepoint(nmae = "x", record, record)]
async fn sent<T>((a, b): (u32, u32), value: T) -> u32;

fn main() {
    let _n: u32 = sent((1, 2), 3);
}
