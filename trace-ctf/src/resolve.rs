//! Connects lengths and tags to the fields they name, and tells what fields mean to a reader.
//!
//! Both forms of metadata use it: CTF 2 says outright what CTF 1.8 leaves to names and places.

use std::sync::Arc;

use crate::declared::{Blob, Import, Integer, LONG_BITS, Label, Length, Member, Reference, Role, Root, Structure, Type, Variant};
use crate::reader::{Scope, parts, path};

/// Roles of CTF 1.8: what the names of members mean.
pub(crate) const PACKET_HEADER: &[(&str, Role)] = &[
    ("magic", Role::Magic),
    ("uuid", Role::TraceUuid),
    ("stream_id", Role::StreamClassId),
    ("stream_instance_id", Role::StreamInstanceId),
];
pub(crate) const PACKET_CONTEXT: &[(&str, Role)] = &[
    ("timestamp_begin", Role::PacketBegin),
    ("timestamp_end", Role::PacketEnd),
    ("content_size", Role::ContentBits),
    ("packet_size", Role::PacketBits),
    ("packet_seq_num", Role::Sequence),
    ("events_discarded", Role::EventsDiscarded),
    ("cpu_id", Role::CpuId),
];
pub(crate) const EVENT_HEADER: &[(&str, Role)] = &[("id", Role::EventClassId), ("timestamp", Role::Timestamp)];

