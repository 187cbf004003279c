//! Bytes to values, by declared types.

use crate::declared::{
    Array, Blob, Encoding, Enumeration, Flags, Float, Import, Integer, Length, Member, Optional, Reference, Root, Sequence,
    Structure, Type, Variant,
};

use crate::plan::Form;

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

/// A place in a packet and the clock there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'d> {
    bytes: &'d [u8],
    /// First bit beyond what may be read.
    end: u64,
    pub(crate) at: u64,
    pub(crate) clock: u64,
}

/// Gives the value of an earlier structure that a root refers to.
pub(crate) type Imports<'i> = &'i dyn Fn(&Import) -> Option<u64>;

impl<'d> Cursor<'d> {
    /// Reads `bytes`, of which the first `end` bits count.
    #[inline]
    pub(crate) fn new(bytes: &'d [u8], end: u64, at: u64, clock: u64) -> Self {
        Self { bytes, end: end.min(bytes.len() as u64 * 8), at, clock }
    }

    /// As [`Cursor::new`], where the caller knows that `end` bits are there.
    #[inline(always)]
    pub(crate) fn within(bytes: &'d [u8], end: u64, at: u64, clock: u64) -> Self {
        debug_assert!(end <= bytes.len() as u64 * 8);
        Self { bytes, end, at, clock }
    }

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
            Self { ..*self }.field(root, &[*place], &|_| None, visit)?;
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

    #[inline(always)]
    pub(crate) fn align(&mut self, align: u32) -> Result<(), Fault> {
        let mask = u64::from(align.max(1)) - 1;
        // Alignments are powers of two.
        self.need((self.at + mask) & !mask)
    }

    /// Moves to `at`, if that much is there.
    #[inline(always)]
    pub(crate) fn need(&mut self, at: u64) -> Result<(), Fault> {
        if at > self.end {
            return Err(Fault::End(at));
        }
        self.at = at;
        Ok(())
    }

    /// The bytes from a bit on that begins one, whether they count or not.
    #[inline(always)]
    pub(crate) fn bytes_from(&self, at: u64) -> &'d [u8] {
        self.bytes.get((at / 8) as usize..).unwrap_or_default()
    }

    /// The eight bytes that begin here, whether they count or not.
    #[inline(always)]
    pub(crate) fn word(&self) -> Option<u64> {
        let rest = self.bytes.get((self.at / 8) as usize..)?;
        rest.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// The bits at a place that [`Cursor::need`] was asked for.
    #[inline(always)]
    pub(crate) fn peek(&self, at: u64, bits: u8, big_endian: bool) -> u64 {
        load(self.bytes, at, bits, big_endian)
    }

    #[inline(always)]
    fn bits(&mut self, bits: u8, big_endian: bool) -> Result<u64, Fault> {
        let start = self.at;
        self.need(start + u64::from(bits))?;
        Ok(load(self.bytes, start, bits, big_endian))
    }

    #[inline(always)]
    fn integer(&mut self, integer: &Integer) -> Result<u64, Fault> {
        self.align(integer.align)?;
        let value = if integer.variable || integer.reversed {
            self.unusual(integer)?
        } else {
            self.bits(integer.bits, integer.big_endian)?
        };
        if integer.clock.is_some() {
            self.clock = advance(self.clock, value, integer.bits);
        }
        Ok(value)
    }

    #[cold]
    fn unusual(&mut self, integer: &Integer) -> Result<u64, Fault> {
        if !integer.variable {
            let value = self.bits(integer.bits, integer.big_endian)?;
            return Ok(value.reverse_bits() >> (64 - integer.bits));
        }
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.bits(8, false)?;
            let low = byte & 0x7F;
            if shift < 64 {
                value |= low << shift;
            }
            let is_last = byte & 0x80 == 0;
            // What a value of 64 bits has no room for may only repeat its sign.
            let negative = integer.signed && value >> 63 == 1;
            let is_sign = |rest: u64, bits: u32| rest == if negative { (1 << bits) - 1 } else { 0 };
            if shift == 63 && !is_sign(low >> 1, 6) || shift > 63 && !is_sign(low, 7) {
                return Err(Fault::Invalid("integer of more than 64 bits"));
            }
            shift += 7;
            if is_last {
                if integer.signed && shift < 64 && byte & 0x40 != 0 {
                    value |= u64::MAX << shift;
                }
                return Ok(value);
            }
        }
    }

    fn float(&mut self, float: &Float) -> Result<f64, Fault> {
        self.align(float.align)?;
        let mut bits = self.bits(float.bits, float.big_endian)?;
        if float.reversed {
            bits = bits.reverse_bits() >> (64 - float.bits);
        }
        Ok(match float.bits {
            16 => half(bits as u16),
            32 => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        })
    }

    #[inline(always)]
    fn take(&mut self, bytes: u64) -> Result<&'d [u8], Fault> {
        self.align(8)?;
        let start = self.at;
        let end = bytes.checked_mul(8).and_then(|bits| start.checked_add(bits)).unwrap_or(u64::MAX);
        self.need(end)?;
        Ok(&self.bytes[(start / 8) as usize..(end / 8) as usize])
    }

    /// A text up to its zero, which is stepped over.
    #[inline]
    pub(crate) fn text(&mut self, encoding: Encoding) -> Result<&'d [u8], Fault> {
        self.align(8)?;
        let rest = &self.bytes[(self.at / 8) as usize..(self.end / 8) as usize];
        let unit = encoding.unit();
        let length = match unit {
            1 => memchr::memchr(0, rest),
            unit => {
                let units = rest.chunks_exact(unit as usize);
                units.clone().position(|unit| unit.iter().all(|&byte| byte == 0)).map(|place| place * unit as usize)
            }
        };
        let Some(length) = length else { return Err(Fault::End(self.end + 8)) };
        let text = self.take(length as u64)?;
        self.need(self.at + unit * 8)?;
        Ok(text)
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

