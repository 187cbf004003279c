//! Connects lengths and tags to the fields they name.

use std::sync::Arc;

use crate::declared::{Label, Reference, Root, Structure, Type, Variant};
use crate::{Error, Result};

/// An integer field that later fields may name.
struct Candidate {
    name: Box<str>,
    slot: u32,
    signed: bool,
    labels: Option<Arc<[Label]>>,
}

/// Resolves all references inside a structure; `line` is where it ends, for errors.
pub(super) fn root(mut structure: Structure, line: u32) -> Result<Root> {
    let mut resolver = Resolver { scope: Vec::new(), next: 0, used: Vec::new(), line };
    resolver.structure(&mut structure)?;
    let mut dense = vec![None; resolver.next as usize];
    let mut slots = 0;
    for slot in resolver.used {
        if dense[slot as usize].is_none() {
            dense[slot as usize] = Some(slots);
            slots += 1;
        }
    }
    renumber(&mut structure, &dense);
    Ok(Root { structure, slots: slots as usize })
}

struct Resolver {
    scope: Vec<Candidate>,
    next: u32,
    used: Vec<u32>,
    line: u32,
}

impl Resolver {
    fn structure(&mut self, structure: &mut Structure) -> Result<()> {
        let outer = self.scope.len();
        for member in &mut structure.members {
            self.class(&mut member.class)?;
            let (integer, labels) = match &member.class {
                Type::Integer(integer) => (integer, None),
                Type::Enumeration(enumeration) => (&enumeration.integer, Some(enumeration.labels.clone())),
                _ => continue,
            };
            let (name, signed) = (member.declared_name.clone(), integer.signed);
            member.slot = Some(self.next);
            self.scope.push(Candidate { name, slot: self.next, signed, labels });
            self.next += 1;
        }
        self.scope.truncate(outer);
        for place in 1..structure.members.len() {
            let companion = match &structure.members[place].class {
                Type::Sequence(sequence) => &sequence.length,
                Type::Variant(variant) => &variant.tag,
                _ => continue,
            };
            structure.members[place - 1].companion = structure.members[place - 1].declared_name == companion.name;
        }
        Ok(())
    }

    fn class(&mut self, class: &mut Type) -> Result<()> {
        match class {
            Type::Structure(structure) => self.structure(structure),
            Type::Array(array) => self.class(&mut array.element),
            Type::Sequence(sequence) => {
                let length = self.find(&sequence.length)?;
                if length.signed {
                    return Err(Error::metadata(self.line, format!("length {} is signed", length.name)));
                }
                sequence.length.slot = length.slot;
                self.used.push(sequence.length.slot);
                self.class(&mut sequence.element)
            }
            Type::Variant(variant) => {
                let tag = self.find(&variant.tag)?;
                let Some(labels) = tag.labels.clone() else {
                    return Err(Error::metadata(self.line, format!("tag {} is no enumeration", tag.name)));
                };
                variant.tag.slot = tag.slot;
                variant.choices = choices(variant, &labels);
                self.used.push(variant.tag.slot);
                variant.options.iter_mut().try_for_each(|option| self.class(&mut option.class))
            }
            _ => Ok(()),
        }
    }

    fn find(&self, reference: &Reference) -> Result<&Candidate> {
        let found = self.scope.iter().rev().find(|candidate| candidate.name == reference.name);
        found.ok_or_else(|| {
            let name = &reference.name;
            if name.contains('.') {
                Error::unsupported(self.line, format!("the absolute or dotted reference {name}"))
            } else {
                Error::metadata(self.line, format!("no field {name} before its use as length or tag"))
            }
        })
    }
}

fn choices(variant: &Variant, labels: &[Label]) -> Vec<(i128, i128, u32)> {
    let chosen = labels.iter().filter_map(|label| {
        let option =
            variant.options.iter().position(|option| *option.declared_name == *label.label || option.name() == label.label)?;
        Some((label.low, label.high, option as u32))
    });
    chosen.collect()
}

fn renumber(structure: &mut Structure, dense: &[Option<u32>]) {
    for member in &mut structure.members {
        member.slot = member.slot.and_then(|slot| dense[slot as usize]);
        renumber_class(&mut member.class, dense);
    }
}

fn renumber_class(class: &mut Type, dense: &[Option<u32>]) {
    let new = |slot: u32| dense[slot as usize].unwrap_or_default();
    match class {
        Type::Structure(structure) => renumber(structure, dense),
        Type::Array(array) => renumber_class(&mut array.element, dense),
        Type::Sequence(sequence) => {
            sequence.length.slot = new(sequence.length.slot);
            renumber_class(&mut sequence.element, dense);
        }
        Type::Variant(variant) => {
            variant.tag.slot = new(variant.tag.slot);
            for option in &mut variant.options {
                renumber_class(&mut option.class, dense);
            }
        }
        _ => {}
    }
}
