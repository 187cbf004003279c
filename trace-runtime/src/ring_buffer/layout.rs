//! What lies where in the file: the only description of the shared memory, for writers and readers.
//!
//! All fields are words that both sides load and store atomically; there are no pointers, `usize`, `bool` or implicit padding.
//! The geometry in the superblock describes the file to readers, which recompute and compare it; writers use private copies.

use super::{ClockKind, Config, Geometry, HeaderKind, Mode, Placement};
use core::mem::{offset_of, size_of};
use static_assertions::{const_assert, const_assert_eq};
use std::io;
use trace_registry::sync::AtomicU64;

/// Alignment of what is mapped apart: the page size here, or the largest that systems of this kind use.
pub(super) const PAGE: u64 = if cfg!(target_arch = "x86_64") { 4096 } else { 65536 };
/// Bytes of the superblock: the geometry and the [caller's area](CALLER_WORDS).
pub const SUPERBLOCK: u64 = 4096;
/// Words of the superblock that belong to the creator of the channel.
pub const CALLER_WORDS: usize = (SUPERBLOCK as usize - size_of::<Superblock>()) / 8;

/// First word of a file of rings: `RINGTRC` and a byte that changes with incompatible layouts.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RINGTRC\x01");
/// Version of the layout; readers accept the same only.
pub(super) const ABI_VERSION: u64 = 1;

/// First bytes of the file.
#[repr(C)]
pub(super) struct Superblock {
    /// Stored last, so that a file with it is complete.
    pub(super) magic: AtomicU64,
    pub(super) abi_version: AtomicU64,
    /// Bytes of this struct; the caller's area begins behind it.
    pub(super) size: AtomicU64,
    pub(super) file_size: AtomicU64,
    pub(super) buffers: AtomicU64,
    pub(super) sub_buffer: AtomicU64,
    pub(super) sub_buffers: AtomicU64,
    pub(super) fallback: AtomicU64,
    pub(super) mode: AtomicU64,
    pub(super) clock: AtomicU64,
    pub(super) header: AtomicU64,
    pub(super) placement: AtomicU64,
    /// Random word that is mixed into the marks of the fallback region.
    pub(super) key: AtomicU64,
    /// Alignment of mapped parts.
    pub(super) page: AtomicU64,
    pub(super) reserved: [AtomicU64; 18],
}

/// Number of words in a set of loss counters.
pub(super) const COUNTERS: usize = 8;

/// First page of a buffer, and of the fallback region.
#[repr(C)]
pub(super) struct Control {
    /// Buffers: the commit word. Fallback region: the position behind the last reserved record, not wrapped.
    pub(super) commit: AtomicU64,
    /// Buffers: the stamp of the last record. Fallback region: number of records reserved.
    pub(super) last: AtomicU64,
    /// CPU, concurrency ID or number of a thread that this buffer serves, plus 1; 0: none yet.
    pub(super) serves: AtomicU64,
    pub(super) reserved: [AtomicU64; 5],
    /// Events lost, and statistics, by [`Counter`](super::losses::Counter).
    pub(super) counters: [AtomicU64; COUNTERS],
}

/// The reader's page: the only one that a foreign reader maps writable.
#[repr(C)]
pub(super) struct ConsumedPage {
    /// Everything before this position, not wrapped, has been consumed. In buffers, where a sub-buffer begins.
    pub(super) consumed: AtomicU64,
    /// Commit word up to which the sub-buffer at `consumed` has been consumed. Not used in the fallback region.
    pub(super) partly: AtomicU64,
    /// The same word, stored before the two below: a reader that died between leaves them different.
    pub(super) partly_check: AtomicU64,
    /// Stamp of the last record before `partly`.
    pub(super) partly_ns: AtomicU64,
    /// Records consumed so far.
    pub(super) delivered: AtomicU64,
    pub(super) reserved: [AtomicU64; 3],
    /// Fallback region: who consumes, and when it was last seen; see `claim.rs`.
    pub(super) holder: AtomicU64,
    pub(super) seen_ns: AtomicU64,
}

/// What is known of one sub-buffer. Written at open and close; valid for readers while the position says so.
#[repr(C)]
pub(super) struct Descriptor {
    /// Number of the sub-buffer, counted from 1 and never wrapping; 0: never opened. At open.
    pub(super) sequence: AtomicU64,
    /// Stamp of the opening. At open.
    pub(super) begin_ns: AtomicU64,
    /// Stamp of the closing. At close.
    pub(super) end_ns: AtomicU64,
    /// Low half: offset of the end of the last record. High half: number of records. At close.
    pub(super) content: AtomicU64,
    /// Events lost so far by all causes but overwriting. At open.
    pub(super) lost_at_open: AtomicU64,
    /// Records of all sub-buffers before. At open.
    pub(super) records_before: AtomicU64,
    pub(super) reserved: [AtomicU64; 2],
    /// The counters so far. At close.
    pub(super) at_close: [AtomicU64; COUNTERS],
}

