//! Metadata of declarations: what was read in one form, written in the other.
//!
//! Declarations hold references as slots. Here they become names again: by the places of the members that lead to what is
//! referred to, since the forms differ in what a name may be and in how it is looked up.

mod json;
mod tsdl;

use std::borrow::Cow;

use crate::declared::{Clock, Declarations, EventClass, Member, Reference, Role, Root, StreamClass, Structure, Type};
use crate::error::Kind;
use crate::reader::{Scope, parts};
use crate::{Error, Result};

pub(super) use json::json;
pub(super) use tsdl::tsdl;

/// A root structure on its way, and what precedes it.
struct Writing<'d> {
    /// For messages: the event class, or the stream class.
    owner: String,
    scope: Scope,
    root: &'d Root,
    earlier: Vec<(Scope, &'d Root)>,
    clock: Option<usize>,
    /// The structures that are open, by the places of the members that lead to them.
    open: Vec<Vec<u32>>,
    /// The members that lead to what is being written.
    at: Vec<u32>,
}

/// What a reference means.
struct Target<'d> {
    scope: Scope,
    root: &'d Root,
    path: Vec<u32>,
}

/// How a name is looked up.
enum Lookup {
    /// In the structure of the reference.
    Here,
    /// From the beginning of a root.
    Absolute,
    /// In the structure that is so many further out, which so many members lead to.
    Outward { up: usize, depth: usize },
}

impl<'d> Writing<'d> {
    fn error(&self, what: impl Into<Cow<'static, str>>) -> Error {
        let what = what.into();
        let mut members = &self.root.structure.members[..];
        let mut names = Vec::new();
        for place in &self.at {
            let Some(member) = members.get(*place as usize) else { break };
            names.push(member.name());
            members = elements(&member.class);
        }
        Kind::NoWord(format!("{}, {}: {what}", self.owner, names.join(".")).into()).into()
    }

    fn target(&self, reference: &Reference) -> Result<Target<'d>> {
        let import = self.root.imports.iter().find(|import| import.slot == reference.slot);
        if let Some(import) = import {
            let root = self.earlier.iter().find(|(scope, _)| *scope == import.scope).map(|(_, root)| *root);
            let root = root.ok_or_else(|| self.error("a length or selector stands nowhere"))?;
            return Ok(Target { scope: import.scope, root, path: import.path.clone() });
        }
        let path = place(&self.root.structure, reference.slot);
        let path = path.ok_or_else(|| self.error("a length or selector stands nowhere"))?;
        Ok(Target { scope: self.scope, root: self.root, path })
    }

    fn lookup(&self, target: &Target<'_>) -> Lookup {
        let Some((_, holder)) = target.path.split_last() else { return Lookup::Absolute };
        if target.scope != self.scope {
            return Lookup::Absolute;
        }
        if self.open.last().is_some_and(|open| open == holder) {
            return Lookup::Here;
        }
        if !is_repeated(&target.root.structure, &target.path) {
            return Lookup::Absolute;
        }
        let common = self.open.iter().rposition(|open| holder.starts_with(open)).unwrap_or_default();
        Lookup::Outward { up: self.open.len() - 1 - common, depth: self.open.get(common).map_or(0, Vec::len) }
    }

    /// Writes what is inside a structure.
    fn inside<R>(&mut self, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.open.push(self.at.clone());
        let result = body(self);
        self.open.pop();
        result
    }

    /// Writes a member or option.
    fn member<R>(&mut self, place: usize, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.at.push(place as u32);
        let result = body(self)?;
        self.at.pop();
        Ok(result)
    }
}

/// Where the member with a slot is.
fn place(structure: &Structure, slot: u32) -> Option<Vec<u32>> {
    fn search(class: &Type, slot: u32, path: &mut Vec<u32>) -> bool {
        elements(class).iter().enumerate().any(|(place, member)| {
            path.push(place as u32);
            let found = member.slot == Some(slot) || search(&member.class, slot, path);
            if !found {
                path.pop();
            }
            found
        })
    }
    structure.members.iter().enumerate().find_map(|(place, member)| {
        let mut path = vec![place as u32];
        (member.slot == Some(slot) || search(&member.class, slot, &mut path)).then_some(path)
    })
}

