//! Event classes and events.

use crate::field::{FieldClass, FieldDescriptor, MAX_PIECES, MAX_STAGED, Payload, Sizes, Step, Value};
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

    /// Returns what a filter sees of the field of index `field`, at the end of `path`.
    ///
    /// # Signal safety
    ///
    /// As for [`write`](Event::write).
    fn value(&self, field: u16, path: &[Step]) -> Value<'_>;
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

// The numbers in the messages of `check_event`.
static_assertions::const_assert!(MAX_STAGED == 384 && MAX_PIECES == 24);

/// Refuses, at compile time, an event that could not be recorded at all.
#[doc(hidden)]
pub const fn check_event(sizes: Sizes) {
    assert!(
        sizes.staged <= MAX_STAGED,
        "the fields of this event take more than 384 bytes besides text and slices of numbers: record fewer, or take some by slice"
    );
    assert!(
        sizes.pieces < MAX_PIECES,
        "this event has more than 11 fields of text, bytes or slices: record fewer, or put some into another event"
    );
}

/// The class of an event whose declaration is broken.
#[doc(hidden)]
pub enum NoEvent {}

impl Event for NoEvent {
    type Class = NoEvent;
    const DESCRIPTION: &'static EventClass =
        &EventClass { name: "", module_path: "", location: Location { file: "", line: 0 }, fields: &[] };
    const SIZES: Sizes = Sizes::NONE;
    fn write<'p>(&'p self, _: &mut Payload<'p>) {}
    fn value(&self, _: u16, _: &[Step]) -> Value<'_> {
        Value::Missing
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
