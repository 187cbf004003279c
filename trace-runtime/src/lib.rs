//! The run time of Ringtrace: sessions, ring buffers, the clock, and the consumer that writes traces.
//!
//! Programs name the crate `ringtrace`, which re-exports this one. ARCHITECTURE.md says how its modules meet.

mod agent;
mod aggregate;
mod attach;
mod builder;
mod catalogue;
mod channel;
pub mod clock;
mod closure;
mod condition;
mod consumer;
mod context;
mod delivery;
mod environment;
mod error;
pub mod external;
mod follow;
mod init;
pub mod journal;
mod keep;
mod key;
mod metadata;
mod module;
mod occasion;
mod output;
mod per_image;
mod plan;
mod print;
mod process;
mod provider;
mod rcu;
mod recording;
pub mod recovery;
mod report;
pub mod ring_buffer;
mod rule;
mod session;
mod snapshot;
mod state;
mod statistics;
mod storage;
mod sync;
mod sys;
pub mod test;
mod threads;
#[cfg(feature = "tokio")]
mod tokio_task;
mod transfer;
mod trigger;

pub use aggregate::{Aggregates, Aggregation, AggregationBuilder, Bucket, Figures, Group, KeyValue, Lost, Number};
pub use builder::{Builder, Clock, set_memory_ceiling};
pub use context::Context;
pub use error::{Error, Result};
#[doc(hidden)]
pub use init::check_environment;
pub use init::{init, init_without_threads};
pub use keep::NotKept;
pub use key::{Carry, Carrying, Key, KeyText, KeyType};
pub use module::Module;
pub use ring_buffer::Losses;
pub use session::{Recorder, Session};
pub use snapshot::{Covered, Receipt};
pub use statistics::{RuleState, Statistics};
#[cfg(feature = "tokio")]
pub use tokio_task::tokio_task;
pub use trace_ctf::metadata::Format;
pub use trigger::{Firing, Saved, TriggerState};
