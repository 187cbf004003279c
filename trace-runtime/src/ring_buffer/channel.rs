//! The ring buffer for programs that do not use tracepoints: a channel that is safe to use.
#![expect(unsafe_code, reason = "appends by address")]

use super::{Config, Core, Geometry, Outcome, Purpose, Reader};
use crate::clock::Clock;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use trace_registry::field::Piece;

/// Most pieces of a record of [`Channel::record`].
pub const MOST_PIECES: usize = 24;

/// Ring buffers with a configuration, to be used directly.
///
/// # Examples
///
/// ```
/// use trace_runtime::ring_buffer::{Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Outcome, Placement, Purpose};
///
/// struct Flight;
/// impl Config for Flight {
///     const MODE: Mode = Mode::Overwrite;
///     const CLOCK: ClockKind = ClockKind::Os;
///     const HEADER: HeaderKind = HeaderKind::Compact;
///     const PLACEMENT: Placement = Placement::Cpu;
/// }
///
/// # fn main() -> std::io::Result<()> {
/// let geometry = Geometry { buffers: 4, sub_buffer: 4096, sub_buffers: 4, fallback: 16384 };
/// let channel = Channel::<Flight>::in_memory(geometry)?;
/// assert_eq!(channel.record(1, &[b"an event"]), Outcome::Recorded);
///
/// let mut reader = channel.reader(Purpose::Snapshot).expect("a snapshot is always possible");
/// let mut records = 0;
/// for buffer in 0..4 {
///     while let Some(packet) = reader.next(buffer, true) {
///         records += packet.records;
///     }
/// }
/// while let Some(record) = reader.next_fallback(true) {
///     assert_eq!(record.payload, b"an event");
///     records += 1;
/// }
/// assert_eq!(records, 1);
/// # Ok(())
/// # }
/// ```
pub struct Channel<C: Config> {
    core: Arc<Core>,
    file: File,
    config: PhantomData<C>,
}

impl<C: Config> Channel<C> {
    /// Creates a channel in a file, which must be new or may be overwritten; buffer `i` serves the CPU `cpus[i]`. Placed by
    /// thread or globally, no CPU is named.
    ///
    /// # Errors
    ///
    /// A geometry that does not [check](Geometry::check) or that the placement cannot use, more CPUs than buffers, a counter clock
    /// where there is none, or concurrency IDs where the kernel has none (`Unsupported`); no room in the file system; no memory.
    ///
    /// # Safety
    ///
    /// Nobody makes the file shorter, or punches holes into it, while the channel or a reader or packet of it is there: not this
    /// program, by another handle or by [`file`](Self::file), and no other process that may write it. A store to what is missing then
    /// raises SIGBUS. On Linux a file of memfd_create(2) can be sealed against it (`F_SEAL_SHRINK`), as
    /// [`in_memory`](Self::in_memory) does; for a file with a name it is a matter of who may open it.
    pub unsafe fn create(file: File, geometry: Geometry, cpus: &[u32], clock: &'static Clock) -> io::Result<Channel<C>> {
        // SAFETY: the caller's duty.
        let core = unsafe { Core::create::<C>(&file, geometry, cpus, clock, Some(u64::MAX))? };
        core.populate(2);
        Ok(Channel { core, file, config: PhantomData })
    }

