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
    first: Part,
    /// The integer that chooses, and what it chooses.
    choice: Option<(Load, Box<[Branch]>)>,
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
    loads: Vec<Load>,
    end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    at: u64,
    bits: u8,
    big_endian: bool,
    is_id: bool,
    is_clock: bool,
}

impl Header {
    pub(crate) fn new(root: Option<&Root>) -> Self {
        match root {
            None => Self::Absent,
            Some(root) => Fixed::new(&root.structure).map_or(Self::Any, Self::Fixed),
        }
    }

    /// Reads the header at a place, which advances the clock, and gives the event ID.
    #[inline]
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
            return Some(Self { align: structure.align, first, choice: None });
        };
        let (_, tag) = tag.filter(|(slot, _)| *slot == variant.tag.slot)?;
        let mut branches = Vec::new();
        for &(low, high, option) in &variant.choices {
            let mut part = Part { loads: Vec::new(), end: first.end };
            part.add(&variant.options[option as usize].class, structure.align)?;
            branches.push(Branch { low: low.try_into().ok()?, high: high.try_into().ok()?, part });
        }
        Some(Self { align: structure.align, first, choice: Some((tag, branches.into())) })
    }

    #[inline]
    fn read(&self, cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
        cursor.align(self.align)?;
        let start = cursor.at;
        let mut id = 0;
        self.first.read(start, cursor, &mut id)?;
        if let Some((tag, branches)) = &self.choice {
            let tag = cursor.peek(start + tag.at, tag.bits, tag.big_endian);
            let Some(branch) = branches.iter().find(|branch| branch.low <= tag && tag <= branch.high) else {
                return Err(Fault::Invalid("the tag of an event header chooses none of its options"));
            };
            branch.part.read(start, cursor, &mut id)?;
        }
        Ok(id)
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
        let is_id = integer.role == Some(Role::EventClassId);
        let is_clock = integer.clock.is_some();
        let load = Load { at: self.end, bits: integer.bits, big_endian: integer.big_endian, is_id, is_clock };
        if is_id || is_clock {
            self.loads.push(load);
        }
        self.end += u64::from(integer.bits);
        Some(load)
    }

    fn align(&mut self, align: u32, limit: u32) -> Option<()> {
        self.end = self.end.next_multiple_of(u64::from(align.max(1)));
        (align <= limit.max(1)).then_some(())
    }

    #[inline]
    fn read(&self, start: u64, cursor: &mut Cursor<'_>, id: &mut u64) -> Result<(), Fault> {
        cursor.need(start + self.end)?;
        for load in &self.loads {
            let value = cursor.peek(start + load.at, load.bits, load.big_endian);
            if load.is_id {
                *id = value;
            }
            if load.is_clock {
                cursor.clock = advance(cursor.clock, value, load.bits);
            }
        }
        Ok(())
    }
}
