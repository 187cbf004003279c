//! Texts of a trace, made safe to show.

use std::io::Write as _;

/// Appends a text in quotes, with Rust's escapes; bytes that are not UTF-8 as `\xNN`.
pub(super) fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if text.iter().all(|&byte| is_seen(byte) && !matches!(byte, b'"' | b'\\')) {
        out.extend(text);
    } else {
        for chunk in text.utf8_chunks() {
            valid(chunk.valid(), &['\''], out);
            invalid(chunk.invalid(), out);
        }
    }
    out.push(b'"');
}

/// Appends a text without quotes: what cannot be seen is escaped, all else is as it is.
pub(super) fn bare(text: &str, out: &mut Vec<u8>) {
    if text.bytes().all(is_seen) {
        out.extend(text.as_bytes());
    } else {
        valid(text, &['"', '\'', '\\'], out);
    }
}

/// As [`bare`], of what may not be UTF-8.
pub(super) fn bytes(text: &[u8], out: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        bare(chunk.valid(), out);
        invalid(chunk.invalid(), out);
    }
}

/// Appends a name: as it is where that can be nothing else, in quotes otherwise.
pub(super) fn label(text: &str, out: &mut Vec<u8>) {
    let is_plain = |char: char| char.is_alphanumeric() || "_-.:/".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) { bare(text, out) } else { quoted(text.as_bytes(), out) }
}

/// Whether a byte is a character that can be seen: the case that is quick.
fn is_seen(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// Appends a text with Rust's escapes, but with some characters as they are.
fn valid(text: &str, kept: &[char], out: &mut Vec<u8>) {
    for piece in text.split_inclusive(kept) {
        let escaped = piece.trim_end_matches(kept);
        // The standard library knows which characters can be seen.
        let _ = write!(out, "{}", escaped.escape_debug());
        out.extend(&piece.as_bytes()[escaped.len()..]);
    }
}

fn invalid(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        let _ = write!(out, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(append: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        append(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_unseen_gets_through() {
        let cases: [(&[u8], &str); 7] = [
            (b"/index.html it's", "\"/index.html it's\""),
            (b"a\"b\\c", r#""a\"b\\c""#),
            (b"\x1b[2J\n\r\t\0\x7f", r#""\u{1b}[2J\n\r\t\0\u{7f}""#),
            ("é नमस्ते".as_bytes(), "\"é नमस्ते\""),
            ("\u{202e}txt\u{85}".as_bytes(), r#""\u{202e}txt\u{85}""#),
            (b"a\xff\xc3(", r#""a\xff\xc3(""#),
            (b"", "\"\""),
        ];
        for (text, expected) in cases {
            assert_eq!(show(|out| quoted(text, out)), expected);
        }
        assert_eq!(show(|out| bare("app:a \"b\"\\\u{1b}\n", out)), r#"app:a "b"\\u{1b}\n"#);
        assert_eq!(show(|out| bytes(b"dir/\xff\n", out)), r"dir/\xff\n");
    }

    #[test]
    fn labels_are_quoted_where_they_could_be_something_else() {
        for (text, expected) in [("LRU", "LRU"), ("é-1", "é-1"), ("a b", "\"a b\""), ("x]", "\"x]\""), ("", "\"\"")] {
            assert_eq!(show(|out| label(text, out)), expected);
        }
    }
}
