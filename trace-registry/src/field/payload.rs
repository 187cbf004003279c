#![expect(unsafe_code, reason = "pieces are initialised one by one, and read by address")]
//! The payload of one record while it is being made.
//!
//! # Invariants
//!
//! - PL-1: `used <= staged.len()`, and the bytes `HEADROOM..used` are initialised. The headroom in front of them is
//!   where an append puts context fields, so that context and first staged bytes are one piece.
//! - PL-2: The first `count` pieces are initialised, and `count < pieces.len()` until the end, so that closing the last staged
//!   run always finds room.
//! - PL-3: A piece names bytes that live as long as `'p`, which outlives the append; or it names staged bytes.
//! - PL-4: The first piece is a staged run that begins at `HEADROOM` (it may be empty).
//! - PL-5: A [`Finished`] names the pieces of an [`Encoded`] that is borrowed meanwhile, the first without context.
//! - PL-6: An event may put another payload in the place of the one that it is given (`mem::swap`), and all of it: one of its own, or that
//!   of an event around it. What is read then is what that one names, and never the memory of the other. A payload that takes its last
//!   piece apart is read by the function that made it, and by nobody else: that piece is the first one, without headroom, and no part
//!   of the total.

use super::Sizes;
use crate::event::Event;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Bytes in front of the staged payload that belong to the append: context fields go there.
pub const HEADROOM: usize = 80;
/// Most bytes that one record stages.
pub const MAX_STAGED: usize = 384;
/// Most pieces that one record has.
pub const MAX_PIECES: usize = 24;
static_assertions::const_assert!(HEADROOM + MAX_STAGED <= u16::MAX as usize);

/// Bytes somewhere in memory that belong to a record.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Piece {
    /// Where they begin.
    pub start: *const u8,
    /// How many.
    pub len: usize,
}

/// Stack memory of a [`Payload`]: room for `STAGED` bytes (headroom included) and `PIECES` pieces.
pub struct Storage<const STAGED: usize, const PIECES: usize> {
    staged: [MaybeUninit<u8>; STAGED],
    pieces: [MaybeUninit<Piece>; PIECES],
}

impl<const STAGED: usize, const PIECES: usize> Storage<STAGED, PIECES> {
    /// Returns storage without content.
    #[inline(always)]
    pub const fn new() -> Self {
        // A payload counts both in 16 bits.
        const { assert!(STAGED >= HEADROOM && STAGED <= u16::MAX as usize && PIECES >= 1 && PIECES <= u16::MAX as usize) };
        Storage { staged: [MaybeUninit::uninit(); STAGED], pieces: [MaybeUninit::uninit(); PIECES] }
    }

    /// Begins a payload of at most `limit` bytes of which the fields take at least `sizes.least`.
    #[inline(always)]
    pub fn begin<'p>(&'p mut self, limit: usize, sizes: Sizes, redact: bool) -> Payload<'p> {
        Payload {
            staged: &mut self.staged,
            pieces: &mut self.pieces,
            used: HEADROOM,
            run: HEADROOM as u16,
            count: 0,
            total: 0,
            left: limit.saturating_sub(sizes.least),
            redact,
            overflow: sizes.least > limit,
            cut: false,
            cuts: true,
            tail: false,
            borrowed: PhantomData,
        }
    }

    /// The same, without room for what would have to be cut, or is larger than any text: where [`Payload::is_whole`] says no, it is
    /// to be begun again.
    #[inline(always)]
    pub(crate) fn begin_uncut<'p>(&'p mut self, limit: usize, sizes: Sizes, redact: bool) -> Payload<'p> {
        let begun = self.begin(limit, sizes, redact);
        // So what is left says all that is to be known of the length of a text.
        Payload { cuts: false, left: begun.left.min(MAX_TAIL), ..begun }
    }
}

impl<const STAGED: usize, const PIECES: usize> Default for Storage<STAGED, PIECES> {
    fn default() -> Self {
        Self::new()
    }
}

