//! What a channel's ring buffers are configured with: constants at compile time, sizes at run time.

use std::io;

/// The compile-time configuration of a channel's ring buffers.
///
/// Its constants are inlined into the instances of [`Appender::append`](super::Appender::append): a configuration costs no branch in the event.
pub trait Config: Send + Sync + 'static {
    /// What happens when the ring is full.
    const MODE: Mode;
    /// Where stamps come from.
    const CLOCK: ClockKind;
    /// Form of the record headers.
    const HEADER: HeaderKind;
    /// What selects the buffer.
    const PLACEMENT: Placement;
}

/// What happens to an event that finds its ring buffer full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// The event is discarded and counted.
    Discard = 0,
    /// The oldest sub-buffer is overwritten (flight recorder), its records are counted.
    Overwrite = 1,
}

/// Where the stamps of records come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ClockKind {
    /// The time stamp counter: fastest. Stamps of different CPUs may contradict causality by up to about 1 µs.
    Raw = 0,
    /// The time stamp counter behind a fence: causal between CPUs.
    Ordered = 1,
    /// The operating system's monotonic clock.
    Os = 2,
    /// No stamps: all are 0.
    None = 3,
}

impl ClockKind {
    pub(super) const fn is_counter(self) -> bool {
        matches!(self, ClockKind::Raw | ClockKind::Ordered)
    }
}

/// Form of the record headers; see the table in the module's source, `header.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HeaderKind {
    /// 4 bytes: 27 bits of the stamp, 5 bits of event ID.
    Compact = 0,
    /// 6 bytes: 16 bits of event ID, 32 bits of the stamp.
    Large = 1,
}

/// What selects the ring buffer of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Placement {
    /// The CPU's number.
    Cpu = 0,
    /// The memory map's concurrency ID: as many buffers as threads run at once. Linux 6.3.
    MmCid = 1,
    /// The thread: each one gets a spare buffer with its first event, and a later thread gets it when that one has ended. Threads
    /// that find no spare buffer share the fallback region.
    Thread = 2,
    /// None: all threads share the fallback region, whose records have one order, that of their stamps. For events that are rare:
    /// an append takes two locked operations on words that all CPUs share.
    Global = 3,
}

impl Placement {
    /// Whether this machine offers it.
    pub fn is_available(self) -> bool {
        match self {
            Placement::Cpu | Placement::Thread | Placement::Global => true,
            Placement::MmCid => super::sequence::has_mm_cid(),
        }
    }

    /// Whether the creator of a channel says what each buffer serves. Otherwise threads take them, or there are none.
    pub fn is_assigned(self) -> bool {
        matches!(self, Placement::Cpu | Placement::MmCid)
    }
}

/// The sizes of a channel's ring buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of ring buffers. 0: only the fallback region, as [`Placement::Global`] wants it.
    pub buffers: u32,
    /// Bytes of a sub-buffer: a power of two, 4 KiB to 4 MiB.
    pub sub_buffer: u32,
    /// Sub-buffers of a ring buffer: 2 to 65536.
    pub sub_buffers: u32,
    /// Bytes of the fallback region's ring: 0 or a power of two, at least 4 KiB. At 0, events that cannot be recorded in a
    /// ring buffer are lost ([`NoBuffer`](super::Outcome::NoBuffer)).
    pub fallback: u32,
}

impl Geometry {
    /// Fewest bytes of a sub-buffer and of the fallback ring.
    pub const SMALLEST_SUB_BUFFER: u32 = 4 << 10;
    /// Most bytes of a sub-buffer, so that its records can be counted in 20 bits.
    pub const LARGEST_SUB_BUFFER: u32 = 4 << 20;
    const MOST_SUB_BUFFERS: u32 = 1 << 16;
    const MOST_BUFFERS: u32 = 1 << 16;
    const LARGEST_FALLBACK: u32 = 1 << 30;

    /// Checks the sizes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` names the size that is wrong and what it may be.
    pub fn check(&self) -> io::Result<()> {
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{what} (ring buffers: {self:?})")));
        if !self.sub_buffer.is_power_of_two()
            || !(Self::SMALLEST_SUB_BUFFER..=Self::LARGEST_SUB_BUFFER).contains(&self.sub_buffer)
        {
            return wrong("a sub-buffer has a power of two of bytes, 4 KiB to 4 MiB");
        }
        if !(2..=Self::MOST_SUB_BUFFERS).contains(&self.sub_buffers) {
            return wrong("a ring buffer has 2 to 65536 sub-buffers");
        }
        let fallback = Self::SMALLEST_SUB_BUFFER..=Self::LARGEST_FALLBACK;
        if self.fallback != 0 && !(self.fallback.is_power_of_two() && fallback.contains(&self.fallback)) {
            return wrong("the fallback region has a power of two of bytes, 4 KiB to 1 GiB, or none");
        }
        if self.buffers > Self::MOST_BUFFERS {
            return wrong("a channel has at most 65536 ring buffers");
        }
        if self.buffers == 0 && self.fallback == 0 {
            return wrong("a channel has ring buffers or a fallback region");
        }
        Ok(())
    }

    /// Returns the bytes of the file that holds the buffers.
    pub fn file_size(&self) -> u64 {
        super::layout::Layout::new(*self).file_size()
    }

    /// Returns the bytes of the largest record, longest header included: a quarter of a sub-buffer, at most 32 KiB.
    pub fn largest_record(&self) -> usize {
        (self.sub_buffer as usize / 4).min(32 << 10)
    }
}
