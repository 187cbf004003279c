//! `tracing` with a subscriber that is interested in everything and keeps nothing.

use compare::{Counted, Tracer};
use std::hint::black_box;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_global_default;
use tracing::{Event, Metadata, Subscriber};

struct NoOp;

impl Subscriber for NoOp {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        black_box(event);
        compare::arrived_here();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Tracing;

impl Tracer for Tracing {
    type Thread<'a> = Counted;

    fn thread(&self) -> Counted {
        Counted
    }

    #[inline(always)]
    fn number(_: &mut Counted, value: u64) {
        tracing::info!(value);
    }

    #[inline(always)]
    fn mix(_: &mut Counted, small: u32, large: u64, text: &str) {
        tracing::info!(small, large, text);
    }

    fn arrived(&self, fired: u64) -> Option<u64> {
        Some(compare::count(fired))
    }
}

fn main() {
    set_global_default(NoOp).expect("the first");
    compare::serve(&Tracing);
}