/// Words of a payload that is passed in registers.
pub const WORDS: usize = 3;

/// Most bytes of a [tail](Payload::tail).
pub const MAX_TAIL: usize = u16::MAX as usize;

/// Encodes an event of fixed size, of at most 8 × [`WORDS`] bytes and without pieces. `None`: it is not what its sizes say.
#[inline(always)]
pub(crate) fn words<E: Event>(event: &E) -> Option<[u64; WORDS]> {
    split(event, false).map(|(words, _)| words)
}

/// Encodes an event whose fields stage at most 8 × [`WORDS`] bytes, always as many, and then add one piece. The record holds all
/// of that piece, which is readable as long as the event is (PL-3), only if it has at most [`MAX_TAIL`] bytes. `None`: the event is
/// not what its sizes say.
#[inline(always)]
pub(crate) fn words_and_tail<E: Event>(event: &E) -> Option<([u64; WORDS], Piece)> {
    let (words, tail) = split(event, true)?;
    Some((words, tail?))
}

/// Encodes an event into what it stages, at most 8 × [`WORDS`] bytes, and its [tail](Payload::tail).
#[inline(always)]
fn split<E: Event>(event: &E, tail: bool) -> Option<([u64; WORDS], Option<Piece>)> {
    let mut staged = [MaybeUninit::new(0); HEADROOM + 8 * WORDS];
    let own = staged.as_ptr();
    let mut pieces = [MaybeUninit::uninit(); 1];
    let mut payload = Payload {
        staged: &mut staged,
        pieces: &mut pieces,
        used: HEADROOM,
        run: HEADROOM as u16,
        count: 0,
        total: 0,
        left: 0,
        redact: false,
        overflow: false,
        cut: false,
        cuts: false,
        tail,
        borrowed: PhantomData,
    };
    event.write(&mut payload);
    // PL-6: else it says nothing of what is here.
    let is_own = core::ptr::eq(payload.staged.as_ptr(), own);
    let is_whole = is_own && !payload.overflow && payload.total == E::SIZES.least;
    let has_tail = is_own && payload.count == 1;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(staged[HEADROOM..].chunks_exact(8)) {
        // SAFETY: initialised above, and overwritten by initialised bytes only.
        *word = u64::from_ne_bytes(core::array::from_fn(|i| unsafe { bytes[i].assume_init() }));
    }
    let [piece] = pieces;
    // SAFETY: PL-2.
    let tail = has_tail.then(|| unsafe { piece.assume_init() });
    is_whole.then_some((words, tail))
}

/// The payload of one record while its fields are written.
///
/// # Signal safety
///
/// Everything is async-signal-safe and wait-free; nothing panics. A value that finds no room sets a flag, and the record is
/// counted as too large instead of being written.
pub struct Payload<'p> {
    staged: &'p mut [MaybeUninit<u8>],
    pieces: &'p mut [MaybeUninit<Piece>],
    used: usize,
    // Few bits, as a payload is copied where text is cut.
    run: u16,
    count: u16,
    total: usize,
    /// Bytes that may be added beyond the least that all fields take.
    left: usize,
    redact: bool,
    overflow: bool,
    cut: bool,
    /// Whether text that finds no room is cut. Else the payload is given up, so that of those that nothing is cut of all places
    /// are known to the compiler.
    cuts: bool,
    /// Whether the last piece is wanted apart from the rest, as the only one.
    tail: bool,
    borrowed: PhantomData<&'p [u8]>,
}

impl<'p> Payload<'p> {
    /// Stages `bytes`. Their number is part of the least size of the field.
    #[inline(always)]
    pub fn stage<const N: usize>(&mut self, bytes: [u8; N]) {
        let Some(room) = self.staged.get_mut(self.used..).and_then(|r| r.first_chunk_mut::<N>()) else {
            self.overflow = true;
            return;
        };
        *room = bytes.map(MaybeUninit::new);
        self.used += N;
        self.total += N;
    }

