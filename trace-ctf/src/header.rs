//! How to read event headers quickly.
//!
//! A header is integers at fixed places, and at most one variant at its end that a tag among them chooses: such is every
//! header of LTTng and barectf. Others are read value by value.

use crate::declared::{Integer, Role, Root, Structure, Type};
use crate::decode::{Cursor, Fault, Item, advance};

/// How the headers of a stream class are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Header {
    /// There are none.
    #[default]
    Absent,
    Fixed(Fixed),
    /// Value by value.
    Any,
}

/// Integers at known distances, then perhaps a choice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fixed {
    align: u32,
    quick: Option<Quick>,
    first: Part,
    choice: Option<Choice>,
}

/// The first option of a choice, where the header with it lies in one word of little-endian bit fields, byte aligned: the
/// short form of LTTng's headers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quick {
    tag: Bits,
    low: u64,
    high: u64,
    id: Bits,
    clock: Bits,
    clock_bits: u8,
    end: u64,
}

/// A bit field of a word.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bits {
    shift: u32,
    mask: u64,
}

/// The integer that chooses, and what it chooses.
#[derive(Clone, Debug, PartialEq)]
struct Choice {
    tag: Load,
    branches: Box<[Branch]>,
}

#[derive(Clone, Debug, PartialEq)]
struct Branch {
    low: u64,
    high: u64,
    part: Part,
}

/// Integers, and where they end, in bits from the beginning of the header.
#[derive(Clone, Debug, Default, PartialEq)]
struct Part {
    id: Option<Load>,
    clock: Option<Load>,
    end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    at: u64,
    bits: u8,
    big_endian: bool,
}

impl Header {
    pub(crate) fn new(root: Option<&Root>) -> Self {
        match root {
            None => Self::Absent,
            Some(root) => Fixed::new(&root.structure).map_or(Self::Any, Self::Fixed),
        }
    }

    /// Reads the header at a place, which advances the clock, and gives the event ID.
    #[inline(always)]
    pub(crate) fn read(&self, root: Option<&Root>, cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
        match (self, root) {
            (Self::Fixed(fixed), _) => fixed.read(cursor),
            (Self::Any, Some(root)) => any(root, cursor),
            _ => Ok(0),
        }
    }
}

#[cold]
fn any(root: &Root, cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
    let mut id = 0;
    cursor.root(root, &|_| None, &mut |item| match item {
        Item::Unsigned(integer, value) if integer.role == Some(Role::EventClassId) => id = value,
        Item::Signed(integer, value) if integer.role == Some(Role::EventClassId) => id = value as u64,
        Item::Enumeration(class, value) if class.integer.role == Some(Role::EventClassId) => id = value as u64,
        _ => {}
    })?;
    Ok(id)
}

impl Fixed {
    fn new(structure: &Structure) -> Option<Self> {
        // Distances are known if nothing in the header is aligned more than its beginning.
        let (last, before) = match structure.members.split_last() {
            Some((last, before)) if matches!(last.class, Type::Variant(_)) => (Some(last), before),
            _ => (None, &structure.members[..]),
        };
        let mut first = Part::default();
        let mut tag = None;
        for member in before {
            let load = first.integer(member.class.integer()?, structure.align)?;
            if member.slot.is_some() {
                tag = Some((member.slot?, load));
            }
        }
        let Some(Type::Variant(variant)) = last.map(|last| &last.class) else {
            return Some(Self { align: structure.align, quick: None, first, choice: None });
        };
        let (_, tag) = tag.filter(|(slot, _)| *slot == variant.tag.slot)?;
        let mut branches = Vec::new();
        for &(low, high, option) in &variant.choices {
            let mut part = Part { end: first.end, ..Part::default() };
            part.add(&variant.options[option as usize].class, structure.align)?;
            branches.push(Branch { low: low.try_into().ok()?, high: high.try_into().ok()?, part });
        }
        let quick = branches.first().filter(|_| structure.align >= 8).and_then(|branch| Quick::new(tag, &first, branch));
        Some(Self { align: structure.align, quick, first, choice: Some(Choice { tag, branches: branches.into() }) })
    }

