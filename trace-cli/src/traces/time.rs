//! Times on the command line.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use trace_registry::units;

use crate::failure::Failure;

const SECOND: i128 = 1_000_000_000;

/// The distance of the system's time zone from UTC, in seconds, at a time in seconds from the Unix epoch.
pub(super) fn local_offset() -> impl Fn(i64) -> i32 + Send + Sync + 'static {
    let zone = TimeZone::system();
    move |seconds| Timestamp::from_second(seconds).map_or(0, |time| zone.to_offset(time).seconds())
}

pub(super) fn zone(utc: bool) -> TimeZone {
    if utc { TimeZone::UTC } else { TimeZone::system() }
}

/// Reads a time, in nanoseconds from the Unix epoch. What is no full date counts from the first event.
pub(super) fn parse(text: &str, first: i64, zone: &TimeZone) -> Result<i64, Failure> {
    read(text.trim(), first, zone).ok_or_else(|| {
        Failure::Wrong(format!(
            "{text}: no time\n  write 14:05:09.25 (on the day of the first event), '2026-01-31 14:05:09', +1.5s or +250ms (after the \
             first event), or seconds from the Unix epoch"
        ))
    })
}

fn read(text: &str, first: i64, zone: &TimeZone) -> Option<i64> {
    if let Some(distance) = text.strip_prefix('+') {
        return first.checked_add(units::duration(distance).ok()?.as_nanos().try_into().ok()?);
    }
    let day = Timestamp::from_nanosecond(first.into()).ok()?.to_zoned(zone.clone()).date();
    let instant = if let Ok(time) = text.parse::<Timestamp>() {
        time
    } else if let Ok(time) = text.parse::<DateTime>() {
        zone.to_zoned(time).ok()?.timestamp()
    } else if let Ok(time) = text.parse::<Time>() {
        zone.to_zoned(day.to_datetime(time)).ok()?.timestamp()
    } else {
        return seconds(text)?.try_into().ok();
    };
    instant.as_nanosecond().try_into().ok()
}

/// A decimal number of seconds, exactly.
fn seconds(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
    Some(i128::from(whole.parse::<u32>().ok()?) * SECOND + fraction)
}

/// A time as it is shown: with its date, to the nanosecond.
pub(super) fn show(nanoseconds: i64, zone: &TimeZone) -> String {
    match Timestamp::from_nanosecond(nanoseconds.into()) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.9f").to_string(),
        Err(_) => format!("{nanoseconds} ns"),
    }
}

/// A duration for people: with three or four digits that count.
pub(super) fn span(nanoseconds: f64) -> String {
    let size = nanoseconds.abs();
    let (value, unit) = match size {
        _ if size < 1e3 => return format!("{nanoseconds:.0} ns"),
        _ if size < 1e6 => (nanoseconds / 1e3, "µs"),
        _ if size < 1e9 => (nanoseconds / 1e6, "ms"),
        _ if size < 600e9 => (nanoseconds / 1e9, "s"),
        _ => return format!("{:#}", SignedDuration::from_secs((nanoseconds / 1e9) as i64)),
    };
    format!("{value:.*} {unit}", if value.abs() < 10.0 { 2 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_time() {
        let first = 1_700_000_000_500_000_000;
        let at = |text: &str| read(text, first, &TimeZone::UTC);
        assert_eq!(at("22:13:20.25"), Some(1_700_000_000_250_000_000));
        assert_eq!(at("2023-11-14 22:13:20"), Some(1_700_000_000_000_000_000));
        assert_eq!(at("2023-11-14T23:13:20+01:00"), Some(1_700_000_000_000_000_000));
        assert_eq!(at("1700000000.000000001"), Some(1_700_000_000_000_000_001));
        assert_eq!(at("+1.5s"), Some(first + 1_500_000_000));
        assert_eq!(at("+2min"), Some(first + 120_000_000_000));
        assert_eq!(at("+7"), None);
        assert_eq!(at("soon"), None);
        assert_eq!(at("1.0000000001"), None);
        assert_eq!((span(999.0), span(1500.0), span(2.5e9)), ("999 ns".into(), "1.50 µs".into(), "2.50 s".into()));
    }
}
