//~ KEY: did you mean `sensitive`?
#[ringtrace::tracepoint(record)]
fn sent(#[field(sensitiv)] to: &str, #[field(rename = "to")] bytes: u64) -> bool;

fn main() {}