    /// Creates a channel in a file, which must be new or may be overwritten, whose buffers serve CPU 0 and up or the threads that
    /// come, on the process's clock. A [`Reader`] in another process opens the same file.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    ///
    /// # Safety
    ///
    /// As for [`create`](Self::create).
    ///
    /// # Examples
    ///
    /// ```
    /// # use trace_runtime::ring_buffer::{Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Outcome, Placement};
    /// # struct Log;
    /// # impl Config for Log {
    /// #     const MODE: Mode = Mode::Discard;
    /// #     const CLOCK: ClockKind = ClockKind::Os;
    /// #     const HEADER: HeaderKind = HeaderKind::Compact;
    /// #     const PLACEMENT: Placement = Placement::Global;
    /// # }
    /// # fn main() -> std::io::Result<()> {
    /// let geometry = Geometry { buffers: 0, sub_buffer: 4096, sub_buffers: 4, fallback: 16384 };
    /// // SAFETY: nobody else has the file.
    /// let channel = unsafe { Channel::<Log>::in_file(tempfile::tempfile()?, geometry)? };
    /// assert_eq!(channel.record(1, &[b"an event"]), Outcome::Recorded);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe code, which could shorten it, does not get there:
    ///
    /// ```compile_fail,E0133
    /// # use trace_runtime::ring_buffer::{Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Outcome, Placement};
    /// # struct Log;
    /// # impl Config for Log {
    /// #     const MODE: Mode = Mode::Discard;
    /// #     const CLOCK: ClockKind = ClockKind::Os;
    /// #     const HEADER: HeaderKind = HeaderKind::Compact;
    /// #     const PLACEMENT: Placement = Placement::Global;
    /// # }
    /// # fn main() -> std::io::Result<()> {
    /// # let geometry = Geometry { buffers: 0, sub_buffer: 4096, sub_buffers: 4, fallback: 16384 };
    /// let channel = Channel::<Log>::in_file(tempfile::tempfile()?, geometry)?;
    /// channel.file().set_len(0)?;
    /// channel.record(1, &[b"SIGBUS"]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn in_file(file: File, geometry: Geometry) -> io::Result<Channel<C>> {
        let cpus: Vec<u32> = (0..geometry.buffers).filter(|_| C::PLACEMENT.is_assigned()).collect();
        // SAFETY: the caller's duty.
        unsafe { Self::create(file, geometry, &cpus, Clock::process()) }
    }

    /// Creates a channel in anonymous memory, whose buffers serve CPU 0 and up or the threads that come, on the process's clock.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    pub fn in_memory(geometry: Geometry) -> io::Result<Channel<C>> {
        // SAFETY: sealed against it; elsewhere a file that had a name for a moment, and whose handles nobody has.
        unsafe { Self::in_file(anonymous_file()?, geometry) }
    }

    /// Records one event, whose payload is the concatenation of at most [`MOST_PIECES`] pieces.
    ///
    /// # Signal safety
    ///
    /// As for [`Appender::append`](super::Appender::append).
    pub fn record(&self, id: u32, payload: &[&[u8]]) -> Outcome {
        let mut pieces = [Piece { start: core::ptr::null(), len: 0 }; MOST_PIECES];
        let Some(pieces) = pieces.get_mut(..payload.len()) else {
            self.core.count_loss(trace_registry::probe::Loss::TooLarge);
            return Outcome::TooLarge;
        };
        let mut total = 0_usize;
        for (piece, bytes) in pieces.iter_mut().zip(payload) {
            *piece = Piece { start: bytes.as_ptr(), len: bytes.len() };
            total = total.saturating_add(bytes.len());
        }
        // SAFETY: the core was created with `C`, lives as long as `self`, and the pieces are slices whose lengths were added.
        unsafe { self.core.appender(self.core.generation(), id, false, 0).append::<C>(pieces, total) }
    }

    /// Returns a reader. `None`: the channel has one that consumes, and this one is to consume too.
    pub fn reader(&self, purpose: Purpose) -> Option<Reader> {
        self.core.reader(purpose)
    }

    /// Returns the memory behind it.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Returns the file that holds the rings, for a reader in another process.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl<C: Config> std::fmt::Debug for Channel<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.core.fmt(f)
    }
}

#[cfg(target_os = "linux")]
fn anonymous_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, SealFlags};
    let file = File::from(rustix::fs::memfd_create("ringtrace", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    // Nobody who gets the descriptor can make it shorter and raise SIGBUS here.
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK)?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
fn anonymous_file() -> io::Result<File> {
    use trace_registry::sync::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: each caller gets another number.
    let name = format!("ringtrace-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::{ClockKind, HeaderKind, Mode, Placement};
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[derive(Debug)]
    struct Small;

    impl Config for Small {
        const MODE: Mode = Mode::Discard;
        const CLOCK: ClockKind = ClockKind::Os;
        const HEADER: HeaderKind = HeaderKind::Large;
        const PLACEMENT: Placement = Placement::Cpu;
    }

    #[test]
    fn a_ring_ends_where_its_file_has_no_room_yet() {
        let cpus: Vec<u32> = (0..u32::try_from(super::super::core::configured_cpus()).unwrap_or(1)).collect();
        let geometry = Geometry { buffers: cpus.len() as u32, sub_buffer: 4096, sub_buffers: 4096, fallback: 0 };
        let file = anonymous_file().expect("a file");
        // SAFETY: sealed.
        let core = unsafe { Core::create::<Small>(&file, geometry, &cpus, Clock::process(), Some(0)).expect("a core") };
        if !super::super::core::is_registered::<Small>() {
            return; // everything would go to the fallback region
        }
        let channel: Channel<Small> = Channel { core, file, config: PhantomData };
        let fill = || (0..u32::MAX).take_while(|_| channel.record(1, &[&[7; 100]]) == Outcome::Recorded).count();
        let blocks = || channel.file.metadata().expect("the file").blocks() * 512;
        let before = fill();
        assert!((50..80 * cpus.len()).contains(&before) && blocks() < geometry.file_size() / 4, "{before}");
        let other = anonymous_file().expect("a file");
        let refused = channel.core.allocate_more(&other).expect_err("room elsewhere is none for the rings");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        while channel.core.allocate_more(&channel.file).expect("room") {}
        assert!(!channel.core.allocate_more(&channel.file).expect("nothing to do"));
        assert!(fill() > 4094 * 30 && blocks() >= geometry.file_size());
        // Each that was refused is counted.
        assert_eq!(channel.core.losses().full, 2);
    }
}
