//! Names of fields and options as TSDL identifiers.

use std::collections::HashSet;

use crate::schema::{Field, FieldClass, VariantOption};

/// Words that the grammar takes for itself.
const KEYWORDS: [&str; 28] = [
    "align",
    "callsite",
    "char",
    "clock",
    "const",
    "double",
    "enum",
    "env",
    "event",
    "float",
    "floating_point",
    "int",
    "integer",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

/// The type aliases of the head, and words that values have.
const TAKEN: [&str; 10] =
    ["uint5_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "uint27_clk_t", "uint32_clk_t", "uint64_clk_t", "true", "false"];

/// Whether a word can name nothing in TSDL.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Identifiers of one field.
pub(super) struct MemberName {
    pub(super) own: String,
    /// Name of the length or tag in front of it; empty where it has none.
    pub(super) extra: String,
}

impl MemberName {
    /// Names inside a structure that only exists because a class takes several declarations.
    pub(super) fn inner(class: &FieldClass) -> Self {
        let own = String::from("_value");
        let extra = suffix(class).map(|suffix| format!("_{own}{suffix}")).unwrap_or_default();
        Self { own, extra }
    }
}

/// How the name of a class's length or tag ends.
fn suffix(class: &FieldClass) -> Option<&'static str> {
    match class {
        FieldClass::String { .. } | FieldClass::Sequence { .. } => Some("_length"),
        FieldClass::Optional(_) | FieldClass::Variant { .. } => Some("_tag"),
        _ => None,
    }
}

/// Identifiers of the fields of a structure.
///
/// They start with an underscore, which readers strip. Names that are identifiers already keep their form; of others that
/// become equal the later ones get a number, as does a length or tag whose name a field has.
pub(super) fn members(fields: &[Field]) -> Vec<MemberName> {
    let mut used = HashSet::new();
    let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
    let own = escaped(&names, &mut used);
    let named = fields.iter().zip(own);
    named
        .map(|(field, own)| {
            let extra = suffix(&field.class).map(|suffix| unique(format!("_{own}{suffix}"), &mut used));
            MemberName { own, extra: extra.unwrap_or_default() }
        })
        .collect()
}

/// Identifiers that begin with an underscore, which none of those that are `used` becomes equal to.
pub(super) fn escaped(names: &[&str], used: &mut HashSet<String>) -> Vec<String> {
    let own = |name: &&str| {
        let name = format!("_{name}");
        (is_identifier(&name) && used.insert(key(&name))).then_some(name)
    };
    let own: Vec<Option<String>> = names.iter().map(own).collect();
    let named = names.iter().zip(own);
    named.map(|(name, own)| own.unwrap_or_else(|| unique(format!("_{}", replaced(name)), used))).collect()
}

/// Identifiers of the options of a variant, which are the labels of its tag as well.
pub(super) fn options(options: &[VariantOption]) -> impl Iterator<Item = String> {
    labels(options.iter().map(|option| &*option.name))
}

/// As [`options`], of their names.
pub(super) fn labels<'n>(names: impl Iterator<Item = &'n str>) -> impl Iterator<Item = String> {
    let mut used = HashSet::new();
    names.map(move |name| {
        // Readers strip an underscore from an option and not from the label, so only what needs one gets one.
        let name = if is_identifier(name) && !name.starts_with('_') { name.to_owned() } else { format!("_{}", replaced(name)) };
        unique(name, &mut used)
    })
}

/// Makes an identifier of any text.
pub(crate) fn identifier(text: &str) -> String {
    if is_identifier(text) { text.to_owned() } else { unique(format!("_{}", replaced(text)), &mut HashSet::new()) }
}

fn is_identifier(name: &str) -> bool {
    !matches!(name, "" | "_")
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !is_taken(name)
}

fn is_taken(name: &str) -> bool {
    is_keyword(name) || TAKEN.contains(&name)
}

fn replaced(name: &str) -> String {
    if name.is_empty() {
        // An underscore alone would be stripped to nothing, which babeltrace2 refuses.
        return "unnamed".to_owned();
    }
    name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).collect()
}

/// What names must not have in common: babeltrace2 takes `_x` and `__x` for the same.
pub(super) fn key(name: &str) -> String {
    name.trim_start_matches('_').to_owned()
}

fn unique(name: String, used: &mut HashSet<String>) -> String {
    let candidates = (2..).map(|number: u32| format!("{name}_{number}"));
    let mut candidates = core::iter::once(name.clone()).chain(candidates);
    loop {
        // The candidates do not end.
        let candidate = candidates.next().unwrap_or_default();
        if !is_taken(&candidate) && used.insert(key(&candidate)) {
            return candidate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(fields: &[(&str, FieldClass)]) -> Vec<String> {
        let fields: Vec<Field> = fields.iter().map(|(name, class)| Field::new(*name, class.clone())).collect();
        let names = members(&fields).into_iter();
        names.flat_map(|name| [name.extra, name.own]).filter(|name| !name.is_empty()).collect()
    }

    #[test]
    fn fields_never_collide() {
        let (byte, text) = (FieldClass::Bool, FieldClass::String { length_bits: 8 });
        assert_eq!(names(&[("a.b", byte.clone()), ("a_b", byte.clone())]), ["_a_b_2", "_a_b"]);
        assert_eq!(names(&[("x", text), ("_x_length", byte.clone())]), ["__x_length_2", "_x", "__x_length"]);
        assert_eq!(
            names(&[("Bool", byte.clone()), ("", byte.clone()), ("é", byte.clone()), ("1", byte)]),
            ["_Bool_2", "_unnamed", "__", "_1"]
        );
    }

    #[test]
    fn options_are_not_keywords() {
        let class = FieldClass::Structure(Vec::new());
        let all: Vec<_> =
            ["Created", "int", "a b", "_int"].map(|name| VariantOption { name: name.into(), class: class.clone() }).into();
        assert_eq!(options(&all).collect::<Vec<_>>(), ["Created", "_int", "_a_b", "__int_2"]);
    }
}
