//! What the tracer says to whoever watches the program: one line on stderr.

use crate::sys;
use std::fmt;
use trace_control::terminal::printable;

/// Writes a line to stderr. A closed stderr is no reason to end anything, as `eprintln!` would.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    sys::write_stderr(printable(&format!("ringtrace: {line}\n")).as_bytes());
}
