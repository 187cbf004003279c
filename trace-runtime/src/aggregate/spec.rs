//! What an aggregation is about.
//!
//! ```text
//! what = GLOB [ "." FIELD ] [ "by" FIELD { "," FIELD } ] { clause } [ "if" EXPRESSION ] { ";" "!" GLOB [ "level" LEVEL ] }
//! ```
//!
//! Globs, clauses and expression are those of rules. Where the first word has several dots, the first that parts it into a name of
//! probes and a field counts.

use super::key::MOST;
use crate::attach::{self, NamedProbe, probes};
use crate::condition::{self, Progress};
use crate::error::{Error, Result};
use crate::process;
use crate::rule::{self, Placed, Rule};
use std::ops::Range;
use std::sync::Arc;
use trace_filter::Key as Path;
use trace_registry::Glob;
use trace_registry::registry::{self, Match};

pub(super) struct Spec {
    /// As it was written.
    pub(super) text: String,
    pub(super) rule: Rule,
    /// What is left out of it.
    excluded: Vec<Rule>,
    pub(super) field: Option<Placed<Path>>,
    pub(super) by: Vec<Placed<Path>>,
}

const ONE: &str = "take both by a pattern, or count the other one by itself; what may follow `;` is what is left out: `!GLOB` or `!GLOB level L`";
const EXAMPLE: &str = "such as `storage:*`, `storage:* by reason` or `storage:read.bytes by table if bytes > 0`";

impl Spec {
    /// Parses `text`, and looks up what it stands for.
    pub(super) fn parse(text: &str, redact: bool, warnings: &mut Vec<String>) -> Result<Spec> {
        let begin = text.len() - text.trim_start().len();
        let end = text[begin..].find(|c: char| c.is_whitespace() || c == ';').map_or(text.len(), |len| begin + len);
        if begin == end {
            return Err(Error::rule(text, begin..end, "expected an event", EXAMPLE));
        }
        let (name, field) = part(text, begin..end)?;
        let (by, rest) = keys(text, end)?;
        // Spaces in the place of what is not a rule's: what is wrong with the rule is found where it stands.
        let blank = |range: Range<usize>| " ".repeat(range.len());
        let rule_text = format!("{}{}{}{}", blank(0..begin), &text[name.clone()], blank(name.end..rest), &text[rest..]);
        // Looked for first: a second event with a field or keys of its own is no rule, and `by` would be blamed.
        if let Some(second) = rule::split(&rule_text).into_iter().skip(1).find(|span| !text[span.clone()].starts_with('!')) {
            return Err(Error::rule(text, second, "one rule is counted at a time", ONE));
        }
        let mut rules = Rule::parse_all(&rule_text, false).map_err(|e| e.shifted(text, 0))?;
        let mut rule = rules.remove(0);
        if rule.excludes {
            let remedy = "begin with what it takes; what is left out of that comes behind: `storage:*; !storage:noise`";
            return Err(Error::rule(text, begin..end, "an aggregation of what is left out", remedy));
        }
        if rules.iter().any(|r| r.lifetime.is_some()) {
            return Err(Error::rule(text, 0..text.len(), "an aggregation is of one rule, and what is left out of it", ONE));
        }
        rule.text = text.trim().to_owned();
        for rule in std::iter::once(&mut rule).chain(&mut rules) {
            attach::resolve(rule, warnings).map_err(|e| e.shifted(text, 0))?;
        }
        rule.progress = Some(Arc::new(Progress::new(&rule, process::current()?.cpu_limit)));
        let spec = Spec { text: text.trim().to_owned(), rule, excluded: rules, field, by };
        condition::check(&spec.rule, text, probes().filter(|p| spec.matches(p)), redact, warnings)?;
        Ok(spec)
    }

    /// Whether it takes the events of a probe.
    pub(super) fn matches(&self, named: &NamedProbe) -> bool {
        let takes = |rule: &Rule| rule.matches(named.probe, &named.name);
        takes(&self.rule) && !self.excluded.iter().any(takes)
    }
}

/// Parts the first word into a name and a field.
fn part(text: &str, word: Range<usize>) -> Result<(Range<usize>, Option<Placed<Path>>)> {
    let is_known = |name: &str| matches!(registry::find(&Glob::new(name), probes(), |p| p.name.clone()), Match::Some(_));
    let whole = &text[word.clone()];
    let dots: Vec<usize> = whole.match_indices('.').map(|(at, _)| at).collect();
    if dots.is_empty() || is_known(whole) {
        return Ok((word, None));
    }
    let at = dots.iter().find(|at| is_known(&whole[..**at])).unwrap_or(&dots[0]);
    let begin = word.start + at + 1;
    match Path::parse(&text[begin..word.end]) {
        Ok(part) => Ok((word.start..word.start + at, Some(Placed { part, at: begin }))),
        // A pattern that matches nothing yet.
        Err(_) if whole[*at..].contains('*') => Ok((word, None)),
        Err(error) => Err(Error::from_filter(error, text, begin)),
    }
}

/// The fields behind `by`, if that comes next at `at`, and where the rest begins.
fn keys(text: &str, at: usize) -> Result<(Vec<Placed<Path>>, usize)> {
    let next = |at: usize| at + text[at..].len() - text[at..].trim_start().len();
    let mut begin = next(at);
    match text[begin..].strip_prefix("by") {
        Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => begin = next(begin + 2),
        _ => return Ok((Vec::new(), at)),
    }
    let mut by = Vec::new();
    loop {
        let mut quoted = false;
        let ends = |c: char| {
            quoted ^= c == '`';
            !quoted && (c.is_whitespace() || c == ',' || c == ';')
        };
        let end = text[begin..].find(ends).map_or(text.len(), |len| begin + len);
        if begin == end {
            return Err(Error::rule(
                text,
                begin..end,
                "a field is missing after `by`",
                "such as `by reason` or `by table, reason`",
            ));
        }
        let part = Path::parse(&text[begin..end]).map_err(|e| Error::from_filter(e, text, begin))?;
        by.push(Placed { part, at: begin });
        if by.len() > MOST {
            return Err(Error::rule(text, begin..end, format!("at most {MOST} fields may stand after `by`"), ""));
        }
        let after = next(end);
        if !text[after..].starts_with(',') {
            return Ok((by, end));
        }
        begin = next(after + 1);
    }
}
