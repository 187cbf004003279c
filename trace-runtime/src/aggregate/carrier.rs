//! How an event comes: in words ([`Words`]), which are the bytes of run 0, and perhaps a text, or in pieces ([`Pieces`]).
//!
//! ```text
//! fields     a: u32, b: &str, c: u64, d: &str
//! payload    run 0: a, length of b │ text 0: b │ run 1: c, length of d │ text 1: d
//! ```

use super::key;
use trace_registry::field::{Finished, WORDS};

/// Bytes in front of a text that say how long it is.
pub(super) const LENGTH: usize = 2;

/// An event as it comes.
pub(super) trait Carrier {
    /// The bits of a number of so many bytes, and perhaps others above it.
    fn bits<const N: usize>(&self, place: &Place) -> u64;
    /// A text.
    fn text(&self, number: u8) -> &[u8];
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

impl Carrier for Words<'_> {
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

/// Runs and texts in turns.
pub(super) struct Pieces<'p> {
    event: &'p Finished<'p>,
    /// How long runs are that have a text behind them.
    runs: &'p [u16],
    /// Whether each of these is a piece, and each text.
    is_regular: bool,
}

impl<'p> Pieces<'p> {
    #[inline(always)]
    pub(super) fn new(event: &'p Finished<'p>, runs: &'p [u16]) -> Pieces<'p> {
        let is_piece = |i: usize, len: u16| {
            let (run, text) = (event.slice(2 * i), event.slice(2 * i + 1));
            run.len() == usize::from(len) && length(run) == text.len()
        };
        // The commonest ones without a loop.
        let is_regular = match *runs {
            [] => true,
            [first] => is_piece(0, first),
            [first, second] => is_piece(0, first) && is_piece(1, second),
            _ => runs.iter().enumerate().all(|(i, len)| is_piece(i, *len)),
        };
        Pieces { event, runs, is_regular }
    }

    #[inline(always)]
    fn run(&self, number: u8) -> &[u8] {
        if self.is_regular { self.event.slice(2 * usize::from(number)) } else { self.irregular_run(number) }
    }

    #[cold]
    #[inline(never)]
    fn irregular_run(&self, number: u8) -> &[u8] {
        self.bytes_from(self.start(number))
    }

    #[cold]
    #[inline(never)]
    fn irregular_text(&self, number: u8) -> &[u8] {
        let start = self.start(number);
        let run = self.bytes_from(start).get(..self.runs.get(usize::from(number)).map_or(0, |len| usize::from(*len)));
        let text = self.bytes_from(start + run.map_or(0, <[u8]>::len));
        text.get(..run.map_or(0, length)).unwrap_or(text)
    }

    /// Where a run begins in the payload, by the lengths of the texts before it: a text that was cut is two pieces, and a field of a
    /// type of the program's own may be none.
    fn start(&self, run: u8) -> usize {
        self.runs.iter().take(run.into()).fold(0, |start, len| {
            let len = usize::from(*len);
            start + len + length(self.bytes_from(start).get(..len).unwrap_or_default())
        })
    }

    /// What of the payload lies together from byte `at` on.
    fn bytes_from(&self, mut at: usize) -> &[u8] {
        for slice in self.event.slices() {
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
    run.last_chunk::<LENGTH>().map_or(0, |bytes| u16::from_le_bytes(*bytes).into())
}

impl Carrier for Pieces<'_> {
    #[inline(always)]
    fn bits<const N: usize>(&self, place: &Place) -> u64 {
        let (run, at) = (self.run(place.run), usize::from(place.at));
        // As it was stored just now: a load of more would wait until that is in the cache.
        let mut bits = [0; 8];
        if let (Some(bytes), Some(bits)) = (run.get(at..at + N), bits.first_chunk_mut::<N>()) {
            bits.copy_from_slice(bytes);
        }
        u64::from_le_bytes(bits)
    }

    #[inline(always)]
    fn text(&self, number: u8) -> &[u8] {
        if self.is_regular { self.event.slice(2 * usize::from(number) + 1) } else { self.irregular_text(number) }
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
    pub(super) run: u8,
    /// Byte of the run.
    at: u16,
    /// The same in words, where the event comes in such: which, and bits of it below the number.
    word: u8,
    below: u8,
}

impl Place {
    pub(super) const NOWHERE: Place = Place { class: Class::Unsigned64, run: 0, at: 0, word: 0, below: 0 };

    pub(super) fn new(run: u8, at: usize, class: Class) -> Place {
        Place { class, run, at: at as u16, word: (at / 8) as u8, below: (at % 8 * 8) as u8 }
    }

    /// What the number is in a key, and its bits in 64.
    #[inline(always)]
    pub(super) fn of(&self, event: &impl Carrier) -> (u8, u64) {
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
