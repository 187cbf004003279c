//! What an aggregation is about.
//!
//! ```text
//! what = GLOB [ "." FIELD ] [ "by" FIELD { "," FIELD } ] { clause } [ "if" EXPRESSION ]
//! ```
//!
//! Glob, clauses and expression are those of a rule; of the clauses, `max N/s` and `for` belong to recordings. Where the first word
//! has several dots, the first that parts it into a name of probes and a field counts.

use super::key::MOST;
use crate::attach::{self, probes};
use crate::condition::{self, Progress};
use crate::error::{Error, Result};
use crate::process;
use crate::rule::{Limit, Placed, Rule};
use std::ops::Range;
use std::sync::Arc;
use trace_filter::Key as Path;
use trace_registry::Glob;
use trace_registry::registry::{self, Match};

pub(super) struct Spec {
    /// As it was written.
    pub(super) text: String,
    pub(super) rule: Rule,
    pub(super) field: Option<Placed<Path>>,
    pub(super) by: Vec<Placed<Path>>,
}

const EXAMPLE: &str = "such as `storage:*`, `storage:* by reason` or `storage:read.bytes by table if bytes > 0`";

impl Spec {
    /// Parses `text`, and looks up what it stands for.
    pub(super) fn parse(text: &str, redact: bool, warnings: &mut Vec<String>) -> Result<Spec> {
        let begin = text.len() - text.trim_start().len();
        let end = text[begin..].find(char::is_whitespace).map_or(text.len(), |len| begin + len);
        if begin == end {
            return Err(Error::rule(text, begin..end, "expected an event", EXAMPLE));
        }
        let (name, field) = part(text, begin..end)?;
        let (by, rest) = keys(text, end)?;
        // Spaces in the place of what is not a rule's: what is wrong with the rule is found where it stands.
        let blank = |range: Range<usize>| " ".repeat(range.len());
        let rule_text = format!("{}{}{}{}", blank(0..begin), &text[name.clone()], blank(name.end..rest), &text[rest..]);
        let mut rules = Rule::parse_all(&rule_text, false).map_err(|e| e.shifted(text, 0))?;
        let (Some(mut rule), true) = (rules.pop(), rules.is_empty()) else {
            return Err(Error::rule(text, 0..text.len(), "an aggregation is of one rule", EXAMPLE));
        };
        if rule.excludes || rule.lifetime.is_some() || matches!(rule.limit, Some(Limit::PerSecond(_))) {
            let remedy = "what it takes is said by GLOB, `level L`, `1 in N` and `if EXPRESSION`; it ends when it is dropped";
            return Err(Error::rule(text, begin..text.len(), "an aggregation has no `!`, `max N/s` or `for`", remedy));
        }
        rule.text = text.trim().to_owned();
        attach::resolve(&mut rule, warnings).map_err(|e| e.shifted(text, 0))?;
        rule.progress = Some(Arc::new(Progress::new(&rule, process::current()?.cpu_limit)));
        condition::check(&rule, text, probes().filter(|p| rule.matches(p.probe, &p.name)), redact, warnings)?;
        Ok(Spec { text: text.trim().to_owned(), rule, field, by })
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
            !quoted && (c.is_whitespace() || c == ',')
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
