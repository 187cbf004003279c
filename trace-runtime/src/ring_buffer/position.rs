//! The arithmetic of positions: pure, and property-tested against a model without wrap-around.
//!
//! A position counts the bytes of a ring buffer from its beginning and only grows; its low 44 bits are kept. Two positions
//! are therefore compared by their distance, never by their value. The commit word packs a position with the number of
//! records in the current sub-buffer.

use trace_registry::sync::{AtomicU64, Ordering};

/// Bits of a [`Position`] that are kept: 16 TiB.
pub(super) const POSITION_BITS: u32 = 44;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;

/// A position in a ring buffer, in bytes, modulo 2⁴⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Position(u64);

impl Position {
    /// Returns the position whose low 44 bits are those of `bytes`.
    #[inline(always)]
    pub(super) const fn new(bytes: u64) -> Position {
        Position(bytes & POSITION_MASK)
    }

    /// Returns the 44 bits.
    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the position `bytes` further on.
    #[inline(always)]
    #[must_use]
    pub(super) const fn advance(self, bytes: u64) -> Position {
        Position::new(self.0.wrapping_add(bytes))
    }

    /// Returns the distance in bytes from `earlier` to this position, modulo 2⁴⁴.
    #[inline(always)]
    pub(super) const fn since(self, earlier: Position) -> u64 {
        self.0.wrapping_sub(earlier.0) & POSITION_MASK
    }
}

/// The word whose store commits a record: position, and records of the current sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct CommitWord(u64);

impl CommitWord {
    /// Bits of the record count, above the position.
    pub(super) const COUNT_BITS: u32 = 64 - POSITION_BITS;
    /// What committing one more record adds, besides its bytes.
    pub(super) const ONE_RECORD: u64 = 1 << POSITION_BITS;

    /// Packs a position and a count below 2²⁰.
    #[inline(always)]
    pub(super) const fn new(position: Position, records: u32) -> CommitWord {
        CommitWord(position.0 | (records as u64) << POSITION_BITS)
    }

    /// Returns the word as it is stored.
    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the position.
    #[inline(always)]
    pub(super) const fn position(self) -> Position {
        Position::new(self.0)
    }

    /// Returns the number of records in the current sub-buffer.
    #[inline(always)]
    pub(super) const fn records(self) -> u32 {
        (self.0 >> POSITION_BITS) as u32
    }

    /// Loads a word.
    #[inline(always)]
    pub(super) fn load(word: &AtomicU64, ordering: Ordering) -> CommitWord {
        CommitWord(word.load(ordering))
    }
}

/// The sizes of a ring buffer, all powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    sub_buffer_bits: u32,
    ring_bits: u32,
}

impl Shape {
    /// Returns the shape of `sub_buffers` sub-buffers of `sub_buffer` bytes, both powers of two.
    pub(super) const fn new(sub_buffer: u32, sub_buffers: u32) -> Shape {
        let sub_buffer_bits = sub_buffer.trailing_zeros();
        Shape { sub_buffer_bits, ring_bits: sub_buffer_bits + sub_buffers.trailing_zeros() }
    }

    /// Returns the bytes of a sub-buffer.
    pub(super) const fn sub_buffer(self) -> u64 {
        1 << self.sub_buffer_bits
    }

    /// Returns the bytes of the ring.
    pub(super) const fn ring(self) -> u64 {
        1 << self.ring_bits
    }

    /// Returns the number of sub-buffers.
    pub(super) const fn sub_buffers(self) -> u64 {
        1 << (self.ring_bits - self.sub_buffer_bits)
    }

    /// Returns how far `position` is into its sub-buffer. 0: the one before is closed, this one is not open yet.
    pub(super) const fn offset(self, position: Position) -> u64 {
        position.0 & (self.sub_buffer() - 1)
    }

    /// Returns how far `position` is into the ring.
    pub(super) const fn ring_offset(self, position: Position) -> u64 {
        position.0 & (self.ring() - 1)
    }

    /// Returns the place in the ring of the sub-buffer that holds `position`.
    pub(super) const fn index(self, position: Position) -> u64 {
        self.ring_offset(position) >> self.sub_buffer_bits
    }

    /// Returns where the sub-buffer that holds `position` begins.
    #[must_use]
    pub(super) const fn start(self, position: Position) -> Position {
        Position(position.0 & !(self.sub_buffer() - 1))
    }

