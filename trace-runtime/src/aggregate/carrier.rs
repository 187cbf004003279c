//! How an event comes: in words ([`Words`]), which are the bytes of run 0, and perhaps a text, or in pieces ([`Pieces`]), which seldom
//! are others than they should ([`Scattered`]); or it is [asked](Asked).
//!
//! ```text
//! fields     a: u32, b: &str, c: u64, d: &str
//! payload    run 0: a, length of b │ text 0: b │ run 1: c, length of d │ text 1: d
//! pieces     0                       1           2                       3
//! ```

use super::key::{self, Part};
use super::measure::Plan;
use crate::condition::Source;
use crate::provider::{ContextValue, Room};
use trace_registry::condition::Values;
use trace_registry::field::{Slices, Value, WORDS};

/// Bytes in front of a text that say how long it is.
const LENGTH: usize = 2;

/// An event as it comes.
pub(super) trait Carrier: Copy {
    /// What a number is in a key, and its bits; [`key::TEXT`]: the event says that it is text. `PLAIN`: it [is that](Number::is_plain).
    fn number<const PLAIN: bool>(&self, number: &Number) -> (u8, u64);
    /// A text, by its piece or the number of its source. `None`: the event says that it is none.
    fn text(&self, number: u8) -> Option<&[u8]>;
    /// Either of these, whatever the event says that it is.
    fn part(&self, slot: Slot) -> Part<'_>;
}

/// Where something wanted is.
#[derive(Clone, Copy)]
pub(super) enum Slot {
    Number(Number),
    /// By its piece, or the number of the source that the event is asked for.
    Text(u8),
}

/// An event that is asked for all of what is wanted.
#[derive(Clone, Copy)]
pub(super) struct Asked<'e> {
    event: &'e dyn Values,
    plan: &'e Plan,
    room: &'e Room,
}

impl<'e> Asked<'e> {
    #[inline(always)]
    pub(super) fn new(event: &'e dyn Values, plan: &'e Plan, room: &'e Room) -> Asked<'e> {
        Asked { event, plan, room }
    }
}

impl Carrier for Asked<'_> {
    #[inline(always)]
    fn number<const PLAIN: bool>(&self, number: &Number) -> (u8, u64) {
        self.plan.sources.get(usize::from(number.source)).map_or(key::NOTHING, |source| asked_number(source, self.event))
    }

    #[inline(always)]
    fn text(&self, number: u8) -> Option<&[u8]> {
        self.plan.sources.get(usize::from(number))?.text(self.event, self.room)
    }

    fn part(&self, slot: Slot) -> Part<'_> {
        let (Slot::Number(Number { source, .. }) | Slot::Text(source)) = slot;
        self.plan.sources.get(usize::from(source)).map_or(Part::MISSING, |source| Part::of(source.value(self.event, self.room)))
    }
}

/// What an integer of the event itself is takes no other call than that of the event.
#[inline(always)]
fn asked_number(source: &Source, event: &dyn Values) -> (u8, u64) {
    match source {
        Source::Field(index, path) => match event.value(*index, path) {
            Value::Integer(value) => key::of_integer(value),
            value => number_of(value),
        },
        Source::Context(context) => of_context(*context),
        Source::Nothing => key::NOTHING,
    }
}

#[inline(never)]
fn number_of(value: Value<'_>) -> (u8, u64) {
    Part::of(value).number()
}

/// An event in bytes.
trait Bytes: Copy {
    /// The bits of a number of so many bytes, and perhaps others above it.
    fn bits<const N: usize>(&self, place: &Place) -> u64;
    /// A text, by its piece.
    fn text(&self, piece: u8) -> &[u8];
}

impl<B: Bytes> Carrier for B {
    #[inline(always)]
    fn number<const PLAIN: bool>(&self, number: &Number) -> (u8, u64) {
        match &number.from {
            From::Optional(presence) if !PLAIN && self.bits::<1>(presence) as u8 == 0 => key::NOTHING,
            From::Context(context) if !PLAIN => of_context(*context),
            _ => number.place.of(self),
        }
    }

    #[inline(always)]
    fn text(&self, number: u8) -> Option<&[u8]> {
        Some(Bytes::text(self, number))
    }

    fn part(&self, slot: Slot) -> Part<'_> {
        match slot {
            Slot::Number(number) => {
                let (what, bits) = self.number::<false>(&number);
                Part::Number(what, bits)
            }
            Slot::Text(number) => Part::Text(Bytes::text(self, number)),
        }
    }
}