/// Structures that precede one, from the first to the last.
pub(crate) type Earlier<'e> = &'e [(Scope, Option<&'e Root>)];

/// A field that later fields may name.
struct Candidate {
    name: Box<str>,
    kind: Found,
}

enum Found {
    Integer(Target),
    Structure(Vec<Candidate>),
}

/// An integer that is a length or a tag.
#[derive(Clone)]
struct Target {
    slot: u32,
    signed: bool,
    labels: Option<Arc<[Label]>>,
}

/// Resolves all references inside a structure; an error is a sentence.
pub(crate) fn root(mut structure: Structure, scope: Scope, earlier: Earlier<'_>) -> Result<Root, String> {
    let mut resolver = Resolver { own: scope, earlier, open: Vec::new(), next: 0, used: Vec::new(), imports: Vec::new() };
    let _ = resolver.structure(&mut structure)?;
    let mut dense = vec![None; resolver.next as usize];
    let mut slots = 0;
    for slot in resolver.used {
        if dense[slot as usize].is_none() {
            dense[slot as usize] = Some(slots);
            slots += 1;
        }
    }
    renumber(&mut structure, &dense);
    let mut imports = resolver.imports;
    imports.retain_mut(|import| match dense[import.slot as usize] {
        Some(slot) => {
            import.slot = slot;
            true
        }
        None => false,
    });
    Ok(Root::new(structure, slots as usize, imports))
}

/// Gives members their roles by their names: those of the structure itself, or those of structures inside it as well. An error
/// says what is too long for its role.
pub(crate) fn assign(structure: &mut Structure, roles: &[(&str, Role)], is_deep: bool) -> Result<(), String> {
    for member in &mut structure.members {
        give(&member.declared_name, &mut member.class, roles, is_deep)?;
    }
    Ok(())
}

fn give(name: &str, class: &mut Type, roles: &[(&str, Role)], is_deep: bool) -> Result<(), String> {
    let role = roles.iter().find(|(known, _)| *known == name).map(|(_, role)| *role);
    match class {
        Type::Long(integer) if role.is_some() => return Err(format!("{name} of {} bits", integer.bits)),
        Type::Array(array) => give(name, &mut array.element, roles, is_deep)?,
        Type::Structure(inner) if is_deep => assign(inner, roles, true)?,
        Type::Variant(variant) if is_deep => {
            for option in &mut variant.options {
                give(&option.declared_name, &mut option.class, roles, true)?;
            }
        }
        class => {
            if let Some(integer) = class.integer_mut() {
                integer.role = role;
            }
        }
    }
    Ok(())
}

/// Maps the time stamps that name no clock to one, and tells whether there are any.
pub(crate) fn map_clock(structure: &mut Structure, clock: &str) -> bool {
    map_members(&mut structure.members, clock)
}

fn map_members(members: &mut [Member], clock: &str) -> bool {
    members.iter_mut().fold(false, |found, member| map_class(&mut member.class, clock) | found)
}

fn map_class(class: &mut Type, clock: &str) -> bool {
    if let Some(integer) = class.integer_mut() {
        let is_stamp = matches!(integer.role, Some(Role::Timestamp | Role::PacketBegin | Role::PacketEnd));
        if !is_stamp || integer.clock.is_some() {
            return false;
        }
        integer.clock = Some(clock.into());
        return true;
    }
    match class {
        Type::Structure(inner) => map_clock(inner, clock),
        Type::Variant(variant) => map_members(&mut variant.options, clock),
        _ => false,
    }
}

struct Resolver<'e> {
    own: Scope,
    earlier: Earlier<'e>,
    /// What precedes in each open structure, from the outside to the inside.
    open: Vec<Vec<Candidate>>,
    next: u32,
    used: Vec<u32>,
    imports: Vec<Import>,
}

impl Resolver<'_> {
    fn structure(&mut self, structure: &mut Structure) -> Result<Vec<Candidate>, String> {
        self.open.push(Vec::new());
        for member in &mut structure.members {
            let inner = self.class(&mut member.class)?;
            let kind = match (inner, member.class.integer()) {
                (Some(candidates), _) => Found::Structure(candidates),
                (None, Some(integer)) => {
                    let labels = match &member.class {
                        Type::Enumeration(enumeration) => Some(enumeration.labels.clone()),
                        _ => None,
                    };
                    let target = Target { slot: self.next, signed: integer.signed, labels };
                    member.slot = Some(self.next);
                    self.next += 1;
                    Found::Integer(target)
                }
                _ => continue,
            };
            if let Some(open) = self.open.last_mut() {
                open.push(Candidate { name: member.declared_name.clone(), kind });
            }
        }
        for place in 1..structure.members.len() {
            let companion = match &structure.members[place].class {
                Type::Sequence(sequence) => sequence.length.name.clone(),
                Type::Blob(Blob { length: Length::Field(length), .. }) => length.name.clone(),
                Type::Variant(variant) => variant.tag.name.clone(),
                Type::Optional(optional) => optional.tag.name.clone(),
                _ => continue,
            };
            let before = &mut structure.members[place - 1];
            let rest = companion.strip_suffix(&*before.declared_name);
            before.companion = rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        }
        Ok(self.open.pop().unwrap_or_default())
    }

    /// Resolves inside a type; of a structure, gives what later fields may name in it.
    fn class(&mut self, class: &mut Type) -> Result<Option<Vec<Candidate>>, String> {
        match class {
            Type::Structure(structure) => return self.structure(structure).map(Some),
            Type::Array(array) => {
                self.class(&mut array.element)?;
            }
            Type::Sequence(sequence) => {
                self.length(&mut sequence.length)?;
                self.class(&mut sequence.element)?;
            }
            Type::Blob(blob) => {
                if let Length::Field(length) = &mut blob.length {
                    self.length(length)?;
                }
            }
            Type::Optional(optional) => {
                let tag = self.find(&optional.tag)?;
                (optional.tag.slot, optional.tag.signed) = (tag.slot, tag.signed);
                self.used.push(tag.slot);
                self.class(&mut optional.inner)?;
            }
            Type::Variant(variant) => {
                let tag = self.find(&variant.tag)?;
                // CTF 2 says which values choose an option; in CTF 1.8 the labels of the tag do.
                if variant.choices.is_empty() {
                    let Some(labels) = &tag.labels else {
                        return Err(format!("tag {} is no enumeration", variant.tag.name));
                    };
                    variant.choices = choices(variant, labels);
                }
                (variant.tag.slot, variant.tag.signed) = (tag.slot, tag.signed);
                self.used.push(tag.slot);
                for option in &mut variant.options {
                    self.class(&mut option.class)?;
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn length(&mut self, reference: &mut Reference) -> Result<(), String> {
        let length = self.find(reference)?;
        if length.signed {
            return Err(format!("length {} is signed", reference.name));
        }
        reference.slot = length.slot;
        self.used.push(length.slot);
        Ok(())
    }

    fn find(&mut self, reference: &Reference) -> Result<Target, String> {
        let missing = || format!("no integer {} of at most 64 bits before its use as length or tag", reference.name);
        if let Some(scope) = reference.scope {
            if scope == self.own {
                let outermost = self.open.first().map(Vec::as_slice).unwrap_or_default();
                return inside(outermost, &reference.name).ok_or_else(missing);
            }
            return self.import(scope, &reference.name).ok_or_else(missing);
        }
        if let Some(found) = self.open.iter().rev().skip(reference.up as usize).find_map(|open| inside(open, &reference.name)) {
            return Ok(found);
        }
        let absolute = ABSOLUTE.iter().find_map(|(prefix, scope)| Some((*scope, reference.name.strip_prefix(prefix)?)));
        if let Some((scope, name)) = absolute {
            return self.find(&Reference::new(name, Some(scope))).map_err(|_| missing());
        }
        let scopes: Vec<Scope> = self.earlier.iter().rev().map(|(scope, _)| *scope).collect();
        scopes.into_iter().find_map(|scope| self.import(scope, &reference.name)).ok_or_else(missing)
    }

    /// Finds an integer of an earlier structure, and takes its value over.
    fn import(&mut self, scope: Scope, name: &str) -> Option<Target> {
        let (_, root) = self.earlier.iter().find(|(other, _)| *other == scope)?;
        let mut members = &(*root)?.structure.members[..];
        let path = path(members, name)?;
        let mut class = None;
        for place in &path {
            let member = &members[*place as usize];
            class = Some(&member.class);
            members = parts(&member.class).unwrap_or_default();
        }
        let signed = match class? {
            Type::Long(integer) if integer.variable => integer.signed,
            class => class.integer()?.signed,
        };
        let labels = match class {
            Some(Type::Enumeration(enumeration)) => Some(enumeration.labels.clone()),
            _ => None,
        };
        let slot = self.next;
        self.next += 1;
        self.imports.push(Import { scope, path, slot });
        Some(Target { slot, signed, labels })
    }
}

/// How names of CTF 1.8 begin that say where they begin.
pub(crate) const ABSOLUTE: [(&str, Scope); 6] = [
    ("trace.packet.header.", Scope::PacketHeader),
    ("stream.packet.context.", Scope::PacketContext),
    ("stream.event.header.", Scope::EventHeader),
    ("stream.event.context.", Scope::StreamContext),
    ("event.context.", Scope::EventContext),
    ("event.fields.", Scope::Payload),
];

/// Finds an integer by its name, with dots between the names of structures and of what is in them.
fn inside(candidates: &[Candidate], name: &str) -> Option<Target> {
    candidates.iter().rev().find_map(|candidate| {
        let rest = name.strip_prefix(&*candidate.name)?;
        match &candidate.kind {
            Found::Integer(target) if rest.is_empty() => Some(target.clone()),
            Found::Structure(inner) => inside(inner, rest.strip_prefix('.')?),
            Found::Integer(_) => None,
        }
    })
}

pub(crate) fn choices(variant: &Variant, labels: &[Label]) -> Vec<(i128, i128, u32)> {
    let is_named = |option: &Member, label: &Label| *option.declared_name == *label.label || option.name() == label.label;
    let chosen = labels.iter().filter_map(|label| {
        let option = variant.options.iter().position(|option| is_named(option, label))?;
        Some((label.low, label.high, option as u32))
    });
    chosen.collect()
}

fn renumber(structure: &mut Structure, dense: &[Option<u32>]) {
    for member in &mut structure.members {
        member.slot = member.slot.and_then(|slot| dense[slot as usize]);
        if member.slot.is_none() || member.class.integer().is_none() {
            renumber_class(&mut member.class, dense);
        }
    }
}

fn renumber_class(class: &mut Type, dense: &[Option<u32>]) {
    let new = |slot: u32| dense[slot as usize].unwrap_or_default();
    match class {
        // What nothing else depends on may be as long as it is.
        Type::Integer(integer @ Integer { variable: true, role: None, clock: None, .. }) => {
            *class = Type::Long(Integer { bits: LONG_BITS, ..integer.clone() });
        }
        Type::Structure(structure) => renumber(structure, dense),
        Type::Array(array) => renumber_class(&mut array.element, dense),
        Type::Blob(blob) => {
            if let Length::Field(length) = &mut blob.length {
                length.slot = new(length.slot);
            }
        }
        Type::Sequence(sequence) => {
            sequence.length.slot = new(sequence.length.slot);
            renumber_class(&mut sequence.element, dense);
        }
        Type::Optional(optional) => {
            optional.tag.slot = new(optional.tag.slot);
            renumber_class(&mut optional.inner, dense);
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
