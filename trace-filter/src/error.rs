use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::Range;

/// What is wrong with an expression, where, and what to do about it.
///
/// Shown as the problem, the expression with the place marked, and the remedy:
///
/// ```
/// use trace_filter::{Expression, Field, Kind, Scope};
/// let scope = Scope::new([Field::new("bytes", Kind::Integer), Field::new("path", Kind::Text)], []);
/// let error = Expression::parse("path ~ \"*.db\" && byte > 4096").and_then(|e| e.compile(&scope)).expect_err("no such field");
/// assert_eq!(error.to_string(), "\
/// no field is called `byte`
///   path ~ \"*.db\" && byte > 4096
///                    ^^^^
///   did you mean `bytes`? the fields are: bytes (integer), path (text)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    problem: String,
    remedy: String,
    text: String,
    span: Range<usize>,
    /// Whether the scope lacks a name, which another may have.
    is_unknown: bool,
}

impl Error {
    pub(crate) fn new(span: &Range<usize>, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error { problem: problem.into(), remedy: remedy.into(), text: String::new(), span: span.clone(), is_unknown: false }
    }

    /// The same error: the scope lacks the name.
    pub(crate) fn unknown(self) -> Error {
        Error { is_unknown: true, ..self }
    }

    pub(crate) fn of(mut self, text: &str) -> Error {
        self.text = text.to_owned();
        self
    }

    /// Makes an error about the bytes `span` of `text`, for languages around expressions: what is shown looks alike then.
    pub fn at(text: &str, span: Range<usize>, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::new(&span, problem, remedy).of(text)
    }

    /// The same error, where the expression begins at byte `offset` of `text`.
    #[must_use]
    pub fn within(self, text: &str, offset: usize) -> Error {
        Error { text: text.to_owned(), span: self.span.start + offset..self.span.end + offset, ..self }
    }

    /// The same error, said of the event called `name`.
    #[must_use]
    pub fn about(self, name: &str) -> Error {
        Error { problem: format!("{name}: {}", self.problem), ..self }
    }

    /// Whether the [scope](crate::Scope) lacks the name that the [span](Self::span) is of.
    pub fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// Returns the text that the [span](Self::span) is of.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the problem, in one line.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns what to do about it, in one line; empty where the problem says it.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// Returns the bytes of the expression that the problem is about.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The line that holds the place; columns count characters.
        let begin = self.text.get(..self.span.start).map_or(0, |head| head.rfind('\n').map_or(0, |at| at + 1));
        let line = self.text.get(begin..).unwrap_or_default().lines().next().unwrap_or_default();
        let width = |range: Range<usize>| self.text.get(range).map_or(0, |text| text.chars().take_while(|c| *c != '\n').count());
        let (before, marked) = (width(begin..self.span.start), width(self.span.clone()).max(1));
        write!(f, "{}\n{}", self.problem, Excerpt { line, before, marked })?;
        if !self.remedy.is_empty() {
            write!(f, "\n  {}", self.remedy)?;
        }
        Ok(())
    }
}

impl core::error::Error for Error {}

/// A line, and below it a pointer to so many characters behind `before` others. Of a long line, what is near.
pub struct Excerpt<'l> {
    /// The line, without its end.
    pub line: &'l str,
    /// Characters in front of the place.
    pub before: usize,
    /// Characters of the place.
    pub marked: usize,
}

/// Characters that are shown of a line: what is in front of the place, and all.
const NEAR: usize = 100;
const SHOWN: usize = 240;

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.line.chars().count();
        let skipped = if count > SHOWN { self.before.saturating_sub(NEAR) } else { 0 };
        let shown: String = self.line.chars().skip(skipped).take(SHOWN).collect();
        let dots = |is_cut: bool| if is_cut { "…" } else { "" };
        let (front, back) = (dots(skipped > 0), dots(count > skipped + SHOWN));
        let before = self.before - skipped + usize::from(skipped > 0);
        let marked = if count > SHOWN { self.marked.min(SHOWN - (self.before - skipped)) } else { self.marked };
        write!(f, "  {front}{shown}{back}\n  {:before$}{:^<marked$}", "", "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn of_a_long_line_what_is_near_is_shown() {
        let line = |before: usize, behind: usize| format!("{}bad{}", "a".repeat(before), "é".repeat(behind));
        let shown = |before, behind| Excerpt { line: &line(before, behind), before, marked: 3 }.to_string();
        assert_eq!(shown(4, 2), "  aaaabadéé\n      ^^^");
        for (before, behind) in [(0, 1000), (1000, 0), (500, 500), (237, 0), (238, 0), (99, 200)] {
            let text = shown(before, behind);
            let (shown, pointer) = text.split_once('\n').expect("two lines");
            assert!(shown.chars().count() <= SHOWN + 4, "{text}");
            assert_eq!(shown.chars().position(|c| c == 'b'), pointer.find('^'), "{text}");
            assert!(pointer.ends_with(" ^^^"), "{text}");
        }
        assert_eq!(Excerpt { line: &line(0, 1000), before: 0, marked: 1003 }.to_string().matches('^').count(), SHOWN);
    }
}