/// Up to 64 bits, which must lie inside `bytes`.
#[inline(always)]
fn load(bytes: &[u8], at: u64, bits: u8, big_endian: bool) -> u64 {
    let (first, skip) = ((at / 8) as usize, (at % 8) as u32);
    let unused = 64 - u32::from(bits);
    if let Some(word) = bytes.get(first..).and_then(|rest| rest.first_chunk::<8>()) {
        if skip <= unused {
            return match big_endian {
                false => u64::from_le_bytes(*word) >> skip & u64::MAX >> unused,
                true => u64::from_be_bytes(*word) << skip >> unused,
            };
        }
    }
    load_slow(bytes, at, bits, big_endian)
}

/// As [`load`], near the end and for what lies in nine bytes.
#[cold]
fn load_slow(bytes: &[u8], at: u64, bits: u8, big_endian: bool) -> u64 {
    let (first, skip) = ((at / 8) as usize, (at % 8) as u32);
    let bytes = &bytes[first..(at + u64::from(bits)).div_ceil(8) as usize];
    let value = if big_endian {
        let joined = bytes.iter().fold(0u128, |joined, &byte| joined << 8 | u128::from(byte));
        joined >> (bytes.len() as u32 * 8 - skip - u32::from(bits))
    } else {
        bytes.iter().rev().fold(0u128, |joined, &byte| joined << 8 | u128::from(byte)) >> skip
    };
    value as u64 & u64::MAX >> (64 - u32::from(bits))
}

/// The clock after a stamp of its low bits: the next value that ends in them.
#[inline]
pub(crate) fn advance(clock: u64, low: u64, bits: u8) -> u64 {
    if bits == 64 {
        return low;
    }
    let mask = (1 << bits) - 1;
    let carry = if low < clock & mask { mask + 1 } else { 0 };
    (clock & !mask).wrapping_add(carry) | low
}

#[inline]
pub(crate) fn sign_extend(value: u64, bits: u8) -> i64 {
    let unused = 64 - u32::from(bits);
    (value << unused) as i64 >> unused
}

/// A number of 16 bits: 5 of exponent, 10 of fraction.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1F), f64::from(bits & 0x3FF));
    let value = match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1F if fraction == 0.0 => f64::INFINITY,
        0x1F => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -value } else { value }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_clock_wraps_once_at_most() {
        assert_eq!(advance(0x1_0000_0005, 6, 27), 0x1_0000_0006);
        assert_eq!(advance(0x1_0000_0005, 4, 27), 0x1_0800_0004);
        assert_eq!(advance(7, 3, 64), 3);
        assert_eq!(advance(u64::MAX, 0, 32), 0);
    }

    fn variable(bytes: &[u8], signed: bool) -> Result<u64, Fault> {
        let integer = Integer { signed, variable: true, ..Integer::unsigned(64, false) };
        Cursor::new(bytes, u64::MAX, 0, 0).integer(&integer)
    }

    #[test]
    fn integers_of_variable_length() {
        assert_eq!(variable(&[0], false), Ok(0));
        assert_eq!(variable(&[0xE5, 0x8E, 0x26], false), Ok(624_485));
        assert_eq!(variable(&[0x80, 0x80, 0x00], false), Ok(0));
        assert_eq!(variable(&[0xC0, 0xBB, 0x78], true).map(|value| value as i64), Ok(-123_456));
        assert_eq!(variable(&[0xFF; 12], true), Err(Fault::End(104)));
        let most = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(variable(&most, false), Ok(u64::MAX));
        assert!(matches!(variable(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02], false), Err(Fault::Invalid(_))));
        let minus_one = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        assert_eq!(variable(&minus_one, true).map(|value| value as i64), Ok(-1));
        assert_eq!(variable(&[0xFF], false), Err(Fault::End(16)));
    }

    #[test]
    fn numbers_of_16_bits() {
        let cases =
            [(0x3C00, 1.0), (0xC000, -2.0), (0x7BFF, 65504.0), (0x0001, 5.960464477539063e-8), (0xFC00, f64::NEG_INFINITY)];
        for (bits, expected) in cases {
            assert_eq!(half(bits), expected);
        }
        assert!(half(0x7E00).is_nan());
    }

    proptest! {
        #[test]
        fn bit_fields_are_those_of_the_bytes(bytes in any::<[u8; 12]>(), skip in 0u64..24, bits in 1u8..=64) {
            let mut little = 0u64;
            let mut big = 0u64;
            for bit in 0..u64::from(bits) {
                let (at, value) = (skip + bit, |shift: u64| u64::from(bytes[((skip + bit) / 8) as usize] >> shift & 1));
                little |= value(at % 8) << bit;
                big = big << 1 | value(7 - at % 8);
            }
            let cursor = Cursor::new(&bytes, 96, skip, 0);
            prop_assert_eq!({ cursor }.bits(bits, false), Ok(little));
            prop_assert_eq!({ cursor }.bits(bits, true), Ok(big));
            prop_assert_eq!(Cursor::new(&bytes, skip, skip, 0).bits(bits, true), Err(Fault::End(skip + u64::from(bits))));
        }
    }
}
