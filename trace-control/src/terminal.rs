//! Text for a terminal.

/// Replaces what would move a terminal's cursor, colour it or worse: control characters, but for line ends and tabs. What other
/// processes and files say is told to people in messages.
///
/// ```
/// use trace_control::terminal::printable;
/// assert_eq!(printable("rules\n\t\x1b[2J\u{9b}2J"), "rules\n\t\u{fffd}[2J\u{fffd}2J");
/// ```
pub fn printable(text: &str) -> String {
    let is_harmful = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    text.chars().map(|c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