const_assert_eq!(size_of::<Superblock>(), 256);
const_assert_eq!(offset_of!(Superblock, key), 96);
const_assert!(size_of::<Superblock>() + CALLER_WORDS * 8 == SUPERBLOCK as usize);
// The commit writes 16 bytes at once: position and stamp.
const_assert_eq!(offset_of!(Control, commit), 0);
const_assert_eq!(offset_of!(Control, last), 8);
const_assert_eq!(offset_of!(Control, counters), 64);
const_assert_eq!(size_of::<Control>(), 128);
// The smallest record is a compact header without payload; its sub-buffer counts them in what a position leaves of a word.
const_assert!(Geometry::LARGEST_SUB_BUFFER as u64 / 4 <= u64::MAX / super::position::CommitWord::ONE_RECORD + 1);
const_assert_eq!(offset_of!(ConsumedPage, partly), 8);
const_assert_eq!(offset_of!(ConsumedPage, holder), 64);
const_assert_eq!(offset_of!(Descriptor, content), 24);
const_assert_eq!(offset_of!(Descriptor, at_close), 64);
const_assert_eq!(size_of::<Descriptor>(), 128);

/// Bytes of the opening word of a sub-buffer. Records follow it.
pub(super) const OPENING: u64 = 8;

/// Offsets in bytes from the beginning of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) geometry: Geometry,
    /// Bytes of a buffer with its control pages.
    stride: u64,
    /// Where the data of a buffer lie from its beginning.
    pub(super) data: u64,
}

impl Layout {
    pub(super) fn new(geometry: Geometry) -> Layout {
        let descriptors = u64::from(geometry.sub_buffers) * size_of::<Descriptor>() as u64;
        let data = Self::DESCRIPTORS + descriptors.next_multiple_of(PAGE);
        let ring = u64::from(geometry.sub_buffer) * u64::from(geometry.sub_buffers);
        Layout { geometry, stride: (data + ring).next_multiple_of(PAGE), data }
    }

    /// Where the consumed page lies from the beginning of a buffer or of the fallback region.
    pub(super) const CONSUMED: u64 = PAGE;
    /// Where the descriptors lie from the beginning of a buffer.
    pub(super) const DESCRIPTORS: u64 = 2 * PAGE;
    /// Where the ring of the fallback region lies from its beginning.
    pub(super) const FALLBACK_DATA: u64 = 2 * PAGE;

    pub(super) fn buffer(&self, index: u32) -> u64 {
        SUPERBLOCK.next_multiple_of(PAGE) + self.stride * u64::from(index)
    }

    pub(super) fn fallback(&self) -> u64 {
        self.buffer(self.geometry.buffers)
    }

    pub(super) fn file_size(&self) -> u64 {
        let fallback = if self.geometry.fallback == 0 { 0 } else { Self::FALLBACK_DATA + u64::from(self.geometry.fallback) };
        (self.fallback() + fallback).next_multiple_of(PAGE)
    }
}

/// The run-time form of a [`Config`]'s constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What happens when the ring is full.
    pub mode: Mode,
    /// Where stamps come from.
    pub clock: ClockKind,
    /// Form of the record headers.
    pub header: HeaderKind,
    /// What selects the buffer.
    pub placement: Placement,
}

impl Settings {
    pub(super) const fn of<C: Config>() -> Settings {
        Settings { mode: C::MODE, clock: C::CLOCK, header: C::HEADER, placement: C::PLACEMENT }
    }

    pub(super) fn words(self) -> [u64; 4] {
        [self.mode as u64, self.clock as u64, self.header as u64, self.placement as u64]
    }

    pub(super) fn from_words([mode, clock, header, placement]: [u64; 4]) -> Option<Settings> {
        let mode = [Mode::Discard, Mode::Overwrite].into_iter().find(|m| *m as u64 == mode)?;
        let clocks = [ClockKind::Raw, ClockKind::Ordered, ClockKind::Os, ClockKind::None];
        let clock = clocks.into_iter().find(|c| *c as u64 == clock)?;
        let header = [HeaderKind::Compact, HeaderKind::Large].into_iter().find(|h| *h as u64 == header)?;
        let placement = [Placement::Cpu, Placement::MmCid, Placement::Thread, Placement::Global]
            .into_iter()
            .find(|p| *p as u64 == placement)?;
        Some(Settings { mode, clock, header, placement })
    }
}

/// An error of a file that is not a ring file, or not one of this version.
pub(super) fn not_a_ring(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a ring file of this version: {what}"))
}
