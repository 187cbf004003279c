//! Ringtrace: a production tracer for Rust programs.
//!
//! Application code declares tracepoints ([`tracepoint`]); what is recorded is written elsewhere, in probes ([`probe`](macro@probe));
//! probes are attached and detached while the program runs ([`Session`]); each event lands in a per-CPU ring buffer
//! ([`ring_buffer`]) for about the price of reading the clock; the recording is a trace in the Common Trace Format.
//!
//! ```no_run
//! #[ringtrace::tracepoint(record)] // also makes the obvious probe: fields id, path
//! fn request(id: u64, path: &str);
//!
//! ringtrace::init(); // reads the environment variable RINGTRACE: try `RINGTRACE=print cargo run`
//! for i in 0..3 {
//!     request(i, "/");
//! }
//! ```
//!
//! # Features
//!
//! | Feature | Default | Adds |
//! | --- | --- | --- |
//! | `runtime` | yes | sessions, ring buffers, [`init`] |
//! | `tokio` | no | `tokio_task`: the ID of tokio's tasks as a context field |
//! | `auto` | no | reads `RINGTRACE` before `main`, without a call of `init` |
//!
//! Libraries and probe crates depend on ringtrace with `default-features = false`: macros, gate and registry, `no_std`. The
//! application's feature turns the rest on for all of them. `RUSTFLAGS="--cfg ringtrace_off"` removes every gate from a build.
//!
//! # Progress and signal safety
//!
//! Firing a tracepoint is async-signal-safe and wait-free: no allocation, no lock, no system call but in a thread's first event.
//! Everything else is for ordinary code. A child made by `vfork` or `clone(CLONE_VM)` must not trace.
#![cfg_attr(not(feature = "runtime"), no_std)]

pub use trace_macros::{Abi, Event, Field, event, probe, span, state_dump, tracepoint};
pub use trace_registry::field::Extra;
pub use trace_registry::state_dump::StateDump;
pub use trace_registry::{
    Abi, AttachGuard, DetachError, Event, EventClass, Field, FieldClass, Glob, Level, Name, ProbeDescriptor, ProbeOutput,
    Tracepoint, TracepointDescriptor,
};
#[cfg(feature = "runtime")]
pub use trace_runtime::*;

/// What the program declares, collected by the linker: tracepoints, probes, and the format of their events.
pub mod registry {
    pub use trace_registry::format::{Format, Type};
    pub use trace_registry::registry::{Duplicate, Match, duplicates, find, probes, tracepoints};
}

/// What expansions name. Not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use trace_macros::__tracepoint as declare;
    pub use trace_registry::abi::*;
    pub use trace_registry::closure::*;
    pub use trace_registry::event::*;
    pub use trace_registry::field::*;
    pub use trace_registry::image::{ModuleInfo, RINGTRACE_MODULES_0_1_0 as MODULES};
    pub use trace_registry::linkme;
    pub use trace_registry::probe::*;
    pub use trace_registry::registry::RINGTRACE_STATE_DUMPS_0_1_0 as STATE_DUMPS;
    pub use trace_registry::registry::{RINGTRACE_PROBES_0_1_0 as PROBES, RINGTRACE_TRACEPOINTS_0_1_0 as TRACEPOINTS};
    pub use trace_registry::site::*;
    pub use trace_registry::state_dump::StateDumpDescriptor;
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

/// Declares that this crate, a `cdylib`, is a probe module, which a running program loads and unloads.
///
/// `probe_module! { "name", "version" }`; without arguments, name and version are those of the package. The module has any probes
/// and tracepoints; `docs/modules.md` says how it is built.
///
/// ```
/// ringtrace::probe_module! { "eviction-probes", "1.2.0" }
/// ```
#[macro_export]
macro_rules! probe_module {
    () => {
        $crate::probe_module! { ::core::env!("CARGO_PKG_NAME"), ::core::env!("CARGO_PKG_VERSION") }
    };
    ($name:ident = $($other:tt)*) => {
        $crate::probe_module! { @ }
    };
    ($name:expr, $version:expr $(,)?) => {
        // A crate is one module.
        #[doc(hidden)]
        mod __ringtrace_probe_module {}
        const _: () = {
            use $crate::__private::linkme;
            #[linkme::distributed_slice($crate::__private::MODULES)]
            #[linkme(crate = linkme)]
            static __RINGTRACE_MODULE: $crate::__private::ModuleInfo =
                $crate::__private::ModuleInfo { name: $name, version: $version };
        };
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "`probe_module!` takes name and version, or nothing for those of the package: `probe_module! { \"name\", \"1.0.0\" }`"
        );
    };
}

/// The guide's code, compiled and run.
#[cfg(all(doctest, feature = "runtime"))]
#[doc = include_str!("../docs/guide.md")]
mod guide {}

/// The code about functions, compiled and run.
#[cfg(all(doctest, feature = "runtime"))]
#[doc = include_str!("../docs/functions.md")]
mod functions {}

/// The triggers' code, compiled and run.
#[cfg(all(doctest, feature = "runtime"))]
#[doc = include_str!("../docs/triggers.md")]
mod triggers {}

/// The code about aggregations, compiled and run.
#[cfg(all(doctest, feature = "runtime"))]
#[doc = include_str!("../docs/aggregations.md")]
mod aggregations {}

/// The rules' code, compiled and run.
#[cfg(all(doctest, feature = "runtime"))]
#[doc = include_str!("../docs/rules.md")]
mod rules {}
