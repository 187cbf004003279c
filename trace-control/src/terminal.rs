//! Text for a terminal.

use std::borrow::Cow;

/// Replaces what would move a terminal's cursor, colour it or worse: control characters, but for line ends and tabs. What other
/// processes and files say is told to people in messages.
///
/// ```
/// use trace_control::terminal::printable;
/// assert_eq!(printable("rules\n\t\x1b[2J\u{9b}2J"), "rules\n\t\u{fffd}[2J\u{fffd}2J");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    each_harmful(text, |_| char::REPLACEMENT_CHARACTER.to_string())
}

/// The same for JSON, in which such characters can be escaped, so that nothing is lost.
///
/// ```
/// use trace_control::terminal::escaped;
/// assert_eq!(escaped("{\"name\":\"\u{9b}2J\"}\n"), "{\"name\":\"\\u009b2J\"}\n");
/// ```
pub fn escaped(text: &str) -> Cow<'_, str> {
    each_harmful(text, |c| format!("\\u{:04x}", u32::from(c)))
}

fn each_harmful(text: &str, instead: impl Fn(char) -> String) -> Cow<'_, str> {
    let is_harmful = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmful(c) { safe.push_str(&instead(c)) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}
