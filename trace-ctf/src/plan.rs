//! How to get past a structure, or to one of its members, without looking at each value.
//!
//! Neighbouring members whose size no value changes are one run: one alignment, one check of the end, and every member at a
//! known distance. What remains are texts, sequences, and what is chosen by a tag.

use crate::declared::{Encoding, Integer, Member, Structure, Text, Type};
use crate::decode::{Fault, Item, Walk, advance, sign_extend};

/// The steps through a structure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    steps: Box<[Step]>,
    /// Where each member lies.
    places: Box<[Place]>,
    /// Bits of all of it, where there is nothing else to it.
    fixed: Option<u64>,
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
    Run(Run),
    /// The member of this index: a text up to its zero.
    Text(u32, Encoding),
    /// The member of this index: as many elements of one size as a slot says.
    Elements { member: u32, slot: u32, align: u32, bits: u64 },
    /// The member of this index, value by value.
    Value(u32),
}

/// Members of known size.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    align: u32,
    bits: u64,
    keep: Box<[Keep]>,
    leaves: Box<[Leaf]>,
}

/// A member of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Leaf {
    /// Distance from the beginning of the run, in bits.
    at: u64,
    member: u32,
    form: Form,
    word: Option<Word>,
}

/// A little-endian integer that begins with a byte of its run: a word is loaded there, and its upper bits are shifted out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Word {
    /// Distance from the beginning of the run, in bytes.
    offset: u32,
    unused: u8,
    signed: bool,
    slot: Option<u32>,
}

impl Word {
    fn new(member: &Member, at: u64) -> Option<Self> {
        match member.class {
            Type::Integer(Integer { bits, big_endian: false, signed, reversed: false, variable: false, clock: None, .. })
                if at % 8 == 0 =>
            {
                Some(Self { offset: u32::try_from(at / 8).ok()?, unused: 64 - bits, signed, slot: member.slot })
            }
            _ => None,
        }
    }

    /// Its value, as a two's complement where it is signed.
    #[inline(always)]
    fn read(&self, window: &[u8]) -> Option<u64> {
        let word = window.get(self.offset as usize..)?.first_chunk()?;
        let raised = u64::from_le_bytes(*word) << self.unused;
        Some(if self.signed { (raised as i64 >> self.unused) as u64 } else { raised >> self.unused })
    }
}

/// What a member of a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// An integer that only has a value, which nothing refers to.
    Plain {
        bits: u8,
        big_endian: bool,
        signed: bool,
    },
    Other,
}

impl Form {
    fn new(member: &Member) -> Self {
        match member.class {
            Type::Integer(Integer { bits, big_endian, signed, reversed: false, clock: None, .. }) if member.slot.is_none() => {
                Self::Plain { bits, big_endian, signed }
            }
            _ => Self::Other,
        }
    }
}

