//! Models of the concurrent protocols: every interleaving of a small case.
//!
//! | Model | Protocol | Explored by |
//! | --- | --- | --- |
//! | [`fallback`] | the fallback region of the ring buffer; the file itself, with loom's atomics | loom |
//! | [`lists`] | publication of probe lists and grace periods, counted by locked additions | loom |
//! | [`event_ids`] | an event ID is described before it is published | loom |
//! | [`read_side`] | the same lists, counted by restartable sequences | [`explorer`] |
//! | [`append`] | append, close and open by restartable sequences, and the reader | [`explorer`] |
//!
//! loom knows C++'s memory order, but neither sequences that are aborted, nor migration, nor membarrier(2); the explorer knows
//! x86-64's: stores in order behind a buffer for each CPU. Each model has mutations, which must be found.

pub mod append;
pub mod event_ids;
pub mod explorer;
pub mod lists;
pub mod read_side;

/// What `crate::sync` is to the files of trace-runtime that are compiled here.
pub(crate) mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

pub mod ring_buffer;
pub use ring_buffer::fallback;
