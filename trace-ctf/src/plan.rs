//! How to get past a structure, or to one of its members, without looking at each value.
//!
//! Neighbouring members whose size no value changes are one run: one alignment, one check of the end, and every member at a
//! known distance. What remains are texts, sequences, and what is chosen by a tag.

use crate::declared::{Encoding, Integer, Structure, Text, Type};
use crate::decode::{Fault, Walk, advance, sign_extend};

/// The steps through a structure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    steps: Box<[Step]>,
    /// Where each member lies.
    places: Box<[Place]>,
}

/// Where a member lies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Place {
    /// Steps before it.
    step: u32,
    /// Distance from the beginning of the run, in bits; nothing where the member is a step of its own.
    at: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Members of known size.
    Run { align: u32, bits: u64, keep: Box<[Keep]> },
    /// A text up to its zero.
    Text(Encoding),
    /// As many elements of one size as a slot says.
    Elements { slot: u32, align: u32, bits: u64 },
    /// The member of this index, value by value.
    Value(u32),
}

/// A value to be kept while a run is passed.
#[derive(Clone, Debug, PartialEq)]
struct Keep {
    at: u64,
    bits: u8,
    big_endian: bool,
    signed: bool,
    slot: Option<u32>,
    is_clock: bool,
}

impl Plan {
    pub(crate) fn new(structure: &Structure) -> Self {
        let mut steps = Vec::new();
        let mut places = Vec::new();
        // What is known of the position: a multiple of so many bits, and so many more.
        let mut known = structure.align.max(1);
        let mut run: Option<(u32, u64, Vec<Keep>)> = None;
        for (index, member) in structure.members.iter().enumerate() {
            let align = member.class.align();
            let integer = member.class.integer();
            let usual = integer.is_none_or(|integer| !integer.variable && !integer.reversed);
            let size =
                fixed(&member.class).filter(|_| usual || member.slot.is_none() && integer.is_some_and(|i| i.clock.is_none()));
            let Some(bits) = size else {
                steps.extend(run.take().map(|(align, bits, keep)| Step::Run { align, bits, keep: keep.into() }));
                places.push(Place { step: steps.len() as u32, at: 0 });
                let step = step(&member.class, member.slot, index);
                // Behind a text or bytes, whole bytes have passed.
                known = match step {
                    Step::Text(_) => 8,
                    Step::Elements { align: 8.., bits, .. } if bits % 8 == 0 => 8,
                    _ => 1,
                };
                steps.push(step);
                continue;
            };
            if align > known {
                steps.extend(run.take().map(|(align, bits, keep)| Step::Run { align, bits, keep: keep.into() }));
                known = align;
                run = Some((align, 0, Vec::new()));
            }
            let (_, end, keep) = run.get_or_insert((1, 0, Vec::new()));
            // A position that overflows is beyond every packet.
            let at = end.saturating_add(u64::from(align) - 1) & !(u64::from(align) - 1);
            places.push(Place { step: steps.len() as u32, at });
            if let Some(integer) = integer.filter(|integer| member.slot.is_some() || integer.clock.is_some()) {
                keep.push(Keep::new(integer, at, member.slot));
            }
            *end = at.saturating_add(bits);
        }
        steps.extend(run.map(|(align, bits, keep)| Step::Run { align, bits, keep: keep.into() }));
        Self { steps: steps.into(), places: places.into() }
    }

