//~ KEY: the trait `Tracepoint` requires an `unsafe impl` declaration
use ringtrace::__private as private;

#[ringtrace::tracepoint(record)]
fn request(id: u64);

struct Lie;

/// The descriptor of a tracepoint with other arguments.
impl ringtrace::Tracepoint for Lie {
    type Itself = Lie;
    fn descriptor() -> &'static ringtrace::TracepointDescriptor {
        &ringtrace::registry::tracepoints()[0]
    }
}

impl private::Takes<1> for Lie {
    type Itself = Lie;
    const ITSELF: Lie = Lie;
}

/// A site at the gate of a tracepoint, whose functions are called.
impl private::Site for Lie {
    const LEVEL: private::Level = private::Level::Info;
    const LOCATION: private::Location = private::Location { file: "", line: 0 };
    const MODULE: &'static str = "";
    const FIELDS: &'static [&'static str] = &[];
    const RESULT: &'static [&'static str] = &[];
    fn descriptor() -> &'static ringtrace::TracepointDescriptor {
        &ringtrace::registry::tracepoints()[0]
    }
}

fn main() {}
