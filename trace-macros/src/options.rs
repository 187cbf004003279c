//! The words inside the brackets of an attribute: `word` and `word = value`, separated by commas.

use crate::errors::{Errors, did_you_mean, list};
use crate::support::Krate;
use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Ident, LitStr, Path, Token};

/// One word and what follows its `=`.
pub(crate) struct Word {
    /// Of `unsafe(word = value)`.
    unsafety: Option<Token![unsafe]>,
    pub(crate) word: Ident,
    pub(crate) value: Option<TokenStream>,
    /// What stands in its parentheses.
    list: Option<Group>,
}

impl Parse for Word {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(Token![unsafe]) && input.peek2(syn::token::Paren) {
            let (unsafety, content) = (input.parse()?, input.parse::<Group>()?);
            return Ok(Word { unsafety: Some(unsafety), ..syn::parse2(content.stream())? });
        }
        let expected = |error: syn::Error| syn::Error::new(error.span(), "expected an option: `word` or `word = value`");
        let word = input.call(Ident::parse_any).map_err(expected)?;
        let (mut value, mut list) = (None, None);
        if input.peek(syn::token::Paren) {
            list = Some(input.parse()?);
        } else if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            let mut tokens = TokenStream::new();
            while !input.is_empty() && !input.peek(Token![,]) {
                tokens.extend([input.parse::<TokenTree>()?]);
            }
            value = Some(tokens);
        }
        Ok(Word { unsafety: None, word, value, list })
    }
}

/// The words of one attribute, each at most once and each known to it.
pub(crate) struct Options {
    words: Vec<Word>,
}

impl Options {
    /// Sorts out the `words` of `attribute`. Unknown words and words given twice are noted and left out.
    pub(crate) fn new(words: impl IntoIterator<Item = Word>, attribute: &str, known: &[&str], errors: &mut Errors) -> Options {
        let mut kept: Vec<Word> = Vec::new();
        for word in words {
            let name = word.word.to_string();
            if !known.contains(&name.as_str()) {
                let known = format!("{attribute} knows {}{}", list(known), did_you_mean(&name, known));
                errors.push(&word.word, format!("unknown option `{name}`: {known}"));
            } else if let Some(unsafety) = word.unsafety.filter(|_| name != "crate") {
                errors.push(unsafety, format!("`{name}` is not unsafe: write it without `unsafe(…)`"));
            } else if kept.iter().any(|k| k.word == name) {
                errors.push(&word.word, format!("`{name}` is given twice"));
            } else {
                kept.push(word);
            }
        }
        Options { words: kept }
    }

    pub(crate) fn parse(tokens: TokenStream, attribute: &str, known: &[&str], errors: &mut Errors) -> Options {
        let parser = syn::punctuated::Punctuated::<Word, Token![,]>::parse_terminated;
        let words = errors.check(parser.parse2(tokens));
        Options::new(words.into_iter().flatten(), attribute, known, errors)
    }

    fn take(&mut self, word: &str) -> Option<Word> {
        let at = self.words.iter().position(|w| w.word == word)?;
        Some(self.words.remove(at))
    }

    /// Returns what stands in the parentheses of `word(…)`, separated by commas.
    pub(crate) fn list<T: Parse>(&mut self, word: &str, errors: &mut Errors) -> Option<Vec<T>> {
        let found = self.take(word)?;
        let Some(list) = found.list else {
            errors.push(&found.word, format!("`{word}` takes a list: `{word}(…)`"));
            return None;
        };
        let parser = syn::punctuated::Punctuated::<T, Token![,]>::parse_terminated;
        errors.check(parser.parse2(list.stream())).map(|list| list.into_iter().collect())
    }

    /// Returns a word's value, if it has one.
    pub(crate) fn flag_or_value(&mut self, word: &str) -> Option<(Ident, Option<TokenStream>)> {
        self.take(word).map(|found| (found.word, found.value))
    }

