//! What the tracer says to whoever watches the program: one line on stderr.

use crate::sys;
use std::fmt;
use std::time::Duration;
use trace_control::terminal::printable;
use trace_registry::sync::{AtomicBool, Ordering};

/// So long the program waits for who reads its stderr.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Nobody read the last message.
static IS_UNREAD: AtomicBool = AtomicBool::new(false);

/// Writes a line to stderr. A closed stderr is no reason to end anything, as `eprintln!` would; nor is a full pipe that nobody reads
/// one to wait, but once.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    // Relaxed: a hint.
    let patience = if IS_UNREAD.load(Ordering::Relaxed) { Duration::ZERO } else { PATIENCE };
    let unread = sys::write_stderr(printable(&format!("ringtrace: {line}\n")).as_bytes(), |waited| waited < patience);
    IS_UNREAD.store(unread > 0, Ordering::Relaxed);
}
