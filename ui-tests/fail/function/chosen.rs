//~ KEY: `Answer` cannot be a field of an event
struct Answer;

#[ringtrace::tracepoint(fields(answer))]
fn ask(answer: Answer) -> Answer {
    answer
}

fn main() {
    ask(Answer);
}
