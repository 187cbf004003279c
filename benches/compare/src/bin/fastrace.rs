//! `fastrace`: events with properties in a span of the thread, a new root span for each thousand.

use compare::Tracer;
use fastrace::collector::{Config, Reporter, SpanContext, SpanRecord};
use fastrace::local::LocalParentGuard;
use fastrace::prelude::{Event, LocalSpan, Span};

const EVENTS_OF_A_SPAN: u32 = 1000;

struct Counting;

impl Reporter for Counting {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        compare::arrived_elsewhere(spans.iter().map(|span| span.events.len() as u64).sum());
    }
}

struct Fastrace;

/// The guard ends before the span.
struct Thread {
    guard: Option<LocalParentGuard>,
    root: Option<Span>,
    left: u32,
}

impl Thread {
    fn end(&mut self) {
        self.guard = None;
        self.root = None;
    }

    #[inline(always)]
    fn event(&mut self, event: impl FnOnce() -> Event) {
        if self.left == 0 {
            self.end();
            let root = Span::root("root", SpanContext::random());
            self.guard = Some(root.set_local_parent());
            (self.root, self.left) = (Some(root), EVENTS_OF_A_SPAN);
        }
        self.left -= 1;
        LocalSpan::add_event(event());
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.end();
    }
}

impl Tracer for Fastrace {
    type Thread<'a> = Thread;

    const MOST: u64 = 40_000;

    fn thread(&self) -> Thread {
        Thread { guard: None, root: None, left: 0 }
    }

    #[inline(always)]
    fn number(thread: &mut Thread, value: u64) {
        thread.event(|| Event::new("number").with_property(|| ("value", value.to_string())));
    }

    #[inline(always)]
    fn mix(thread: &mut Thread, small: u32, large: u64, text: &str) {
        thread.event(|| {
            Event::new("mixed")
                .with_properties(|| [("small", small.to_string()), ("large", large.to_string()), ("text", text.to_owned())])
        });
    }

    fn arrived(&self, fired: u64) -> Option<u64> {
        fastrace::flush();
        Some(compare::count(fired))
    }
}

fn main() {
    fastrace::set_reporter(Counting, Config::default());
    compare::serve(&Fastrace);
}
