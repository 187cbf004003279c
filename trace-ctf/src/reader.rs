//! Traces from files, without the program that wrote them.
//!
//! | To | use |
//! | --- | --- |
//! | find the traces below a directory, open one, open all | [`discover`], [`Trace::open`], [`Trace::open_all`] |
//! | know what is in it | [`Trace::declarations`], [`Trace::streams`], [`Trace::damage`] |
//! | read all events of one or several traces in the order of time | [`Trace::merge`], [`Merge::new`] |
//! | read those of some time, or of some classes | [`Merge::select`] with a [`Selection`] |
//! | read one stream packet by packet | [`Trace::packets`], [`Packet::events`] |
//! | know what a stream lacks before it is read | [`Packets::next_header`] |
//! | read one field of many events | [`Field::find`], [`Event::get`] |
//! | read every field | [`Event::visit`], or [`Event::value`] where there is no hurry |
//! | read packets on all cores, in any order | [`parallel::fold`] |
//! | make something of each event on all cores, in the order of time | [`parallel::merge`] |
//! | decode a packet in memory, of a [`Schema`](crate::schema::Schema) that was never written | [`Decoder`] |
//!
//! An event is a view of its packet, a few words to copy. Finding it checks that it is whole; nothing is allocated or converted
//! until it is looked at. A merge holds one packet of each stream in memory, whatever the size of the trace; packets of more than
//! 16 MiB come in [pieces](Packet::is_continued) of some 4 MiB.
//!
//! A time is found by the index that a tracer wrote beside its streams, or by the headers of the packets before it, which an
//! open trace remembers.
//!
//! # Damage
//!
//! A stream that ends inside a packet gives every event that is whole, then an error for which
//! [`Error::is_truncated`](crate::Error::is_truncated) holds. Other contradictions end their stream with
//! [`Error::is_corrupt`](crate::Error::is_corrupt); the other streams go on. Sizes are checked against the file before they
//! are believed. Errors know the [stream](crate::Error::stream), the [packet](crate::Error::packet) and the
//! [byte](crate::Error::byte_offset).
//!
//! # Examples
//!
//! `examples/read_trace.rs` goes through all of it. The longest of some requests, of those between two times:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use trace_ctf::reader::{Entry, Merge, Selection, Trace};
//!
//! # fn main() -> trace_ctf::Result<()> {
//! let trace = Trace::open(Path::new("app.ringtrace"))?;
//! let selection = Selection::default()
//!     .from(1_700_000_000_000_000_000)
//!     .to(1_700_000_060_000_000_000)
//!     .classes(|_, class| class.name == "app:request");
//! let mut merge = Merge::select([&trace], selection);
//! let mut longest = 0;
//! while let Some(entry) = merge.next_entry() {
//!     match entry? {
//!         Entry::Event(event) => {
//!             let bytes = event.field("bytes").and_then(|value| value.as_u64());
//!             longest = longest.max(bytes.unwrap_or(0));
//!         }
//!         Entry::Loss(loss) => eprintln!("{:?}: {:?}", loss.kind, loss.count),
//!     }
//! }
//! println!("{longest}");
//! # Ok(())
//! # }
//! ```

mod field;
mod file;
mod merge;
mod packet;
pub mod parallel;
mod seek;
mod stream;
mod trace;
mod value;

pub use crate::decode::Item;
pub use field::{Field, Scalar};
pub(crate) use field::{parts, path};
pub use merge::{Entry, Merge, Selection};
pub use packet::{Event, Events, Packet, PacketInfo, Scope};
pub use stream::{Header, Loss, LossKind, Packets};
pub use trace::{Decoder, Stream, Trace, discover};
pub use value::{Long, Value};