    /// Returns where the sub-buffer after the one that holds `position` begins.
    #[must_use]
    pub(super) const fn boundary(self, position: Position) -> Position {
        self.start(position).advance(self.sub_buffer())
    }

    /// Whether a record of `len` bytes at `position` needs a new sub-buffer first.
    ///
    /// It does where the sub-buffer at `position` is not open, and where the record would reach its very end: a position at a
    /// boundary always means "closed".
    #[inline(always)]
    pub(super) const fn needs_switch(self, position: Position, len: u64) -> bool {
        (position.0.wrapping_sub(1) & (self.sub_buffer() - 1)) + 1 + len >= self.sub_buffer()
    }

    /// Whether the sub-buffer that begins at `start` has not been written over while the writer is at `now`.
    ///
    /// When `now` is a whole ring further on, the writer may be about to write the first byte.
    pub(super) const fn is_intact(self, start: Position, now: Position) -> bool {
        now.since(start) < self.ring()
    }

    /// Returns the position where the sub-buffer of number `sequence` (counted from 0, never wrapping) begins.
    pub(super) const fn position_of(self, sequence: u64) -> Position {
        Position::new(sequence << self.sub_buffer_bits)
    }

    /// Returns the number of the sub-buffer that holds `position`, given the number of a sub-buffer at or before it.
    pub(super) const fn sequence_of(self, position: Position, earlier: u64) -> u64 {
        earlier + (self.start(position).since(self.position_of(earlier)) >> self.sub_buffer_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Positions near the interesting places: beginnings and ends of sub-buffers, rings, and of the 44 bits.
    fn model_position() -> impl Strategy<Value = u128> {
        (0_u128..4, 0_u128..1 << 45, 0_u128..64, any::<bool>()).prop_map(|(lap, at, near, below)| {
            let base = (lap << 44) + (at & !0xfff);
            if below { base.saturating_sub(near) } else { base + near }
        })
    }

    fn shape() -> impl Strategy<Value = Shape> {
        (12_u32..=22, 1_u32..=10).prop_map(|(sub, count)| Shape::new(1 << sub, 1 << count))
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_positions_that_never_wrap(shape in shape(), at in model_position(), len in 0_u64..1 << 15) {
            let sub = u128::from(shape.sub_buffer());
            let ring = u128::from(shape.ring());
            let position = Position::new(at as u64);
            let next_boundary = at / sub * sub + sub;
            prop_assert_eq!(u128::from(shape.offset(position)), at % sub);
            prop_assert_eq!(u128::from(shape.ring_offset(position)), at % ring);
            prop_assert_eq!(u128::from(shape.index(position)), at % ring / sub);
            prop_assert_eq!(shape.boundary(position), Position::new(next_boundary as u64));
            let is_open = at % sub != 0;
            prop_assert_eq!(shape.needs_switch(position, len), !is_open || at + u128::from(len) >= next_boundary);
            prop_assert_eq!(position.advance(len), Position::new((at + u128::from(len)) as u64));
            prop_assert_eq!(position.advance(len).since(position), len);
        }

        #[test]
        fn a_copy_is_intact_until_the_writer_is_one_ring_ahead(shape in shape(), at in model_position(), ahead in 0_u64..1 << 34) {
            let start = at - at % u128::from(shape.sub_buffer());
            let now = start + u128::from(ahead);
            let intact = shape.is_intact(Position::new(start as u64), Position::new(now as u64));
            prop_assert_eq!(intact, now < start + u128::from(shape.ring()));
        }

        #[test]
        fn sequences_are_extended_across_the_wrap(shape in shape(), at in model_position(), behind in 0_u64..4096) {
            let sequence = (at / u128::from(shape.sub_buffer())) as u64;
            let earlier = sequence.saturating_sub(behind);
            prop_assert_eq!(shape.sequence_of(Position::new(at as u64), earlier), sequence);
            prop_assert_eq!(shape.position_of(sequence), shape.start(Position::new(at as u64)));
        }

        #[test]
        fn the_commit_word_keeps_both_parts(at in model_position(), records in 0_u32..(1 << CommitWord::COUNT_BITS) - 1) {
            let word = CommitWord::new(Position::new(at as u64), records);
            prop_assert_eq!(word.position(), Position::new(at as u64));
            prop_assert_eq!(word.records(), records);
            let next = CommitWord(word.bits() + CommitWord::ONE_RECORD);
            prop_assert_eq!((next.position(), next.records()), (word.position(), records + 1));
        }
    }
}
