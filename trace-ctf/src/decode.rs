//! Bytes to values, by declared types.

mod cursor;

use crate::declared::{
    Array, Blob, Encoding, Enumeration, Flags, Float, Import, Integer, Length, Member, Optional, Reference, Root, Sequence,
    Structure, Type, Variant,
};
use crate::plan::Form;
pub(crate) use cursor::{Cursor, advance, sign_extend};

/// One step through a value. Structures, arrays and variants come as a begin, their parts, and an end.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Item<'t, 'd> {
    Unsigned(&'t Integer, u64),
    Signed(&'t Integer, i64),
    Enumeration(&'t Enumeration, i128),
    Boolean(bool),
    Flags(&'t Flags, u64),
    Float(&'t Float, f64),
    /// The bytes of a text, without the final zero of one that has it, or of a fixed length up to the first; not always UTF-8.
    Text(&'d [u8]),
    /// The bytes of a text in another encoding than UTF-8, without the final zero of one that has it.
    Wide(Encoding, &'d [u8]),
    Blob(&'t Blob, &'d [u8]),
    StructureBegin(&'t Structure),
    /// What follows is the value of this member.
    Member(&'t Member),
    StructureEnd,
    /// An array or sequence of so many elements.
    ArrayBegin(u64),
    /// What follows is the element of this index.
    Element(u64),
    ArrayEnd,
    /// What follows is the value of this option.
    VariantBegin(&'t Member),
    VariantEnd,
    /// What follows is a value that is not always there.
    OptionalBegin,
    OptionalEnd,
    /// In place of a value that is not always there.
    Absent,
    /// An integer that 64 bits may not hold, as a two's complement where it is signed.
    Long(&'t Integer, u128),
}

/// Why decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// So many bits were needed, counted from the beginning of the packet.
    End(u64),
    Invalid(&'static str),
}

/// Elements without a bit of their own that one root may have: nothing else bounds their number.
const EMPTY_MAX: u32 = 1 << 16;

/// Values that references can need without allocating.
const SLOTS_INLINE: usize = 8;

/// Gives the value of an earlier structure that a root refers to.
pub(crate) type Imports<'i> = &'i dyn Fn(&Import) -> Option<u64>;

impl<'d> Cursor<'d> {
    /// Decodes a root structure.
    #[inline(always)]
    pub(crate) fn root<'t>(
        &mut self,
        root: &'t Root,
        imports: Imports<'_>,
        visit: &mut impl FnMut(Item<'t, 'd>),
    ) -> Result<(), Fault> {
        with_slots(root, imports, |slots| root.plan.visit(&root.structure, &mut Walk { cursor: self, slots, empty: 0 }, visit))
    }

    /// Decodes some members of a root structure as if it had no others.
    pub(crate) fn shown<'t>(
        &mut self,
        root: &'t Root,
        members: &[u32],
        visit: &mut impl FnMut(Item<'t, 'd>),
    ) -> Result<(), Fault> {
        visit(Item::StructureBegin(&root.structure));
        for place in members {
            visit(Item::Member(&root.structure.members[*place as usize]));
            { *self }.field(root, &[*place], &|_| None, visit)?;
        }
        visit(Item::StructureEnd);
        Ok(())
    }

    /// Moves behind a root structure.
    #[inline(always)]
    pub(crate) fn skip(&mut self, root: &Root, imports: Imports<'_>) -> Result<(), Fault> {
        match root.plan.fixed() {
            Some(bits) => {
                self.align(root.structure.align)?;
                self.need(self.at.saturating_add(bits))
            }
            None => self.skip_steps(root, imports),
        }
    }

    fn skip_steps(&mut self, root: &Root, imports: Imports<'_>) -> Result<(), Fault> {
        with_slots(root, imports, |slots| {
            root.plan.skip(&root.structure, &mut Walk { cursor: self, slots, empty: 0 }, usize::MAX)
        })
    }

    /// Decodes one value of a root structure, by the places of the members that lead to it.
    #[inline]
    pub(crate) fn field<'t>(
        &mut self,
        root: &'t Root,
        path: &[u32],
        imports: Imports<'_>,
        visit: &mut impl FnMut(Item<'t, 'd>),
    ) -> Result<(), Fault> {
        let Some((&first, rest)) = path.split_first() else { return Ok(()) };
        with_slots(root, imports, |slots| {
            let mut walk = Walk { cursor: self, slots, empty: 0 };
            root.plan.skip(&root.structure, &mut walk, first as usize)?;
            walk.inside(&root.structure.members[first as usize].class, rest, visit)
        })
    }
}

/// Runs `body` with room for the values that references need.
#[inline(always)]
fn with_slots<R>(root: &Root, imports: Imports<'_>, body: impl FnOnce(&mut [u64]) -> Result<R, Fault>) -> Result<R, Fault> {
    match root.slots {
        0 => body(&mut []),
        1..=SLOTS_INLINE => {
            let mut slots = [0; SLOTS_INLINE];
            if !root.imports.is_empty() {
                import(root, imports, &mut slots)?;
            }
            body(&mut slots)
        }
        _ => many_slots(root, imports, body),
    }
}

#[cold]
#[inline(never)]
fn many_slots<R>(root: &Root, imports: Imports<'_>, body: impl FnOnce(&mut [u64]) -> Result<R, Fault>) -> Result<R, Fault> {
    let mut slots = vec![0; root.slots];
    import(root, imports, &mut slots)?;
    body(&mut slots)
}

#[cold]
fn import(root: &Root, imports: Imports<'_>, slots: &mut [u64]) -> Result<(), Fault> {
    for import in &root.imports {
        let value = imports(import).ok_or(Fault::Invalid("a length or tag of an earlier structure is not there"))?;
        slots[import.slot as usize] = value;
    }
    Ok(())
}

pub(crate) struct Walk<'c, 's, 'd> {
    pub(crate) cursor: &'c mut Cursor<'d>,
    /// Values of the fields that something refers to.
    pub(crate) slots: &'s mut [u64],
    empty: u32,
}

impl<'d> Walk<'_, '_, 'd> {
    #[inline(always)]
    fn structure<'t>(&mut self, structure: &'t Structure, visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<(), Fault> {
        self.cursor.align(structure.align)?;
        visit(Item::StructureBegin(structure));
        for member in &structure.members {
            self.member(member, visit)?;
        }
        visit(Item::StructureEnd);
        Ok(())
    }

    /// Decodes a member where the cursor is.
    #[inline(always)]
    pub(crate) fn member<'t>(&mut self, member: &'t Member, visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<(), Fault> {
        visit(Item::Member(member));
        let value = self.value(&member.class, visit)?;
        if let Some(slot) = member.slot {
            self.slots[slot as usize] = value;
        }
        Ok(())
    }

    /// Decodes a member at a place that is known to be aligned and there.
    #[inline(always)]
    pub(crate) fn placed<'t>(
        &mut self,
        member: &'t Member,
        at: u64,
        form: Form,
        visit: &mut impl FnMut(Item<'t, 'd>),
    ) -> Result<(), Fault> {
        if let (Form::Plain { bits, big_endian, signed }, Type::Integer(integer)) = (form, &member.class) {
            visit(Item::Member(member));
            let value = self.cursor.peek(at, bits, big_endian);
            if signed {
                visit(Item::Signed(integer, sign_extend(value, bits)));
            } else {
                visit(Item::Unsigned(integer, value));
            }
            return Ok(());
        }
        self.cursor.at = at;
        self.member(member, visit)
    }

    /// Decodes a value and gives it back where it is an integer.
    #[inline(always)]
    pub(crate) fn value<'t>(&mut self, class: &'t Type, visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<u64, Fault> {
        match class {
            Type::Integer(integer) => {
                let value = self.cursor.integer(integer)?;
                if integer.signed {
                    let value = sign_extend(value, integer.bits);
                    visit(Item::Signed(integer, value));
                    return Ok(value as u64);
                }
                visit(Item::Unsigned(integer, value));
                Ok(value)
            }
            Type::Sequence(Sequence { text: Some(encoding), length, .. }) => {
                let length = self.length(length)?;
                visit(characters(*encoding, self.cursor.take(length)?));
                Ok(0)
            }
            Type::Text(text) => {
                let bytes = self.cursor.text(text.encoding)?;
                visit(characters(text.encoding, bytes));
                Ok(0)
            }
            Type::Float(float) => {
                visit(Item::Float(float, self.cursor.float(float)?));
                Ok(0)
            }
            class => self.composed(class, visit),
        }
    }

    fn composed<'t>(&mut self, class: &'t Type, visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<u64, Fault> {
        match class {
            Type::Enumeration(enumeration) => {
                let integer = &enumeration.integer;
                let value = self.cursor.integer(integer)?;
                let value = if integer.signed { sign_extend(value, integer.bits).into() } else { i128::from(value) };
                visit(Item::Enumeration(enumeration, value));
                return Ok(value as u64);
            }
            Type::Boolean(integer) => {
                let value = self.cursor.integer(integer)?;
                visit(Item::Boolean(value != 0));
                return Ok(value);
            }
            Type::Flags(flags) => {
                let value = self.cursor.integer(&flags.integer)?;
                visit(Item::Flags(flags, value));
                return Ok(value);
            }
            Type::Blob(blob) => {
                let length = match &blob.length {
                    Length::Fixed(length) => *length,
                    Length::Field(reference) => self.length(reference)?,
                };
                visit(Item::Blob(blob, self.cursor.take(length)?));
            }
            Type::Structure(structure) => self.structure(structure, visit)?,
            Type::Variant(variant) => self.variant(variant, visit)?,
            Type::Optional(optional) => {
                if self.is_there(optional) {
                    visit(Item::OptionalBegin);
                    self.value(&optional.inner, visit)?;
                    visit(Item::OptionalEnd);
                } else {
                    visit(Item::Absent);
                }
            }
            Type::Array(Array { element, align, length, text: Some(encoding) }) => {
                self.cursor.align(element.align().max(*align))?;
                visit(characters(*encoding, until_zero(*encoding, self.cursor.take(*length)?)));
            }
            Type::Array(array) => self.elements(&array.element, array.align, array.length, visit)?,
            Type::Sequence(sequence) => {
                let length = self.length(&sequence.length)?;
                self.elements(&sequence.element, sequence.align, length, visit)?;
            }
            Type::Long(integer) => visit(self.cursor.long(integer)?),
            // They are decoded by `value`.
            Type::Integer(_) | Type::Text(_) | Type::Float(_) => return self.value(class, visit),
        }
        Ok(0)
    }

    /// Decodes what lies at a path inside a value, if it is there.
    fn inside<'t>(&mut self, class: &'t Type, path: &[u32], visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<(), Fault> {
        let Some((&place, rest)) = path.split_first() else { return self.value(class, visit).map(drop) };
        match class {
            Type::Structure(structure) => {
                self.cursor.align(structure.align)?;
                let (before, from) = structure.members.split_at(place as usize);
                for member in before {
                    self.member(member, &mut |_| {})?;
                }
                self.inside(&from[0].class, rest, visit)
            }
            Type::Variant(variant) => match self.chosen(variant)? {
                option if option == place => self.inside(&variant.options[option as usize].class, rest, visit),
                _ => Ok(()),
            },
            Type::Optional(optional) if self.is_there(optional) => self.inside(&optional.inner, path, visit),
            _ => Ok(()),
        }
    }

    #[inline]
    fn length(&self, reference: &Reference) -> Result<u64, Fault> {
        let value = self.slots[reference.slot as usize];
        if reference.signed && (value as i64) < 0 {
            return Err(Fault::Invalid("a negative length"));
        }
        Ok(value)
    }

    fn tag(&self, reference: &Reference) -> i128 {
        let value = self.slots[reference.slot as usize];
        if reference.signed { (value as i64).into() } else { value.into() }
    }

    fn variant<'t>(&mut self, variant: &'t Variant, visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<(), Fault> {
        let option = &variant.options[self.chosen(variant)? as usize];
        visit(Item::VariantBegin(option));
        self.value(&option.class, visit)?;
        visit(Item::VariantEnd);
        Ok(())
    }

    fn chosen(&self, variant: &Variant) -> Result<u32, Fault> {
        let tag = self.tag(&variant.tag);
        let chosen = variant.choices.iter().find(|(low, high, _)| *low <= tag && tag <= *high);
        chosen.map(|&(_, _, option)| option).ok_or(Fault::Invalid("the tag of a variant chooses none of its options"))
    }

    fn is_there(&self, optional: &Optional) -> bool {
        let tag = self.tag(&optional.tag);
        if optional.choices.is_empty() {
            return tag != 0;
        }
        optional.choices.iter().any(|(low, high)| *low <= tag && tag <= *high)
    }

    fn elements<'t>(
        &mut self,
        element: &'t Type,
        align: u32,
        length: u64,
        visit: &mut impl FnMut(Item<'t, 'd>),
    ) -> Result<(), Fault> {
        self.cursor.align(element.align().max(align))?;
        visit(Item::ArrayBegin(length));
        for index in 0..length {
            let before = self.cursor.at;
            visit(Item::Element(index));
            self.value(element, visit)?;
            if self.cursor.at == before {
                self.empty += 1;
                if self.empty > EMPTY_MAX {
                    return Err(Fault::Invalid("too many elements without content"));
                }
            }
        }
        visit(Item::ArrayEnd);
        Ok(())
    }
}

/// A text that ends before its memory does.
fn until_zero(encoding: Encoding, bytes: &[u8]) -> &[u8] {
    let end = match encoding.unit() as usize {
        1 => memchr::memchr(0, bytes),
        unit => bytes.chunks(unit).position(|unit| unit.iter().all(|&byte| byte == 0)).map(|units| units * unit),
    };
    &bytes[..end.unwrap_or(bytes.len())]
}

#[inline]
fn characters<'t, 'd>(encoding: Encoding, bytes: &'d [u8]) -> Item<'t, 'd> {
    if encoding == Encoding::Utf8 { Item::Text(bytes) } else { Item::Wide(encoding, bytes) }
}
