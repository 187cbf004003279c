//! Text and bytes: what is copied straight from its source, and what is formatted first.

use super::{Field, FieldClass, Payload, Sizes, Step, Value};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{self, Write};

/// Most bytes of a `Debug` or `Display` field; longer text is cut.
pub const DEBUG_LIMIT: usize = 128;

const LENGTH: usize = 2;
const ELLIPSIS: &str = "…";

/// Writes text with its length in front. Text that finds no room is cut at a character boundary and ends in `…`.
#[inline(always)]
pub(super) fn write_text<'p>(text: &'p [u8], payload: &mut Payload<'p>) {
    let length = text.len(); // captured once: what is announced is what is copied
    if payload.tail(length, text) {
    } else if length <= payload.left().min(u16::MAX as usize) {
        let mark = payload.mark();
        payload.stage((length as u16).to_ne_bytes());
        if !payload.piece(text) {
            // No piece is left for it.
            payload.patch(mark, [0; LENGTH]);
            payload.set_cut();
        }
    } else if payload.cuts() {
        *payload = write_cut(text, payload.moved());
    } else {
        payload.set_cut();
    }
}

/// Takes the payload and gives it back, so that it need not be in memory where no text is cut.
#[cold]
#[inline(never)]
fn write_cut<'p>(text: &'p [u8], mut payload: Payload<'p>) -> Payload<'p> {
    payload.set_cut();
    let room = payload.left().min(u16::MAX as usize);
    let mark = payload.mark();
    payload.stage([0; LENGTH]);
    let kept = room.checked_sub(ELLIPSIS.len()).map(|most| char_boundary(text, most));
    if let Some(head) = kept.and_then(|kept| text.get(..kept)) {
        if payload.piece(head) {
            let tail = if payload.piece(ELLIPSIS.as_bytes()) { ELLIPSIS.len() } else { 0 };
            payload.patch(mark, ((head.len() + tail) as u16).to_ne_bytes());
        }
    }
    payload
}

/// The last boundary of a character in `text` that is not after `most`.
fn char_boundary(text: &[u8], most: usize) -> usize {
    let mut at = most.min(text.len());
    // A character of UTF-8 has at most three continuation bytes; other bytes are cut anywhere.
    for _ in 0..3 {
        match text.get(at) {
            Some(byte) if byte & 0xC0 == 0x80 && at > 0 => at -= 1,
            _ => break,
        }
    }
    at
}

macro_rules! texts {
    ($($type:ty => |$value:ident| $text:expr;)*) => {$(
        impl Field for $type {
            const CLASS: FieldClass = FieldClass::String { length_bits: 16 };
            const SIZES: Sizes = Sizes { staged: 2, pieces: 2, least: 2, fixed: false, tail: true };
            #[inline(always)]
            fn write<'p>(&'p self, payload: &mut Payload<'p>) {
                let $value = self;
                write_text($text, payload);
            }
            #[inline]
            fn value(&self, _: &[Step]) -> Value<'_> {
                let $value = self;
                Value::Text($text)
            }
        }
    )*};
}

#[cfg(feature = "std")]
pub(super) use texts;

texts! {
    str => |s| s.as_bytes();
    String => |s| s.as_bytes();
    Box<str> => |s| s.as_bytes();
    Cow<'_, str> => |s| s.as_bytes();
}

impl Field for char {
    const CLASS: FieldClass = FieldClass::String { length_bits: 8 };
    const SIZES: Sizes = Sizes { staged: 5, pieces: 0, least: 2, fixed: false, tail: false };
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        let mut utf8 = [0; 4];
        let length = self.encode_utf8(&mut utf8).len();
        if !payload.take(length - 1) {
            payload.set_overflow();
            return;
        }
        let [a, b, c, d] = utf8;
        match length {
            1 => payload.stage([1, a]),
            2 => payload.stage([2, a, b]),
            3 => payload.stage([3, a, b, c]),
            _ => payload.stage([4, a, b, c, d]),
        }
    }
    #[inline]
    fn value(&self, _: &[Step]) -> Value<'_> {
        Value::Char(*self)
    }
}

/// A value as text, by `Debug` or `Display`, formatted on the event path without allocation and cut at [`DEBUG_LIMIT`] bytes.
///
/// Fields get it by `#[field(debug)]` and `#[field(display)]`.
pub struct Formatted;

impl Formatted {
    /// What a reader is told about such text.
    pub const CLASS: FieldClass = FieldClass::String { length_bits: 16 };
    /// How much room it takes.
    pub const SIZES: Sizes = Sizes { staged: LENGTH + DEBUG_LIMIT, pieces: 0, least: LENGTH, fixed: false, tail: false };

    /// Writes `value` by its `Debug`.
    #[inline(never)]
    pub fn debug(value: &dyn fmt::Debug, payload: &mut Payload<'_>) {
        Self::write(format_args!("{value:?}"), payload);
    }

    /// Writes `value` by its `Display`.
    #[inline(never)]
    pub fn display(value: &dyn fmt::Display, payload: &mut Payload<'_>) {
        Self::write(format_args!("{value}"), payload);
    }

    fn write(arguments: fmt::Arguments<'_>, payload: &mut Payload<'_>) {
        let mark = payload.mark();
        payload.stage([0; LENGTH]);
        let mut text = Bounded { payload, used: 0, full: false };
        let result = text.write_fmt(arguments);
        let (used, full) = (text.used, text.full);
        if full || result.is_err() {
            payload.set_cut();
        }
        payload.patch(mark, (used as u16).to_ne_bytes());
    }
}

struct Bounded<'a, 'p> {
    payload: &'a mut Payload<'p>,
    used: usize,
    full: bool,
}

impl Write for Bounded<'_, '_> {
    /// Takes what fits; once a piece did not fit, nothing more, so that the text has no gap.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.full {
            return Ok(());
        }
        let most = (DEBUG_LIMIT - self.used).min(self.payload.stageable());
        if text.len() <= most {
            self.used += self.payload.stage_some(text.as_bytes());
            return Ok(());
        }
        self.full = true;
        // The mark comes out of what earlier pieces left, so it may be missing when they ended exactly at the limit.
        if let Some(kept) = most.checked_sub(ELLIPSIS.len()) {
            let kept = char_boundary(text.as_bytes(), kept);
            self.used += self.payload.stage_some(text.as_bytes().get(..kept).unwrap_or_default());
            self.used += self.payload.stage_some(ELLIPSIS.as_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_character() {
        let text = "añ€😀z";
        for most in 0..=text.len() + 2 {
            let at = char_boundary(text.as_bytes(), most);
            assert!(text.is_char_boundary(at) && at <= most && at + 4 > most.min(text.len()), "{most} {at}");
        }
        // Bytes that are no UTF-8 at all must not send the cut far back.
        assert_eq!(char_boundary(&[0x80; 10], 8), 5);
    }
}
