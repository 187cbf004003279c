/// What a filter sees of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'v> {
    /// Nothing: an `Option` without value, an option of a variant that is not the current one, what filters do not read.
    Missing,
    /// Any integer, `bool` (0 or 1), the value of an enumeration, or the index of a variant's current option.
    Integer(i128),
    /// A floating point number.
    Float(f64),
    /// Text, as UTF-8 where it is some.
    Text(&'v [u8]),
    /// Text of one character.
    Char(char),
}

impl<'v> Value<'v> {
    /// Returns it if it is text.
    #[inline]
    pub fn text(self) -> Option<&'v [u8]> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// One step from a value to a part of it.
///
/// The last step to an optional value may be [`Presence`](Step::Presence): what is seen then is 1 if the value is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To the field of this index.
    Field(u16),
    /// To the option of this index, if it is the current one.
    Option(u16),
    /// Whether the optional value is there.
    Presence,
}