/// Apart: a [`Room`] is in memory.
#[inline(never)]
fn of_context(context: ContextValue) -> (u8, u64) {
    Part::of(context.value(&Room::default())).number()
}

/// Words of the bytes in front of its text, and that.
#[derive(Clone, Copy)]
pub(super) struct Words<'p> {
    /// One more than there are, so that each has a next one.
    words: [u64; WORDS + 1],
    text: &'p [u8],
}

impl<'p> Words<'p> {
    #[inline(always)]
    pub(super) fn new([a, b, c]: [u64; WORDS], text: &'p [u8]) -> Words<'p> {
        Words { words: [a, b, c, 0], text }
    }

    #[inline(always)]
    fn word(&self, index: u8) -> u64 {
        self.words[usize::from(index) % (WORDS + 1)]
    }
}

impl Bytes for Words<'_> {
    #[inline(always)]
    fn bits<const N: usize>(&self, place: &Place) -> u64 {
        let (low, high) = (self.word(place.word), self.word(place.word + 1));
        // Nothing of `high` where it begins with its word.
        (low >> place.below) | ((high << 1) << (63 - place.below))
    }

    #[inline(always)]
    fn text(&self, _: u8) -> &[u8] {
        self.text
    }
}

/// Runs and texts in turns, each of them one piece.
#[derive(Clone, Copy)]
pub(super) struct Pieces<'p> {
    slices: Slices<'p>,
}

impl<'p> Pieces<'p> {
    /// `runs`: as in [`Scattered`]. `None`: some of it lies otherwise.
    #[inline(always)]
    pub(super) fn new(slices: Slices<'p>, runs: &[u16]) -> Option<Pieces<'p>> {
        let is_piece = |i: u8, len: u16| {
            let (run, text) = (slices.get(2 * i), slices.get(2 * i + 1));
            run.len() == usize::from(len) + LENGTH && length(run) == text.len()
        };
        // The commonest ones without a loop.
        let is_regular = match *runs {
            [] => true,
            [first] => is_piece(0, first),
            // The later one first: then the others are within bounds.
            [first, second] => is_piece(1, second) && is_piece(0, first),
            _ => (0..).zip(runs).all(|(i, len)| is_piece(i, *len)),
        };
        is_regular.then_some(Pieces { slices })
    }
}

/// Runs and texts wherever they lie: a text that was cut is two pieces, and a field of a type of the program's own may be none.
#[derive(Clone, Copy)]
pub(super) struct Scattered<'p> {
    slices: Slices<'p>,
    /// How long runs are that have a text behind them, up to its length.
    runs: &'p [u16],
}

impl<'p> Scattered<'p> {
    pub(super) fn new(slices: Slices<'p>, runs: &'p [u16]) -> Scattered<'p> {
        Scattered { slices, runs }
    }

    /// Where a run begins in the payload, by the lengths of the texts before it.
    fn start(&self, run: u8) -> usize {
        self.runs.iter().take(run.into()).fold(0, |start, len| {
            let len = usize::from(*len) + LENGTH;
            start + len + length(self.bytes_from(start).get(..len).unwrap_or_default())
        })
    }

    /// What of the payload lies together from byte `at` on.
    fn bytes_from(&self, mut at: usize) -> &[u8] {
        for slice in self.slices.iter() {
            match slice.get(at..) {
                Some(rest) if !rest.is_empty() => return rest,
                _ => at -= slice.len(),
            }
        }
        &[]
    }
}

/// How long the text behind a run is.
#[inline(always)]
fn length(run: &[u8]) -> usize {
    match *run {
        [.., low, high] => u16::from_le_bytes([low, high]).into(),
        _ => 0,
    }
}

/// A number of a run.
#[inline(always)]
fn bits_at<const N: usize>(run: &[u8], place: &Place) -> u64 {
    let at = usize::from(place.at);
    // As it was stored just now: a load of more would wait until that is in the cache.
    let mut bits = [0; 8];
    if let (Some(bytes), Some(bits)) = (run.get(at..at + N), bits.first_chunk_mut::<N>()) {
        bits.copy_from_slice(bytes);
    }
    u64::from_le_bytes(bits)
}

impl Bytes for Pieces<'_> {
    #[inline(always)]
    fn bits<const N: usize>(&self, place: &Place) -> u64 {
        bits_at::<N>(self.slices.get(place.piece), place)
    }

    #[inline(always)]
    fn text(&self, piece: u8) -> &[u8] {
        self.slices.get(piece)
    }
}

