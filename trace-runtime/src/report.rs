//! What the tracer says to whoever watches the program: one line on stderr.

use crate::sys;
use std::fmt;
use std::io::ErrorKind;
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
    let written = sys::write_stderr(printable(&format!("ringtrace: {line}\n")).as_bytes(), |waited| waited < patience);
    IS_UNREAD.store(written.is_err_and(|(_, why)| why == ErrorKind::TimedOut), Ordering::Relaxed);
}

/// The same for who may not wait, nor allocate.
pub(crate) fn say_at_once(line: &'static [u8]) {
    // Nobody can be told where that fails.
    let _ = sys::write_stderr(line, |_| false);
}