    /// Stages `bytes` that are not part of the least size of the field. Returns false, and stages nothing, without room.
    #[inline(always)]
    pub fn stage_more<const N: usize>(&mut self, bytes: [u8; N]) -> bool {
        if !self.take(N) || self.used + N > self.staged.len() {
            return false;
        }
        self.stage(bytes);
        true
    }

    /// Takes `n` bytes from what may still be added. Returns false, and takes nothing, where less is left.
    #[inline(always)]
    pub fn take(&mut self, n: usize) -> bool {
        if n > self.left {
            return false;
        }
        self.left -= n;
        true
    }

    /// Writes what is to take at most `most` bytes beyond its least: what that leaves out is no loss.
    #[inline(always)]
    pub(super) fn within(&mut self, most: usize, write: impl FnOnce(&mut Self)) {
        let (left, cut) = (self.left, self.cut);
        self.left = left.min(most);
        write(self);
        self.left += left.saturating_sub(most);
        // Where nothing may be cut, the record is written again.
        if self.cuts && left >= most {
            self.cut = cut;
        }
    }

    /// Adds `bytes`, straight from where they are. Returns false, and adds nothing, without room.
    #[inline(always)]
    pub fn piece(&mut self, bytes: &'p [u8]) -> bool {
        // A staged run before, if there is one, these bytes, and a staged run behind.
        let before = usize::from(self.used > usize::from(self.run) || self.count == 0);
        if usize::from(self.count) + before + 1 >= self.pieces.len() || !self.take(bytes.len()) {
            return false;
        }
        self.close_run();
        if let Some(slot) = self.pieces.get_mut(usize::from(self.count)) {
            slot.write(Piece { start: bytes.as_ptr(), len: bytes.len() });
            self.count += 1;
            self.total += bytes.len();
        }
        true
    }

    /// Adds `bytes`, `count` elements, as the end of the payload, with their number in front, where the payload takes its last piece
    /// apart from the rest. Returns false, and adds nothing, where it does not.
    #[inline(always)]
    pub fn tail(&mut self, count: usize, bytes: &'p [u8]) -> bool {
        if !self.tail {
            return false;
        }
        // Whoever encodes refuses what is longer.
        self.stage((count as u16).to_ne_bytes());
        if let Some(slot) = self.pieces.first_mut() {
            slot.write(Piece { start: bytes.as_ptr(), len: bytes.len() });
            self.count = 1;
        }
        true
    }

    /// Bytes that may still be added beyond the least that the fields take.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Whether an element of `sizes` finds room in the staging buffer and among the pieces, and its least bytes in the limit.
    #[inline(always)]
    pub fn has_room_for(&self, sizes: Sizes) -> bool {
        sizes.least <= self.left
            && sizes.staged <= self.staged.len() - self.used
            && (sizes.pieces == 0 || usize::from(self.count) + sizes.pieces + 2 < self.pieces.len())
    }

    /// Bytes that may still be staged beyond the least that the fields take.
    #[inline]
    pub(super) fn stageable(&self) -> usize {
        self.left.min(self.staged.len() - self.used)
    }

    /// Whether sensitive fields are to be left out.
    #[inline(always)]
    pub fn redacts(&self) -> bool {
        self.redact
    }