impl Bytes for Scattered<'_> {
    fn bits<const N: usize>(&self, place: &Place) -> u64 {
        bits_at::<N>(self.bytes_from(self.start(place.piece / 2)), place)
    }

    fn text(&self, piece: u8) -> &[u8] {
        let number = piece / 2;
        let start = self.start(number);
        let run = self.bytes_from(start).get(..self.runs.get(usize::from(number)).map_or(0, |len| usize::from(*len) + LENGTH));
        let text = self.bytes_from(start + run.map_or(0, <[u8]>::len));
        text.get(..run.map_or(0, length)).unwrap_or(text)
    }
}

/// What a number is.
#[derive(Clone, Copy)]
pub(super) enum Class {
    Unsigned8,
    Unsigned16,
    Unsigned32,
    Unsigned64,
    Signed8,
    Signed16,
    Signed32,
    Signed64,
    Float32,
    Float64,
}

impl Class {
    pub(super) fn integer(bits: u8, signed: bool) -> Option<Class> {
        Some(match (bits, signed) {
            (8, false) => Class::Unsigned8,
            (16, false) => Class::Unsigned16,
            (32, false) => Class::Unsigned32,
            (64, false) => Class::Unsigned64,
            (8, true) => Class::Signed8,
            (16, true) => Class::Signed16,
            (32, true) => Class::Signed32,
            (64, true) => Class::Signed64,
            _ => return None,
        })
    }
}

/// Where a number is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    class: Class,
    piece: u8,
    /// Byte of that.
    at: u16,
    /// The same in words, where the event comes in such: which, and bits of it below the number.
    word: u8,
    below: u8,
}

impl Place {
    const NOWHERE: Place = Place { class: Class::Unsigned64, piece: 0, at: 0, word: 0, below: 0 };

    pub(super) fn new(piece: u8, at: usize, class: Class) -> Place {
        Place { class, piece, at: at as u16, word: (at / 8) as u8, below: (at % 8 * 8) as u8 }
    }

    /// What the number is in a key, and its bits in 64.
    #[inline(always)]
    fn of(&self, event: &impl Bytes) -> (u8, u64) {
        let signed = |value: i64| (key::UNSIGNED + u8::from(value < 0), value as u64);
        match self.class {
            Class::Unsigned8 => (key::UNSIGNED, event.bits::<1>(self) as u8 as u64),
            Class::Unsigned16 => (key::UNSIGNED, event.bits::<2>(self) as u16 as u64),
            Class::Unsigned32 => (key::UNSIGNED, event.bits::<4>(self) as u32 as u64),
            Class::Unsigned64 => (key::UNSIGNED, event.bits::<8>(self)),
            Class::Signed8 => signed(event.bits::<1>(self) as i8 as i64),
            Class::Signed16 => signed(event.bits::<2>(self) as i16 as i64),
            Class::Signed32 => signed(event.bits::<4>(self) as i32 as i64),
            Class::Signed64 => signed(event.bits::<8>(self) as i64),
            Class::Float32 => (key::FLOAT, f64::from(f32::from_bits(event.bits::<4>(self) as u32)).to_bits()),
            Class::Float64 => (key::FLOAT, event.bits::<8>(self)),
        }
    }
}

/// A number that is wanted.
#[derive(Clone, Copy)]
pub(super) struct Number {
    place: Place,
    from: From,
    /// The source of the plan that the event is asked for.
    source: u8,
}

#[derive(Clone, Copy)]
enum From {
    /// Always there.
    Payload,
    /// If the byte at this place is not 0.
    Optional(Place),
    /// Not of the event itself.
    Context(ContextValue),
}

impl Number {
    pub(super) const NONE: Number = Number::at(Place::NOWHERE);

    pub(super) const fn at(place: Place) -> Number {
        Number { place, from: From::Payload, source: 0 }
    }

    /// One that is there if the byte at `presence` is not 0.
    pub(super) fn optional(place: Place, presence: Place) -> Number {
        Number { from: From::Optional(presence), ..Number::at(place) }
    }

    pub(super) fn context(context: ContextValue) -> Number {
        Number { from: From::Context(context), ..Number::NONE }
    }

    /// What a source of the plan is asked for.
    pub(super) fn asked(source: u8) -> Number {
        Number { source, ..Number::NONE }
    }

    /// The piece that it lies in, if it is of the payload.
    pub(super) fn piece(&self) -> u8 {
        self.place.piece
    }

    /// Whether it is always there, in the payload.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.from, From::Payload)
    }
}
