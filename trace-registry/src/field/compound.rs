//! Fields made of other fields: `Option`, arrays, slices, smart pointers.

use super::{Field, FieldClass, FieldDescriptor, Payload, Sizes, Step, Value};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl<T: Field> Field for Option<T> {
    const CLASS: FieldClass = FieldClass::Optional { value: &T::CLASS };
    const SIZES: Sizes = Sizes::fixed(1).and(T::SIZES.or(Sizes::NONE));
    const UNIT: &'static str = T::UNIT;
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        match self {
            Some(value) if payload.take(T::SIZES.least) => {
                payload.stage([1]);
                value.write(payload);
            }
            Some(_) => {
                payload.stage([0]);
                payload.set_cut();
            }
            None => payload.stage([0]),
        }
    }
    #[inline]
    fn value(&self, path: &[Step]) -> Value<'_> {
        match (self, path) {
            (None, _) => Value::Missing,
            (Some(_), [Step::Presence]) => Value::Integer(1),
            (Some(value), path) => value.value(path),
        }
    }
    const SHORT_CLASS: FieldClass = FieldClass::Optional { value: &T::SHORT_CLASS };
    const SHORT_SIZES: Sizes = Sizes::fixed(1).and(T::SHORT_SIZES.or(Sizes::NONE));
    #[inline(always)]
    fn write_short<'p>(&'p self, payload: &mut Payload<'p>) {
        match self {
            Some(value) if payload.take(T::SHORT_SIZES.least) => {
                payload.stage([1]);
                value.write_short(payload);
            }
            Some(_) => {
                payload.stage([0]);
                payload.set_cut();
            }
            None => payload.stage([0]),
        }
    }
    #[inline]
    fn short_value(&self, path: &[Step]) -> Value<'_> {
        match (self, path) {
            (None, _) => Value::Missing,
            (Some(_), [Step::Presence]) => Value::Integer(1),
            (Some(value), path) => value.short_value(path),
        }
    }
}

/// Above this size an array of numbers is copied straight from where it lies.
const STAGED_ARRAY: usize = 32;

impl<T: Field, const N: usize> Field for [T; N] {
    const CLASS: FieldClass = FieldClass::Array { element: &T::CLASS, length: N };
    const SIZES: Sizes = {
        let elements = T::SIZES.times(N);
        if T::PLAIN && elements.least > STAGED_ARRAY {
            Sizes { staged: 0, pieces: 2, least: elements.least, fixed: false, tail: false }
        } else {
            elements
        }
    };
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        match T::as_bytes(self) {
            Some(bytes) if bytes.len() > STAGED_ARRAY => {
                payload.skip(Self::SIZES); // `piece` takes what the least size reserved
                if !payload.piece(bytes) {
                    payload.set_overflow();
                }
            }
            _ => {
                for element in self {
                    element.write(payload);
                }
            }
        }
    }
    fn value(&self, _: &[Step]) -> Value<'_> {
        Value::Missing
    }
    const SHORT_CLASS: FieldClass = if Self::SIZES.least > FIRST { <[T]>::SHORT_CLASS } else { Self::CLASS };
    const SHORT_SIZES: Sizes = if Self::SIZES.least > FIRST { <[T]>::SHORT_SIZES } else { Self::SIZES };
    #[inline(always)]
    fn write_short<'p>(&'p self, payload: &mut Payload<'p>) {
        if Self::SIZES.least > FIRST { self.as_slice().write_short(payload) } else { self.write(payload) }
    }
    fn short_value(&self, path: &[Step]) -> Value<'_> {
        if Self::SIZES.least > FIRST { self.as_slice().short_value(path) } else { self.value(path) }
    }
}

/// Most bytes that are recorded of the elements of a slice, or of a larger array, that nobody chose.
const FIRST: usize = 32;

const COUNT: usize = 2;

/// What a slice takes before its elements. Elements that are no plain numbers are staged, so there is room for a few.
const fn slice_sizes(element: Sizes, plain: bool) -> Sizes {
    let few = if element.staged > 64 { element.staged } else { 64 };
    Sizes { staged: if plain { COUNT } else { COUNT + few }, pieces: 2, least: COUNT, fixed: false, tail: plain }
}

