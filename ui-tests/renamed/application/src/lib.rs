//! An application of the framework, without ringtrace among its dependencies.
#![deny(warnings)]
#![forbid(unsafe_code)]

use framework::tracer;

framework::declare!(started(id: u64, name: &str));

#[tracer::tracepoint(crate = framework::tracer)]
fn stopped(id: u64);

#[derive(tracer::Field)]
#[field(crate = framework::tracer)]
enum Why {
    Done,
    Failed { code: i32 },
}

#[derive(tracer::Event)]
#[field(crate = framework::tracer)]
struct Stopped {
    id: u64,
    why: Why,
}

#[tracer::probe(stopped, crate = framework::tracer)]
fn record_stopped(id: u64) -> Stopped {
    Stopped { id, why: if id == 0 { Why::Done } else { Why::Failed { code: 1 } } }
}

/// Runs.
pub fn run() {
    started(1, "a");
    tracer::fire!(stopped(1));
}
