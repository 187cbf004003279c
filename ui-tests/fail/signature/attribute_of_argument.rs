//~ KEY: takes no attribute but `#[field(…)]`
#[ringtrace::tracepoint]
fn sent(#[cfg(unix)] bytes: u64);

#[ringtrace::tracepoint]
fn received(#[field(unit = "B")] bytes: u64);

fn main() {}
