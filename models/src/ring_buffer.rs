//! What `crate::ring_buffer` is to the files of trace-runtime that are compiled here.

#[path = "../../trace-runtime/src/ring_buffer/position.rs"]
#[allow(dead_code, reason = "a model needs a part")]
pub(crate) mod position;

pub mod fallback;
