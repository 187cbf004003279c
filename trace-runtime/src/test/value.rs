//! Values of fields, decoded from the bytes of a record.

use std::fmt;
use trace_registry::FieldClass;
use trace_registry::field::FieldDescriptor;

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An integer of any size.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
    /// The variant of an enum without data, by name.
    Label(String),
    /// A struct.
    Structure(Vec<(String, Value)>),
    /// An array or a slice.
    Sequence(Vec<Value>),
    /// `None`.
    None,
    /// A variant of an enum with data.
    Variant(String, Box<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(value) => value.fmt(f),
            Value::Float(value) => value.fmt(f),
            Value::Bool(value) => value.fmt(f),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Label(label) => f.write_str(label),
            Value::None => f.write_str("none"),
            Value::Variant(name, value) => write!(f, "{name}{value}"),
            Value::Structure(members) => {
                let shown: Vec<String> = members.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "{{{}}}", shown.join(" "))
            }
            Value::Sequence(elements) => {
                let shown: Vec<String> = elements.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", shown.join(", "))
            }
        }
    }
}

/// What the value of a field can be taken as.
pub trait FromValue: Sized {
    /// Returns it; `None`: it is of another kind, or too large.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Integer(value) => (*value).try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize i128);

impl FromValue for f64 {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Float(value) = value { Some(*value) } else { None }
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Bool(value) = value { Some(*value) } else { None }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) | Value::Label(text) => Some(text.clone()),
            _ => None,
        }
    }
}

/// `None` where the field is.
impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::None = value { Some(None) } else { T::from_value(value).map(Some) }
    }
}

/// Decodes the fields of an event.
pub(super) fn fields(fields: &[FieldDescriptor], bytes: &[u8]) -> Vec<(String, Value)> {
    structure(fields, &mut Reader(bytes))
}

/// Bytes that are left. What is not there reads as zeroes: what we wrote ourselves is whole.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn integer(&mut self, bits: u8, signed: bool, network_order: bool) -> i128 {
        let count = usize::from(bits / 8);
        let mut little: Vec<u8> = self.take(count).to_vec();
        if network_order || cfg!(target_endian = "big") {
            little.reverse();
        }
        let is_negative = signed && little.last().is_some_and(|byte| byte & 0x80 != 0);
        little.resize(16, if is_negative { 0xff } else { 0 });
        i128::from_le_bytes(std::array::from_fn(|i| little[i]))
    }

    fn unsigned(&mut self, bits: u8) -> usize {
        self.integer(bits, false, false) as usize
    }
}

fn structure(fields: &[FieldDescriptor], bytes: &mut Reader<'_>) -> Vec<(String, Value)> {
    fields.iter().map(|field| (field.name.to_owned(), value(&field.class, bytes))).collect()
}

fn value(class: &FieldClass, bytes: &mut Reader<'_>) -> Value {
    match *class {
        FieldClass::Integer { bits, signed, network_order, .. } => Value::Integer(bytes.integer(bits, signed, network_order)),
        FieldClass::Float { bits: 32 } => Value::Float(f32::from_bits(bytes.unsigned(32) as u32).into()),
        FieldClass::Float { bits } => Value::Float(f64::from_bits(bytes.unsigned(bits) as u64)),
        FieldClass::Bool => Value::Bool(bytes.unsigned(8) != 0),
        FieldClass::String { length_bits } => {
            let length = bytes.unsigned(length_bits);
            Value::Text(String::from_utf8_lossy(bytes.take(length)).into_owned())
        }
        FieldClass::Enumeration { bits, signed, labels } => {
            let number = bytes.integer(bits, signed, false);
            let label = labels.iter().find(|label| label.value == number);
            label.map_or(Value::Integer(number), |label| Value::Label(label.name.to_owned()))
        }
        FieldClass::Structure { fields } => Value::Structure(structure(fields, bytes)),
        FieldClass::Array { element, length } => Value::Sequence((0..length).map(|_| value(element, bytes)).collect()),
        FieldClass::Sequence { element, length_bits } => {
            let length = bytes.unsigned(length_bits);
            Value::Sequence((0..length).map(|_| value(element, bytes)).collect())
        }
        FieldClass::Optional { value: inner } if bytes.unsigned(8) != 0 => value(inner, bytes),
        FieldClass::Optional { .. } => Value::None,
        FieldClass::Variant { options } => match options.get(bytes.unsigned(8)) {
            Some(option) => Value::Variant(option.name.to_owned(), Box::new(value(&option.class, bytes))),
            None => Value::None,
        },
        _ => Value::None,
    }
}
