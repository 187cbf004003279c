//~ KEY: unknown option `lvel`
#[ringtrace::tracepoint(record, lvel = Debug)]
fn sent();

#[ringtrace::tracepoint(verbose)]
fn received();

fn main() {}
