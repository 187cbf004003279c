//! The atomics of this crate; `models/` compiles files of it with others in their place.

pub(crate) use trace_registry::sync::{AtomicU64, Ordering, fence};
