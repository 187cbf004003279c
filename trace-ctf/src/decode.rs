//! Bytes to values, by declared types.

use crate::declared::{Enumeration, Float, Integer, Member, Root, Structure, Type};

/// One step through a value. Structures, arrays and variants come as a begin, their parts, and an end.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Item<'t, 'd> {
    Unsigned(&'t Integer, u64),
    Signed(&'t Integer, i64),
    Enumeration(&'t Enumeration, i128),
    Float(&'t Float, f64),
    /// The bytes of a text, without the final zero of one that has it; not always UTF-8.
    Text(&'d [u8]),
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

impl<'d> Cursor<'d> {
    /// Reads `bytes`, of which the first `end` bits count.
    pub(crate) fn new(bytes: &'d [u8], end: u64, at: u64, clock: u64) -> Self {
        Self { bytes, end: end.min(bytes.len() as u64 * 8), at, clock }
    }

    /// Decodes a root structure.
    pub(crate) fn root<'t>(&mut self, root: &'t Root, visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<(), Fault> {
        let mut inline = [0; SLOTS_INLINE];
        let mut heap = Vec::new();
        let slots = match inline.get_mut(..root.slots) {
            Some(slots) => slots,
            None => {
                heap.resize(root.slots, 0);
                &mut heap[..]
            }
        };
        Walk { cursor: self, slots, empty: 0 }.structure(&root.structure, visit)
    }

    fn align(&mut self, align: u32) -> Result<(), Fault> {
        let align = u64::from(align.max(1));
        self.need(self.at.div_ceil(align) * align)
    }

    /// Moves to `at`, if that much is there.
    fn need(&mut self, at: u64) -> Result<(), Fault> {
        if at > self.end {
            return Err(Fault::End(at));
        }
        self.at = at;
        Ok(())
    }

    fn bits(&mut self, bits: u8, big_endian: bool) -> Result<u64, Fault> {
        let start = self.at;
        self.need(start + u64::from(bits))?;
        let first = (start / 8) as usize;
        let skip = (start % 8) as u32;
        let bytes = &self.bytes[first..self.at.div_ceil(8) as usize];
        // Nine bytes at most: 64 bits that begin inside a byte.
        let value = if big_endian {
            let joined = bytes.iter().fold(0u128, |joined, &byte| joined << 8 | u128::from(byte));
            joined >> (bytes.len() as u32 * 8 - skip - u32::from(bits))
        } else {
            bytes.iter().rev().fold(0u128, |joined, &byte| joined << 8 | u128::from(byte)) >> skip
        };
        Ok(value as u64 & u64::MAX >> (64 - bits))
    }

    fn integer(&mut self, integer: &Integer) -> Result<u64, Fault> {
        self.align(integer.align)?;
        let value = self.bits(integer.bits, integer.big_endian)?;
        if integer.clock.is_some() {
            self.clock = advance(self.clock, value, integer.bits);
        }
        Ok(value)
    }

    fn text(&mut self, bytes: u64) -> Result<&'d [u8], Fault> {
        self.align(8)?;
        let start = self.at;
        let bits = bytes.checked_mul(8).and_then(|bits| start.checked_add(bits)).unwrap_or(u64::MAX);
        self.need(bits)?;
        Ok(&self.bytes[(start / 8) as usize..(self.at / 8) as usize])
    }
}

/// The clock after a stamp of its low bits: the next value that ends in them.
fn advance(clock: u64, low: u64, bits: u8) -> u64 {
    if bits == 64 {
        return low;
    }
    let mask = (1 << bits) - 1;
    let carry = if low < clock & mask { mask + 1 } else { 0 };
    (clock & !mask).wrapping_add(carry) | low
}

pub(crate) fn sign_extend(value: u64, bits: u8) -> i64 {
    let unused = 64 - u32::from(bits);
    (value << unused) as i64 >> unused
}

struct Walk<'c, 's, 'd> {
    cursor: &'c mut Cursor<'d>,
    /// Values of the fields that something refers to.
    slots: &'s mut [i128],
    empty: u32,
}

impl<'d> Walk<'_, '_, 'd> {
    fn structure<'t>(&mut self, structure: &'t Structure, visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<(), Fault> {
        self.cursor.align(structure.align)?;
        visit(Item::StructureBegin(structure));
        for member in &structure.members {
            visit(Item::Member(member));
            let value = self.value(&member.class, visit)?;
            if let Some(slot) = member.slot {
                self.slots[slot as usize] = value;
            }
        }
        visit(Item::StructureEnd);
        Ok(())
    }

    /// Decodes a value and gives it back where it is an integer.
    fn value<'t>(&mut self, class: &'t Type, visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<i128, Fault> {
        match class {
            Type::Integer(integer) => {
                let value = self.cursor.integer(integer)?;
                if integer.signed {
                    let value = sign_extend(value, integer.bits);
                    visit(Item::Signed(integer, value));
                    return Ok(value.into());
                }
                visit(Item::Unsigned(integer, value));
                return Ok(value.into());
            }
            Type::Enumeration(enumeration) => {
                let integer = &enumeration.integer;
                let value = self.cursor.integer(integer)?;
                let value = if integer.signed { sign_extend(value, integer.bits).into() } else { value.into() };
                visit(Item::Enumeration(enumeration, value));
                return Ok(value);
            }
            Type::Float(float) => {
                self.cursor.align(float.align)?;
                let bits = self.cursor.bits(float.bits, float.big_endian)?;
                let value = if float.bits == 32 { f32::from_bits(bits as u32).into() } else { f64::from_bits(bits) };
                visit(Item::Float(float, value));
            }
            Type::Text => {
                self.cursor.align(8)?;
                let rest = &self.cursor.bytes[(self.cursor.at / 8) as usize..(self.cursor.end / 8) as usize];
                let Some(length) = rest.iter().position(|&byte| byte == 0) else {
                    return Err(Fault::End(self.cursor.end + 8));
                };
                visit(Item::Text(self.cursor.text(length as u64)?));
                self.cursor.need(self.cursor.at + 8)?;
            }
            Type::Structure(structure) => self.structure(structure, visit)?,
            Type::Variant(variant) => {
                let tag = self.slots[variant.tag.slot as usize];
                let chosen = variant.choices.iter().find(|(low, high, _)| *low <= tag && tag <= *high);
                let Some(&(_, _, option)) = chosen else {
                    return Err(Fault::Invalid("the tag of a variant chooses none of its options"));
                };
                let option = &variant.options[option as usize];
                visit(Item::VariantBegin(option));
                self.value(&option.class, visit)?;
                visit(Item::VariantEnd);
            }
            Type::Array(array) => self.elements(&array.element, array.length, visit)?,
            Type::Sequence(sequence) => {
                let length = self.slots[sequence.length.slot as usize];
                self.elements(&sequence.element, length as u64, visit)?;
            }
        }
        Ok(0)
    }

    fn elements<'t>(&mut self, element: &'t Type, length: u64, visit: &mut impl FnMut(Item<'t, 'd>)) -> Result<(), Fault> {
        if element.is_character() {
            visit(Item::Text(self.cursor.text(length)?));
            return Ok(());
        }
        self.cursor.align(element.align())?;
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
