//! The macros of Ringtrace. Users reach them through the crate `ringtrace`, which is also what expansions name.
//!
//! Each macro is a pipeline: parse → model → validate → expand, and a fallback where validation fails.
//!
//! | Room | Holds |
//! | --- | --- |
//! | [`tracepoint`](mod@tracepoint) | `#[tracepoint]` |
//! | [`probe`](mod@probe) | `#[probe]` |
//! | `fields` | `#[derive(Event)]`, `#[derive(Field)]`: the fields of a type and how they are written |
//! | `options`, `lifetimes`, `errors` | attribute words; lifetimes of types that are named elsewhere; errors, all at once |
//! | `support` | the names that expansions use: the support module, linker sections |
//!
//! An expansion is data and one call. What it calls lives in `trace-registry`, where lints and tests see it.
//!
//! # Invariants
//!
//! - MA-1: Expansions name one crate, by absolute path, and `::core::…` in full.
//! - MA-2: Generated `unsafe`, `static` and attribute tokens carry call-site spans, so that lints of the user's crate
//!   (`forbid(unsafe_code)`) do not see them; only types, field expressions and the lines that check them carry the user's.
//! - MA-3: Generated local names carry mixed-site spans, so that no name of the user's captures them.

mod errors;
mod fields;
mod lifetimes;
mod options;
mod probe;
mod support;
mod tracepoint;

use proc_macro::TokenStream;

/// Declares a tracepoint.
#[proc_macro_attribute]
pub fn tracepoint(options: TokenStream, item: TokenStream) -> TokenStream {
    tracepoint::declare(options.into(), item.into()).into()
}

/// Second stage of `#[tracepoint]`. Not part of the API.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn __tracepoint(declaration: TokenStream, _carrier: TokenStream) -> TokenStream {
    tracepoint::define(declaration.into()).into()
}

/// Makes a function a probe of a tracepoint.
#[proc_macro_attribute]
pub fn probe(options: TokenStream, item: TokenStream) -> TokenStream {
    probe::expand(options.into(), item.into()).into()
}

/// Makes a struct an event.
#[proc_macro_derive(Event, attributes(field))]
pub fn event(item: TokenStream) -> TokenStream {
    fields::derive_event(item.into()).into()
}

/// Makes a struct or an enum a field.
#[proc_macro_derive(Field, attributes(field))]
pub fn field(item: TokenStream) -> TokenStream {
    fields::derive_field(item.into()).into()
}
