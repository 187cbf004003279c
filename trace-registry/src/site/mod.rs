//! Sites: tracepoints whose events have inferred fields. A traced function is one, and so are `event!` and `span!`.
//!
//! The macro knows the names of the fields, the compiler their types. So the macro declares a [`Site`] (name, gate, names),
//! and the traced code hands its values to one cold emitter per site and kind of event, [`record`](record()), which is generic over their
//! types. The class of the event is made from those types at compile time. It is known before the first event: each emitter that
//! is compiled puts the function that describes it into a linker section, where the [registry] finds it. Where linkers do not do that,
//! an emitter notes that function when it is hit first ([`sys`](crate::sys)).
//!
//! | Room | Holds |
//! | --- | --- |
//! | `capture` | one value of an event, and which of a function's arguments are field types |
//! | `record` | values as an event, its class, its probe |
//! | `scope` | a function, or a span, from its entry to its exit |
//! | `future` | the same for an async function: polls, cancellation |
//!
//! # Invariants
//!
//! - SI-1: In the list of a site's gate, an entry is told from the others by its `identity`, which stands
//!   in place of a probe's function and is never called. One identity is one class: it is made from the kind of the event and from
//!   the classes of all fields.
//!
//! [registry]: crate::registry

#![expect(unsafe_code, reason = "the clock is kept as an address")]

mod capture;
mod future;
mod record;
mod scope;

pub use capture::{
    Capture, CaptureByReference, CaptureNothing, Captures, Displayed, Formattable, Given, Inspected, List, Plain, Short, Skipped,
    Unchosen, With, field,
};
pub use future::{Calling, FutureExit, Traced, Within, begin_future, current_future, leave_future};
pub use record::{Kind, Once, record};
pub use scope::{Outcome, Scope, Span, begin, begin_span, call, leave};

use crate::level::Level;
use crate::sync::{AtomicPtr, Ordering};
use crate::tracepoint::{Location, TracepointDescriptor};

/// What a macro declares of a site.
///
/// # Safety
///
/// For the macros alone. [`descriptor`](Self::descriptor) returns the descriptor of this site, whose gate nothing but
/// [`record`](record()) takes its list from: what its entries have in place of functions are identities (SI-1).
pub unsafe trait Site: 'static {
    /// Severity of its events.
    const LEVEL: Level;
    /// Where it stands.
    const LOCATION: Location;
    /// `module_path!()` there.
    const MODULE: &'static str;
    /// Names of the fields of its event, or of its entry.
    const FIELDS: &'static [&'static str];
    /// Names of the fields that its exit has behind the usual ones.
    const RESULT: &'static [&'static str];

    /// Returns its descriptor, and with that its gate.
    fn descriptor() -> &'static TracepointDescriptor;

    /// Whether any of its events is wanted.
    #[inline(always)]
    #[must_use]
    fn is_on() -> bool {
        Self::descriptor().gate.is_on()
    }
}

/// The clock of the run time; null before there is one.
static CLOCK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Gives durations a clock, which returns nanoseconds and is async-signal-safe.
pub fn set_clock(clock: fn() -> u64) {
    // Relaxed: the pointer of a function, which no store orders.
    CLOCK.store(clock as *mut (), Ordering::Relaxed);
}

/// Nanoseconds; 0 without a run time.
#[inline]
fn now_ns() -> u64 {
    let clock = CLOCK.load(Ordering::Relaxed);
    if clock.is_null() {
        return 0;
    }
    // SAFETY: `set_clock` stored a function of this type.
    unsafe { core::mem::transmute::<*mut (), fn() -> u64>(clock)() }
}

/// Whether this thread is unwinding. Without the standard library nobody knows.
#[inline]
fn is_panicking() -> bool {
    #[cfg(feature = "std")]
    return std::thread::panicking();
    #[cfg(not(feature = "std"))]
    false
}