/// What has a name in a type, or in the elements of arrays.
fn elements(class: &Type) -> &[Member] {
    match class {
        Type::Array(array) => elements(&array.element),
        Type::Sequence(sequence) => elements(&sequence.element),
        Type::Optional(optional) => elements(&optional.inner),
        class => parts(class).unwrap_or_default(),
    }
}

/// Whether an array lies on the way.
fn is_repeated(structure: &Structure, path: &[u32]) -> bool {
    let mut members = &structure.members[..];
    path.iter().any(|place| {
        let Some(member) = members.get(*place as usize) else { return false };
        members = elements(&member.class);
        matches!(member.class, Type::Array(_) | Type::Sequence(_))
    })
}

/// What a member tells the reader.
fn role(class: &Type) -> Option<Role> {
    match class {
        Type::Array(array) => role(&array.element),
        Type::Blob(blob) => blob.role,
        class => class.integer().and_then(|integer| integer.role),
    }
}

/// Whether a structure has something with a role.
pub(crate) fn says(root: Option<&Root>, wanted: Role) -> bool {
    fn search(members: &[Member], wanted: Role) -> bool {
        members.iter().any(|member| role(&member.class) == Some(wanted) || search(elements(&member.class), wanted))
    }
    root.is_some_and(|root| search(&root.structure.members, wanted))
}

/// The roots of a stream class, in their order.
fn stream_roots<'d>(all: &'d Declarations, stream: &'d StreamClass) -> Vec<(Scope, &'d Root)> {
    let roots = [
        (Scope::PacketHeader, all.packet_header.as_deref()),
        (Scope::PacketContext, stream.packet_context.as_ref()),
        (Scope::EventHeader, stream.event_header.as_ref()),
        (Scope::StreamContext, stream.event_context.as_ref()),
    ];
    roots.into_iter().filter_map(|(scope, root)| Some((scope, root?))).collect()
}

/// Hands over each root of a stream class, in their order.
fn each_stream_root<'d>(
    all: &'d Declarations,
    stream: &'d StreamClass,
    mut write: impl FnMut(Writing<'d>) -> Result<()>,
) -> Result<()> {
    let roots = stream_roots(all, stream);
    for (place, (scope, root)) in roots.iter().enumerate().filter(|(_, (scope, _))| *scope != Scope::PacketHeader) {
        let owner = format!("stream class {}", stream.id);
        write(writing(owner, *scope, root, roots[..place].to_vec(), clock(all, stream)))?;
    }
    Ok(())
}

/// Hands over the context and the payload of an event class, where it has them.
fn each_event_root<'d>(
    all: &'d Declarations,
    stream: &'d StreamClass,
    event: &'d EventClass,
    mut write: impl FnMut(Writing<'d>) -> Result<()>,
) -> Result<()> {
    let mut earlier = stream_roots(all, stream);
    for (scope, root) in [(Scope::EventContext, &event.context), (Scope::Payload, &event.fields)] {
        let Some(root) = root else { continue };
        write(writing(event.name.clone(), scope, root, earlier.clone(), clock(all, stream)))?;
        earlier.push((scope, root));
    }
    Ok(())
}

fn writing<'d>(
    owner: String,
    scope: Scope,
    root: &'d Root,
    earlier: Vec<(Scope, &'d Root)>,
    clock: Option<usize>,
) -> Writing<'d> {
    Writing { owner, scope, root, earlier, clock, open: Vec::new(), at: Vec::new() }
}

/// The place of a stream class's clock.
fn clock(all: &Declarations, stream: &StreamClass) -> Option<usize> {
    let own = stream.clock()?;
    all.clocks.iter().position(|clock| clock == own)
}

/// Seconds and cycles from the Unix epoch to a clock's origin, of which the cycles are less than a second.
fn offset(clock: &Clock) -> (i64, i64) {
    let frequency = i64::try_from(clock.frequency_hz.max(1)).unwrap_or(i64::MAX);
    let (seconds, cycles) = (clock.offset_cycles.div_euclid(frequency), clock.offset_cycles.rem_euclid(frequency));
    (clock.offset_s.saturating_add(seconds), cycles)
}
