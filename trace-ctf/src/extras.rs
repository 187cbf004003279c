//! Fields whose keys are known only at run time: sequences of keys with values of any kind, as `ringtrace::Extra` records them.

use crate::declared::{Member, Type};
use crate::decode::Item;

/// The kinds of values.
const KINDS: [&str; 5] = ["integer", "unsigned", "float", "bool", "text"];

/// Whether values of a type are such keys with their values.
pub(crate) fn is_extras(class: &Type) -> bool {
    match class {
        Type::Sequence(sequence) => is_pair(&sequence.element),
        // In structures a sequence lies in one of its own.
        Type::Structure(structure) => {
            let mut shown = structure.members.iter().filter(|member| !member.is_companion());
            match (shown.next(), shown.next()) {
                (Some(only), None) => matches!(only.class, Type::Sequence(_)) && is_extras(&only.class),
                _ => false,
            }
        }
        _ => false,
    }
}

fn is_pair(class: &Type) -> bool {
    let Type::Structure(structure) = class else { return false };
    let mut shown = structure.members.iter().filter(|member| !member.is_companion());
    match (shown.next(), shown.next(), shown.next()) {
        (Some(key), Some(value), None) => {
            let is_any = matches!(&value.class, Type::Variant(variant) if variant.options.iter().map(Member::name).eq(KINDS));
            key.name() == "key" && value.name() == "value" && is_any
        }
        _ => false,
    }
}

/// Follows the items of such a field, from behind its [`Item::Member`] on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pairs {
    depth: u32,
    /// Whether the next value is one that only readers need.
    is_hidden: bool,
    /// Whether the key is known.
    has_key: bool,
}

/// What an item is in such a field.
pub(crate) enum Piece<'d> {
    /// What only the form needs.
    Form,
    Key(&'d [u8]),
    /// The value of the last key.
    Value,
    /// The field ends.
    End,
}

impl Pairs {
    pub(crate) fn step<'d>(&mut self, item: &Item<'_, 'd>) -> Piece<'d> {
        if core::mem::take(&mut self.is_hidden) {
            return Piece::Form;
        }
        match item {
            Item::ArrayBegin(_) | Item::StructureBegin(_) => self.depth += 1,
            Item::ArrayEnd | Item::StructureEnd => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Piece::End;
                }
            }
            Item::Element(_) => self.has_key = false,
            Item::Member(member) => self.is_hidden = member.is_companion(),
            Item::VariantBegin(_) | Item::VariantEnd | Item::OptionalBegin | Item::OptionalEnd => {}
            Item::Text(bytes) if !core::mem::replace(&mut self.has_key, true) => return Piece::Key(bytes),
            _ => return Piece::Value,
        }
        Piece::Form
    }
}
