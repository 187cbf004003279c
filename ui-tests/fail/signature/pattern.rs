//~ KEY: an argument of a tracepoint is a name, not a pattern
#[ringtrace::tracepoint]
fn moved((from, to): (u32, u32), mut by: u8, _: bool);

fn main() {
    moved((1, 2), 3, true);
}
