//! Ringtrace: a production tracer for Rust programs.
#![cfg_attr(not(feature = "runtime"), no_std)]

pub use trace_macros::{Event, Field, probe, tracepoint};
pub use trace_registry::{
    Event, EventClass, Field, FieldClass, Glob, Level, Name, ProbeDescriptor, ProbeOutput, Tracepoint, TracepointDescriptor,
};
#[cfg(feature = "runtime")]
pub use trace_runtime::*;

/// What the program declares, collected by the linker: tracepoints, probes, and the format of their events.
pub mod registry {
    pub use trace_registry::format::Format;
    pub use trace_registry::registry::{Duplicate, duplicates, probes, tracepoints};
}

/// What expansions name. Not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use trace_macros::__tracepoint as declare;
    pub use trace_registry::event::*;
    pub use trace_registry::field::*;
    pub use trace_registry::linkme;
    pub use trace_registry::probe::*;
    pub use trace_registry::registry::{RINGTRACE_PROBES_0_1_0 as PROBES, RINGTRACE_TRACEPOINTS_0_1_0 as TRACEPOINTS};
    pub use trace_registry::sync::AtomicU64;
    pub use trace_registry::tracepoint::*;
    pub use trace_registry::{Level, Name};
}

/// Fires a tracepoint, evaluating its arguments only when it is on.
///
/// `fire!(path(arguments))` tests the gate once, and goes straight to the emitter behind it; `path(arguments)` is a call, which
/// evaluates its arguments like any other.
///
/// # Signal safety
///
/// While the tracepoint is off: one load. While it is on: that of its probes and of the arguments.
///
/// # Examples
///
/// ```
/// #[ringtrace::tracepoint]
/// fn evicted(page: u64, checksum: u64);
///
/// fn checksum(page: u64) -> u64 {
///     unreachable!("nobody asked for the checksum of {page}")
/// }
///
/// ringtrace::fire!(evicted(7, checksum(7))); // off: the checksum is not computed
/// ```
#[macro_export]
macro_rules! fire {
    ($($segment:ident)::+ ($($argument:expr),* $(,)?)) => {
        if $($segment)::+::enabled() {
            $($segment)::+::__emit($($argument),*);
        }
    };
    (:: $($segment:ident)::+ ($($argument:expr),* $(,)?)) => {
        if ::$($segment)::+::enabled() {
            ::$($segment)::+::__emit($($argument),*);
        }
    };
    ($($other:tt)*) => {
        ::core::compile_error!("`fire!` takes the call of a tracepoint: `fire!(path::to::tracepoint(arguments))`")
    };
}
