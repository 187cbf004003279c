//! The fallback region: one ring for all threads that cannot use sequences, and for records whose sequence was aborted too
//! often.
//!
//! ```text
//! record, aligned to 8:  mark u64 │ checksum u32 │ cpu u32 │ tid u32 │ event ID u32 │ stamp u64 │ context, payload │ pad
//! mark = ((position mod 2⁴⁴) << 20 | length) XOR key
//! ```
//!
//! A writer reserves by compare-and-swap of the position, after reading an ordered clock: whoever reserves later has a later
//! stamp. It commits by storing the mark. The mark holds the record's own position, so nothing needs to be zeroed between
//! laps, and `key`, random for each channel, so that payload is not taken for a mark. The checksum detects a writer that was
//! overtaken by a whole lap and wrote into the middle of a later record.
//!
//! # Invariants
//!
//! - FB-1: Writers change a record's extent only between its reservation and its commit, and by atomic words.
//! - FB-2: A mark is valid at its own position only, with a length whose extent does not reach beyond the reserved position.
//! - FB-3: Discard mode: no reservation covers bytes behind `consumed`.
//! - FB-4: Readers believe a record when its mark is valid, its checksum is right, and afterwards no reservation covers it.
#![expect(unsafe_code, reason = "reads pieces and records by address")]

mod ring;

pub use self::ring::FALLBACK_HEADER;
use self::ring::{Head, Ring};
use super::core::{Core, Memory};
use super::layout::Layout;
use super::losses::{Counter, Losses};
use super::{ClockKind, Config, Mode, Outcome};
use std::time::{Duration, Instant};
use trace_registry::field::Piece;
use trace_registry::sync::{AtomicU64, Ordering};

/// How long a live reader waits for a reserved record before it takes it for a hole.
const PATIENCE: Duration = Duration::from_millis(100);

/// The words of a channel's region. `None`: it has none.
fn ring<'m>(memory: &Memory<'m>) -> Option<Ring<'m>> {
    let (control, consumed) = memory.fallback()?;
    let len = memory.layout.geometry.fallback as usize;
    let start = memory.mapping.range(memory.layout.fallback() + Layout::FALLBACK_DATA, len)?;
    // SAFETY: the range is inside the mapping and aligned to a page; atomics may be shared with any process.
    let words = unsafe { core::slice::from_raw_parts(start.as_ptr().cast::<AtomicU64>(), len / 8) };
    let (reserved, reservations, consumed) = (&control.commit, &control.last, &consumed.consumed);
    Some(Ring { reserved, reservations, consumed, words, key: memory.key })
}

/// Appends a record to the fallback region.
///
/// # Safety
///
/// Each piece names bytes that may be read, and their lengths add up to `total`.
///
/// # Signal safety
///
/// Async-signal-safe and lock-free.
#[cold]
pub(super) unsafe fn append<C: Config>(core: &Core, id: u32, tid_in_front: bool, pieces: &[Piece], total: usize) -> Outcome {
    let Some(ring) = ring(&core.memory()) else {
        core.outside().count(Counter::NoBuffer);
        return Outcome::NoBuffer;
    };
    let control = core.outside();
    if core.allocated() == 0 {
        control.count(Counter::Full); // RB-11
        return Outcome::Full;
    }
    let tid = crate::process::thread_id();
    let bytes = tid.to_ne_bytes();
    let front: &[Piece] = if tid_in_front { &[Piece { start: bytes.as_ptr(), len: bytes.len() }] } else { &[] };
    let len = (FALLBACK_HEADER + front.iter().map(|p| p.len).sum::<usize>() + total) as u64;
    let extent = len.next_multiple_of(8);
    if extent > ring.size() / 4 {
        control.count(Counter::TooLarge);
        return Outcome::TooLarge;
    }
    let stamp = || match C::CLOCK {
        ClockKind::Raw | ClockKind::Ordered => core.clock().now_ordered_ns(),
        ClockKind::Os => core.clock().os_ns(),
        ClockKind::None => 0,
    };
    let Some((position, ns)) = ring.reserve(extent, C::MODE == Mode::Discard, stamp) else {
        control.count(Counter::Full);
        return Outcome::Full;
    };
    let head = Head { tid, id, cpu: trace_registry::sys::cpu_id(), ns };
    // SAFETY: the caller's duty.
    unsafe { ring.commit(position, len, head, front.iter().chain(pieces)) };
    Outcome::Recorded
}

