//~ KEY: `Answer` doesn't implement `std::fmt::Debug`
struct Answer;

#[ringtrace::tracepoint(result = debug)]
fn ask() -> Answer {
    Answer
}

fn main() {
    ask();
}
