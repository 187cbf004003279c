//! Text to tokens.

use crate::error::Error;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use trace_registry::units;
use winnow::ascii::multispace0;
use winnow::combinator::{alt, opt, preceded};
use winnow::error::{ContextError, ErrMode};
use winnow::prelude::*;
use winnow::stream::LocatingSlice;
use winnow::token::{any, one_of, take_while};

/// Most bytes of an expression.
pub(crate) const LONGEST: usize = 4096;

/// A token, and the bytes of the text that it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Name(String),
    /// `$` and a word.
    Scope(String),
    Integer(i128),
    Float(f64),
    Text(String),
    Symbol(&'static str),
}

type Text<'t> = LocatingSlice<&'t str>;
type Parsed<T> = Result<T, ErrMode<ContextError>>;

/// The longer ones first.
const SYMBOLS: [&str; 23] =
    ["&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "!~", "<", ">", "~", "!", "&", "|", "^", "+", "-", "*", "/", "%", "(", ")"];

/// The tokens of `text`.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, Error> {
    if text.len() > LONGEST {
        return Err(Error::new(&(0..0), format!("a filter has at most {LONGEST} bytes, this one {}", text.len()), ""));
    }
    let mut rest = Text::new(text);
    let mut found = Vec::new();
    loop {
        let _ = space(&mut rest);
        if rest.is_empty() {
            return Ok(found);
        }
        let begin = text.len() - rest.len();
        let kind = match token(&mut rest) {
            Ok(kind) => kind?,
            Err(_) => return Err(stray(text, begin)),
        };
        found.push(Token { kind, span: begin..text.len() - rest.len() });
    }
}

fn space<'t>(text: &mut Text<'t>) -> Parsed<&'t str> {
    multispace0.parse_next(text)
}

/// One token. The outer error is a character that begins none; the inner one, a token that is wrong.
fn token(text: &mut Text<'_>) -> Parsed<Result<TokenKind, Error>> {
    alt((
        number,
        quoted.map(|text| text.map(TokenKind::Text)),
        preceded('$', word).map(|name: &str| Ok(TokenKind::Scope(name.into()))),
        word.map(|name: &str| Ok(TokenKind::Name(name.into()))),
        preceded('`', (take_while(1.., |c| c != '`' && c != '\n'), '`'))
            .map(|(name, _): (&str, char)| Ok(TokenKind::Name(name.into()))),
        symbol.map(|symbol| Ok(TokenKind::Symbol(symbol))),
    ))
    .parse_next(text)
}

fn symbol(text: &mut Text<'_>) -> Parsed<&'static str> {
    let found = SYMBOLS.iter().chain(&["."]).find(|symbol| text.starts_with(**symbol));
    match found {
        Some(symbol) => winnow::token::literal(*symbol).value(*symbol).parse_next(text),
        None => winnow::combinator::fail.parse_next(text),
    }
}

fn word<'t>(text: &mut Text<'t>) -> Parsed<&'t str> {
    (one_of(|c: char| c.is_alphabetic() || c == '_'), take_while(0.., |c: char| c.is_alphanumeric() || c == '_'))
        .take()
        .parse_next(text)
}

/// A string in double quotes.
fn quoted(text: &mut Text<'_>) -> Parsed<Result<String, Error>> {
    let begin = winnow::stream::Location::current_token_start(text);
    '"'.parse_next(text)?;
    let mut value = String::new();
    loop {
        let here = winnow::stream::Location::current_token_start(text);
        let Some(character) = opt(any).parse_next(text)? else {
            return Ok(Err(Error::new(&(begin..here), "this string does not end", "end it with `\"`")));
        };
        value.push(match character {
            '"' => return Ok(Ok(value)),
            '\\' => match opt(any).parse_next(text)? {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(same @ ('"' | '\\')) => same,
                _ => {
                    let remedy = "a string knows `\\\"`, `\\\\`, `\\n` and `\\t`";
                    return Ok(Err(Error::new(&(here..here + 2), "unknown escape", remedy)));
                }
            },
            other => other,
        });
    }
}

