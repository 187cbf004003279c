//~ KEY: mismatched types
#[ringtrace::state_dump]
fn tables(dump: u32) {
    println!("{dump}");
}

fn main() {}
