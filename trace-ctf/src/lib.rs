//! Common Trace Format: the schema model, its metadata, packets, indexes, and a reader.
//!
//! The writer's half is [`schema`] (the event classes, also the payload of a metadata journal), [`metadata`] (their text in CTF
//! 1.8 and CTF 2), [`packet`] and [`index`]. It encodes and never writes files: whoever owns the ring writes
//! `[packet header][content][padding]` by itself.
//!
//! The reader's half is [`tsdl`] and [`ctf2`] (metadata to [`declared`] types), [`reader`] (trace directories, streams, packets, events and
//! their time-ordered merge) and [`text`] (lines for people and babeltrace2's text form, event class descriptions). It works from the declared
//! types alone, links no part of the tracer, and takes malformed input for what it is: an [`Error`] that names the stream, the
//! packet and the byte.
//!
//! # Examples
//!
//! ```
//! use trace_ctf::packet::PacketHeader;
//! use trace_ctf::reader::Decoder;
//! use trace_ctf::schema::{Clock, EventClass, EventHeader, Field, FieldClass, Level, Schema, StreamClass, Trace};
//! use trace_ctf::{metadata, text};
//!
//! # fn main() -> trace_ctf::Result<()> {
//! let clock = Clock { description: "CLOCK_MONOTONIC".into(), offset_s: 1_700_000_000, ..Clock::default() };
//! let stream = StreamClass { id: 0, header: EventHeader::Compact, context: vec![Field::new("vtid", FieldClass::signed(32))] };
//! let mut schema = Schema::new(Trace { uuid: [1; 16], environment: Vec::new(), clock, streams: vec![stream] })?;
//! schema.add(EventClass {
//!     stream_id: 0,
//!     id: 3,
//!     name: "app:request".into(),
//!     level: Some(Level::Info),
//!     source: None,
//!     fields: vec![Field::new("id", FieldClass::unsigned(64)), Field::new("path", FieldClass::String { length_bits: 16 })],
//! })?;
//! let text = metadata::write(&schema);
//! assert!(text.starts_with("/* CTF 1.8 */"));
//!
//! // One event record: header, context, payload.
//! let mut content = Vec::new();
//! EventHeader::Compact.encode(3, 5, 0, &mut content);
//! content.extend(42_i32.to_le_bytes());
//! content.extend(7_u64.to_le_bytes());
//! content.extend(1_u16.to_le_bytes());
//! content.extend(b"/");
//!
//! let mut decoder = Decoder::new(&schema)?;
//! let packet = decoder.packet(&PacketHeader::default(), &content)?;
//! let mut line = Vec::new();
//! let mut events = packet.events();
//! while let Some(event) = events.next_event() {
//!     text::Formatter::utc().event(&event?, &mut line);
//! }
//! let expected = "[22:13:20.000000005] (+?.?????????) app:request: { cpu_id = 0 }, { vtid = 42 }, \
//!                 { id = 7, _path_length = 1, path = \"/\" }\n";
//! assert_eq!(String::from_utf8_lossy(&line), expected);
//! # Ok(())
//! # }
//! ```

pub mod ctf2;
pub mod declared;
mod decode;
mod error;
mod extras;
mod header;
pub mod index;
pub mod metadata;
pub mod packet;
mod plan;
pub mod reader;
mod resolve;
pub mod schema;
pub mod text;
pub mod tsdl;

pub use error::Error;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