/// A slice is written element by element: as many as find room, the rest is cut.
#[inline(always)]
fn write_elements<'p, T: Field>(elements: &'p [T], payload: &mut Payload<'p>) {
    let mark = payload.mark();
    payload.stage([0; COUNT]);
    let mut written = 0u16;
    for element in elements {
        if written == u16::MAX || !payload.has_room_for(T::SIZES) || !payload.take(T::SIZES.least) {
            payload.set_cut();
            break;
        }
        element.write(payload);
        written += 1;
    }
    payload.patch(mark, written.to_ne_bytes());
}

impl<T: Field> Field for [T] {
    const CLASS: FieldClass = FieldClass::Sequence { element: &T::CLASS, length_bits: 16 };
    const SIZES: Sizes = slice_sizes(T::SIZES, T::PLAIN);
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        match T::as_bytes(self) {
            Some(bytes) => write_bytes(bytes, size_of::<T>(), payload),
            None => write_elements(self, payload),
        }
    }
    fn value(&self, _: &[Step]) -> Value<'_> {
        Value::Missing
    }
    const SHORT_CLASS: FieldClass = FieldClass::Structure {
        fields: &[FieldDescriptor::new("length", u64::CLASS), FieldDescriptor::new("first", Self::CLASS)],
    };
    const SHORT_SIZES: Sizes = u64::SIZES.and(Self::SIZES);
    #[inline(always)]
    fn write_short<'p>(&'p self, payload: &mut Payload<'p>) {
        payload.stage((self.len() as u64).to_ne_bytes());
        match T::as_bytes(self) {
            Some(bytes) => {
                let most = FIRST / size_of::<T>() * size_of::<T>();
                write_bytes(bytes.get(..most).unwrap_or(bytes), size_of::<T>(), payload);
            }
            None => payload.within(FIRST, |payload| write_elements(self, payload)),
        }
    }
    fn short_value(&self, path: &[Step]) -> Value<'_> {
        match path {
            [Step::Field(0)] => Value::Integer(self.len() as i128),
            _ => Value::Missing,
        }
    }
}

/// Writes elements that lie in memory as they do in a record: one piece, as many whole elements as find room.
#[inline(always)]
fn write_bytes<'p>(bytes: &'p [u8], element: usize, payload: &mut Payload<'p>) {
    let count = bytes.len() / element;
    if payload.tail(count, bytes) {
        return;
    }
    let most = (payload.left() / element).min(u16::MAX as usize);
    let mark = payload.mark();
    payload.stage((count.min(most) as u16).to_ne_bytes());
    if count > most {
        payload.set_cut();
    }
    let written = bytes.get(..count.min(most) * element).is_some_and(|bytes| payload.piece(bytes));
    if !written {
        payload.patch(mark, [0; COUNT]);
        payload.set_cut();
    }
}

/// Pointers to a field: written as what they point to.
macro_rules! pointers {
    ($(($($generics:tt)*) $type:ty => $target:ty;)*) => {$(
        impl<$($generics)*> Field for $type {
            const CLASS: FieldClass = <$target as Field>::CLASS;
            const SIZES: Sizes = <$target as Field>::SIZES;
            const UNIT: &'static str = <$target as Field>::UNIT;
            #[inline(always)]
            fn write<'p>(&'p self, payload: &mut Payload<'p>) {
                <$target as Field>::write(self, payload);
            }
            #[inline]
            fn value(&self, path: &[Step]) -> Value<'_> {
                <$target as Field>::value(self, path)
            }
            const SHORT_CLASS: FieldClass = <$target as Field>::SHORT_CLASS;
            const SHORT_SIZES: Sizes = <$target as Field>::SHORT_SIZES;
            #[inline(always)]
            fn write_short<'p>(&'p self, payload: &mut Payload<'p>) {
                <$target as Field>::write_short(self, payload);
            }
            #[inline]
            fn short_value(&self, path: &[Step]) -> Value<'_> {
                <$target as Field>::short_value(self, path)
            }
        }
    )*};
}

pointers! {
    (T: Field) &mut T => T;
    (T: Field) Box<T> => T;
    (T: Field + ?Sized) Arc<T> => T;
    (T: Field) Vec<T> => [T];
    (T: Field) Box<[T]> => [T];
    (T: Field + Clone) Cow<'_, [T]> => [T];
}
