//! Event classes and events.

use crate::field::{FieldClass, FieldDescriptor, Payload, Sizes};
use crate::tracepoint::Location;

/// A value that is recorded as one event: a struct with `#[derive(ringtrace::Event)]`.
///
/// The type is only the *class* of the event: its fields. Name and level belong to the probe that makes it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "not an event",
    note = "add `#[derive(ringtrace::Event)]` to `{Self}`"
)]
pub trait Event: Sized {
    /// The same class with every lifetime `'static`: what identifies it.
    type Class: Event<Class = Self::Class> + 'static;
    /// What a reader is told about events of this class.
    const DESCRIPTION: &'static EventClass;
    /// How much room an event takes.
    const SIZES: Sizes;

    /// Writes the fields, in order.
    ///
    /// # Signal safety
    ///
    /// Runs on the event path; see [`Field`](crate::Field).
    fn write<'p>(&'p self, payload: &mut Payload<'p>);
}

/// Description of the events of one class.
#[derive(Debug, PartialEq, Eq)]
pub struct EventClass {
    /// Name of the type.
    pub name: &'static str,
    /// Where it is declared, as `module_path!()` says.
    pub module_path: &'static str,
    /// Source file and line of the declaration.
    pub location: Location,
    /// The fields, in order.
    pub fields: &'static [FieldDescriptor],
}

impl EventClass {
    /// Whether any field is sensitive, nested ones too.
    pub const fn is_sensitive(&self) -> bool {
        any_sensitive(self.fields)
    }
}

const fn any_sensitive(fields: &[FieldDescriptor]) -> bool {
    let mut i = 0;
    while i < fields.len() {
        if fields[i].sensitive || holds_sensitive(&fields[i].class) {
            return true;
        }
        i += 1;
    }
    false
}

const fn holds_sensitive(class: &FieldClass) -> bool {
    match class {
        FieldClass::Structure { fields } => any_sensitive(fields),
        FieldClass::Array { element, .. } | FieldClass::Sequence { element, .. } => holds_sensitive(element),
        FieldClass::Optional { value } => holds_sensitive(value),
        FieldClass::Variant { options } => {
            let mut i = 0;
            while i < options.len() {
                if holds_sensitive(&options[i].class) {
                    return true;
                }
                i += 1;
            }
            false
        }
        _ => false,
    }
}
