//~ KEY: a `const fn` cannot be traced
#[ringtrace::tracepoint]
const fn half(value: u64) -> u64 {
    value / 2
}

const HALF: u64 = half(4);

fn main() {
    println!("{HALF}");
}
