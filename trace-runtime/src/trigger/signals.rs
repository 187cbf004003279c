//! Signals that triggers wait for: a handler counts them, and the consumer's thread looks.
#![expect(unsafe_code, reason = "a signal handler's duties")]

use crate::clock::Clock;
use crate::error::{Error, Result};
use std::io;
use trace_registry::sync::{AtomicU32, AtomicU64, Ordering};

/// By number: how many came, and when the last one.
static COUNTS: [(AtomicU64, AtomicU64); 32] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 32];
/// Those that have a handler, by bits. A forked child has its parent's handlers.
static HANDLED: AtomicU32 = AtomicU32::new(0);

/// Counts a signal from now on. A handler that the program set before is called too; without one, the signal no longer ends the
/// process.
pub(super) fn count(number: i32) -> Result<()> {
    let Some((count, last)) = usize::try_from(number).ok().and_then(|n| COUNTS.get(n)) else {
        return Err(Error::io("cannot wait for", "a signal", io::ErrorKind::InvalidInput));
    };
    // Relaxed, here and below: whose bit it is decides only who sets the handler.
    if HANDLED.fetch_or(1 << number, Ordering::Relaxed) & 1 << number != 0 {
        return Ok(());
    }
    let clock = Clock::process();
    let handler = move || {
        // Relaxed: whoever sees the count a little before the time takes that of the signal before.
        last.store(clock.now_ns(), Ordering::Relaxed);
        count.fetch_add(1, Ordering::Relaxed);
    };
    // SAFETY: the handler is async-signal-safe: it reads the clock and changes two words.
    if let Err(error) = unsafe { signal_hook::low_level::register(number, handler) } {
        HANDLED.fetch_and(!(1 << number), Ordering::Relaxed);
        return Err(Error::io("cannot wait for", "a signal", error));
    }
    Ok(())
}

pub(super) fn are_counted() -> bool {
    HANDLED.load(Ordering::Relaxed) != 0
}

/// How many came, and the time of the last one, in ns of the process's clock.
pub(super) fn last(number: i32) -> (u64, u64) {
    let counts = usize::try_from(number).ok().and_then(|n| COUNTS.get(n));
    counts.map_or((0, 0), |(count, last)| (count.load(Ordering::Relaxed), last.load(Ordering::Relaxed)))
}