    /// Takes the payload out of its place, where one is to be put again.
    #[inline(always)]
    pub(super) fn moved(&mut self) -> Payload<'p> {
        Payload { staged: core::mem::take(&mut self.staged), pieces: core::mem::take(&mut self.pieces), ..*self }
    }

    /// Whether text that finds no room is cut.
    #[inline(always)]
    pub(super) fn cuts(&self) -> bool {
        self.cuts
    }

    /// Whether all values found room, and none was cut or should have been.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        !(self.cut || self.overflow)
    }

    /// Notes that a value was cut to what fits.
    #[inline(always)]
    pub fn set_cut(&mut self) {
        self.cut = true;
    }

    /// Notes that a value found no room: the record will be counted as too large.
    #[inline(always)]
    pub fn set_overflow(&mut self) {
        self.overflow = true;
    }

    /// Gives back what a field of least size `sizes` reserved and does not write.
    #[inline(always)]
    pub fn skip(&mut self, sizes: Sizes) {
        self.left += sizes.least;
    }

    /// Where the next staged byte will be, for [`patch`](Self::patch).
    #[inline(always)]
    pub fn mark(&self) -> usize {
        self.used
    }

    /// Overwrites bytes that were staged at `mark`.
    #[inline(always)]
    pub fn patch<const N: usize>(&mut self, mark: usize, bytes: [u8; N]) {
        if let Some(place) = self.staged.get_mut(mark..self.used).and_then(|r| r.first_chunk_mut::<N>()) {
            *place = bytes.map(MaybeUninit::new);
        }
    }

    /// Stages as much of `bytes` as finds room. Returns how many bytes that were.
    #[inline]
    pub(super) fn stage_some(&mut self, bytes: &[u8]) -> usize {
        let room = self.staged.get_mut(self.used..).unwrap_or_default();
        let n = bytes.len().min(room.len()).min(self.left);
        for (place, byte) in room.iter_mut().zip(&bytes[..n]) {
            place.write(*byte);
        }
        self.left -= n;
        self.used += n;
        self.total += n;
        n
    }

    #[inline(always)]
    fn close_run(&mut self) {
        // PL-4: the first run is kept even when it is empty.
        let run = usize::from(self.run);
        if self.used > run || self.count == 0 {
            if let Some(slot) = self.pieces.get_mut(usize::from(self.count)) {
                let start = self.staged.as_mut_ptr().cast::<u8>().wrapping_add(run);
                slot.write(Piece { start, len: self.used - run });
                self.count += 1;
            }
        }
        self.run = self.used as u16;
    }

    /// Ends the payload. `None`: it does not fit, or takes its last piece apart (PL-6).
    #[inline(always)]
    pub fn finish(mut self) -> Option<Encoded<'p>> {
        if self.overflow || self.tail {
            return None;
        }
        self.close_run();
        let pieces = self.pieces.get_mut(..usize::from(self.count))?;
        // SAFETY: PL-2: the first `count` pieces were written.
        let pieces = unsafe { &mut *(core::ptr::from_mut(pieces) as *mut [Piece]) };
        let first = *pieces.first()?;
        Some(Encoded { pieces, first, total: self.total, cut: self.cut })
    }
}

/// A payload that is complete.
pub struct Encoded<'p> {
    pieces: &'p mut [Piece],
    /// The first piece as it is without context.
    first: Piece,
    total: usize,
    cut: bool,
}

impl Encoded<'_> {
    /// Whether a value was cut.
    #[inline(always)]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Lends the payload, without any context that was put in front of it before.
    #[inline(always)]
    pub fn finished(&mut self) -> Finished<'_> {
        if let Some(first) = self.pieces.first_mut() {
            *first = self.first;
        }
        Finished {
            pieces: NonNull::from(&mut *self.pieces).cast(),
            count: self.pieces.len(),
            total: self.total,
            borrowed: PhantomData,
        }
    }
}

/// A payload on its way into a ring buffer: all in registers.
pub struct Finished<'p> {
    /// PL-5: the pieces, at least one, of which the first begins at `HEADROOM` of a staging buffer.
    pub(crate) pieces: NonNull<Piece>,
    pub(crate) count: usize,
    pub(crate) total: usize,
    borrowed: PhantomData<&'p mut [Piece]>,
}

