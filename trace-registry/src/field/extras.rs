//! Keys and values that are known only at run time.

use super::{Field, FieldClass, FieldDescriptor, Payload, Sizes, Step, Value, VariantOption};

/// A value whose kind is known only at run time.
///
/// As a field, `extras: &'a [(&'a str, Extra<'a>)]` holds any keys, each with a value; as many as find room in a record (some
/// nine with numbers, six with texts), the rest is cut, which is counted; so is the end of a key or a text that finds no room.
/// Rules and aggregations do not see them; the verbs that read a trace do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extra<'a> {
    /// An integer.
    Integer(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(&'a str),
}

macro_rules! from {
    ($($type:ty => $option:ident;)*) => {$(
        impl<'a> From<$type> for Extra<'a> {
            fn from(value: $type) -> Extra<'a> {
                Extra::$option(value.into())
            }
        }
    )*};
}

from! {
    i8 => Integer; i16 => Integer; i32 => Integer; i64 => Integer;
    u8 => Unsigned; u16 => Unsigned; u32 => Unsigned; u64 => Unsigned;
    f32 => Float; f64 => Float;
    bool => Bool;
    &'a str => Text;
}

const fn option(name: &'static str, fields: &'static [FieldDescriptor]) -> VariantOption {
    VariantOption { name, class: FieldClass::Structure { fields } }
}

/// The size of an option behind its selector.
const fn selected<T: Field + ?Sized>() -> Sizes {
    Sizes::fixed(1).and(T::SIZES)
}

/// The size of a number behind its selector, in bytes.
const MOST: usize = 9;

impl Field for Extra<'_> {
    const CLASS: FieldClass = FieldClass::Variant {
        options: &[
            option("integer", &[FieldDescriptor::new("value", i64::CLASS)]),
            option("unsigned", &[FieldDescriptor::new("value", u64::CLASS)]),
            option("float", &[FieldDescriptor::new("value", f64::CLASS)]),
            option("bool", &[FieldDescriptor::new("value", bool::CLASS)]),
            option("text", &[FieldDescriptor::new("value", str::CLASS)]),
        ],
    };
    // Room for any value is reserved, so that a key, which is cut to what is left, leaves it.
    const SIZES: Sizes = Sizes { least: MOST, fixed: false, ..selected::<i64>().or(selected::<str>()) };

    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        macro_rules! write {
            ($selector:literal, $type:ty, $value:expr) => {{
                payload.stage([$selector]);
                payload.skip(const { Sizes::fixed(MOST - selected::<$type>().least) });
                <$type as Field>::write($value, payload);
            }};
        }
        match self {
            Extra::Integer(value) => write!(0, i64, value),
            Extra::Unsigned(value) => write!(1, u64, value),
            Extra::Float(value) => write!(2, f64, value),
            Extra::Bool(value) => write!(3, bool, value),
            Extra::Text(value) => write!(4, str, value),
        }
    }

    fn value(&self, path: &[Step]) -> Value<'_> {
        match self {
            Extra::Integer(value) => value.value(path),
            Extra::Unsigned(value) => value.value(path),
            Extra::Float(value) => value.value(path),
            Extra::Bool(value) => value.value(path),
            Extra::Text(value) => value.value(path),
        }
    }
}

/// A key with its value.
impl Field for (&str, Extra<'_>) {
    const CLASS: FieldClass = FieldClass::Structure {
        fields: &[
            FieldDescriptor::new("key", <str as Field>::CLASS),
            FieldDescriptor::new("value", <Extra<'static> as Field>::CLASS),
        ],
    };
    const SIZES: Sizes = <str as Field>::SIZES.and(<Extra<'static> as Field>::SIZES);

    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        self.0.write(payload);
        self.1.write(payload);
    }

    fn value(&self, _: &[Step]) -> Value<'_> {
        Value::Missing
    }
}
