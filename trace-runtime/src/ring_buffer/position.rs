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

/// The sizes of a ring buffer.
///
/// A sub-buffer has a power of two of bytes; their number is any. Positions count as if it were the next power of two, a *lap*: from
/// the end of the last sub-buffer they go on where the next lap begins, by the commit that closes it. So a mask finds the place of a
/// position, and what is between the last sub-buffer and the next lap takes no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    sub_buffer_bits: u32,
    lap_bits: u32,
    sub_buffers: u64,
}

impl Shape {
    /// Returns the shape of `sub_buffers` sub-buffers of `sub_buffer` bytes, a power of two.
    pub(super) const fn new(sub_buffer: u32, sub_buffers: u32) -> Shape {
        let sub_buffer_bits = sub_buffer.trailing_zeros();
        let lap_bits = sub_buffer_bits + sub_buffers.next_power_of_two().trailing_zeros();
        Shape { sub_buffer_bits, lap_bits, sub_buffers: sub_buffers as u64 }
    }

    /// Returns the bytes of a sub-buffer.
    pub(super) const fn sub_buffer(self) -> u64 {
        1 << self.sub_buffer_bits
    }

    /// Returns the bytes of the ring.
    pub(super) const fn ring(self) -> u64 {
        self.sub_buffers << self.sub_buffer_bits
    }

    /// Returns how far a position moves until it is at the same place again: a power of two, the ring's bytes or more.
    pub(super) const fn lap(self) -> u64 {
        1 << self.lap_bits
    }

    /// Returns the number of sub-buffers.
    pub(super) const fn sub_buffers(self) -> u64 {
        self.sub_buffers
    }

    /// Returns how many sub-buffers two positions may be apart so that their distance tells which is the later one. Half of all
    /// positions, and half of that: a lap may be almost twice its ring.
    pub(super) const fn in_sight(self) -> u64 {
        1 << (POSITION_BITS - 2 - self.sub_buffer_bits)
    }

    /// Returns how far `position` is into its sub-buffer. 0: the one before is closed, this one is not open yet.
    pub(super) const fn offset(self, position: Position) -> u64 {
        position.0 & (self.sub_buffer() - 1)
    }

    /// Returns how far `position` is into the ring.
    pub(super) const fn ring_offset(self, position: Position) -> u64 {
        position.0 & (self.lap() - 1)
    }

    /// Returns the place in the ring of the sub-buffer that holds `position`.
    pub(super) const fn index(self, position: Position) -> u64 {
        self.ring_offset(position) >> self.sub_buffer_bits
    }

    /// Returns the place of the sub-buffer before the one at `index`.
    pub(super) const fn before(self, index: u64) -> u64 {
        if index == 0 { self.sub_buffers - 1 } else { index - 1 }
    }

    /// Returns where the sub-buffer that holds `position` begins.
    #[must_use]
    pub(super) const fn start(self, position: Position) -> Position {
        Position(position.0 & !(self.sub_buffer() - 1))
    }