impl Finished<'_> {
    /// Puts a payload together again that was taken apart to be passed in registers.
    ///
    /// # Safety
    ///
    /// The arguments are those that a [`Target`](crate::probe::Target) hands to its `append`, which this is called from, once.
    #[inline(always)]
    pub unsafe fn from_raw(pieces: NonNull<Piece>, count: usize, total: usize) -> Self {
        Finished { pieces, count, total, borrowed: PhantomData }
    }

    /// Returns the payload as one text of bytes; not for the event path.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.total);
        self.slices().iter().for_each(|slice| bytes.extend_from_slice(slice));
        bytes
    }

    /// The bytes of the payload, as they lie.
    #[inline(always)]
    pub fn slices(&self) -> Slices<'_> {
        Slices(self.pieces())
    }

    /// Bytes of the payload, without context.
    #[inline(always)]
    pub fn total(&self) -> usize {
        self.total
    }

    /// The pieces, in order.
    #[inline(always)]
    pub fn pieces(&self) -> &[Piece] {
        // SAFETY: PL-5, and PL-2 of the payload that they are of.
        unsafe { core::slice::from_raw_parts(self.pieces.as_ptr(), self.count) }
    }

    /// Puts `words` in front of the payload.
    ///
    /// # Safety
    ///
    /// All calls together, since the payload was [lent](Encoded::finished), put at most [`HEADROOM`] bytes there.
    #[inline(always)]
    pub unsafe fn set_context<const N: usize>(&mut self, words: [u32; N]) {
        const { assert!(N * 4 <= HEADROOM) };
        // SAFETY: PL-5: `HEADROOM` bytes lie in front of the first piece, in the same buffer, which the payload borrows. The caller's
        // duty: they are enough.
        unsafe {
            let first = self.pieces.as_mut();
            let start = first.start.cast_mut().sub(N * 4);
            start.cast::<[u32; N]>().write_unaligned(words);
            *first = Piece { start, len: first.len + N * 4 };
        }
    }
}

/// The bytes of a payload, as they lie, without context. In registers.
#[derive(Clone, Copy)]
pub struct Slices<'p>(&'p [Piece]);

