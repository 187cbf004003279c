//! Text to tokens.

use crate::{Error, Result};

/// A token, the line it stands on, and the unit comment behind it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) line: u32,
    pub(super) unit: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// An identifier or keyword.
    Word(&'a str),
    Number(u64),
    Text(String),
    Sign(&'static str),
}

/// Longest first: a sign is the first of these that fits.
const SIGNS: [&str; 18] = ["...", "->", ":=", "{", "}", "[", "]", "(", ")", "<", ">", ";", ":", "=", ",", ".", "-", "+"];

pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_whitespace() {
            line += u32::from(first == '\n');
            rest = &rest[1..];
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or_else(|| Error::metadata(line, "comment without an end"))?;
            if let (Some(unit), Some(last)) = (unit(&comment[..end]), tokens.last_mut()) {
                last.unit = Some(unit);
            }
            line += newlines(&comment[..end]);
            rest = &comment[end + 2..];
        } else if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else {
            let (kind, tail) = token(rest, line)?;
            tokens.push(Token { kind, line, unit: None });
            line += newlines(&rest[..rest.len() - tail.len()]);
            rest = tail;
        }
    }
    Ok(tokens)
}

fn newlines(text: &str) -> u32 {
    text.bytes().filter(|&byte| byte == b'\n').count() as u32
}

fn token(rest: &str, line: u32) -> Result<(Kind<'_>, &str)> {
    // As in C, an L may stand before a literal.
    let literal = rest.strip_prefix('L').unwrap_or(rest);
    if literal.starts_with(['"', '\'']) {
        let (text, tail) = string(literal).map_err(|what| Error::metadata(line, what))?;
        return Ok((Kind::Text(text), tail));
    }
    let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(rest.len());
    if end > 0 {
        let (word, tail) = rest.split_at(end);
        if !word.starts_with(|char: char| char.is_ascii_digit()) {
            return Ok((Kind::Word(word), tail));
        }
        let number = number(word).ok_or_else(|| Error::metadata(line, format!("{word} is no number of 64 bits")))?;
        return Ok((Kind::Number(number), tail));
    }
    match SIGNS.iter().find_map(|&sign| Some((sign, rest.strip_prefix(sign)?))) {
        Some((sign, tail)) => Ok((Kind::Sign(sign), tail)),
        None => Err(Error::metadata(line, format!("unexpected character {:?}", rest.chars().next().unwrap_or(' ')))),
    }
}

fn number(word: &str) -> Option<u64> {
    let word = word.trim_end_matches(['u', 'U', 'l', 'L']);
    if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        u64::from_str_radix(digits, 16).ok()
    } else if word.len() > 1 && word.starts_with('0') {
        u64::from_str_radix(&word[1..], 8).ok()
    } else {
        word.parse().ok()
    }
}

/// Decodes the literal, a string or a character, at the beginning of `rest`; an error is a sentence.
fn string(rest: &str) -> Result<(String, &str), String> {
    let bytes = rest.as_bytes();
    let quote = bytes[0];
    let byte = |at: usize| bytes.get(at).copied().ok_or("string without an end");
    let mut out = Vec::new();
    let mut at = 1;
    loop {
        let first = byte(at)?;
        at += 1;
        match first {
            _ if first == quote => {
                // Other readers hold strings up to their first NUL.
                let text = out.split(|&byte| byte == 0).next().unwrap_or_default();
                return Ok((String::from_utf8_lossy(text).into_owned(), &rest[at..]));
            }
            b'\\' => {
                let escape = byte(at)?;
                at += 1;
                let simple = match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    b'0'..=b'7' => code(bytes, &mut { at - 1 }, 8, &mut at),
                    b'x' if byte(at)?.is_ascii_hexdigit() => code(bytes, &mut { at }, 16, &mut at),
                    b'\\' | b'"' | b'\'' | b'?' => escape,
                    _ => {
                        let what = rest[at - 1..].chars().next().unwrap_or_default();
                        return Err(format!("\\{what} is no escape sequence"));
                    }
                };
                out.push(simple);
            }
            other => out.push(other),
        }
    }
}

/// Up to three digits, as other readers take them.
fn code(bytes: &[u8], from: &mut usize, radix: u32, at: &mut usize) -> u8 {
    let mut value: u32 = 0;
    let end = *from + 3;
    while *from < end {
        let Some(digit) = bytes.get(*from).and_then(|&byte| char::from(byte).to_digit(radix)) else { break };
        value = value * radix + digit;
        *from += 1;
    }
    *at = *from;
    value as u8
}

/// The unit in a comment of the form ` unit: "…" `.
fn unit(comment: &str) -> Option<Box<str>> {
    let (unit, tail) = string(comment.trim().strip_prefix("unit: ").filter(|rest| rest.starts_with('"'))?).ok()?;
    tail.is_empty().then(|| unit.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Quoted;

    #[test]
    fn literals() {
        let text = |literal: &str| match &tokens(literal).unwrap()[..] {
            [Token { kind: Kind::Text(text), .. }] => text.clone(),
            other => panic!("{literal}: {other:?}"),
        };
        assert_eq!(text(r"'\n'"), "\n");
        assert_eq!(text(r#"L'"'"#), "\"");
        assert_eq!(text(r#"L"\x41\101'\?""#), "AA'?");
        assert_eq!(text(r#""seen\0not seen""#), "seen");
        for (literal, escape) in [(r#""\o40""#, r"\o"), (r"'\q'", r"\q"), (r#""\xg""#, r"\x"), (r#""\é""#, r"\é")] {
            let error = tokens(&format!("\n{literal}")).unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains(&format!("{escape} is no escape sequence")), "{error}");
        }
    }

    #[test]
    fn comments_numbers_strings_and_units() {
        let all = tokens("a := 0x1F; /* unit: \"B\\052/\" */ // end\n\"q\\\"\\n\\001\" ...").unwrap();
        let kinds: Vec<_> = all.iter().map(|token| token.kind.clone()).collect();
        let expected = [
            Kind::Word("a"),
            Kind::Sign(":="),
            Kind::Number(31),
            Kind::Sign(";"),
            Kind::Text("q\"\n\u{1}".into()),
            Kind::Sign("..."),
        ];
        assert_eq!(kinds, expected);
        assert_eq!((all[3].unit.as_deref(), all[4].line), (Some("B*/"), 2));
        assert!(tokens("/* no end").unwrap_err().is_metadata());
        assert!(tokens("\"no end\\").unwrap_err().is_metadata());
        assert!(tokens("'no end\"").unwrap_err().is_metadata());
        assert!(tokens("99999999999999999999").unwrap_err().is_metadata());
    }

    proptest::proptest! {
        #[test]
        fn quoted_text_comes_back(text in "\\PC*[\\x01-\\x1f\"\\\\]*[0-9a-f]*") {
            let quoted = Quoted(&text).to_string();
            proptest::prop_assert_eq!(string(&quoted), Ok((text, "")));
        }
    }
}
