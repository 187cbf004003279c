//! Numbers as digits: decimal ones quickly, others as C's `%g`.

use std::io::Write as _;

/// Appends an unsigned number.
#[inline]
pub(super) fn unsigned(value: u64, out: &mut Vec<u8>) {
    out.extend(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a signed number.
#[inline]
pub(super) fn signed(value: i64, out: &mut Vec<u8>) {
    out.extend(itoa::Buffer::new().format(value).as_bytes());
}

/// The last two digits of a number.
#[inline]
pub(super) fn two_digits(value: u32) -> [u8; 2] {
    [value / 10 % 10, value % 10].map(|digit| b'0' + digit as u8)
}

/// Appends the last nine digits of a number.
#[inline]
pub(super) fn nine_digits(value: u32, out: &mut Vec<u8>) {
    // With a digit in front, which keeps the zeros.
    let digits = itoa::Buffer::new().format(value % 1_000_000_000 + 1_000_000_000).as_bytes()[1..].first_chunk::<9>().copied();
    out.extend(digits.unwrap_or_default());
}

/// Significant digits.
const PRECISION: i32 = 6;

/// Appends a number as `printf("%g")` does.
pub(super) fn general(value: f64, out: &mut Vec<u8>) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let value = value.abs();
    if value.is_nan() {
        return out.extend(b"nan");
    }
    if value.is_infinite() {
        return out.extend(b"inf");
    }
    // The exponent is that of the rounded number: 999999.5 is 1e+06.
    let scientific = format!("{value:.*e}", PRECISION as usize - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..PRECISION).contains(&exponent) {
        let fixed = format!("{value:.*}", (PRECISION - 1 - exponent) as usize);
        out.extend(trimmed(&fixed).as_bytes());
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs());
    }
}

fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    #[test]
    fn as_printf() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (100000.0, "100000"),
            (999999.5, "1e+06"),
            (1234567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.1 + 0.2, "0.3"),
            (2.5e-310, "2.5e-310"),
            (f64::MAX, "1.79769e+308"),
            (f64::NEG_INFINITY, "-inf"),
            (-f64::NAN, "-nan"),
            (2.000005, "2"),
            (2.00001, "2.00001"),
        ];
        for (value, expected) in cases {
            let mut out = Vec::new();
            super::general(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
