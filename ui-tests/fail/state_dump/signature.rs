//~ KEY: a state dump takes one argument
#[ringtrace::state_dump]
fn nothing() {}

#[ringtrace::state_dump(nmae = "x")]
async fn generic<T>(dump: &ringtrace::StateDump<'_>, value: T) {}

#[ringtrace::state_dump]
struct State;

fn main() {}