    /// Passes everything before a member, or all of the structure where there is no such member.
    #[inline]
    pub(crate) fn skip(&self, structure: &Structure, walk: &mut Walk<'_, '_, '_>, member: usize) -> Result<(), Fault> {
        walk.cursor.align(structure.align)?;
        let place = self.places.get(member);
        let steps = place.map_or(&self.steps[..], |place| &self.steps[..place.step as usize]);
        for step in steps {
            match step {
                Step::Run { align, bits, keep } => {
                    walk.cursor.align(*align)?;
                    let start = walk.cursor.at;
                    walk.cursor.need(start.saturating_add(*bits))?;
                    for keep in keep {
                        keep.apply(start, walk);
                    }
                }
                Step::Text(encoding) => {
                    walk.cursor.text(*encoding)?;
                }
                Step::Elements { slot, align, bits } => {
                    walk.cursor.align(*align)?;
                    let length = u64::try_from(walk.slots[*slot as usize]).map_err(|_| Fault::Invalid("a negative length"))?;
                    let end = length.checked_mul(*bits).and_then(|bits| bits.checked_add(walk.cursor.at));
                    walk.cursor.need(end.unwrap_or(u64::MAX))?;
                }
                Step::Value(index) => {
                    let member = &structure.members[*index as usize];
                    let value = walk.value(&member.class, &mut |_| {})?;
                    if let Some(slot) = member.slot {
                        walk.slots[slot as usize] = value;
                    }
                }
            }
        }
        let Some(place) = place else { return Ok(()) };
        if let Some(Step::Run { align, keep, .. }) = self.steps.get(place.step as usize) {
            walk.cursor.align(*align)?;
            let start = walk.cursor.at;
            walk.cursor.need(start.saturating_add(place.at))?;
            // A length may stand in the run of what it counts.
            keep.iter().filter(|keep| keep.at < place.at).for_each(|keep| keep.apply(start, walk));
        }
        Ok(())
    }
}

impl Keep {
    fn new(integer: &Integer, at: u64, slot: Option<u32>) -> Self {
        let Integer { bits, big_endian, signed, .. } = *integer;
        Self { at, bits, big_endian, signed, slot, is_clock: integer.clock.is_some() }
    }

    #[inline]
    fn apply(&self, start: u64, walk: &mut Walk<'_, '_, '_>) {
        let value = walk.cursor.peek(start + self.at, self.bits, self.big_endian);
        if self.is_clock {
            walk.cursor.clock = advance(walk.cursor.clock, value, self.bits);
        }
        if let Some(slot) = self.slot {
            walk.slots[slot as usize] = if self.signed { sign_extend(value, self.bits).into() } else { value.into() };
        }
    }
}

fn step(class: &Type, slot: Option<u32>, index: usize) -> Step {
    match class {
        Type::Text(Text { encoding }) => Step::Text(*encoding),
        Type::Sequence(sequence) if slot.is_none() => match (fixed(&sequence.element), sequence.element.align()) {
            (Some(bits), align) if bits > 0 && bits % u64::from(align) == 0 => {
                Step::Elements { slot: sequence.length.slot, align: align.max(sequence.align), bits }
            }
            _ => Step::Value(index as u32),
        },
        _ => Step::Value(index as u32),
    }
}

/// Bits that a value takes behind its alignment, where they are always the same; not for what is kept while it is passed.
fn fixed(class: &Type) -> Option<u64> {
    match class {
        Type::Integer(_) | Type::Enumeration(_) | Type::Boolean(_) | Type::Flags(_) => {
            class.integer().filter(|integer| !integer.variable).map(|integer| integer.bits.into())
        }
        Type::Float(float) => Some(float.bits.into()),
        Type::Blob(blob) => match blob.length {
            crate::declared::Length::Fixed(length) => length.checked_mul(8),
            crate::declared::Length::Field(_) => None,
        },
        Type::Array(array) if is_plain(&array.element) => {
            let bits = fixed(&array.element)?;
            let is_dense = bits > 0 && bits % u64::from(array.element.align()) == 0;
            if is_dense { bits.checked_mul(array.length) } else { None }
        }
        Type::Structure(structure) => structure.members.iter().try_fold(0u64, |end, member| {
            let align = u64::from(member.class.align());
            let start = end.checked_add(align - 1)? & !(align - 1);
            if member.slot.is_some() || !is_plain(&member.class) { None } else { start.checked_add(fixed(&member.class)?) }
        }),
        _ => None,
    }
}

/// Whether a value is not a time stamp.
fn is_plain(class: &Type) -> bool {
    class.integer().is_none_or(|integer| integer.clock.is_none())
}
