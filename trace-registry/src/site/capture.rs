//! Values of an event whose types are inferred.
//!
//! Whether the type of a function's argument is a field is found by the compiler's search for a method:
//! `(&Given(&argument)).capture()` is the inherent method where the type is a field and `Copy`, the one of
//! [`CaptureByReference`] where it is a field, and the one of [`CaptureNothing`], a reference further away, for all other types,
//! also for type parameters of which no bound says that they are fields.

use crate::field::{Field, FieldClass, FieldDescriptor, Formatted, Payload, Sizes, Step, Value};
use core::fmt;

/// One value of an event.
pub trait Capture: Copy {
    /// The class of the field; `None`: it is none, and nothing is written.
    const CLASS: Option<FieldClass>;
    /// The same, or any.
    const CLASS_OR_NOT: FieldClass = match Self::CLASS {
        Some(class) => class,
        None => FieldClass::Bool,
    };
    /// How much room it takes.
    const SIZES: Sizes;
    /// Whether it is formatted when it is written.
    const FORMATTED: bool = false;
    /// Unit of the values.
    const UNIT: &'static str = "";

    /// Writes the value.
    fn write<'p>(&'p self, payload: &mut Payload<'p>);

    /// Returns what a filter sees of it.
    fn value(&self, path: &[Step]) -> Value<'_>;
}

/// A value of a field type.
#[derive(Clone, Copy)]
pub struct Plain<T>(pub T);

impl<T: Field + Copy> Capture for Plain<T> {
    const CLASS: Option<FieldClass> = Some(T::CLASS);
    const SIZES: Sizes = T::SIZES;
    const UNIT: &'static str = T::UNIT;
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        self.0.write(payload);
    }
    #[inline]
    fn value(&self, path: &[Step]) -> Value<'_> {
        self.0.value(path)
    }
}

/// An argument of a function that nobody chose: of slices, their length and their first elements.
#[derive(Clone, Copy)]
pub struct Short<T>(pub T);

impl<T: Field + Copy> Capture for Short<T> {
    const CLASS: Option<FieldClass> = Some(T::SHORT_CLASS);
    const SIZES: Sizes = T::SHORT_SIZES;
    const UNIT: &'static str = T::UNIT;
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        self.0.write_short(payload);
    }
    #[inline]
    fn value(&self, path: &[Step]) -> Value<'_> {
        self.0.short_value(path)
    }
}

/// A value of a type that is no field.
#[derive(Clone, Copy)]
pub struct Skipped;

impl Capture for Skipped {
    const CLASS: Option<FieldClass> = None;
    const SIZES: Sizes = Sizes::NONE;
    #[inline(always)]
    fn write<'p>(&'p self, _: &mut Payload<'p>) {}
    fn value(&self, _: &[Step]) -> Value<'_> {
        Value::Missing
    }
}

macro_rules! formatted {
    ($name:ident, $trait:ident, $write:ident, $document:literal) => {
        #[doc = $document]
        pub struct $name<'a, T> {
            value: &'a T,
            // So that a type that cannot be formatted is an error where it was chosen, and nowhere else.
            format: fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
        }

        impl<T> Clone for $name<'_, T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}

        impl<T> fmt::$trait for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (self.format)(self.value, f)
            }
        }

        impl<T> Capture for $name<'_, T> {
            const CLASS: Option<FieldClass> = Some(Formatted::CLASS);
            const SIZES: Sizes = Formatted::SIZES;
            const FORMATTED: bool = true;
            #[inline(always)]
            fn write<'p>(&'p self, payload: &mut Payload<'p>) {
                Formatted::$write(self, payload);
            }
            fn value(&self, _: &[Step]) -> Value<'_> {
                Value::Missing
            }
        }
    };
}

formatted!(Inspected, Debug, debug, "A value as text, by `Debug`.");
formatted!(Displayed, Display, display, "A value as text, by `Display`.");

/// A value of which the compiler is asked whether it is a field.
pub struct Given<'a, T: ?Sized>(pub &'a T);

impl<T: Field + Copy> Given<'_, T> {
    /// The value, copied, so that traced code need not keep it in memory.
    #[inline(always)]
    pub const fn capture(&self) -> Plain<T> {
        Plain(*self.0)
    }
}

/// An argument that nobody chose, of which the compiler is asked the same.
pub struct Unchosen<'a, T: ?Sized>(pub &'a T);

impl<T: Field + Copy> Unchosen<'_, T> {
    /// The value, copied.
    #[inline(always)]
    pub const fn capture(&self) -> Short<T> {
        Short(*self.0)
    }
}

/// Values that are fields, but not `Copy`.
pub trait CaptureByReference<'a> {
    /// What borrows it.
    type Value: Capture;
    /// Borrows it.
    fn capture(&self) -> Self::Value;
}

impl<'a, T: Field + ?Sized> CaptureByReference<'a> for Given<'a, T> {
    type Value = Plain<&'a T>;
    #[inline(always)]
    fn capture(&self) -> Plain<&'a T> {
        Plain(self.0)
    }
}

impl<'a, T: Field + ?Sized> CaptureByReference<'a> for Unchosen<'a, T> {
    type Value = Short<&'a T>;
    #[inline(always)]
    fn capture(&self) -> Short<&'a T> {
        Short(self.0)
    }
}

/// Values that are no fields.
pub trait CaptureNothing {
    /// Nothing.
    #[inline(always)]
    fn capture(&self) -> Skipped {
        Skipped
    }
}

impl<T: ?Sized> CaptureNothing for &Given<'_, T> {}

