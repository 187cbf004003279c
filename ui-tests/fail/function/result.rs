//~ KEY: `Answer` cannot be a field of an event
struct Answer;

#[ringtrace::tracepoint(result)]
fn ask() -> Answer {
    Answer
}

#[ringtrace::tracepoint(result = json)]
fn answer() -> u32 {
    42
}

fn main() {
    ask();
    answer();
}
