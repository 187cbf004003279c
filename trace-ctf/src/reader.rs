//! Traces from files, without the program that wrote them.
//!
//! [`Trace::open`] reads the metadata and finds the streams; [`Trace::packets`] reads one stream packet by packet,
//! [`Packet::events`] the events of a packet, [`Merge`] all events of several traces in the order of their time stamps.
//! [`Decoder`] does the same for a packet in memory and a [`Schema`](crate::schema::Schema) that was never written.
//!
//! An event is a view of its packet. Nothing is copied or converted until it is looked at: as [`Item`]s, or as a [`Value`].
//!
//! # Damage
//!
//! A stream that ends inside a packet gives every event that is whole, then an error for which
//! [`Error::is_truncated`](crate::Error::is_truncated) holds. Other contradictions end their stream with
//! [`Error::is_corrupt`](crate::Error::is_corrupt); the other streams go on. Sizes are checked against the file before they
//! are believed.
//!
//! # Examples
//!
//! ```no_run
//! use std::path::Path;
//!
//! use trace_ctf::reader::{Entry, Trace};
//!
//! # fn main() -> trace_ctf::Result<()> {
//! let trace = Trace::open(Path::new("app.ringtrace"))?;
//! let mut merge = trace.merge();
//! while let Some(entry) = merge.next_entry() {
//!     match entry? {
//!         Entry::Event(event) => println!("{:?} {} {:?}", event.timestamp(), event.name(), event.payload().member("id")),
//!         Entry::Loss(loss) => println!("{:?}: {:?}", loss.kind, loss.count),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod merge;
mod packet;
mod stream;
mod trace;
mod value;

pub use crate::decode::Item;
pub use merge::{Entry, Merge};
pub(crate) use packet::is_bookkeeping;
pub use packet::{Event, Events, Packet, PacketInfo, Scope};
pub use stream::{Loss, LossKind, Packets};
pub use trace::{Decoder, Stream, Trace, discover};
pub use value::Value;
