//! What a Ringtrace declaration compiles to, and the registry that collects declarations from linker sections.
//!
//! | Room | Holds |
//! | --- | --- |
//! | [`tracepoint`] | the gate, the descriptor of a tracepoint, the emitter |
//! | [`probe`] | the descriptor of a probe, the probe list that a gate points to, what a probe may return |
//! | [`image`], [`abi`] | what each image of the process has; whether two builds agree on a tracepoint's arguments |
//! | [`closure`] | closures that are attached at run time |
//! | [`field`], [`event`] | field classes, event classes, and how a value becomes bytes |
//! | [`condition`] | which events of a probe a target takes |
//! | [`per_cpu`] | counters of what was not recorded on purpose |
//! | [`read_side`] | the read side of the probe lists (RCU) |
//! | [`registry`] | collection, look-up by name, suffix and glob, duplicate names |
//! | [`site`] | traced functions and ad-hoc events: classes made from inferred types |
//! | [`state_dump`] | functions that record a program's state |
//! | [`event_id`], [`format`] | event IDs of a stream class, format descriptions as text |
//! | [`units`] | sizes and durations as people write them |
//! | [`sys`] | per-thread block, restartable sequences |
//!
//! The crate is `no_std` with `alloc`, and knows nothing of ring buffers, sessions or files: a probe list carries
//! [targets](probe::Target) whose functions the run time supplies.

#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod abi;
pub mod closure;
pub mod condition;
pub mod event;
pub mod event_id;
pub mod field;
pub mod format;
pub mod image;
mod level;
#[doc(hidden)]
pub mod mutation;
mod name;
pub mod per_cpu;
pub mod probe;
pub mod read_side;
pub mod registry;
pub mod site;
pub mod state_dump;
pub mod sync;
pub mod sys;
pub mod tracepoint;
pub mod units;

pub use abi::Abi;
pub use closure::{AttachGuard, DetachError};
pub use event::{Event, EventClass};
pub use field::{Field, FieldClass};
pub use level::{Level, UnknownLevel};
pub use name::{Glob, Name, functions_of};
pub use probe::{ProbeDescriptor, ProbeOutput};
pub use tracepoint::{Argument, Gate, Tracepoint, TracepointDescriptor};

#[doc(hidden)]
pub use linkme;
