//! Common Trace Format: the schema model, its metadata, packets, indexes, and a reader.
//!
//! The writer's half is [`schema`] (the event classes, also the payload of a metadata journal), [`metadata`] (their CTF 1.8
//! text), [`packet`] and [`index`]. It encodes and never writes files: whoever owns the ring writes
//! `[packet header][content][padding]` by itself.
//!
//! The reader's half is [`tsdl`] (metadata text to declared types), [`reader`] (trace directories, streams, packets, events and
//! their time-ordered merge) and [`text`] (babeltrace2's text form, event class descriptions). It works from the declared
//! types alone, links no part of the tracer, and takes malformed input for what it is: an [`Error`] that names the stream, the
//! packet and the byte.

pub mod declared;
mod decode;
mod error;
pub mod index;
pub mod metadata;
pub mod packet;
pub mod reader;
pub mod schema;
pub mod text;
pub mod tsdl;

pub use error::Error;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
