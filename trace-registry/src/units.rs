//! Sizes and durations as people write them: one grammar for options, rules, filters, triggers and `RINGTRACE`.
//!
//! | Of | Units |
//! | --- | --- |
//! | sizes | `K` or `k`, `M`, `G`, `T`, also with `B` or `iB` after it; powers of 1024 |
//! | durations | `ns`, `us` or `µs`, `ms`, `s`, `m` or `min`, `h`, `d` |
//!
//! `_` may stand between digits, and a fraction where the result is whole: `1.5G`, `1.5s`.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

/// What may stand after a number, for messages.
pub const UNITS: &str = "K, M, G, T (1024 each) or ns, us, ms, s, m or min, h, d";

/// The longest duration that is read, some thirty years.
const LONGEST: u64 = 1_000_000_000 * SECOND;
const SECOND: u64 = 1_000_000_000;

/// Returns how many bytes a unit of sizes stands for.
pub fn bytes(unit: &str) -> Option<u64> {
    match unit.strip_suffix("iB").or(unit.strip_suffix('B')).unwrap_or(unit) {
        "k" | "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        "T" => Some(1 << 40),
        _ => None,
    }
}

/// Returns how many nanoseconds a unit of durations stands for.
pub fn nanoseconds(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        "us" | "µs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(SECOND),
        "m" | "min" => Some(60 * SECOND),
        "h" => Some(3_600 * SECOND),
        "d" => Some(86_400 * SECOND),
        _ => None,
    }
}

/// Reads a number of bytes: `4096`, `64K`, `64M`, `1.5G`, also with `iB` or `B` behind it. Units are powers of 1024.
///
/// # Errors
///
/// What is wrong, and an example.
///
/// ```
/// use trace_registry::units::size;
/// assert_eq!(size("64M"), Ok(64 << 20));
/// assert_eq!(size("4k"), Ok(4 << 10));
/// assert_eq!(size("1 GiB"), Ok(1 << 30));
/// assert_eq!(size("1.5M"), Ok(3 << 19));
/// assert!(size("64 megs").is_err() && size("-1").is_err() && size("0.3").is_err() && size("99999999999G").is_err());
/// ```
pub fn size(text: &str) -> Result<u64, String> {
    let read = |(number, unit)| multiple(number, if matches!(unit, "" | "B") { 1 } else { bytes(unit)? }, 0.0);
    split(text).and_then(read).ok_or_else(|| format!("`{text}` is no size: write a number of bytes, or 64K, 64M, 1G"))
}

/// Reads a duration: `250ms`, `30s`, `5min` or `5m`, `2h`, `7d`; also `1.5s`.
///
/// # Errors
///
/// What is wrong, and an example.
///
/// ```
/// use std::time::Duration;
/// use trace_registry::units::duration;
/// assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
/// assert_eq!(duration("2 min"), Ok(Duration::from_secs(120)));
/// assert_eq!(duration("1d"), Ok(Duration::from_secs(86_400)));
/// assert_eq!(duration("70ns"), Ok(Duration::from_nanos(70)));
/// assert!(duration("30").is_err() && duration("99999999h").is_err());
/// ```
pub fn duration(text: &str) -> Result<Duration, String> {
    let read = |(number, unit)| multiple(number, nanoseconds(unit)?, 0.5).filter(|ns| *ns <= LONGEST);
    let wrong = || format!("`{text}` is no duration: write 250ms, 30s, 5min, 2h or 7d");
    split(text).and_then(read).map(Duration::from_nanos).ok_or_else(wrong)
}

/// So many times a unit, as a whole number from which a fraction may differ by `tolerance`.
fn multiple(number: &str, unit: u64, tolerance: f64) -> Option<u64> {
    let number = number.replace('_', "");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let value = number.parse::<f64>().ok()? * unit as f64;
    let whole = (value + 0.5) as u64; // `f64::round` is not in `core`
    ((value - whole as f64).abs() <= tolerance && value < 9e18).then_some(whole)
}

/// Divides a number from its unit.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text[end..].trim_start()))
}
