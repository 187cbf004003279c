//! The task ID of tokio as a context field.

use crate::context::Context;
use crate::error::Result;
use std::hash::{Hash as _, Hasher};

/// Registers the context field `task`: the ID of the tokio task that records an event; 0 outside of one.
///
/// # Errors
///
/// As for [`Context::provide`].
///
/// # Signal safety
///
/// tokio's own thread-local storage is initialised by the first event of a thread that is not tokio's, which may allocate: not
/// for sessions that record `reentrant` tracepoints.
pub fn tokio_task() -> Result<Context> {
    Context::provide("task", || tokio::task::try_id().map_or(0, number))
}

/// The number in an ID, which says it only to formatters and hashers.
fn number(id: tokio::task::Id) -> u64 {
    struct Number(u64);
    impl Hasher for Number {
        fn write(&mut self, bytes: &[u8]) {
            self.0 = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        }
        fn write_u64(&mut self, number: u64) {
            self.0 = number;
        }
        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut hasher = Number(0);
    id.hash(&mut hasher);
    hasher.finish()
}
