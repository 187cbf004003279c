//~ KEY: an enum without variants has no values
#[derive(ringtrace::Field)]
enum Never {}

fn main() {}
