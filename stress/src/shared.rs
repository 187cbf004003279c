//! What the writing process tells the reading one, killed or not: words in shared memory.

use anyhow::Result;
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;

/// Threads that write: more than CPUs.
pub(crate) const THREADS: usize = 6;
/// The stream of the signal handlers.
pub(crate) const HANDLERS: usize = THREADS;
pub(crate) const STREAMS: usize = THREADS + 1;

/// What became of the events of one stream. One thread stores it.
#[repr(C, align(64))]
pub(crate) struct Stream {
    /// Number of the event that was begun last.
    pub(crate) begun: AtomicU64,
    /// Sum of the numbers of the events that were recorded. Stored before `recorded`.
    pub(crate) sum: AtomicU64,
    /// Events that were recorded.
    pub(crate) recorded: AtomicU64,
}

#[repr(C)]
pub(crate) struct Counts {
    pub(crate) streams: [Stream; STREAMS],
    /// Appends that were aborted and tried again.
    pub(crate) restarted: AtomicU64,
    /// Times that `rseq_cs` was not cleared behind an append.
    pub(crate) armed: AtomicU64,
    /// Appends of forked children that were not refused.
    pub(crate) forked: AtomicU64,
    /// Read-side critical sections that were entered and not left, or the reverse.
    pub(crate) unbalanced: AtomicU64,
    /// Figures of aggregations that are not those of whole events, and events that are in none.
    pub(crate) torn: AtomicU64,
    /// Times that a session ended with an error.
    pub(crate) failed: AtomicU64,
}

/// Maps the counts, which stay mapped.
pub(crate) fn map(file: &File) -> Result<&'static Counts> {
    rustix::fs::ftruncate(file, size_of::<Counts>() as u64)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, as long as the file; `Counts` consists of atomics, of which any values are valid.
    unsafe {
        let start = rustix::mm::mmap(std::ptr::null_mut(), size_of::<Counts>(), access, MapFlags::SHARED, file, 0)?;
        Ok(&*start.cast())
    }
}

/// Memory with a name by which a child process finds it.
pub(crate) fn memory(name: &str) -> Result<(File, String)> {
    let file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok((file, path))
}
