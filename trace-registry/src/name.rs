//! Names of tracepoints and probes, and the patterns that rules match them with.

use alloc::string::{String, ToString};
use core::fmt;

/// Name of a tracepoint or probe: `crate:module::function`, or one that its declaration gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    parts: Parts,
    /// What of it an event says: `entry`, `poll::exit`; or nothing.
    phase: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    Derived { module_path: &'static str, item: &'static str },
    Given(&'static str),
}

impl Name {
    /// The name of `item` in a module, unique by construction. `module_path` is what `module_path!()` says there.
    pub const fn derived(module_path: &'static str, item: &'static str) -> Name {
        Name { parts: Parts::Derived { module_path, item }, phase: "" }
    }

    /// A name that the declaration gives.
    pub const fn given(name: &'static str) -> Name {
        Name { parts: Parts::Given(name), phase: "" }
    }

    /// The name of an event that tells something of what has this name: `NAME::entry`.
    #[must_use]
    pub const fn phase(self, phase: &'static str) -> Name {
        Name { parts: self.parts, phase }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts {
            Parts::Given(name) if self.phase.is_empty() => return f.pad(name),
            Parts::Given(name) => f.write_str(name)?,
            Parts::Derived { module_path, item } => match module_path.split_once("::") {
                Some((krate, path)) => write!(f, "{krate}:{path}::{item}")?,
                None => write!(f, "{module_path}:{item}")?,
            },
        }
        if self.phase.is_empty() { Ok(()) } else { write!(f, "::{}", self.phase) }
    }
}

/// A pattern for names: `*` stands for any characters, `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Makes a pattern from its text.
    pub fn new(pattern: &str) -> Glob {
        Glob(pattern.to_string())
    }

    /// Returns the pattern's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern is an exact name.
    pub fn is_exact(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Whether the pattern stands for `name`.
    ///
    /// ```
    /// use trace_registry::Glob;
    /// assert!(Glob::new("storage:*evict?d").matches("storage:cache::page_evicted"));
    /// assert!(!Glob::new("storage:*").matches("storage2:open"));
    /// ```
    pub fn matches(&self, name: &str) -> bool {
        self.matches_bytes(name.as_bytes())
    }

    /// Whether the pattern stands for an event: for its name, or for that of the function or span that it tells of.
    ///
    /// ```
    /// use trace_registry::Glob;
    /// assert!(Glob::new("*Tree::insert").names("app:Tree::insert::entry"));
    /// assert!(Glob::new("*::insert").names("app:Tree::insert::poll::exit"));
    /// assert!(!Glob::new("*::exit").names("app:Tree::insert::entry"));
    /// ```
    pub fn names(&self, event: &str) -> bool {
        self.matches(event) || functions_of(event).any(|function| self.matches(function))
    }

    /// Whether the pattern stands for `text`, which may be no UTF-8.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe; at most as many steps as pattern and text have bytes, multiplied.
    pub fn matches_bytes(&self, name: &[u8]) -> bool {
        // Goes back to the last star only. Byte by byte: equal text is equal bytes, and `?` takes the rest of a character with
        // its first byte.
        let pattern = self.0.as_bytes();
        let next = |n: usize| name.iter().skip(n + 1).take_while(|b| **b & 0xC0 == 0x80).count() + n + 1;
        let (mut p, mut n, mut star) = (0, 0, None);
        while n < name.len() {
            match pattern.get(p) {
                // What ends with a star stands for every end.
                Some(b'*') if p + 1 == pattern.len() => return true,
                Some(b'*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(b'?') => (p, n) = (p + 1, next(n)),
                Some(&c) if c == name[n] => (p, n) = (p + 1, n + 1),
                _ => match star {
                    Some((at, from)) => {
                        star = Some((at, next(from)));
                        (p, n) = (at + 1, next(from));
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|c| *c == b'*')
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What an event may tell of by its name: the function or span that ends in its phase. (`f::poll::entry` is of an async `f`, or of a
/// function `f::poll`.)
pub fn functions_of(event: &str) -> impl Iterator<Item = &str> {
    ["::entry", "::exit", "::poll::entry", "::poll::exit"].into_iter().filter_map(|phase| event.strip_suffix(phase))
}

/// Whether `suffix` is the last part of `name`, begun at a `:`.
pub(crate) fn has_suffix(name: &str, suffix: &str) -> bool {
    name == suffix || name.strip_suffix(suffix).is_some_and(|head| head.ends_with(':'))
}

/// Edit distance of two names, in characters inserted, removed or replaced; capped at `most + 1`.
pub(crate) fn distance(a: &str, b: &str, most: usize) -> usize {
    use alloc::vec::Vec;
    let b: Vec<char> = b.chars().collect();
    if a.chars().count().abs_diff(b.len()) > most {
        return most + 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()].min(most + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn derived_names() {
        assert_eq!(Name::derived("app", "request").to_string(), "app:request");
        assert_eq!(Name::derived("storage::cache::lru", "evict").to_string(), "storage:cache::lru::evict");
        assert_eq!(Name::given("my event").to_string(), "my event");
    }

    #[test]
    fn globs_match_whole_names_by_character() {
        let matches = |pattern: &str, name: &str| Glob::new(pattern).matches(name);
        for (pattern, name) in
            [("*", ""), ("app:*", "app:x"), ("*:x?z", "app::xyz"), ("a*b*c", "a-b-b-c"), ("é?", "éa"), ("a?", "aé")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("app", "app:x"), ("?", ""), ("*a", "ab"), ("a*b*c", "a-b-b"), ("", "x"), ("??", "é")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn suffixes_begin_at_a_colon() {
        assert!(has_suffix("storage:cache::evict", "evict"));
        assert!(has_suffix("storage:cache::evict", "cache::evict"));
        assert!(!has_suffix("storage:cache::evict", "vict"));
    }

    #[test]
    fn distances() {
        assert_eq!(distance("evict", "evict", 3), 0);
        assert_eq!(distance("evcit", "evict", 3), 2);
        assert_eq!(distance("", "abcdefgh", 3), 4);
    }

    /// The obvious matcher, exponential but evidently right.
    fn model(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some(b'*'), _) => model(&pattern[1..], name) || (!name.is_empty() && model(pattern, &name[1..])),
            (Some(c), Some(n)) if *c == b'?' || c == n => model(&pattern[1..], &name[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn globs_match_as_the_model_does(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            prop_assert_eq!(Glob::new(&pattern).matches(&name), model(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