impl<T: ?Sized> CaptureNothing for &Unchosen<'_, T> {}

/// Checks that what was chosen is a field.
#[inline(always)]
pub const fn field<T: Field + ?Sized>(value: &T) -> &T {
    value
}

/// What was chosen to be formatted.
pub struct Formattable;

impl Formattable {
    /// By `Debug`.
    #[inline(always)]
    pub const fn debug<T: fmt::Debug>(value: &T) -> Inspected<'_, T> {
        Inspected { value, format: <T as fmt::Debug>::fmt }
    }

    /// By `Display`.
    #[inline(always)]
    pub const fn display<T: fmt::Display>(value: &T) -> Displayed<'_, T> {
        Displayed { value, format: <T as fmt::Display>::fmt }
    }
}

impl<C: Capture> Capture for Option<C> {
    const CLASS: Option<FieldClass> = match C::CLASS {
        Some(_) => Some(FieldClass::Optional { value: &C::CLASS_OR_NOT }),
        None => None,
    };
    const SIZES: Sizes = Sizes::fixed(1).and(C::SIZES.or(Sizes::NONE));
    const FORMATTED: bool = C::FORMATTED;
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        match self {
            Some(value) if payload.take(C::SIZES.least) => {
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
    fn value(&self, path: &[Step]) -> Value<'_> {
        match (self, path) {
            (None, _) => Value::Missing,
            (Some(_), [Step::Presence]) => Value::Integer(1),
            (Some(value), path) => value.value(path),
        }
    }
}

/// Most values of one event.
pub(super) const MOST: usize = 20;

/// What is known of the values of an event but for their names.
#[derive(Clone, Copy)]
pub struct List {
    /// A field by its place; a skipped value has no class, which the name tells: it is empty.
    fields: [FieldDescriptor; MOST],
    length: usize,
}

const NONE: FieldDescriptor = FieldDescriptor::new("", FieldClass::Bool);

impl List {
    const EMPTY: List = List { fields: [NONE; MOST], length: 0 };

    const fn one<C: Capture>() -> List {
        let mut list = Self::EMPTY;
        if let Some(class) = C::CLASS {
            list.fields[0] = FieldDescriptor { name: "?", class, unit: C::UNIT, sensitive: false, formatted: C::FORMATTED };
        }
        list.length = 1;
        list
    }

    const fn and(mut self, next: List) -> List {
        let mut i = 0;
        while i < next.length {
            assert!(
                self.length < MOST,
                "an event has at most 16 values: choose some by `fields(…)`, or leave some out by `skip(…)`"
            );
            self.fields[self.length] = next.fields[i];
            self.length += 1;
            i += 1;
        }
        self
    }

    /// The fields, each with its name, and how many; and with `skipped`, the names of the values that are none.
    pub(super) const fn named(self, first: &[&'static str], then: &[&'static str], skipped: bool) -> (Self, usize) {
        assert!(self.length == first.len() + then.len());
        let (mut named, mut i) = (Self::EMPTY, 0);
        while i < self.length {
            let mut field = self.fields[i];
            if field.name.is_empty() == skipped {
                field.name = if i < first.len() { first[i] } else { then[i - first.len()] };
                named.fields[named.length] = field;
                named.length += 1;
            }
            i += 1;
        }
        (named, named.length)
    }

    pub(super) const fn fields(&self) -> &[FieldDescriptor] {
        self.fields.split_at(self.length).0
    }
}

/// The values of an event.
pub trait Captures: Copy {
    /// What is known of them.
    const LIST: List;
    /// How much room they take.
    const SIZES: Sizes;

    /// Writes them.
    fn write<'p>(&'p self, payload: &mut Payload<'p>);

    /// Returns what a filter sees of the field of index `index`; skipped values have none.
    fn value(&self, index: u16, path: &[Step]) -> Value<'_>;

    /// How many fields there are.
    const COUNT: u16;
}

/// Some values, and others behind them.
#[derive(Clone, Copy)]
pub struct With<A, B>(pub A, pub B);

impl<A: Captures, B: Captures> Captures for With<A, B> {
    const LIST: List = A::LIST.and(B::LIST);
    const SIZES: Sizes = A::SIZES.and(B::SIZES);
    const COUNT: u16 = A::COUNT + B::COUNT;
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        self.0.write(payload);
        self.1.write(payload);
    }
    #[inline]
    fn value(&self, index: u16, path: &[Step]) -> Value<'_> {
        match index.checked_sub(A::COUNT) {
            None => self.0.value(index, path),
            Some(index) => self.1.value(index, path),
        }
    }
}

macro_rules! captures {
    ($(($($name:ident $place:tt),*))*) => {$(
        #[allow(unused_variables, unused_mut, unused_assignments, clippy::unused_unit)]
        impl<$($name: Capture),*> Captures for ($($name,)*) {
            const LIST: List = List::EMPTY$(.and(List::one::<$name>()))*;
            const SIZES: Sizes = Sizes::NONE$(.and($name::SIZES))*;
            const COUNT: u16 = 0 $(+ $name::CLASS.is_some() as u16)*;
            #[inline(always)]
            fn write<'p>(&'p self, payload: &mut Payload<'p>) {
                $(self.$place.write(payload);)*
            }
            #[inline]
            fn value(&self, index: u16, path: &[Step]) -> Value<'_> {
                let mut next = 0;
                $(
                    if $name::CLASS.is_some() {
                        if index == next {
                            return self.$place.value(path);
                        }
                        next += 1;
                    }
                )*
                Value::Missing
            }
        }
    )*};
}

captures! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15)
}
