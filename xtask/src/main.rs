//! Ringtrace.
fn main() {}
