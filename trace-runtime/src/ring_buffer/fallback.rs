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
#![expect(unsafe_code, reason = "reads pieces and writes records by address")]

use super::core::{Core, Memory};
use super::layout::{ConsumedPage, Control, Layout};
use super::losses::{Counter, Losses};
use super::position::{POSITION_BITS, Position};
use super::{ClockKind, Config, Mode, Outcome};
use std::time::{Duration, Instant};
use trace_registry::field::Piece;
use trace_registry::is_mutated;
use trace_registry::sync::{AtomicU64, Ordering, fence};

/// Bytes of a record's header.
pub const FALLBACK_HEADER: usize = 32;
const LENGTH_BITS: u32 = 64 - POSITION_BITS;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;
/// How long a live reader waits for a reserved record before it takes it for a hole.
const PATIENCE: Duration = Duration::from_millis(100);

/// Returns the mark of a record.
const fn mark(position: u64, len: u64, key: u64) -> u64 {
    (Position::new(position).bits() << LENGTH_BITS | len) ^ key
}

/// Returns the length in `word` if it is the mark of a record at `position`.
const fn length(word: u64, position: u64, key: u64) -> Option<u64> {
    let plain = word ^ key;
    let len = plain & LENGTH_MASK;
    if plain >> LENGTH_BITS == Position::new(position).bits() && len >= FALLBACK_HEADER as u64 { Some(len) } else { None }
}