impl<'p> Slices<'p> {
    /// Those of one piece; none where there is no such piece.
    #[inline(always)]
    pub fn get(self, piece: u8) -> &'p [u8] {
        // SAFETY: PL-3: what the pieces name is borrowed as long as the `Finished` is that they are of.
        self.0.get(usize::from(piece)).map_or(&[], |piece| unsafe { core::slice::from_raw_parts(piece.start, piece.len) })
    }

    /// Those of all pieces, in order; no slice is empty.
    pub fn iter(self) -> impl Iterator<Item = &'p [u8]> {
        // SAFETY: as above.
        self.0.iter().filter(|p| p.len > 0).map(|p| unsafe { core::slice::from_raw_parts(p.start, p.len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn bytes(finished: &Finished<'_>) -> Vec<u8> {
        // SAFETY: PL-3: the pieces name staged bytes and bytes that the test still holds.
        finished.pieces().iter().flat_map(|p| unsafe { core::slice::from_raw_parts(p.start, p.len) }.to_vec()).collect()
    }

    #[test]
    fn staged_runs_and_pieces_keep_their_order_and_context_goes_in_front() {
        let mut storage = Storage::<128, 8>::new();
        let text = [7u8; 40];
        let mut payload = storage.begin(1000, Sizes::fixed(3), false);
        payload.stage([1, 2]);
        assert!(payload.piece(&text));
        payload.stage([3]);
        let mut done = payload.finish().expect("it fits");
        let mut expected = [&[1, 2][..], &text, &[3]].concat();
        assert_eq!(bytes(&done.finished()), expected);
        assert_eq!(done.finished().total(), 43);
        // SAFETY: less than the headroom, each time.
        unsafe { done.finished().set_context([0x0403_0201, 5]) };
        let mut again = done.finished();
        // SAFETY: as above.
        unsafe { again.set_context([0x0403_0201u32.to_le()]) };
        expected.splice(0..0, [1, 2, 3, 4]);
        assert_eq!(bytes(&again), expected);
        assert_eq!(again.total(), 43);
    }

    #[test]
    fn a_payload_beyond_its_limit_or_its_storage_is_refused() {
        let mut storage = Storage::<{ HEADROOM + 8 }, 3>::new();
        let mut payload = storage.begin(20, Sizes::fixed(0), false);
        assert!(!payload.piece(&[0; 21]));
        assert!(payload.piece(&[0; 20]));
        assert!(!payload.piece(&[0; 1]), "the limit is used up");
        assert!(!payload.stage_more([0]));
        assert!(payload.finish().is_some());
        let mut payload = storage.begin(100, Sizes::fixed(9), false);
        payload.stage([0; 9]);
        assert!(payload.finish().is_none(), "nine bytes do not fit into eight");
        let mut payload = storage.begin(8, Sizes::fixed(9), false);
        payload.skip(Sizes::fixed(9)); // as an array does before it adds its bytes
        assert!(payload.piece(&[0; 9]));
        assert!(payload.finish().is_none(), "the limit is below the least size");
    }

    /// An event that puts another payload in the place of its own, from within safe code.
    struct Swapped<const STAGED: usize> {
        with_tail: bool,
    }

    impl<const STAGED: usize> Event for Swapped<STAGED> {
        type Class = Self;
        const DESCRIPTION: &'static crate::EventClass = crate::event::NoEvent::DESCRIPTION;
        const SIZES: Sizes = Sizes::fixed(STAGED);
        fn write<'p>(&'p self, payload: &mut Payload<'p>) {
            let storage: &'p mut Storage<128, 8> = alloc::boxed::Box::leak(alloc::boxed::Box::new(Storage::new()));
            let mut other = storage.begin(1000, Sizes::fixed(0), false);
            other.stage([7; STAGED]);
            if self.with_tail {
                // As many pieces as with a tail.
                other.close_run();
                assert_eq!(other.count, 1);
            }
            core::mem::swap(payload, &mut other);
        }
        fn value(&self, _: u16, _: &[crate::field::Step]) -> crate::field::Value<'_> {
            crate::field::Value::Missing
        }
    }

    #[test]
    fn a_payload_that_an_event_exchanged_says_nothing_of_the_one_it_was_given() {
        for with_tail in [false, true] {
            assert_eq!(words(&Swapped::<8> { with_tail }), None);
            assert!(words_and_tail(&Swapped::<8> { with_tail }).is_none());
        }
        // Elsewhere all is taken from the payload that is there then.
        let mut storage = Storage::<128, 8>::new();
        let mut payload = storage.begin(1000, Sizes::fixed(3), false);
        Swapped::<3> { with_tail: false }.write(&mut payload);
        assert_eq!(bytes(&payload.finish().expect("it fits").finished()), [7; 3]);
    }

    /// An event with a tail that hands its payload to an event inside it, which would end that as one of its own.
    struct HandedOn(alloc::vec::Vec<u8>);

    impl Event for HandedOn {
        type Class = Self;
        const DESCRIPTION: &'static crate::EventClass = crate::event::NoEvent::DESCRIPTION;
        const SIZES: Sizes = Sizes { staged: 2, pieces: 2, least: 2, fixed: false, tail: true };
        fn write<'p>(&'p self, payload: &mut Payload<'p>) {
            let storage: &'p mut Storage<128, 8> = alloc::boxed::Box::leak(alloc::boxed::Box::new(Storage::new()));
            let mut apart = core::mem::replace(payload, storage.begin(1000, Sizes::NONE, false));
            assert!(apart.tail(self.0.len(), &self.0));
            assert!(apart.finish().is_none(), "its first piece has no headroom, and is no part of its total");
        }
        fn value(&self, _: u16, _: &[crate::field::Step]) -> crate::field::Value<'_> {
            crate::field::Value::Missing
        }
    }

    #[test]
    fn a_payload_that_takes_its_last_piece_apart_is_ended_by_nobody_else() {
        assert!(words_and_tail(&HandedOn(alloc::vec![0x41; 1 << 20])).is_none());
    }
}