fn number(text: &mut Text<'_>) -> Parsed<Result<TokenKind, Error>> {
    let begin = winnow::stream::Location::current_token_start(text);
    let digits = |c: char| c.is_ascii_digit() || c == '_';
    let radix = opt(alt(("0x".value(16), "0o".value(8), "0b".value(2)))).parse_next(text)?;
    if let Some(radix) = radix {
        let digits: &str = take_while(0.., |c: char| c.is_ascii_alphanumeric() || c == '_').parse_next(text)?;
        let span = begin..begin + 2 + digits.len();
        let value = i128::from_str_radix(&digits.replace('_', ""), radix);
        return Ok(value.map_err(|_| wrong_number(&span)).and_then(|value| integer(value, &span)));
    }
    let fraction = ('.', one_of(|c: char| c.is_ascii_digit()), take_while(0.., digits));
    let exponent = (one_of(['e', 'E']), opt(one_of(['+', '-'])), take_while(1.., |c: char| c.is_ascii_digit()));
    let (whole, fraction, exponent) =
        ((one_of(|c: char| c.is_ascii_digit()), take_while(0.., digits)).take(), opt(fraction.take()), opt(exponent.take()))
            .parse_next(text)?;
    let end = winnow::stream::Location::current_token_start(text);
    let unit = opt(word).parse_next(text)?;
    let span = begin..end + unit.map_or(0, str::len);
    let factor = match unit.map(|unit| units::bytes(unit).or_else(|| units::nanoseconds(unit))) {
        None => 1,
        Some(Some(factor)) => factor,
        Some(None) => {
            let remedy = format!("after a number may stand {}; durations are in nanoseconds", units::UNITS);
            return Ok(Err(Error::new(&(end..span.end), "unknown unit", remedy)));
        }
    };
    let parts = [Some(whole), fraction, exponent].into_iter().flatten().collect::<String>().replace('_', "");
    if fraction.is_none() && exponent.is_none() {
        let value = parts.parse::<i128>().ok().and_then(|value| value.checked_mul(i128::from(factor)));
        return Ok(value.ok_or_else(|| wrong_number(&span)).and_then(|value| integer(value, &span)));
    }
    let Ok(value) = parts.parse::<f64>().map(|value| value * factor as f64) else {
        return Ok(Err(wrong_number(&span)));
    };
    let rounded = value as i64;
    Ok(match (unit, rounded as f64 == value) {
        (Some(_), true) => integer(i128::from(rounded), &span),
        _ if value.is_finite() => Ok(TokenKind::Float(value)),
        _ => Err(wrong_number(&span)),
    })
}

/// Integers have 64 bits, as fields do.
fn integer(value: i128, span: &Range<usize>) -> Result<TokenKind, Error> {
    // The smallest signed number is written with its sign, which is an operator.
    if value <= i128::from(u64::MAX) { Ok(TokenKind::Integer(value)) } else { Err(wrong_number(span)) }
}

fn wrong_number(span: &Range<usize>) -> Error {
    Error::new(span, "this is no number", "numbers are decimal, 0x…, 0o… or 0b…, up to 64 bits; `_` may stand between digits")
}

/// What to say of a character that begins no token.
fn stray(text: &str, at: usize) -> Error {
    let rest = text.get(at..).unwrap_or_default();
    let character = rest.chars().next().unwrap_or_default();
    let span = at..at + character.len_utf8();
    match character {
        '=' => Error::new(&span, "`=` is no operator", "equal is `==`"),
        '\'' => Error::new(&span, "strings stand in double quotes", "write \"…\""),
        '`' => Error::new(&span, "this name does not end", "end it with a backquote"),
        '$' => Error::new(&span, "a name is missing after `$`", "context fields are written `$ctx.NAME`"),
        '[' | ']' => Error::new(&span, "elements of arrays cannot be named", ""),
        _ => Error::new(&span, format!("`{character}` means nothing here"), "see the grammar in docs/rules.md"),
    }
}