/// A sum over words that also depends on their order and on the position.
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Checksum {
    fn new(position: u64, key: u64) -> Checksum {
        Checksum(key.rotate_left(32) ^ position)
    }

    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    fn finish(self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

/// The ring's words.
#[derive(Clone, Copy)]
struct Ring<'m> {
    control: &'m Control,
    consumed: &'m ConsumedPage,
    words: &'m [AtomicU64],
}

impl<'m> Ring<'m> {
    fn of(memory: &Memory<'m>) -> Option<Ring<'m>> {
        let (control, consumed) = memory.fallback()?;
        let len = memory.layout.geometry.fallback as usize;
        let start = memory.mapping.range(memory.layout.fallback() + Layout::FALLBACK_DATA, len)?;
        // SAFETY: the range is inside the mapping and aligned to a page; atomics may be shared with any process.
        let words = unsafe { core::slice::from_raw_parts(start.as_ptr().cast::<AtomicU64>(), len / 8) };
        Some(Ring { control, consumed, words })
    }

    fn size(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    #[inline]
    fn word(&self, position: u64) -> &'m AtomicU64 {
        &self.words[(position / 8) as usize & (self.words.len() - 1)]
    }
}

/// Stores bytes as words, whatever pieces they come in.
struct WordWriter<'m> {
    ring: Ring<'m>,
    position: u64,
    checksum: Checksum,
    pending: u64,
    /// Bits of `pending` that are set.
    filled: u32,
}

impl WordWriter<'_> {
    #[inline]
    fn word(&mut self, word: u64) {
        self.checksum.add(word);
        // Relaxed: FB-1; published by the mark.
        self.ring.word(self.position).store(word, Ordering::Relaxed);
        self.position += 8;
    }

    #[inline]
    fn bits(&mut self, value: u64, bits: u32) {
        self.pending |= value << self.filled;
        self.filled += bits;
        if self.filled >= 64 {
            let word = self.pending;
            self.word(word);
            self.filled -= 64;
            // What did not fit: the upper bits of `value`.
            self.pending = if self.filled == 0 { 0 } else { value >> (bits - self.filled) };
        }
    }

    /// # Safety
    ///
    /// The piece's bytes may be read.
    unsafe fn piece(&mut self, piece: &Piece) {
        let mut at = 0;
        while at + 8 <= piece.len {
            // SAFETY: inside the piece.
            self.bits(u64::from_le(unsafe { piece.start.add(at).cast::<u64>().read_unaligned() }), 64);
            at += 8;
        }
        while at < piece.len {
            // SAFETY: inside the piece.
            self.bits(u64::from(unsafe { piece.start.add(at).read() }), 8);
            at += 1;
        }
    }
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
pub(super) unsafe fn append<C: Config>(core: &Core, id: u32, pieces: &[Piece], total: usize, tid: u32) -> Outcome {
    let memory = core.memory();
    let Some(ring) = Ring::of(&memory) else {
        core.outside().count(Counter::NoBuffer);
        return Outcome::NoBuffer;
    };
    let len = (FALLBACK_HEADER + total) as u64;
    let extent = len.next_multiple_of(8);
    if extent > ring.size() / 4 {
        ring.control.count(Counter::TooLarge);
        return Outcome::TooLarge;
    }
    let (position, ns) = loop {
        // Acquire: keeps the clock behind it. Pairs with the exchange below, of whoever reserved before: its stamp was taken
        // before its exchange, this one is taken after the load that saw it.
        let position = ring.control.commit.load(Ordering::Acquire);
        if C::MODE == Mode::Discard {
            // Acquire: FB-3. Pairs with the Release store in `FallbackReader::consume`.
            let consumed = ring.consumed.consumed.load(Ordering::Acquire);
            let behind = position.wrapping_add(extent).wrapping_sub(consumed);
            if behind > ring.size() && !is_mutated!(fallback_consumed_ignored) {
                ring.control.count(Counter::Full);
                return Outcome::Full;
            }
        }
        let ns = match C::CLOCK {
            ClockKind::Raw | ClockKind::Ordered => core.clock().now_ordered_ns(),
            ClockKind::Os => core.clock().os_ns(),
            ClockKind::None => 0,
        };
        let next = position.wrapping_add(extent);
        if is_mutated!(fallback_plain_reserve) {
            ring.control.commit.store(next, Ordering::Relaxed);
            break (position, ns);
        }
        // Release: the stamp comes before. Acquire: the bytes are written after.
        if ring.control.commit.compare_exchange_weak(position, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            break (position, ns);
        }
    };
    // Release: the reservation comes before its count. Pairs with the Acquire load in `FallbackReader::settle`.
    //  - If the reader counts this reservation, it sees it, and that it has not read so far.
    //  - If it does not, the record is not committed yet, and is counted when it was.
    ring.control.last.fetch_add(1, Ordering::Release);
    // Release fence: the reservation comes before the words below. Pairs with the Acquire fence in `FallbackReader::copy`.
    //  - If a reader copied one of these words, it sees the reservation, and drops what it copied of an earlier lap.
    //  - If it does not see the reservation, it copied none of them.
    fence(Ordering::Release);
    let cpu = trace_registry::sys::cpu_id();
    let checksum = Checksum::new(position, memory.key);
    let mut writer = WordWriter { ring, position: position.wrapping_add(16), checksum, pending: 0, filled: 0 };
    writer.word(u64::from(tid) | u64::from(id) << 32);
    writer.word(ns);
    for piece in pieces {
        // SAFETY: the caller's duty.
        unsafe { writer.piece(piece) };
    }
    if writer.filled > 0 {
        let word = writer.pending;
        writer.word(word);
    }
    writer.checksum.add(u64::from(cpu));
    let sum = u64::from(writer.checksum.finish()) | u64::from(cpu) << 32;
    ring.word(position.wrapping_add(8)).store(sum, Ordering::Relaxed);
    // Release: the record's bytes come before its mark. Pairs with the Acquire load in `FallbackReader::length_at`.
    //  - If the reader sees the mark, it sees the bytes.
    //  - If it does not, the record is not committed yet, or never.
    ring.word(position).store(mark(position, len, memory.key), Ordering::Release);
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
    /// Where a snapshot ends.
    until: Option<u64>,
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
            last_ns: 0,
            delivered: 0,
            holes: 0,
            overwritten: 0,
            waiting: None,
            copy: Vec::new(),
            is_adrift: false,
        };
        if let Some(ring) = Ring::of(memory) {
            let reserved = ring.control.commit.load(Ordering::Acquire) & !7;
            let consumed = ring.consumed.consumed.load(Ordering::Relaxed) & !7;
            reader.position = if consumed <= reserved { consumed } else { reserved };
            reader.delivered = ring.consumed.delivered.load(Ordering::Relaxed);
            reader.until = is_snapshot.then_some(reserved);
            reader.settle(&ring, memory.settings.mode);
        }
        reader
    }

    /// Returns the next record. `None`: nothing is ready. `is_final`: nobody writes any more, so a hole stays one.
    pub(super) fn next(&mut self, memory: &Memory<'_>, is_final: bool) -> Option<FallbackRecord<'_>> {
        let ring = Ring::of(memory)?;
        loop {
            // Acquire: the reader sees at least what was committed by whoever it hears of.
            let reserved = self.until.unwrap_or_else(|| ring.control.commit.load(Ordering::Acquire) & !7);
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
            let key = memory.key;
            if self.length_at(&ring, self.position, reserved, key).is_some_and(|len| self.copy(&ring, len, key)) {
                break;
            }
            // No record here: adrift, a hole, or one that is being written.
            let limit = if self.is_adrift || is_final || self.until.is_some() {
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
                if self.length_at(&ring, next, reserved, key).is_some() {
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

    /// The length of a committed record at `position`; FB-2.
    fn length_at(&self, ring: &Ring<'_>, position: u64, reserved: u64, key: u64) -> Option<u64> {
        // Acquire: pairs with the Release store of the mark in `append`.
        let len = length(ring.word(position).load(Ordering::Acquire), position, key)?;
        (len.next_multiple_of(8) <= reserved.wrapping_sub(position) && len <= ring.size() / 4).then_some(len)
    }

    /// Copies the record at the reading position and moves behind it; FB-4. In place of the mark, its length is kept.
    fn copy(&mut self, ring: &Ring<'_>, len: u64, key: u64) -> bool {
        let extent = len.next_multiple_of(8);
        self.copy.clear();
        self.copy.push(len);
        // Relaxed: after the Acquire load of the mark, before the fence.
        self.copy.extend((1..extent / 8).map(|k| ring.word(self.position.wrapping_add(k * 8)).load(Ordering::Relaxed)));
        // Acquire fence: the copy comes before the position. Pairs with the Release fence in `append`.
        fence(Ordering::Acquire);
        let reserved = ring.control.commit.load(Ordering::Relaxed);
        if reserved.wrapping_sub(self.position) > ring.size() {
            return false;
        }
        let mut checksum = Checksum::new(self.position, key);
        self.copy[2..].iter().for_each(|word| checksum.add(*word));
        checksum.add(self.copy[1] >> 32);
        if checksum.finish() != self.copy[1] as u32 && !is_mutated!(fallback_checksum_ignored) {
            return false;
        }
        self.position = self.position.wrapping_add(extent);
        true
    }

    /// Lets writers have what was delivered.
    pub(super) fn consume(&self, memory: &Memory<'_>) {
        if let Some(ring) = Ring::of(memory) {
            ring.consumed.delivered.store(self.delivered, Ordering::Relaxed);
            // Release: the copies come before. Pairs with the Acquire load in `append`.
            ring.consumed.consumed.store(self.position, Ordering::Release);
        }
    }

    /// Where everything was read, what was reserved and not delivered is lost. The counts only grow.
    fn settle(&mut self, ring: &Ring<'_>, mode: Mode) {
        // Acquire, and before the position: pairs with the Release addition in `append`.
        let reserved = ring.control.last.load(Ordering::Acquire);
        if ring.control.commit.load(Ordering::Acquire) != self.position {
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mark_is_valid_at_its_own_position_only(
            position in any::<u64>(), other in any::<u64>(), len in FALLBACK_HEADER as u64..LENGTH_MASK, key in any::<u64>(),
        ) {
            let word = mark(position, len, key);
            prop_assert_eq!(length(word, position, key), Some(len));
            if Position::new(position) != Position::new(other) {
                prop_assert_eq!(length(word, other, key), None);
            }
        }

        #[test]
        fn words_are_assembled_from_any_pieces(cuts in prop::collection::vec(0_usize..40, 0..12)) {
            let words: Vec<AtomicU64> = (0..256).map(|_| AtomicU64::new(0)).collect();
            // SAFETY: both consist of atomic words only.
            let (control, consumed): (Control, ConsumedPage) = unsafe { core::mem::zeroed() };
            let ring = Ring { control: &control, consumed: &consumed, words: &words };
            let bytes: Vec<u8> = (0..cuts.iter().sum::<usize>()).map(|i| i as u8 ^ 0x5a).collect();
            let mut writer = WordWriter { ring, position: 0, checksum: Checksum::new(0, 0), pending: 0, filled: 0 };
            let mut at = 0;
            for len in &cuts {
                let piece = Piece { start: bytes[at..].as_ptr(), len: *len };
                // SAFETY: the piece names `bytes`.
                unsafe { writer.piece(&piece) };
                at += len;
            }
            if writer.filled > 0 {
                let word = writer.pending;
                writer.word(word);
            }
            let stored: Vec<u8> = words.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect();
            prop_assert_eq!(&stored[..bytes.len()], &bytes[..]);
        }
    }

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
        let ring = Ring::of(&memory).expect("a fallback region");
        ring.control.last.fetch_add(1, Ordering::Relaxed);
        ring.control.commit.fetch_add(len, Ordering::Relaxed)
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
        let ring = Ring::of(&memory).expect("a fallback region");
        let sleeper = reserve(&channel, 64);
        for id in 0..1000 {
            assert_eq!(channel.record(id, &[&[7; 24]]), Outcome::Recorded);
        }
        // It wakes and writes its record, stamp, payload and mark, over whatever is there now.
        for k in 1..8 {
            ring.word(sleeper + k * 8).store(0x5555, Ordering::Relaxed);
        }
        ring.word(sleeper).store(mark(sleeper, 64, memory.key), Ordering::Release);
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
