//! What an expression may name.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use trace_registry::field::{FieldClass, FieldDescriptor};

/// The fields of an event and of its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub(crate) fields: Vec<Field>,
    pub(crate) context: Vec<Field>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
}

/// What the values of a field are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any integer of at most 64 bits.
    Integer,
    /// A floating point number.
    Float,
    /// True or false; as a value, 1 or 0.
    Bool,
    /// Text.
    Text,
    /// An integer whose values have names.
    Enumeration(Vec<Label>),
    /// Fields of its own.
    Structure(Vec<Field>),
    /// A value that may be missing.
    Optional(Box<Kind>),
    /// One of several options; as a value, the index of the current one.
    Variant(Vec<Field>),
    /// Nothing that a filter can see, and why: a noun phrase, such as `an array`.
    Unreadable(&'static str),
}

/// A name of some values of an enumeration, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name.
    pub name: String,
    /// Lowest value.
    pub low: i128,
    /// Highest value.
    pub high: i128,
}

impl Field {
    /// Makes a field.
    pub fn new(name: impl Into<String>, kind: Kind) -> Field {
        Field { name: name.into(), kind }
    }

    /// Describes the fields of a class. Those that are `sensitive` cannot be read where `redact`.
    pub fn of(fields: &[FieldDescriptor], redact: bool) -> Vec<Field> {
        let kind = |field: &FieldDescriptor| match field {
            _ if field.sensitive && redact => Kind::Unreadable("sensitive, and this session leaves sensitive fields out"),
            _ if field.formatted => Kind::Unreadable("formatted when it is recorded, by Debug or Display"),
            _ => Kind::of(&field.class, redact),
        };
        fields.iter().map(|field| Field::new(field.name, kind(field))).collect()
    }
}

impl Kind {
    /// Describes the values of a class.
    pub fn of(class: &FieldClass, redact: bool) -> Kind {
        match class {
            FieldClass::Integer { .. } => Kind::Integer,
            FieldClass::Float { .. } => Kind::Float,
            FieldClass::Bool => Kind::Bool,
            FieldClass::String { .. } => Kind::Text,
            FieldClass::Enumeration { labels, .. } => {
                let label = |l: &trace_registry::field::Label| Label { name: l.name.into(), low: l.value, high: l.value };
                Kind::Enumeration(labels.iter().map(label).collect())
            }
            FieldClass::Structure { fields } => Kind::Structure(Field::of(fields, redact)),
            FieldClass::Optional { value } => Kind::Optional(Box::new(Kind::of(value, redact))),
            FieldClass::Variant { options } => {
                Kind::Variant(options.iter().map(|o| Field::new(o.name, Kind::of(&o.class, redact))).collect())
            }
            FieldClass::Array { .. } => Kind::Unreadable("an array of values, and filters compare single ones"),
            FieldClass::Sequence { .. } => Kind::Unreadable("a sequence of values, and filters compare single ones"),
            _ => Kind::Unreadable("of a kind that filters do not know"),
        }
    }

    /// The kind as a noun phrase without its article.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Kind::Integer => "integer",
            Kind::Float => "float",
            Kind::Bool => "bool",
            Kind::Text => "text",
            Kind::Enumeration(_) => "enumeration",
            Kind::Structure(_) => "structure",
            Kind::Optional(kind) => match **kind {
                Kind::Integer => "optional integer",
                Kind::Float => "optional float",
                Kind::Bool => "optional bool",
                Kind::Text => "optional text",
                Kind::Enumeration(_) => "optional enumeration",
                Kind::Structure(_) => "optional structure",
                _ => "optional",
            },
            Kind::Variant(_) => "variant",
            Kind::Unreadable(_) => "not for filters",
        }
    }
}

impl Scope {
    /// Puts a scope together.
    pub fn new(fields: impl IntoIterator<Item = Field>, context: impl IntoIterator<Item = Field>) -> Scope {
        Scope { fields: fields.into_iter().collect(), context: context.into_iter().collect() }
    }

    /// Adds what another scope has under names that this one lacks.
    pub(crate) fn extend(&mut self, other: Scope) {
        for (known, fields) in [(&mut self.fields, other.fields), (&mut self.context, other.context)] {
            for field in fields {
                if known.iter().all(|known| known.name != field.name) {
                    known.push(field);
                }
            }
        }
    }
}
