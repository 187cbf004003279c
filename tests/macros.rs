//! What declarations do, without the run time: probe lists and targets are made by hand, and collect bytes.
#![expect(unsafe_code, reason = "targets are reached by address")]
#![allow(unused_crate_dependencies, reason = "dependencies of other tests")]

#[path = "macros/collect.rs"]
mod collect;
#[path = "macros/declarations.rs"]
mod declarations;
#[path = "macros/fields.rs"]
mod fields;
#[path = "macros/firing.rs"]
mod firing;
#[path = "macros/values.rs"]
mod values;
