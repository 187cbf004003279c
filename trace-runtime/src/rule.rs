//! The rule grammar: which probes a session records.
//!
//! ```text
//! rules  = rule { ";" rule }
//! rule   = [ "!" ] GLOB [ "level" LEVEL ]
//! ```
//!
//! A rule takes the probes whose names match its glob and whose level is at least as severe as its level; with `!` it leaves
//! them out. The last rule that matches a probe decides. A name without `*` and `?` is exact, or the unique end of a name.

use crate::error::{Error, Result};
use std::fmt;
use trace_registry::{Glob, Level, ProbeDescriptor};

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) glob: Glob,
    /// Least severe level that it takes.
    pub(crate) level: Option<Level>,
    /// Whether it leaves out what it matches.
    pub(crate) excludes: bool,
    /// As it was written.
    pub(crate) text: String,
}

/// As it was written, but for `!`, which `Session::disable` turns.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.excludes { "!" } else { "" }, self.text.trim_start_matches('!'))
    }
}

/// Words of the whole grammar that this version does not know yet.
const LATER: [(&str, &str); 4] = [("if", "filters"), ("max", "rate limits"), ("for", "expiry"), ("1", "sampling (`1 in N`)")];

impl Rule {
    /// Parses one rule. `offset` is where it begins in `text`.
    fn parse(text: &str, offset: usize, rule: &str) -> Result<Rule> {
        let mut words = Words { text, at: offset, end: offset + rule.len() };
        let (first, at) = words.next().ok_or_else(|| Error::rule("a rule is missing here", text, offset))?;
        let (excludes, name) = match first.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, first),
        };
        if name.is_empty() {
            return Err(Error::rule("a name or pattern is missing after `!`", text, at));
        }
        if let Some(bad) = name.find([',', '"', '\'', '[', ']', '{', '}', '=']) {
            return Err(Error::rule(
                "this character cannot be part of a name; rules are separated by `;`, patterns use `*` and `?`",
                text,
                at + usize::from(excludes) + bad,
            ));
        }
        let mut level = None;
        while let Some((word, at)) = words.next() {
            if word == "level" && level.is_none() {
                let (name, at) = words.next().ok_or_else(|| Error::rule("a level is missing after `level`", text, words.end))?;
                level = Some(name.parse().map_err(|e: trace_registry::UnknownLevel| Error::rule(e.to_string(), text, at))?);
            } else if let Some((_, what)) = LATER.iter().find(|(w, _)| *w == word) {
                return Err(Error::rule(
                    format!("{what} are not part of this version; leave out the rest of the rule"),
                    text,
                    at,
                ));
            } else {
                return Err(Error::rule(format!("expected `level` or the end of the rule, found `{word}`"), text, at));
            }
        }
        Ok(Rule { glob: Glob::new(name), level, excludes, text: rule.to_owned() })
    }

    /// Parses rules separated by `;` or line ends. Empty ones are skipped; no rule at all is an error.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Rule>> {
        let mut rules = Vec::new();
        let mut offset = 0;
        for part in text.split(';') {
            let begin = offset + part.len() - part.trim_start().len();
            if !part.trim().is_empty() {
                rules.push(Rule::parse(text, begin, part.trim())?);
            }
            offset += part.len() + 1;
        }
        if rules.is_empty() {
            return Err(Error::rule("expected a rule, such as `storage:*` or `* level warning`", text, 0));
        }
        Ok(rules)
    }

    /// Whether it decides about this probe, whose name is `name`.
    pub(crate) fn matches(&self, probe: &ProbeDescriptor, name: &str) -> bool {
        self.level.is_none_or(|least| probe.level <= least) && self.glob.matches(name)
    }
}

/// The words of one rule, with where they begin in the whole text.
struct Words<'t> {
    text: &'t str,
    at: usize,
    end: usize,
}

impl<'t> Iterator for Words<'t> {
    type Item = (&'t str, usize);

    fn next(&mut self) -> Option<(&'t str, usize)> {
        let rest = self.text.get(self.at..self.end)?;
        let word = rest.trim_start();
        let begin = self.end - word.len();
        let len = word.find(char::is_whitespace).unwrap_or(word.len());
        self.at = begin + len;
        if len == 0 { None } else { Some((&word[..len], begin)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str, glob: &str, level: Option<Level>, excludes: bool) -> Rule {
        Rule { glob: Glob::new(glob), level, excludes, text: text.to_owned() }
    }

    #[test]
    fn rules_are_parsed() {
        let rules = Rule::parse_all(" storage:* level info ; !storage:noise;app:request\n;").map_err(|e| e.to_string());
        assert_eq!(
            rules,
            Ok(vec![
                rule("storage:* level info", "storage:*", Some(Level::Info), false),
                rule("!storage:noise", "storage:noise", None, true),
                rule("app:request", "app:request", None, false)
            ])
        );
    }

    #[test]
    fn errors_point_at_the_word() {
        let message = |text: &str| Rule::parse_all(text).expect_err("it is wrong").to_string();
        for (text, place, words) in [
            ("a:*; b:* lvel info", 9, "expected `level`"),
            ("a level loud", 8, "no such level"),
            ("a level", 7, "a level is missing"),
            ("", 0, "expected a rule"),
            ("é; a if x > 3", 5, "filters are not part of this version"),
            ("a max 10/s", 2, "rate limits"),
            ("a,b", 1, "separated by `;`"),
            ("!", 0, "missing after `!`"),
        ] {
            let message = message(text);
            assert!(message.contains(words), "{text}: {message}");
            assert_eq!(message.lines().last().map(|l| l.len() - 1 - 2), Some(place), "{message}");
        }
    }
}
