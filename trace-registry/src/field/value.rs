/// What a filter sees of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'v> {
    /// Nothing: an `Option` without value, an option of a variant that is not the current one.
    Missing,
    /// Any integer, `bool` (0 or 1), or the value of an enumeration.
    Integer(i128),
    /// A floating point number.
    Float(f64),
    /// Text, as UTF-8 where it is some.
    Text(&'v [u8]),
}
