//! Field classes, and how the value of a field becomes the bytes of an event record.
//!
//! A record's payload is packed: no alignment, no padding, byte order of the machine. A value of fixed size is *staged*:
//! written into a small buffer on the stack. Text, bytes and slices of numbers are not copied there; the payload keeps
//! *pieces* (address and length), and the append copies each piece straight from its source into the ring buffer.

mod class;
mod compound;
mod enumeration;
mod extras;
mod payload;
mod scalars;
#[cfg(feature = "std")]
mod std_types;
mod text;
mod value;

pub use class::{Base, FieldClass, FieldDescriptor, Label, VariantOption};
pub use enumeration::{enumeration, enumeration_sizes, write_enumeration};
pub use extras::Extra;
pub use payload::{Encoded, Finished, HEADROOM, MAX_PIECES, MAX_STAGED, MAX_TAIL, Payload, Piece, Slices, Storage, WORDS};
pub(crate) use payload::{words, words_and_tail};
pub use text::{DEBUG_LIMIT, Formatted};
pub use value::{Step, Value};

/// A type that can be a field of an event.
///
/// Derive it for structs (nested fields) and enums. The run time calls [`write`](Field::write) and [`value`](Field::value) on the event path.
///
/// # Signal safety
///
/// An implementation must not allocate, lock, block, panic or make a system call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of an event",
    label = "not a field type",
    note = "numbers, text, slices, `Option`, C-like enums and more are fields; see the documentation of `ringtrace::Field`",
    note = "add `#[derive(ringtrace::Field)]` to `{Self}`, write a probe that takes it apart, or record it by `Debug`: `#[field(debug)]`; \
            `?value` in `event!`, `span!` and `fields(…)`; `result = debug`"
)]
pub trait Field {
    /// What a reader is told about values of this type.
    const CLASS: FieldClass;
    /// How much room a value takes.
    const SIZES: Sizes;
    /// Unit of the values, such as `ns`, where the field names none; empty: none.
    const UNIT: &'static str = "";

    /// Writes the value.
    fn write<'p>(&'p self, payload: &mut Payload<'p>);

    /// Returns what a filter sees at the end of `path`: of this value itself, where that is empty.
    fn value(&self, path: &[Step]) -> Value<'_>;

    /// Whether values lie in memory exactly as they do in a record.
    #[doc(hidden)]
    const PLAIN: bool = false;

    /// The bytes of `elements`, where [`PLAIN`](Self::PLAIN).
    #[doc(hidden)]
    #[inline(always)]
    fn as_bytes(elements: &[Self]) -> Option<&[u8]>
    where
        Self: Sized,
    {
        let _ = elements;
        None
    }

    /// The class of what a traced function records of such an argument where nobody chose it: of a slice its length and its first
    /// elements, since it may be all that the program works on; of other values all.
    #[doc(hidden)]
    const SHORT_CLASS: FieldClass = Self::CLASS;
    /// How much room that takes.
    #[doc(hidden)]
    const SHORT_SIZES: Sizes = Self::SIZES;

    /// Writes that.
    #[doc(hidden)]
    #[inline(always)]
    fn write_short<'p>(&'p self, payload: &mut Payload<'p>) {
        self.write(payload);
    }

    /// Returns what a filter sees of that.
    #[doc(hidden)]
    #[inline]
    fn short_value(&self, path: &[Step]) -> Value<'_> {
        self.value(path)
    }
}

/// Bounds on the room that one value takes in a [`Payload`].
///
/// For a value whose size depends on its content (text, slices), `staged` and `pieces` are what it takes before any element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Most bytes that are staged.
    pub staged: usize,
    /// Most pieces that are added.
    pub pieces: usize,
    /// Fewest bytes in the record.
    pub least: usize,
    /// Whether every value takes exactly `least` bytes, all staged.
    pub fixed: bool,
    /// Whether every value takes `least` bytes, all staged, and then one piece, by [`Payload::tail`].
    pub tail: bool,
}

impl Sizes {
    /// No room at all.
    pub const NONE: Sizes = Sizes { staged: 0, pieces: 0, least: 0, fixed: true, tail: false };

    /// A value that always stages `bytes` bytes.
    pub const fn fixed(bytes: usize) -> Sizes {
        Sizes { staged: bytes, pieces: 0, least: bytes, fixed: true, tail: false }
    }

    /// This value, and another one after it.
    #[must_use]
    pub const fn and(self, next: Sizes) -> Sizes {
        Sizes {
            staged: self.staged + next.staged,
            pieces: self.pieces + next.pieces,
            least: self.least + next.least,
            fixed: self.fixed && next.fixed,
            tail: self.fixed && next.tail || self.tail && next.fixed && next.least == 0,
        }
    }

    /// Either this value or another one.
    #[must_use]
    pub const fn or(self, other: Sizes) -> Sizes {
        const fn max(a: usize, b: usize) -> usize {
            if a > b { a } else { b }
        }
        Sizes {
            staged: max(self.staged, other.staged),
            pieces: max(self.pieces, other.pieces),
            least: if self.least < other.least { self.least } else { other.least },
            fixed: self.fixed && other.fixed && self.least == other.least,
            tail: false,
        }
    }

    /// `n` values one after the other.
    #[must_use]
    pub const fn times(self, n: usize) -> Sizes {
        Sizes { staged: self.staged * n, pieces: self.pieces * n, least: self.least * n, fixed: self.fixed, tail: false }
    }
}

impl<T: Field + ?Sized> Field for &T {
    const CLASS: FieldClass = T::CLASS;
    const SIZES: Sizes = T::SIZES;
    const UNIT: &'static str = T::UNIT;
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        (**self).write(payload);
    }
    #[inline]
    fn value(&self, path: &[Step]) -> Value<'_> {
        (**self).value(path)
    }
    const SHORT_CLASS: FieldClass = T::SHORT_CLASS;
    const SHORT_SIZES: Sizes = T::SHORT_SIZES;
    #[inline(always)]
    fn write_short<'p>(&'p self, payload: &mut Payload<'p>) {
        (**self).write_short(payload);
    }
    #[inline]
    fn short_value(&self, path: &[Step]) -> Value<'_> {
        (**self).short_value(path)
    }
}

/// Room that a sensitive field of `sizes` takes: its value, or the one byte that stands for it.
#[doc(hidden)]
pub const fn sensitive_sizes(sizes: Sizes) -> Sizes {
    sizes.or(Sizes::fixed(1))
}

/// Writes a sensitive field of `sizes`: by `write`, or one zero byte where the session redacts.
#[doc(hidden)]
#[inline(always)]
pub fn write_sensitive<'p>(payload: &mut Payload<'p>, sizes: Sizes, write: impl FnOnce(&mut Payload<'p>)) {
    let reserved = sensitive_sizes(sizes).least;
    if payload.redacts() {
        if reserved == 1 || payload.take(1) {
            payload.stage([0]);
        } else {
            payload.set_overflow();
        }
    } else if payload.take(sizes.least - reserved) {
        write(payload);
    } else {
        payload.set_overflow();
    }
}

/// Writes the selector of a variant, `all` of whose options share a least size, and takes what this `option` needs beyond it.
/// Returns false, so that nothing more is to be written, without room.
#[doc(hidden)]
#[inline(always)]
pub fn select(payload: &mut Payload<'_>, selector: u8, option: Sizes, all: Sizes) -> bool {
    if payload.take(option.least - all.least) {
        payload.stage([selector]);
        true
    } else {
        payload.set_overflow();
        false
    }
}
