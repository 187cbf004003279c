//! Times of day.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use super::number;

/// Nanoseconds in a second.
pub(super) const SECOND: i64 = 1_000_000_000;

/// Seconds to add to UTC at a time that is given in seconds from the Unix epoch.
type Offset = Arc<dyn Fn(i64) -> i32 + Send + Sync>;

/// Where the clock on the wall hangs.
#[derive(Clone)]
pub(super) struct Zone {
    offset: Option<Offset>,
    /// The second that was shown last, and how.
    last: (i64, [u8; 9]),
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.offset.is_none() { "utc" } else { "local" })
    }
}

impl Zone {
    pub(super) fn utc() -> Self {
        Self { offset: None, last: (-1, [0; 9]) }
    }

    pub(super) fn local(offset: impl Fn(i64) -> i32 + Send + Sync + 'static) -> Self {
        Self { offset: Some(Arc::new(offset)), ..Self::utc() }
    }

    /// Appends a time of day; before the epoch, seconds.
    pub(super) fn time(&self, timestamp: i64, out: &mut Vec<u8>) {
        self.clone().next_time(timestamp, out);
    }

    /// As [`Zone::time`], for one that is mostly of the same second as the one before.
    pub(super) fn next_time(&mut self, timestamp: i64, out: &mut Vec<u8>) {
        if timestamp < 0 {
            let timestamp = timestamp.unsigned_abs();
            let _ = write!(out, "-{}.{:09}", timestamp / SECOND as u64, timestamp % SECOND as u64);
            return;
        }
        let (seconds, nanoseconds) = (timestamp / SECOND, timestamp % SECOND);
        if self.last.0 != seconds {
            self.last = (seconds, self.second(seconds));
        }
        out.extend(self.last.1);
        number::nine_digits(nanoseconds as u32, out);
    }

    /// `HH:MM:SS.`
    fn second(&self, seconds: i64) -> [u8; 9] {
        let local = seconds + self.offset.as_ref().map_or(0, |offset| i64::from(offset(seconds)));
        let day = local.rem_euclid(86_400) as u32;
        let [[a, b], [c, d], [e, f]] = [day / 3600, day / 60 % 60, day % 60].map(number::two_digits);
        [a, b, b':', c, d, b':', e, f, b'.']
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_and_before_the_epoch() {
        let show = |zone: &Zone, timestamp| {
            let mut out = Vec::new();
            zone.time(timestamp, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(show(&Zone::utc(), 86_399 * SECOND + 5), "23:59:59.000000005");
        assert_eq!(show(&Zone::local(|_| 3600), 86_399 * SECOND), "00:59:59.000000000");
        assert_eq!(show(&Zone::local(|_| -3600), 0), "23:00:00.000000000");
        assert_eq!(show(&Zone::utc(), -1), "-0.000000001");
        assert_eq!(show(&Zone::utc(), i64::MIN), "-9223372036.854775808");
    }
}
