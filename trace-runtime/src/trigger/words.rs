//! The words of a trigger, with where they stand: what the grammar is made of.

use crate::error::{Error, Result};
use crate::rule::Placed;
use std::ops::Range;
use std::time::Duration;
use trace_registry::units;

const DURATIONS: &str = "a number and ns, us, ms, s, min, h or d, such as `5ms`";

/// What is left of a trigger.
pub(super) struct Words<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) end: usize,
}

impl<'t> Words<'t> {
    fn skip_space(&mut self) {
        let rest = &self.text[self.at..self.end];
        self.at = self.end - rest.trim_start().len();
    }

    pub(super) fn is_empty(&mut self) -> bool {
        self.skip_space();
        self.at == self.end
    }

    /// The next word: up to a space or `,`. Empty at the end.
    pub(super) fn word(&mut self) -> (&'t str, Range<usize>) {
        self.skip_space();
        let rest = &self.text[self.at..self.end];
        let first = rest.chars().next();
        let len = match first {
            Some(',' | '(' | ')') => 1,
            Some('>' | '=') => rest.find(|c| !matches!(c, '>' | '=')).unwrap_or(rest.len()),
            _ => rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '>')).unwrap_or(rest.len()),
        };
        let span = self.at..self.at + len;
        self.at = span.end;
        (&self.text[span.clone()], span)
    }

    /// Takes a word if it comes next.
    pub(super) fn takes(&mut self, wanted: &str) -> bool {
        let before = self.at;
        let taken = self.word().0 == wanted;
        if !taken {
            self.at = before;
        }
        taken
    }

    pub(super) fn expect(&mut self, wanted: &str, problem: &str, remedy: &str) -> Result<()> {
        let before = self.at;
        let (word, at) = self.word();
        if word == wanted {
            return Ok(());
        }
        self.at = before;
        Err(Error::rule(self.text, at, format!("{problem}: expected `{wanted}`"), remedy))
    }

    /// Nothing may be left.
    pub(super) fn finish(&mut self, remedy: &str) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let at = self.at..self.end;
        Err(Error::rule(self.text, at, "nothing was expected here", remedy))
    }

    /// The name in front of an opening parenthesis, if one comes next; stays before the parenthesis.
    pub(super) fn function(&mut self) -> Option<(&'t str, Range<usize>)> {
        let before = self.at;
        let (name, at) = self.word();
        if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()) && self.text[self.at..self.end].starts_with('(') {
            return Some((name, at));
        }
        self.at = before;
        None
    }

    /// What stands between parentheses, which come next.
    pub(super) fn arguments(&mut self) -> Result<Words<'t>> {
        let open = self.at;
        let inner = Words { text: self.text, at: open + 1, end: self.end }.until(&[")"]);
        if self.text[inner.end..self.end].is_empty() {
            return Err(Error::rule(self.text, open..open + 1, "this `(` is not closed", ""));
        }
        self.at = inner.end + 1;
        Ok(Words { text: self.text, at: inner.start, end: inner.end })
    }

    /// Takes what comes before one of `stops` that is in no quotes or parentheses, or all. A stop of letters is a word.
    pub(super) fn until(&mut self, stops: &[&str]) -> Range<usize> {
        self.skip_space();
        let begin = self.at;
        let (mut open, mut quote, mut escaped, mut is_word_begin) = (0u32, None, false, true);
        for (offset, c) in self.text[begin..self.end].char_indices() {
            let at = begin + offset;
            if let Some(end) = quote {
                if c == end && !escaped {
                    quote = None;
                }
                escaped = c == '\\' && !escaped;
                continue;
            }
            let rest = &self.text[at..self.end];
            let stands = |stop: &&str| {
                let is_letters = stop.chars().all(char::is_alphabetic);
                let follows = rest.strip_prefix(*stop);
                follows.is_some_and(|rest| {
                    !is_letters || is_word_begin && !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            };
            if open == 0 && stops.iter().any(stands) {
                self.at = at;
                return begin..at;
            }
            match c {
                '"' | '`' => quote = Some(c),
                '(' => open += 1,
                ')' => open = open.saturating_sub(1),
                _ => {}
            }
            is_word_begin = c.is_whitespace() || c == ')';
        }
        self.at = self.end;
        begin..self.end
    }

    /// Takes everything that is left, from `at`.
    pub(super) fn rest_from(&mut self, at: usize) -> Range<usize> {
        self.at = self.end;
        at..self.end
    }

    /// A text in quotes, if one comes next.
    pub(super) fn quoted(&mut self) -> Result<Option<Placed<String>>> {
        self.skip_space();
        let rest = &self.text[self.at..self.end];
        let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return Ok(None) };
        let at = self.at + 1;
        let mut part = String::new();
        let mut escaped = false;
        for (offset, c) in rest[1..].char_indices() {
            match c {
                // A quote that is escaped belongs to the text; other escapes are those of what is in it.
                c if c == quote && escaped => {
                    part.pop();
                    part.push(c);
                }
                c if c == quote => {
                    self.at = at + offset + 1;
                    return Ok(Some(Placed { part, at }));
                }
                c => part.push(c),
            }
            escaped = c == '\\' && !escaped;
        }
        Err(Error::rule(self.text, self.at..self.at + 1, "this text is not closed", ""))
    }

    pub(super) fn duration(&mut self) -> Result<Duration> {
        let (word, at) = self.word();
        units::duration(word).map_err(|_| Error::rule(self.text, at, "expected a duration", DURATIONS))
    }

    pub(super) fn number(&mut self, problem: &str, remedy: &str) -> Result<u64> {
        let (word, at) = self.word();
        word.parse().ok().filter(|n| *n > 0).ok_or_else(|| Error::rule(self.text, at, problem, remedy))
    }

    /// A number as in expressions: with K, M, G, or in nanoseconds by a unit of time.
    pub(super) fn amount(&mut self) -> Result<i64> {
        let (word, at) = self.word();
        let plain = || {
            let (negative, number) = word.strip_prefix('-').map_or((1, word), |number| (-1, number));
            Some(i64::try_from(units::size(number).ok()?).ok()? * negative)
        };
        let in_ns = || i64::try_from(units::duration(word).ok()?.as_nanos()).ok();
        plain()
            .or_else(in_ns)
            .ok_or_else(|| Error::rule(self.text, at, "expected a number", "such as `> 4096`, `> 4K` or `> 5ms`"))
    }
}
