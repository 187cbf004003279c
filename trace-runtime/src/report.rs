//! What the tracer says to whoever watches the program: one line on stderr.

use std::fmt;
use std::io::Write as _;

/// Writes a line to stderr. A closed stderr is no reason to end anything, as `eprintln!` would.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = std::io::stderr().lock().write_all(format!("ringtrace: {line}\n").as_bytes());
}