/// A record of the fallback region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FallbackRecord<'r> {
    /// CPU it was recorded on; `u32::MAX`: not known.
    pub cpu: u32,
    /// Thread that recorded it, as its caller numbers threads.
    pub tid: u32,
    /// Event ID.
    pub id: u32,
    /// Stamp; never below that of the record before.
    pub ns: u64,
    /// Context and payload.
    pub payload: &'r [u8],
}

/// Reading position in the fallback region.
#[derive(Debug)]
pub(super) struct FallbackReader {
    position: u64,
    /// Where it ends.
    until: Option<u64>,
    is_snapshot: bool,
    last_ns: u64,
    delivered: u64,
    /// Records that were reserved and never read: holes that were seen, adjacent ones as one until [`settle`](Self::settle).
    holes: u64,
    /// Overwrite mode: records that were written over; known when everything is delivered.
    overwritten: u64,
    /// A hole at `position` that may still be filled: since when, and how far was reserved then.
    waiting: Option<(Instant, u64)>,
    copy: Vec<u64>,
    /// Whether `position` may lie inside a record.
    is_adrift: bool,
}

impl FallbackReader {
    pub(super) fn new(memory: &Memory<'_>, is_snapshot: bool) -> FallbackReader {
        let mut reader = FallbackReader {
            position: 0,
            until: None,
            is_snapshot,
            last_ns: 0,
            delivered: 0,
            holes: 0,
            overwritten: 0,
            waiting: None,
            copy: Vec::new(),
            is_adrift: false,
        };
        if let Some(ring) = ring(memory) {
            let reserved = ring.reserved.load(Ordering::Acquire) & !7;
            let consumed = ring.consumed.load(Ordering::Relaxed) & !7;
            reader.position = if consumed <= reserved { consumed } else { reserved };
            reader.delivered = memory.fallback().map_or(0, |(_, page)| page.delivered.load(Ordering::Relaxed));
            reader.until = is_snapshot.then_some(reserved);
            reader.settle(&ring, memory.settings.mode);
        }
        reader
    }

