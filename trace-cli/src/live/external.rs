//! The rings of a program, consumed by this process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use trace_control::protocol::SessionState;
use trace_runtime::Error;
use trace_runtime::external::{Consumer, Delivered};

use super::process::Process;
use crate::failure::Failure;

/// A thread that consumes.
pub(super) struct External {
    /// The session's directory, with rings and journal.
    pub(super) directory: PathBuf,
    delivered: Arc<Mutex<Delivered>>,
    is_over: Arc<AtomicBool>,
    /// Whether nobody writes to the rings any more then.
    is_quiet: Arc<AtomicBool>,
    thread: JoinHandle<Result<(Consumer, Delivered), Error>>,
}

/// Intervals between rounds: short while the rings fill fast.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(50);
/// What is committed is delivered at least so often.
const PERIOD: Duration = Duration::from_secs(1);

impl External {
    pub(super) fn begin(process: &Process, state: &SessionState, output: &Path) -> Result<External, Failure> {
        let wrong = |what: String| Failure::Wrong(format!("{}: {what}", process.name()));
        let Some(directory) = process.directory(state) else {
            return Err(wrong("the rings have no name, so only the process itself can consume them".to_owned()));
        };
        // The process says where they lie.
        let session = process.image.session(&directory);
        let session = session.map_err(|error| wrong(format!("{}: {error}", directory.display())))?;
        let consumer = Consumer::open(session, output, &state.plan).map_err(|error| wrong(error.to_string()))?;
        let delivered = Arc::<Mutex<Delivered>>::default();
        let (is_over, is_quiet) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let thread = std::thread::spawn({
            let (delivered, is_over, is_quiet) = (delivered.clone(), is_over.clone(), is_quiet.clone());
            move || consume(consumer, &delivered, &is_over, &is_quiet)
        });
        Ok(External { directory, delivered, is_over, is_quiet, thread })
    }

    /// Says in a session's state what was delivered here.
    pub(super) fn tell(&self, state: &mut SessionState) {
        fill(state, *self.delivered.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether it has given up: its trace cannot be written.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Delivers the rest. `is_quiet`: nobody writes to the rings any more. Returns what can remove them.
    pub(super) fn end(self, state: &mut SessionState, is_quiet: bool) -> Result<Consumer, String> {
        self.tell(state);
        self.is_quiet.store(is_quiet, Ordering::Relaxed);
        // Release: pairs with the Acquire load in `consume`, which reads the other one then.
        self.is_over.store(true, Ordering::Release);
        let done = self.thread.join().map_err(|_| "its consumer failed".to_owned())?;
        let (consumer, delivered) = done.map_err(|error| error.to_string())?;
        fill(state, delivered);
        Ok(consumer)
    }
}

fn fill(state: &mut SessionState, delivered: Delivered) {
    state.events = delivered.events;
    state.bytes = delivered.bytes;
    state.written = delivered.written;
    state.lost = delivered.lost.into();
}

fn consume(
    mut consumer: Consumer,
    delivered: &Mutex<Delivered>,
    is_over: &AtomicBool,
    is_quiet: &AtomicBool,
) -> Result<(Consumer, Delivered), Error> {
    let (mut interval, mut last_cut) = (SHORTEST, Instant::now());
    while !is_over.load(Ordering::Acquire) {
        let cut = last_cut.elapsed() >= PERIOD;
        if cut {
            last_cut = Instant::now();
        }
        let now = consumer.round(cut)?;
        *delivered.lock().unwrap_or_else(PoisonError::into_inner) = now;
        interval = match now.fullness {
            64.. => interval / 4,
            16.. => interval / 2,
            _ => interval * 2,
        }
        .clamp(SHORTEST, LONGEST);
        std::thread::sleep(interval);
    }
    let all = consumer.finish(is_quiet.load(Ordering::Relaxed))?;
    Ok((consumer, all))
}
