//! Firing: what is evaluated, what runs, in which order, and what is counted as lost.

use crate::collect::{Channel, attach, collect, detach, probes};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use trace_registry::probe::Loss;
use trace_registry::tracepoint::MAX_NESTING;

#[derive(ringtrace::Event)]
struct Number {
    number: u32,
}

#[ringtrace::tracepoint(record)]
fn evaluated(number: u32);

#[test]
fn arguments_are_evaluated_by_a_call_always_and_by_fire_when_on() {
    let count = Cell::new(0);
    let next = || {
        count.set(count.get() + 1);
        count.get()
    };
    assert!(!evaluated::enabled());
    evaluated(next());
    ringtrace::fire!(evaluated(next()));
    assert_eq!(count.get(), 1);
    let collected = collect::<evaluated>(|| {
        assert!(evaluated::enabled());
        evaluated(next());
        ringtrace::fire!(evaluated(next()));
        ringtrace::fire!(crate::firing::evaluated(next(),));
    });
    assert!(!evaluated::enabled());
    assert_eq!(collected.records(), [2u32, 3, 4].map(|n| n.to_ne_bytes().to_vec()));
}

static ORDER: Mutex<Vec<&str>> = Mutex::new(Vec::new());

fn note(what: &'static str) {
    ORDER.lock().expect("no probe panics with it").push(what);
}

#[ringtrace::tracepoint]
fn several(number: u32);

#[ringtrace::probe(several, name = "first")]
fn always(number: u32) -> Number {
    note("always");
    Number { number }
}

#[ringtrace::probe(several, name = "second")]
fn when_even(number: u32) -> Option<Number> {
    note("when even");
    (number % 2 == 0).then_some(Number { number: number * 10 })
}

#[ringtrace::probe(several, name = "third")]
fn action(_number: u32) {
    note("action");
}

#[test]
fn probes_run_in_the_order_of_the_list_and_may_skip_or_only_act() {
    let collected = collect::<several>(|| {
        several(1);
        several(2);
    });
    let expected = [1u32, 2, 20].map(|n| n.to_ne_bytes().to_vec());
    assert_eq!(collected.records(), expected);
    assert_eq!(*ORDER.lock().expect("as above"), ["always", "when even", "action"].repeat(2));
    let classes: Vec<_> = probes::<several>().iter().map(|p| p.class.map(|c| c.name)).collect();
    assert_eq!(classes, [Some("Number"), Some("Number"), None]);
    assert_eq!(probes::<several>()[0].least, 4);
}

#[ringtrace::tracepoint(reentrant)]
fn nested(depth: u32);

#[ringtrace::probe(nested)]
fn record_nested(depth: u32) -> Number {
    nested(depth + 1);
    Number { number: depth }
}

#[test]
fn nesting_is_bounded_and_what_is_deeper_is_counted() {
    let collected = collect::<nested>(|| nested(0));
    // The innermost returns first.
    let expected: Vec<_> = (0..MAX_NESTING).rev().map(|n| n.to_ne_bytes().to_vec()).collect();
    assert_eq!(collected.records(), expected);
    assert_eq!(collected.losses(), [Loss::Nested]);
    let again = collect::<nested>(|| nested(MAX_NESTING));
    assert_eq!(again.records().len(), MAX_NESTING as usize, "the depth is back at zero");
}

/// Panics are contained by the standard library, which the run time brings.
#[cfg(feature = "runtime")]
mod panics {
    use super::*;

    #[ringtrace::tracepoint]
    fn fragile(number: u32);

    #[ringtrace::probe(fragile, name = "fragile.panics")]
    fn panics(number: u32) -> Number {
        assert_ne!(number, 2);
        Number { number }
    }

    #[ringtrace::probe(fragile, name = "fragile.stays")]
    fn stays(number: u32) -> Number {
        Number { number: number * 10 }
    }

    #[test]
    fn a_panic_is_contained_and_takes_its_probe_out() {
        let collected = collect::<fragile>(|| (1..=3).for_each(fragile));
        let expected = [1u32, 10, 20, 30].map(|n| n.to_ne_bytes().to_vec());
        assert_eq!(collected.records(), expected);
        assert_eq!(collected.losses(), [Loss::Panicked]);
        let counts: Vec<_> = probes::<fragile>().iter().map(|p| p.panics.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [1, 0]);
    }
}

#[ringtrace::tracepoint(record)]
fn shared(number: u64);

fn generic<T: Default + ToString>(number: u64) {
    let _ = T::default().to_string();
    shared(number);
}

#[inline(always)]
fn inlined(number: u64) {
    ringtrace::fire!(shared(number));
}

#[test]
fn generic_inlined_and_indirect_calls_share_one_gate() {
    let pointer: fn(u64) = shared;
    let fire = || {
        generic::<u8>(1);
        generic::<String>(2);
        inlined(3);
        pointer(4);
        std::thread::spawn(|| shared(5)).join().expect("it does not panic");
    };
    let collected = collect::<shared>(fire);
    fire();
    assert_eq!(collected.records(), [1u64, 2, 3, 4, 5].map(|n| n.to_ne_bytes().to_vec()));
}

#[ringtrace::tracepoint(record)]
fn limited(number: u64, text: &str);

#[test]
fn each_channel_gets_the_event_within_its_own_limit() {
    let (wide, narrow) = (Channel::new(), Channel { limit: 16, ..Channel::new() });
    attach::<limited>(&[wide, narrow]);
    limited(1, "four");
    limited(2, "twelve bytes");
    detach::<limited>();
    let cut = [b"\x06\0twe", "…".as_bytes()].concat();
    for (channel, second, cuts) in [(wide, b"\x0c\0twelve bytes".to_vec(), 0), (narrow, cut, 1)] {
        let records = channel.collected.records();
        assert_eq!(records[0][8..], *b"\x04\0four");
        assert_eq!(records[1][8..], second);
        assert_eq!(channel.collected.cuts(), cuts);
    }
    let tiny = Channel { limit: 9, ..Channel::new() };
    attach::<limited>(&[tiny]);
    limited(3, "");
    detach::<limited>();
    assert_eq!(tiny.collected.losses(), [Loss::TooLarge]);
    assert!(tiny.collected.records().is_empty());
}

#[ringtrace::tracepoint]
fn counted();

static COUNT: AtomicUsize = AtomicUsize::new(0);

#[ringtrace::probe(counted)]
fn count() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn an_action_runs_without_any_channel() {
    counted();
    attach::<counted>(&[]);
    counted();
    ringtrace::fire!(counted());
    detach::<counted>();
    counted();
    assert_eq!(COUNT.load(Ordering::Relaxed), 2);
}
