//! The atomic part of the [fallback region](super): reservation, commit, and the copy that a reader checks.
//!
//! Models of it are in `models/`, which compiles this file with the atomics of loom.

use crate::ring_buffer::position::{POSITION_BITS, Position};
use crate::sync::{AtomicU64, Ordering, fence};
use trace_registry::field::Piece;
use trace_registry::is_mutated;

/// Bytes of a record's header.
pub const FALLBACK_HEADER: usize = 32;
const LENGTH_BITS: u32 = 64 - POSITION_BITS;
pub(super) const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

/// Returns the mark of a record.
pub(super) const fn mark(position: u64, len: u64, key: u64) -> u64 {
    (Position::new(position).bits() << LENGTH_BITS | len) ^ key
}

/// Returns the length in `word` if it is the mark of a record at `position`.
pub(super) const fn length(word: u64, position: u64, key: u64) -> Option<u64> {
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

/// The words of the region that are atomic between writers and readers.
#[derive(Clone, Copy)]
pub(super) struct Ring<'m> {
    /// The position behind the last reserved record, not wrapped.
    pub(super) reserved: &'m AtomicU64,
    /// Number of records reserved.
    pub(super) reservations: &'m AtomicU64,
    /// Everything before this position has been consumed.
    pub(super) consumed: &'m AtomicU64,
    pub(super) words: &'m [AtomicU64],
    /// Mixed into marks and checksums.
    pub(super) key: u64,
}

/// What is in a record besides its payload.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) tid: u32,
    pub(super) id: u32,
    pub(super) cpu: u32,
    pub(super) ns: u64,
}

impl<'m> Ring<'m> {
    pub(super) fn size(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    #[inline]
    pub(super) fn word(&self, position: u64) -> &'m AtomicU64 {
        &self.words[(position / 8) as usize & (self.words.len() - 1)]
    }

    /// Reserves `extent` bytes, with a stamp taken after what was reserved before. `None`: discard mode, and no room.
    ///
    /// Lock-free.
    pub(super) fn reserve(&self, extent: u64, discards: bool, stamp: impl Fn() -> u64) -> Option<(u64, u64)> {
        let (position, ns) = loop {
            // Acquire: keeps the clock behind it. Pairs with the exchange below, of whoever reserved before: its stamp was
            // taken before its exchange, this one is taken after the load that saw it.
            let position = self.reserved.load(Ordering::Acquire);
            if discards {
                // Acquire: FB-3. Pairs with the Release store in `consume`.
                let consumed = self.consumed.load(Ordering::Acquire);
                let behind = position.wrapping_add(extent).wrapping_sub(consumed);
                if behind > self.size() && !is_mutated!(fallback_consumed_ignored) {
                    return None;
                }
            }
            let ns = stamp();
            let next = position.wrapping_add(extent);
            if is_mutated!(fallback_plain_reserve) {
                // Long enough that threads meet in it on every machine.
                (0..10).for_each(|_| core::hint::spin_loop());
                self.reserved.store(next, Ordering::Relaxed);
                break (position, ns);
            }
            // Release: the stamp comes before. Acquire: the bytes are written after.
            if self.reserved.compare_exchange_weak(position, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                break (position, ns);
            }
        };
        // Release: the reservation comes before its count. Pairs with the Acquire load in `FallbackReader::settle`.
        //  - If the reader counts this reservation, it sees it, and that it has not read so far.
        //  - If it does not, the record is not committed yet, and is counted when it was.
        self.reservations.fetch_add(1, Ordering::Release);
        Some((position, ns))
    }

    /// Writes and commits a record of `len` bytes, header included, at a position that was reserved for it.
    ///
    /// # Safety
    ///
    /// The pieces' bytes may be read.
    pub(super) unsafe fn commit<'p>(self, position: u64, len: u64, head: Head, pieces: impl Iterator<Item = &'p Piece>) {
        // Release fence: the reservation comes before the words below. Pairs with the Acquire fence in `copy`.
        //  - If a reader copied one of these words, it sees the reservation, and drops what it copied of an earlier lap.
        //  - If it does not see the reservation, it copied none of them.
        fence(Ordering::Release);
        let checksum = Checksum::new(position, self.key);
        let mut writer = WordWriter { ring: self, position: position.wrapping_add(16), checksum, pending: 0, filled: 0 };
        writer.word(u64::from(head.tid) | u64::from(head.id) << 32);
        writer.word(head.ns);
        for piece in pieces {
            // SAFETY: the caller's duty.
            unsafe { writer.piece(piece) };
        }
        if writer.filled > 0 {
            let word = writer.pending;
            writer.word(word);
        }
        writer.checksum.add(u64::from(head.cpu));
        let sum = u64::from(writer.checksum.finish()) | u64::from(head.cpu) << 32;
        self.word(position.wrapping_add(8)).store(sum, Ordering::Relaxed);
        // Release: the record's bytes come before its mark. Pairs with the Acquire load in `length_at`.
        //  - If the reader sees the mark, it sees the bytes.
        //  - If it does not, the record is not committed yet, or never.
        self.word(position).store(mark(position, len, self.key), Ordering::Release);
    }

    /// Returns the length of a committed record at `position`; FB-2.
    pub(super) fn length_at(&self, position: u64, reserved: u64) -> Option<u64> {
        // Acquire: pairs with the Release store of the mark in `commit`.
        let len = length(self.word(position).load(Ordering::Acquire), position, self.key)?;
        (len.next_multiple_of(8) <= reserved.wrapping_sub(position) && len <= self.size() / 4).then_some(len)
    }

    /// Copies the record of `len` bytes at `position` to `words`, with its length in place of the mark; FB-4. Returns its extent.
    /// `None`: it is none, or was written over.
    pub(super) fn copy(&self, position: u64, len: u64, words: &mut Vec<u64>) -> Option<u64> {
        let extent = len.next_multiple_of(8);
        words.clear();
        words.push(len);
        // Relaxed: after the Acquire load of the mark, before the fence.
        words.extend((1..extent / 8).map(|k| self.word(position.wrapping_add(k * 8)).load(Ordering::Relaxed)));
        // Acquire fence: the copy comes before the position. Pairs with the Release fence in `commit`.
        fence(Ordering::Acquire);
        let reserved = self.reserved.load(Ordering::Relaxed);
        if reserved.wrapping_sub(position) > self.size() {
            return None;
        }
        let mut checksum = Checksum::new(position, self.key);
        words[2..].iter().for_each(|word| checksum.add(*word));
        checksum.add(words[1] >> 32);
        if checksum.finish() != words[1] as u32 && !is_mutated!(fallback_checksum_ignored) {
            return None;
        }
        Some(extent)
    }

    /// Lets writers have what lies before `position`.
    pub(super) fn consume(&self, position: u64) {
        // Release: the copies come before. Pairs with the Acquire load in `reserve`.
        self.consumed.store(position, Ordering::Release);
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
            let zero = AtomicU64::new(0);
            let ring = Ring { reserved: &zero, reservations: &zero, consumed: &zero, words: &words, key: 0 };
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
}
