//~ KEY: no function in here can be traced
struct Empty;

#[ringtrace::tracepoint]
impl Empty {
    const fn new() -> Empty {
        Empty
    }
}

#[ringtrace::tracepoint]
mod nothing {
    pub(super) struct Nothing;
}

#[ringtrace::tracepoint(name = "x")]
impl Empty {
    fn look(&self) {
        let _ = nothing::Nothing;
    }
}

fn main() {
    Empty::new().look();
}
