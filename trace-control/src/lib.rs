//! How the `ringtrace` command reaches a program that runs: where its control socket lies ([`place`]), what is said over it
//! ([`protocol`]), and the asking side ([`Client`]).
//!
//! A crate of its own, so that the program's agent and the command share one description, and neither links the other. The
//! answering side is `trace-runtime`'s agent. `docs/control-protocol.md` describes the protocol for those who write another
//! client.

mod client;
pub mod directory;
pub mod place;
pub mod proof;
pub mod protocol;
mod sys;
pub mod terminal;

pub use client::{Client, Error};
pub use sys::{Peer, hold, is_held, peer};