/// A run on its way.
struct Draft {
    align: u32,
    bits: u64,
    keep: Vec<Keep>,
    leaves: Vec<Leaf>,
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
        let mut draft: Option<Draft> = None;
        let end_run = |draft: &mut Option<Draft>, steps: &mut Vec<Step>| {
            steps.extend(draft.take().map(|draft| {
                let Draft { align, bits, keep, leaves } = draft;
                Step::Run(Run { align, bits, keep: keep.into(), leaves: leaves.into() })
            }));
        };
        for (index, member) in structure.members.iter().enumerate() {
            let index = index as u32;
            let align = member.class.align();
            let integer = member.class.integer();
            let usual = integer.is_none_or(|integer| !integer.variable && !integer.reversed);
            let is_kept = member.slot.is_some() || integer.is_some_and(|integer| integer.clock.is_some());
            let Some(bits) = fixed(&member.class).filter(|_| usual || !is_kept) else {
                end_run(&mut draft, &mut steps);
                places.push(Place { step: steps.len() as u32, at: 0 });
                let step = step(&member.class, member.slot, index);
                // Behind a text or bytes, whole bytes have passed.
                known = match step {
                    Step::Text(..) => 8,
                    Step::Elements { align: 8.., bits, .. } if bits % 8 == 0 => 8,
                    _ => 1,
                };
                steps.push(step);
                continue;
            };
            if align > known {
                end_run(&mut draft, &mut steps);
                known = align;
                draft = Some(Draft { align, bits: 0, keep: Vec::new(), leaves: Vec::new() });
            }
            let run = draft.get_or_insert(Draft { align: 1, bits: 0, keep: Vec::new(), leaves: Vec::new() });
            // A position that overflows is beyond every packet.
            let at = run.bits.saturating_add(u64::from(align) - 1) & !(u64::from(align) - 1);
            places.push(Place { step: steps.len() as u32, at });
            run.leaves.push(Leaf { at, member: index, form: Form::new(member), word: Word::new(member, at) });
            if let Some(integer) = integer.filter(|_| is_kept) {
                run.keep.push(Keep::new(integer, at, member.slot));
            }
            run.bits = at.saturating_add(bits);
        }
        end_run(&mut draft, &mut steps);
        let fixed = match &steps[..] {
            [] => Some(0),
            [Step::Run(Run { align: 1, bits, keep, .. })] if keep.is_empty() => Some(*bits),
            _ => None,
        };
        Self { steps: steps.into(), places: places.into(), fixed }
    }

    /// Bits of the whole structure behind its alignment, where no value changes them and none is to be kept.
    #[inline(always)]
    pub(crate) fn fixed(&self) -> Option<u64> {
        self.fixed
    }

    /// Passes everything before a member, or all of the structure where there is no such member.
    pub(crate) fn skip(&self, structure: &Structure, walk: &mut Walk<'_, '_, '_>, member: usize) -> Result<(), Fault> {
        walk.cursor.align(structure.align)?;
        let place = self.places.get(member);
        let steps = place.map_or(&self.steps[..], |place| &self.steps[..place.step as usize]);
        for step in steps {
            match step {
                Step::Run(run) => {
                    let start = run.begin(walk)?;
                    for keep in &run.keep {
                        keep.apply(start, walk);
                    }
                }
                Step::Text(_, encoding) => {
                    walk.cursor.text(*encoding)?;
                }
                Step::Elements { slot, align, bits, .. } => {
                    walk.cursor.align(*align)?;
                    // Lengths are unsigned: references to others are refused.
                    let length = walk.slots[*slot as usize];
                    let end = length.checked_mul(*bits).and_then(|bits| bits.checked_add(walk.cursor.at));
                    walk.cursor.need(end.unwrap_or(u64::MAX))?;
                }
                Step::Value(index) => walk.member(&structure.members[*index as usize], &mut |_| {})?,
            }
        }
        let Some(place) = place else { return Ok(()) };
        if let Some(Step::Run(run)) = self.steps.get(place.step as usize) {
            walk.cursor.align(run.align)?;
            let start = walk.cursor.at;
            walk.cursor.need(start.saturating_add(place.at))?;
            // A length may stand in the run of what it counts.
            run.keep.iter().filter(|keep| keep.at < place.at).for_each(|keep| keep.apply(start, walk));
        }
        Ok(())
    }

    /// Decodes all members.
    #[inline(always)]
    pub(crate) fn visit<'t, 'd>(
        &self,
        structure: &'t Structure,
        walk: &mut Walk<'_, '_, 'd>,
        visit: &mut impl FnMut(Item<'t, 'd>),
    ) -> Result<(), Fault> {
        walk.cursor.align(structure.align)?;
        visit(Item::StructureBegin(structure));
        for step in &self.steps {
            match step {
                Step::Run(run) => {
                    let start = run.begin(walk)?;
                    let window = if start % 8 == 0 { walk.cursor.bytes_from(start) } else { &[] };
                    for leaf in &run.leaves {
                        let member = &structure.members[leaf.member as usize];
                        let value = leaf.word.and_then(|word| Some((word, word.read(window)?)));
                        if let (Some((word, value)), Type::Integer(integer)) = (value, &member.class) {
                            visit(Item::Member(member));
                            visit(match word.signed {
                                true => Item::Signed(integer, value as i64),
                                false => Item::Unsigned(integer, value),
                            });
                            if let Some(slot) = word.slot {
                                walk.slots[slot as usize] = value;
                            }
                            continue;
                        }
                        walk.placed(member, start + leaf.at, leaf.form, visit)?;
                    }
                    walk.cursor.at = start + run.bits;
                }
                Step::Text(index, _) | Step::Elements { member: index, .. } | Step::Value(index) => {
                    walk.member(&structure.members[*index as usize], visit)?;
                }
            }
        }
        visit(Item::StructureEnd);
        Ok(())
    }
}

impl Run {
    /// Makes sure that all of it is there, and gives its beginning.
    #[inline(always)]
    fn begin(&self, walk: &mut Walk<'_, '_, '_>) -> Result<u64, Fault> {
        if self.align > 1 {
            walk.cursor.align(self.align)?;
        }
        let start = walk.cursor.at;
        walk.cursor.need(start.saturating_add(self.bits))?;
        Ok(start)
    }
}

impl Keep {
    fn new(integer: &Integer, at: u64, slot: Option<u32>) -> Self {
        let Integer { bits, big_endian, signed, .. } = *integer;
        Self { at, bits, big_endian, signed, slot, is_clock: integer.clock.is_some() }
    }

    #[inline(always)]
    fn apply(&self, start: u64, walk: &mut Walk<'_, '_, '_>) {
        let value = walk.cursor.peek(start + self.at, self.bits, self.big_endian);
        if self.is_clock {
            walk.cursor.clock = advance(walk.cursor.clock, value, self.bits);
        }
        if let Some(slot) = self.slot {
            walk.slots[slot as usize] = if self.signed { sign_extend(value, self.bits) as u64 } else { value };
        }
    }
}

fn step(class: &Type, slot: Option<u32>, member: u32) -> Step {
    match class {
        Type::Text(Text { encoding }) => Step::Text(member, *encoding),
        Type::Sequence(sequence) if slot.is_none() => match (fixed(&sequence.element), sequence.element.align()) {
            (Some(bits), align) if bits > 0 && bits % u64::from(align) == 0 => {
                Step::Elements { member, slot: sequence.length.slot, align: align.max(sequence.align), bits }
            }
            _ => Step::Value(member),
        },
        _ => Step::Value(member),
    }
}

/// Bits that a value takes behind its alignment, where they are always the same; not for what is kept while it is passed.
fn fixed(class: &Type) -> Option<u64> {
    match class {
        Type::Integer(_) | Type::Enumeration(_) | Type::Boolean(_) | Type::Flags(_) => {
            class.integer().filter(|integer| !integer.variable).map(|integer| integer.bits.into())
        }
        Type::Long(integer) => Some(integer.bits.into()).filter(|_| !integer.variable),
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
