//! All errors of one declaration, reported together.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use std::fmt::Display;

#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    /// Notes an error that covers `tokens`.
    pub(crate) fn push(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// Notes an error at `span`.
    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.add(syn::Error::new(span, message));
    }

    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value of `result`, and notes its error otherwise.
    pub(crate) fn check<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// Returns the errors as tokens; `None` if there are none.
    pub(crate) fn into_tokens(self) -> Option<TokenStream> {
        self.0.map(|error| error.to_compile_error())
    }
}

/// `; did you mean …?` for the one of `known` that `word` looks like.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let word = word.to_lowercase();
    let far = |known: &str| match known.to_lowercase() {
        known if word.len() > 2 && (known.starts_with(&word) || word.starts_with(&known)) => 1,
        known => distance(&word, &known),
    };
    let nearest = known.iter().map(|k| (far(k), *k)).min();
    match nearest {
        Some((distance, near)) if distance <= 1 + word.len() / 4 => format!("; did you mean `{near}`?"),
        _ => String::new(),
    }
}

/// `a`, `b` and `c`, each in backquotes.
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Edit distance: characters inserted, removed or replaced.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        assert_eq!(did_you_mean("lvel", &["name", "level"]), "; did you mean `level`?");
        assert_eq!(did_you_mean("warn", &["Err", "Warning"]), "; did you mean `Warning`?");
        assert_eq!(did_you_mean("Error", &["Err", "Warning"]), "; did you mean `Err`?");
        assert_eq!(did_you_mean("verbose", &["Err", "Warning"]), "");
        assert_eq!(did_you_mean("debug", &["Debug", "DebugLine"]), "; did you mean `Debug`?");
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
