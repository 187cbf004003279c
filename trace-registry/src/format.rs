//! Format descriptions: one readable text per event, in the manner of ftrace's `format` files.

use crate::event::EventClass;
use crate::field::{Base, FieldClass, FieldDescriptor};
use core::fmt;

/// The format of one event as text.
///
/// ```
/// # use trace_registry::{EventClass, FieldClass, field::FieldDescriptor, format::Format, tracepoint::Location};
/// static CLASS: EventClass = EventClass {
///     name: "Evicted", module_path: "storage", location: Location { file: "storage.rs", line: 7 },
///     fields: &[FieldDescriptor { unit: "B", ..FieldDescriptor::new("bytes", FieldClass::unsigned(32)) }],
/// };
/// let text = Format { name: &"storage:evicted", id: Some(3), class: &CLASS }.to_string();
/// assert_eq!(text, "name: storage:evicted\nID: 3\nformat:\n\tfield: bytes; type: u32; size: 4; unit: B;\n");
/// ```
pub struct Format<'a> {
    /// Name of the event.
    pub name: &'a dyn fmt::Display,
    /// Event ID, once one is assigned.
    pub id: Option<u32>,
    /// Its class.
    pub class: &'a EventClass,
}

impl fmt::Display for Format<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "name: {}", self.name)?;
        if let Some(id) = self.id {
            writeln!(f, "ID: {id}")?;
        }
        writeln!(f, "format:")?;
        for field in self.class.fields {
            write!(f, "\tfield: {}; type: {};", field.name, Type(&field.class))?;
            if let Some(size) = fixed_size(&field.class) {
                write!(f, " size: {size};")?;
            }
            if !field.unit.is_empty() {
                write!(f, " unit: {};", field.unit)?;
            }
            writeln!(f, "{}", if field.sensitive { " sensitive;" } else { "" })?;
        }
        Ok(())
    }
}

/// The type of a field as text: `u32`, `string`, `optional i64`.
pub struct Type<'a>(pub &'a FieldClass);

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            FieldClass::Integer { bits, signed, base, network_order } => {
                let order = if network_order { " big-endian" } else { "" };
                let base = if base == Base::Hexadecimal { " hex" } else { "" };
                write!(f, "{}{bits}{base}{order}", if signed { 'i' } else { 'u' })
            }
            FieldClass::Float { bits } => write!(f, "f{bits}"),
            FieldClass::Bool => f.write_str("bool"),
            FieldClass::String { .. } => f.write_str("string"),
            FieldClass::Enumeration { bits, signed, labels } => {
                write!(f, "enum {}{bits} {{", if signed { 'i' } else { 'u' })?;
                for (i, label) in labels.iter().enumerate() {
                    write!(f, "{} {} = {}", if i == 0 { "" } else { "," }, label.name, label.value)?;
                }
                f.write_str(" }")
            }
            FieldClass::Structure { fields } => members(f, "struct", fields),
            FieldClass::Array { element, length } => write!(f, "{}[{length}]", Type(element)),
            FieldClass::Sequence { element, .. } => write!(f, "{}[]", Type(element)),
            FieldClass::Optional { value } => write!(f, "optional {}", Type(value)),
            FieldClass::Variant { options } => {
                f.write_str("variant {")?;
                for (i, option) in options.iter().enumerate() {
                    write!(f, "{} {}: {}", if i == 0 { "" } else { "," }, option.name, Type(&option.class))?;
                }
                f.write_str(" }")
            }
        }
    }
}

fn members(f: &mut fmt::Formatter<'_>, what: &str, fields: &[FieldDescriptor]) -> fmt::Result {
    write!(f, "{what} {{")?;
    for (i, field) in fields.iter().enumerate() {
        write!(f, "{} {}: {}", if i == 0 { "" } else { "," }, field.name, Type(&field.class))?;
    }
    f.write_str(" }")
}

/// Bytes that every value of the class takes, where that is known.
fn fixed_size(class: &FieldClass) -> Option<usize> {
    match *class {
        FieldClass::Integer { bits, .. } | FieldClass::Float { bits } | FieldClass::Enumeration { bits, .. } => {
            Some(bits as usize / 8)
        }
        FieldClass::Bool => Some(1),
        FieldClass::Structure { fields } => fields.iter().map(|f| fixed_size(&f.class)).sum(),
        FieldClass::Array { element, length } => fixed_size(element).map(|n| n * length),
        _ => None,
    }
}
