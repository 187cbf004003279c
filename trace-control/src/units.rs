//! Sizes and durations as people write them.

use std::time::Duration;

/// Reads a number of bytes: `4096`, `64K`, `64M`, `1G`, also with `iB` or `B` behind it. Units are powers of 1024.
///
/// # Errors
///
/// What is wrong, and an example.
///
/// ```
/// use trace_control::units::size;
/// assert_eq!(size("64M"), Ok(64 << 20));
/// assert_eq!(size("1 GiB"), Ok(1 << 30));
/// assert!(size("64 megs").is_err() && size("-1").is_err() && size("99999999999G").is_err());
/// ```
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: write a number of bytes, or 64K, 64M, 1G");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let shift = match unit.strip_suffix("iB").or(unit.strip_suffix('B')).unwrap_or(unit) {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)).ok_or_else(wrong)
}

/// Reads a duration: `250ms`, `30s`, `5min` or `5m`, `2h`, `7d`; also `1.5s`.
///
/// # Errors
///
/// What is wrong, and an example.
///
/// ```
/// use std::time::Duration;
/// use trace_control::units::duration;
/// assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
/// assert_eq!(duration("2 min"), Ok(Duration::from_secs(120)));
/// assert!(duration("30").is_err() && duration("1e9h").is_err());
/// ```
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration: write 250ms, 30s, 5min, 2h or 7d");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let value = number.parse::<f64>().ok().map(|n| n * seconds).filter(|s| (0.0..=1e9).contains(s));
    value.map(Duration::from_secs_f64).ok_or_else(wrong)
}

/// Divides a number from its unit.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text[end..].trim_start()))
}
