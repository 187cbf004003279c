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
}

impl Error {
    pub(crate) fn new(span: &Range<usize>, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error { problem: problem.into(), remedy: remedy.into(), text: String::new(), span: span.clone() }
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
        write!(f, "{}\n  {line}\n  {:before$}{:^<marked$}", self.problem, "", "")?;
        if !self.remedy.is_empty() {
            write!(f, "\n  {}", self.remedy)?;
        }
        Ok(())
    }
}

impl core::error::Error for Error {}