    /// Returns where the sub-buffer after the one that holds `position` begins: behind the last one, with the next lap.
    #[must_use]
    pub(super) const fn boundary(self, position: Position) -> Position {
        let next = self.start(position).advance(self.sub_buffer());
        if self.ring_offset(next) < self.ring() { next } else { Position(next.0 & !(self.lap() - 1)).advance(self.lap()) }
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
    /// When `now` is a whole lap further on, the writer may be about to write the first byte.
    pub(super) const fn is_intact(self, start: Position, now: Position) -> bool {
        now.since(start) < self.lap()
    }

    /// Returns the position where the sub-buffer of number `sequence` (counted from 0, never wrapping) begins.
    pub(super) const fn position_of(self, sequence: u64) -> Position {
        let (laps, index) = (sequence / self.sub_buffers, sequence % self.sub_buffers);
        Position::new((laps << self.lap_bits).wrapping_add(index << self.sub_buffer_bits))
    }

    /// Returns the number of the sub-buffer that holds `position`, given the number of a sub-buffer at or before it.
    pub(super) const fn sequence_of(self, position: Position, earlier: u64) -> u64 {
        earlier + (self.bytes_between(self.position_of(earlier), self.start(position)) >> self.sub_buffer_bits)
    }

    /// Returns the bytes of the ring from `earlier` to `later`.
    pub(super) const fn bytes_between(self, earlier: Position, later: Position) -> u64 {
        let distance = later.since(earlier);
        let laps = (self.ring_offset(earlier) + distance) >> self.lap_bits;
        distance.saturating_sub(laps * (self.lap() - self.ring()))
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
        (12_u32..=22, 2_u32..=1025).prop_map(|(sub, count)| Shape::new(1 << sub, count))
    }

    /// A plain ring: bytes that only grow, sub-buffer behind sub-buffer.
    struct Plain {
        shape: Shape,
        bytes: u128,
    }

    impl Plain {
        /// Near a position of interest, as the writer counts.
        fn near(shape: Shape, position: u128) -> u128 {
            let (ring, lap) = (u128::from(shape.ring()), u128::from(shape.lap()));
            position / lap * ring + position % lap % ring
        }

        /// The position as the writer counts it: laps of a power of two.
        fn position(&self) -> Position {
            let (ring, lap) = (u128::from(self.shape.ring()), u128::from(self.shape.lap()));
            Position::new((self.bytes / ring * lap + self.bytes % ring) as u64)
        }
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_positions_that_never_wrap(shape in shape(), near in model_position(), len in 0_u64..1 << 15) {
            let bytes = Plain::near(shape, near);
            let sub = u128::from(shape.sub_buffer());
            let ring = u128::from(shape.ring());
            let at = |bytes| Plain { shape, bytes }.position();
            let position = at(bytes);
            let next_boundary = bytes / sub * sub + sub;
            prop_assert_eq!(u128::from(shape.offset(position)), bytes % sub);
            prop_assert_eq!(u128::from(shape.ring_offset(position)), bytes % ring);
            prop_assert_eq!(u128::from(shape.index(position)), bytes % ring / sub);
            prop_assert_eq!(shape.before(shape.index(at(bytes + sub))), shape.index(position));
            prop_assert_eq!(shape.start(position), at(bytes / sub * sub));
            prop_assert_eq!(shape.boundary(position), at(next_boundary));
            let begun = bytes % sub;
            prop_assert_eq!(shape.needs_switch(position, len), begun == 0 || bytes + u128::from(len) >= next_boundary);
            prop_assert_eq!(position.advance(len).since(position), len);
        }

        #[test]
        fn a_copy_is_intact_until_the_writer_is_one_ring_ahead(shape in shape(), near in model_position(), ahead in 0_u64..1 << 34) {
            let bytes = Plain::near(shape, near);
            let start = bytes - bytes % u128::from(shape.sub_buffer());
            let now = start + u128::from(ahead);
            let at = |bytes| Plain { shape, bytes }.position();
            prop_assert_eq!(shape.is_intact(at(start), at(now)), now < start + u128::from(shape.ring()));
        }

        #[test]
        fn distances_and_sequences_are_those_of_a_plain_ring(shape in shape(), near in model_position(), behind in 0_u64..4096) {
            let bytes = Plain::near(shape, near);
            let (sub, at) = (u128::from(shape.sub_buffer()), |bytes| Plain { shape, bytes }.position());
            let sequence = (bytes / sub) as u64;
            let earlier = sequence.saturating_sub(behind);
            prop_assert_eq!(shape.sequence_of(at(bytes), earlier), sequence);
            prop_assert_eq!(shape.position_of(sequence), at(bytes / sub * sub));
            let before = bytes - bytes.min(u128::from(behind) << 9);
            prop_assert_eq!(u128::from(shape.bytes_between(at(before), at(bytes))), bytes - before);
        }

        #[test]
        fn what_is_in_sight_is_not_taken_for_what_is_behind(shape in shape(), near in model_position(), behind in 0_u64..u64::MAX) {
            let sub = u128::from(shape.sub_buffer());
            let (bytes, behind) = (Plain::near(shape, near), behind % (shape.in_sight() + 1));
            let at = |bytes| Plain { shape, bytes }.position();
            let later = bytes / sub * sub + u128::from(behind) * sub;
            prop_assert!(at(later).since(at(bytes / sub * sub)) <= 1 << (POSITION_BITS - 1));
        }

        #[test]
        fn the_commit_word_keeps_both_parts(at in model_position(), records in 0_u32..(1 << (64 - POSITION_BITS)) - 1) {
            let word = CommitWord::new(Position::new(at as u64), records);
            prop_assert_eq!(word.position(), Position::new(at as u64));
            prop_assert_eq!(word.records(), records);
            let next = CommitWord(word.bits() + CommitWord::ONE_RECORD);
            prop_assert_eq!((next.position(), next.records()), (word.position(), records + 1));
        }
    }
}
