//! Signals that triggers wait for: a handler counts them, and the consumer's thread looks.

use crate::error::{Error, Result};
use crate::process;
use crate::sys;
use std::io;
use trace_registry::sync::{AtomicU32, AtomicU64, Ordering};

/// By number: how many came, and when the last one.
static COUNTS: [(AtomicU64, AtomicU64); 32] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 32];
/// Those that have a handler, by bits. A forked child has its parent's handlers.
static HANDLED: AtomicU32 = AtomicU32::new(0);

/// Counts a signal from now on. A handler that the program set before is called too; without one, the signal no longer ends the
/// process.
pub(super) fn count(number: i32) -> Result<()> {
    let known = usize::try_from(number).ok().filter(|number| COUNTS.get(*number).is_some());
    known
        .ok_or(io::ErrorKind::InvalidInput.into())
        .and_then(|_| sys::on_signal(number, came))
        .map_err(|error| Error::io("cannot wait for", "a signal", error))?;
    HANDLED.fetch_or(1 << number, Ordering::Relaxed);
    Ok(())
}

/// Async-signal-safe: it reads the clock and changes two words.
fn came(number: i32) {
    let counts = usize::try_from(number).ok().and_then(|number| COUNTS.get(number));
    if let Some(((count, last), process)) = counts.zip(process::get()) {
        // Relaxed: whoever sees the count a little before the time takes that of the signal before.
        last.store(process.clock.now_ns(), Ordering::Relaxed);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) fn are_counted() -> bool {
    HANDLED.load(Ordering::Relaxed) != 0
}

/// How many came, and the time of the last one, in ns of the process's clock.
pub(super) fn last(number: i32) -> (u64, u64) {
    let counts = usize::try_from(number).ok().and_then(|n| COUNTS.get(n));
    counts.map_or((0, 0), |(count, last)| (count.load(Ordering::Relaxed), last.load(Ordering::Relaxed)))
}
