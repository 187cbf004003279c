//! Events whose probe list is read through a general-purpose pointer that can be swapped, in the place of our read side.
//!
//! List, probe and rings are those of `event/action`, `event/u64` and `event/u64/noclock`. What is missing is the count of nesting.

use super::rows::{acted, number, untimed};
use arc_swap::ArcSwap;
use ringtrace::__private::Entry;
use ringtrace::Tracepoint;
use std::hint::black_box;
use std::sync::LazyLock;

/// The list of a tracepoint that stays enabled.
struct List(*const Entry);

// SAFETY: lists are read by all threads, and nobody changes one that is published.
#[expect(unsafe_code, reason = "a list is reached by address")]
unsafe impl Send for List {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a list is reached by address")]
unsafe impl Sync for List {}

/// What the emitter does between the gate and the probes.
#[inline(always)]
fn emit(list: &ArcSwap<List>, value: u64) {
    let list = list.load();
    // SAFETY: the session that enabled the tracepoint stays, and so does the list.
    #[expect(unsafe_code, reason = "a list is reached by address")]
    let mut next = unsafe { list.0.as_ref() };
    while let Some(entry) = next {
        // SAFETY: the three tracepoints take one 64-bit number.
        #[expect(unsafe_code, reason = "the type of the probe is named again")]
        if let Some(probe) = unsafe { entry.function_as::<fn(&Entry, u64)>() } {
            probe(entry, value);
        }
        next = entry.next();
    }
}

macro_rules! work {
    ($($name:ident $emit:ident $tracepoint:ident;)*) => {$(
        #[cold]
        #[inline(never)]
        fn $emit(list: &ArcSwap<List>, value: u64) {
            emit(list, value);
        }

        #[inline(never)]
        pub(crate) fn $name(n: u64) {
            static LIST: LazyLock<ArcSwap<List>> =
                LazyLock::new(|| ArcSwap::from_pointee(List(<$tracepoint as Tracepoint>::descriptor().gate.list())));
            let list = black_box(&*LIST);
            for i in 0..n {
                if $tracepoint::enabled() {
                    $emit(list, i);
                }
            }
        }
    )*};
}

work! {
    action emit_action acted;
    event emit_event number;
    untimed_event emit_untimed untimed;
}