    /// Returns the next record. `None`: nothing is ready. `is_final`: nobody writes any more, so a hole stays one.
    pub(super) fn next(&mut self, memory: &Memory<'_>, is_final: bool) -> Option<FallbackRecord<'_>> {
        let ring = ring(memory)?;
        loop {
            // Acquire: the reader sees at least what was committed by whoever it hears of.
            let reserved = self.until.unwrap_or_else(|| ring.reserved.load(Ordering::Acquire) & !7);
            let ahead = reserved.wrapping_sub(self.position);
            if ahead == 0 || ahead > u64::MAX / 2 {
                self.settle(&ring, memory.settings.mode);
                return None;
            }
            if ahead > ring.size() {
                // Overwrite mode: a lap behind. Where the oldest record begins is not known.
                self.position = reserved.wrapping_sub(ring.size());
                self.is_adrift = true;
                self.waiting = None;
            }
            let len = ring.length_at(self.position, reserved);
            if let Some(extent) = len.and_then(|len| ring.copy(self.position, len, &mut self.copy)) {
                self.position = self.position.wrapping_add(extent);
                break;
            }
            // No record here: adrift, a hole, or one that is being written.
            let limit = if self.is_adrift || is_final || self.is_snapshot {
                reserved
            } else {
                let now = Instant::now();
                let (since, limit) = *self.waiting.get_or_insert((now, reserved));
                if now.duration_since(since) < PATIENCE {
                    return None;
                }
                limit
            };
            let mut next = self.position.wrapping_add(8);
            while limit.wrapping_sub(next) <= ring.size() && next != limit {
                if ring.length_at(next, reserved).is_some() {
                    break;
                }
                next = next.wrapping_add(8);
            }
            if !self.is_adrift {
                self.holes += 1;
            }
            // At `limit` a record begins, which is known there to have been reserved.
            self.is_adrift &= next != limit;
            self.position = next;
            self.waiting = None;
        }
        self.waiting = None;
        self.is_adrift = false;
        self.delivered += 1;
        let [_, sum, ids, ns, payload @ ..] = self.copy.as_slice() else { return None };
        self.last_ns = self.last_ns.max(*ns);
        // SAFETY: the bytes of the words behind the header.
        let bytes = unsafe { core::slice::from_raw_parts(payload.as_ptr().cast::<u8>(), payload.len() * 8) };
        let len = (self.copy[0] as usize).saturating_sub(FALLBACK_HEADER);
        Some(FallbackRecord {
            cpu: (sum >> 32) as u32,
            tid: *ids as u32,
            id: (ids >> 32) as u32,
            ns: self.last_ns,
            payload: bytes.get(..len)?,
        })
    }

    /// How far writers are.
    pub(super) fn reserved(&self, memory: &Memory<'_>) -> Option<u64> {
        // Acquire: as in `next`.
        ring(memory).map(|ring| ring.reserved.load(Ordering::Acquire) & !7)
    }

    /// Ends there, or nowhere.
    pub(super) fn end_at(&mut self, until: Option<u64>) {
        self.until = until;
    }

    /// Whether anything was overwritten before it was consumed.
    pub(super) fn was_lapped(&self, memory: &Memory<'_>) -> bool {
        let Some(ring) = ring(memory) else { return false };
        let reserved = self.until.unwrap_or_else(|| ring.reserved.load(Ordering::Relaxed));
        reserved.saturating_sub(ring.consumed.load(Ordering::Relaxed)) > ring.size()
    }

    /// Lets writers have what was delivered.
    pub(super) fn consume(&self, memory: &Memory<'_>) {
        if let Some((_, page)) = memory.fallback() {
            page.delivered.store(self.delivered, Ordering::Relaxed);
        }
        if let Some(ring) = ring(memory) {
            ring.consume(self.position);
        }
    }

    /// Where everything was read, what was reserved and not delivered is lost. The counts only grow.
    fn settle(&mut self, ring: &Ring<'_>, mode: Mode) {
        // Acquire, and before the position: pairs with the Release addition in `append`.
        let reserved = ring.reservations.load(Ordering::Acquire);
        if ring.reserved.load(Ordering::Acquire) != self.position {
            return;
        }
        let missing = reserved.saturating_sub(self.delivered);
        match mode {
            Mode::Discard => self.holes = self.holes.max(missing),
            Mode::Overwrite => self.overwritten = self.overwritten.max(missing.saturating_sub(self.holes)),
        }
    }

    /// What was lost; exact when everything was delivered and nobody writes.
    pub(super) fn losses(&self, memory: &Memory<'_>) -> Losses {
        Losses { uncommitted: self.holes, overwritten: self.overwritten, ..memory.fallback_losses() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fallen<const OVERWRITE: bool>;
    impl<const OVERWRITE: bool> Config for Fallen<OVERWRITE> {
        const MODE: Mode = if OVERWRITE { Mode::Overwrite } else { Mode::Discard };
        const CLOCK: ClockKind = ClockKind::Os;
        const HEADER: super::super::HeaderKind = super::super::HeaderKind::Large;
        const PLACEMENT: super::super::Placement = super::super::Placement::Cpu;
    }

    const SIZE: u32 = 4096;

    fn channel<const OVERWRITE: bool>() -> (super::super::Channel<Fallen<OVERWRITE>>, super::super::Reader) {
        let geometry = super::super::Geometry { buffers: 0, sub_buffer: 4096, sub_buffers: 2, fallback: SIZE };
        let channel = super::super::Channel::in_memory(geometry).expect("a channel");
        let reader = channel.reader(super::super::Purpose::Consume).expect("the first reader");
        (channel, reader)
    }

    /// What a writer leaves that dies between its reservation and its commit.
    fn reserve<const OVERWRITE: bool>(channel: &super::super::Channel<Fallen<OVERWRITE>>, len: u64) -> u64 {
        let memory = channel.core().memory();
        let ring = ring(&memory).expect("a fallback region");
        ring.reservations.fetch_add(1, Ordering::Relaxed);
        ring.reserved.fetch_add(len, Ordering::Relaxed)
    }

    fn ids(reader: &mut super::super::Reader, is_final: bool) -> Vec<u32> {
        std::iter::from_fn(|| reader.next_fallback(is_final).map(|r| r.id)).collect()
    }

    /// Lets the reader's patience end now, whatever the clock does meanwhile.
    fn lose_patience(reader: &mut FallbackReader) {
        let (since, _) = reader.waiting.as_mut().expect("a hole that is waited for");
        *since = since.checked_sub(PATIENCE).expect("a machine that runs for longer");
    }

    #[test]
    fn a_hole_is_waited_for_then_skipped_and_counted() {
        let (channel, _) = channel::<false>();
        let memory = channel.core().memory();
        let reader = &mut FallbackReader::new(&memory, false);
        let next = |reader: &mut FallbackReader| reader.next(&memory, false).map(|r| r.id);
        assert_eq!(channel.record(1, &[b"before"]), Outcome::Recorded);
        reserve(&channel, 48);
        reserve(&channel, 64);
        assert_eq!(channel.record(2, &[b"behind"]), Outcome::Recorded);
        assert_eq!([next(reader), next(reader)], [Some(1), None]);
        lose_patience(reader);
        assert_eq!([next(reader), next(reader)], [Some(2), None]);
        assert_eq!(reader.losses(&memory).uncommitted, 2);
        // Nothing behind a hole: what was reserved when it was seen is passed over, so that it does not hold the ring for ever.
        reserve(&channel, 48);
        assert_eq!(next(reader), None);
        assert_eq!(reader.losses(&memory).uncommitted, 2);
        lose_patience(reader);
        assert_eq!(next(reader), None);
        assert_eq!(reader.losses(&memory).uncommitted, 3);
        // What is reserved behind a hole while it is waited for gets its own time, and no count is taken back.
        reserve(&channel, 48);
        assert_eq!(next(reader), None);
        reserve(&channel, 64);
        lose_patience(reader);
        assert_eq!(next(reader), None);
        assert_eq!(reader.losses(&memory).uncommitted, 4);
        lose_patience(reader);
        assert_eq!(next(reader), None);
        assert_eq!(reader.losses(&memory).uncommitted, 5);
        assert_eq!(channel.record(3, &[]), Outcome::Recorded);
        assert_eq!([next(reader), next(reader)], [Some(3), None]);
        assert_eq!(reader.losses(&memory).uncommitted, 5);
    }

    #[test]
    fn a_reservation_that_is_under_way_is_no_loss() {
        let (channel, mut reader) = channel::<false>();
        assert_eq!(channel.record(1, &[]), Outcome::Recorded);
        assert_eq!(ids(&mut reader, false), [1]);
        reserve(&channel, 48);
        assert_eq!(reader.fallback_losses().total(), 0);
        assert_eq!(reader.next_fallback(false), None);
        assert_eq!(reader.fallback_losses().total(), 0);
    }

    #[test]
    fn a_final_reader_does_not_wait() {
        let (channel, mut reader) = channel::<false>();
        reserve(&channel, 48);
        assert_eq!(channel.record(1, &[]), Outcome::Recorded);
        reserve(&channel, 48);
        assert_eq!(ids(&mut reader, true), [1]);
        assert_eq!((reader.fallback_losses().uncommitted, reader.fallback_losses().total()), (2, 2));
    }

    #[test]
    fn a_writer_that_was_overtaken_by_a_lap_is_noticed() {
        let (channel, mut reader) = channel::<true>();
        let memory = channel.core().memory();
        let ring = ring(&memory).expect("a fallback region");
        let sleeper = reserve(&channel, 64);
        for id in 0..1000 {
            assert_eq!(channel.record(id, &[&[7; 24]]), Outcome::Recorded);
        }
        // It wakes and writes its record, stamp, payload and mark, over whatever is there now.
        for k in 1..8 {
            ring.word(sleeper + k * 8).store(0x5555, Ordering::Relaxed);
        }
        ring.word(sleeper).store(ring::mark(sleeper, 64, memory.key), Ordering::Release);
        let read = ids(&mut reader, true);
        assert_eq!(read.last(), Some(&999));
        assert!(read.windows(2).all(|w| w[0] < w[1]));
        let losses = reader.fallback_losses();
        assert!(losses.uncommitted >= 1, "{losses}");
        assert_eq!(read.len() as u64 + losses.total(), 1001);
    }

    #[test]
    fn a_full_region_discards_and_the_counts_add_up() {
        let (channel, mut reader) = channel::<false>();
        let outcomes: Vec<Outcome> = (0..1000).map(|id| channel.record(id, &[&[7; 30]])).collect();
        let recorded = outcomes.iter().filter(|o| **o == Outcome::Recorded).count();
        assert_eq!(recorded, SIZE as usize / 64);
        assert_eq!(channel.record(1, &[&[0; 1000]]), Outcome::TooLarge);
        assert_eq!(ids(&mut reader, false).len(), recorded);
        reader.consume_fallback();
        let losses = reader.fallback_losses();
        assert_eq!((losses.full, losses.too_large, losses.total()), (1000 - recorded as u64, 1, 1001 - recorded as u64));
        assert_eq!(channel.record(5, &[]), Outcome::Recorded);
    }
}