    /// Returns where a word without value is given.
    pub(crate) fn flag(&mut self, word: &str, errors: &mut Errors) -> Option<Ident> {
        let found = self.take(word)?;
        if let Some(value) = found.value.or(found.list.map(|list| list.into_token_stream())) {
            let message = format!("`{word}` takes no value");
            if value.is_empty() { errors.push(&found.word, message) } else { errors.push(value, message) }
        }
        Some(found.word)
    }

    /// Returns a word's value, parsed by `parser`; `expected` shows how it is written.
    pub(crate) fn value<P: Parser>(&mut self, word: &str, parser: P, expected: &str, errors: &mut Errors) -> Option<P::Output> {
        let found = self.take(word)?;
        let Some(value) = found.value.filter(|v| !v.is_empty()) else {
            errors.push(&found.word, format!("`{word}` takes a value: {expected}"));
            return None;
        };
        match parser.parse2(value.clone()) {
            Ok(parsed) => Some(parsed),
            Err(_) => {
                errors.push(value, format!("expected {expected}"));
                None
            }
        }
    }

    pub(crate) fn string(&mut self, word: &str, errors: &mut Errors) -> Option<LitStr> {
        self.value(word, <LitStr as Parse>::parse, &format!("`{word} = \"…\"`"), errors)
    }

    /// Returns `unsafe(crate = path)`.
    pub(crate) fn krate(&mut self, errors: &mut Errors) -> Option<Krate> {
        let (word, unsafety) = self.words.iter().find(|w| w.word == "crate").map(|w| (w.word.clone(), w.unsafety))?;
        let path = self.value("crate", Path::parse_mod_style, "`unsafe(crate = path::to::ringtrace)`", errors)?;
        if unsafety.is_none() {
            let message = "what `crate` names is trusted with the memory of the program: write `unsafe(crate = path)` where `path` is \
                           ringtrace itself";
            errors.push(word, message);
        }
        Some(Krate { unsafety: unsafety.unwrap_or_default(), path })
    }

    /// Returns `level = Level`.
    pub(crate) fn level(&mut self, errors: &mut Errors) -> Option<Ident> {
        let level = self.value("level", <Ident as Parse>::parse, "`level = Debug`, or another level", errors)?;
        let name = level.to_string();
        if LEVELS.contains(&name.as_str()) {
            return Some(level);
        }
        if let Some((_, own)) = OTHER_LEVELS.iter().find(|(other, _)| *other == name) {
            return Some(Ident::new(own, level.span()));
        }
        let near = did_you_mean(&name, LEVELS);
        errors.push(
            level,
            format!("unknown level `{name}`; the levels are {}, and also `Error`, `Warn`, `Trace`{near}", list(LEVELS)),
        );
        None
    }

    /// Returns `name = "…"`: an event name that a rule can spell.
    pub(crate) fn event_name(&mut self, errors: &mut Errors) -> Option<LitStr> {
        let name = self.string("name", errors)?;
        check_event_name(&name, errors);
        Some(name)
    }
}

/// Notes what no rule could spell.
pub(crate) fn check_event_name(name: &LitStr, errors: &mut Errors) {
    let text = name.value();
    if text.is_empty() {
        errors.push(name, "an event name cannot be empty");
    } else if let Some(bad) = text.chars().find(|c| c.is_whitespace() || c.is_control() || "*?\"".contains(*c)) {
        errors.push(name, format!("an event name cannot contain {bad:?}: no rule could name it"));
    }
}

/// Names of levels beside their own: as `Level` reads them.
const OTHER_LEVELS: [(&str, &str); 3] = [("Error", "Err"), ("Warn", "Warning"), ("Trace", "Debug")];

/// The variants of `Level`, the most severe first.
pub(crate) const LEVELS: &[&str] = &[
    "Emerg",
    "Alert",
    "Crit",
    "Err",
    "Warning",
    "Notice",
    "Info",
    "DebugSystem",
    "DebugProgram",
    "DebugProcess",
    "DebugModule",
    "DebugUnit",
    "DebugFunction",
    "DebugLine",
    "Debug",
];
