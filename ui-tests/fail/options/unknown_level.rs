//~ KEY: the levels are `Emerg`, `Alert`
#[ringtrace::tracepoint(record, level = Warnung)]
fn sent();

#[ringtrace::tracepoint]
fn received();

#[ringtrace::probe(received, level = debug)]
fn record_received() {}

fn main() {}
