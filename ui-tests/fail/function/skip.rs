//~ KEY: `nmae` is no argument; they are `name` and `size`; did you mean `name`?
#[ringtrace::tracepoint(skip(nmae))]
fn open(name: &str, size: u64) -> u64 {
    name.len() as u64 + size
}

#[ringtrace::tracepoint(skip(name), fields(size))]
fn both(name: &str, size: u64) -> u64 {
    name.len() as u64 + size
}

#[ringtrace::tracepoint(fields(size + 1, skip = 1, skip = 2), skip)]
fn values(size: u64) -> u64 {
    size
}

fn main() {
    println!("{}", open("a", 1) + both("a", 1) + values(1));
}