    #[inline(always)]
    fn read(&self, cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
        cursor.align(self.align)?;
        if let Some(quick) = &self.quick {
            if let Some(id) = quick.read(cursor) {
                return Ok(id);
            }
        }
        let start = cursor.at;
        let mut id = 0;
        self.first.read(start, cursor, &mut id)?;
        if let Some(Choice { tag, branches }) = &self.choice {
            let tag = tag.read(start, cursor);
            let Some(branch) = branches.iter().find(|branch| branch.low <= tag && tag <= branch.high) else {
                return Err(Fault::Invalid("the tag of an event header chooses none of its options"));
            };
            branch.part.read(start, cursor, &mut id)?;
        }
        Ok(id)
    }
}

impl Quick {
    fn new(tag: Load, first: &Part, branch: &Branch) -> Option<Self> {
        let bits = |load: Load| {
            let shift = u32::try_from(load.at).ok()?;
            let is_inside = load.at + u64::from(load.bits) <= 64 && !load.big_endian;
            is_inside.then_some(Bits { shift, mask: u64::MAX >> (64 - load.bits) })
        };
        let clock = branch.part.clock?;
        Some(Self {
            tag: bits(tag)?,
            low: branch.low,
            high: branch.high,
            id: bits(branch.part.id.or(first.id)?)?,
            clock: bits(clock).filter(|_| first.clock.is_none() && clock.bits < 64)?,
            clock_bits: clock.bits,
            end: branch.part.end,
        })
    }

    /// Reads the header, if it is one of these; nothing has changed if not.
    #[inline(always)]
    fn read(&self, cursor: &mut Cursor<'_>) -> Option<u64> {
        let word = cursor.word()?;
        let field = |bits: Bits| word >> bits.shift & bits.mask;
        let tag = field(self.tag);
        if tag < self.low || tag > self.high || cursor.need(cursor.at + self.end).is_err() {
            return None;
        }
        cursor.clock = advance(cursor.clock, field(self.clock), self.clock_bits);
        Some(field(self.id))
    }
}

impl Part {
    /// Adds an integer, or the integers of a structure.
    fn add(&mut self, class: &Type, limit: u32) -> Option<()> {
        match class {
            Type::Structure(structure) => {
                self.align(structure.align, limit)?;
                structure.members.iter().try_for_each(|member| self.add(&member.class, limit))
            }
            class => self.integer(class.integer()?, limit).map(drop),
        }
    }

    fn integer(&mut self, integer: &Integer, limit: u32) -> Option<Load> {
        if integer.variable || integer.reversed || integer.signed {
            return None;
        }
        self.align(integer.align, limit)?;
        let load = Load { at: self.end, bits: integer.bits, big_endian: integer.big_endian };
        // Two of a kind are rare enough to be read one by one.
        let is_taken = |known: &mut Option<Load>| known.replace(load).is_some();
        if integer.role == Some(Role::EventClassId) && is_taken(&mut self.id)
            || integer.clock.is_some() && is_taken(&mut self.clock)
        {
            return None;
        }
        self.end += u64::from(integer.bits);
        Some(load)
    }

    fn align(&mut self, align: u32, limit: u32) -> Option<()> {
        self.end = self.end.next_multiple_of(u64::from(align.max(1)));
        (align <= limit.max(1)).then_some(())
    }

    #[inline(always)]
    fn read(&self, start: u64, cursor: &mut Cursor<'_>, id: &mut u64) -> Result<(), Fault> {
        cursor.need(start + self.end)?;
        if let Some(load) = &self.id {
            *id = load.read(start, cursor);
        }
        if let Some(load) = &self.clock {
            cursor.clock = advance(cursor.clock, load.read(start, cursor), load.bits);
        }
        Ok(())
    }
}

impl Load {
    #[inline(always)]
    fn read(&self, start: u64, cursor: &Cursor<'_>) -> u64 {
        cursor.peek(start + self.at, self.bits, self.big_endian)
    }
}
