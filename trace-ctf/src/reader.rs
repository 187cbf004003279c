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
