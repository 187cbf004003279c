//! What is known of a program's events outside of it: counters in shared memory, stored around each event.

use anyhow::{Context as _, Result};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Threads that write.
pub(crate) const THREADS: usize = 3;

/// The events of one thread. Their numbers are 0, 1, 2…
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Events that were begun; stored before each.
    pub(crate) begun: AtomicU64,
    /// Events that were fired: each is committed, or counted as lost. Stored after each.
    pub(crate) fired: AtomicU64,
    /// `fired`, when a program began to end by itself; recordings end before their writers do then.
    pub(crate) sure: AtomicU64,
}

#[repr(C, align(64))]
pub(crate) struct Counts {
    pub(crate) threads: [Thread; THREADS],
    /// How far the program is: one of `LISTENS`, `WRITES`, `ENDS`.
    pub(crate) stage: AtomicU64,
}

/// Its agent is being started.
pub(crate) const LISTENS: u64 = 1;
/// Its threads write.
pub(crate) const WRITES: u64 = 2;
/// It ends by itself, in order.
pub(crate) const ENDS: u64 = 3;

impl Counts {
    /// Maps the counts, for ever.
    pub(crate) fn map(path: &Path) -> Result<Mapped> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        rustix::fs::ftruncate(&file, size_of::<Counts>() as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, as long as the file.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), size_of::<Counts>(), access, MapFlags::SHARED, &file, 0)? };
        Ok(Mapped(start.cast()))
    }

    /// The program ends in order from here on: what was fired until now is in its traces.
    pub(crate) fn end(&self) {
        for thread in &self.threads {
            thread.sure.store(thread.fired.load(SeqCst), SeqCst);
        }
        self.stage.store(ENDS, SeqCst);
    }

    /// For each thread: events that must be accounted for, and that may be there.
    pub(crate) fn bounds(&self) -> [Bounds; THREADS] {
        let in_order = self.stage.load(SeqCst) == ENDS;
        std::array::from_fn(|thread| {
            let thread = &self.threads[thread];
            let sure = if in_order { thread.sure.load(SeqCst) } else { thread.fired.load(SeqCst) };
            Bounds { sure, possible: thread.begun.load(SeqCst) }
        })
    }
}

/// Events of one thread, as counted outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) sure: u64,
    pub(crate) possible: u64,
}

/// Counts that stay mapped until they are dropped.
pub(crate) struct Mapped(*mut Counts);

// SAFETY: `Counts` consists of atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl std::ops::Deref for Mapped {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        // SAFETY: mapped until `drop`; of atomics any values are valid.
        unsafe { &*self.0 }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, of this size; nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.0.cast(), size_of::<Counts>()) };
    }
}
