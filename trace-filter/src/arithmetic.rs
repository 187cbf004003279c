//! What operators do to values.

use crate::syntax::{Calculation, Comparison};
use core::cmp::Ordering;
use trace_registry::Glob;
use trace_registry::field::Value;

/// Whether a comparison holds. With a missing value none does.
#[inline]
pub(crate) fn holds(comparison: Comparison, left: Value<'_>, right: Value<'_>) -> bool {
    let ordering = match (left, right) {
        (Value::Integer(a), Value::Integer(b)) => Some(a.cmp(&b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(&b),
        (Value::Integer(a), Value::Float(b)) => order(a, b),
        (Value::Float(a), Value::Integer(b)) => order(b, a).map(Ordering::reverse),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        _ => match (text(left, &mut [0; 4]), text(right, &mut [0; 4])) {
            (Some(a), Some(b)) => Some(a.cmp(b)),
            _ => return false,
        },
    };
    match ordering {
        None => comparison == Comparison::NotEqual,
        Some(ordering) => compare(comparison, &ordering, &Ordering::Equal),
    }
}

/// Whether a comparison of values of one kind holds.
#[inline(always)]
pub(crate) fn compare<T: Ord>(comparison: Comparison, left: &T, right: &T) -> bool {
    match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    }
}

/// The bytes of a text; those of a character are put into `room`.
fn text<'t>(value: Value<'t>, room: &'t mut [u8; 4]) -> Option<&'t [u8]> {
    match value {
        Value::Text(bytes) => Some(bytes),
        Value::Char(character) => Some(character.encode_utf8(room).as_bytes()),
        _ => None,
    }
}

/// Whether a text matches; `None`: it is missing.
pub(crate) fn matches(glob: &Glob, value: Value<'_>) -> Option<bool> {
    text(value, &mut [0; 4]).map(|bytes| glob.matches_bytes(bytes))
}

/// Compares without rounding; `None`: `float` is no number.
fn order(integer: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // Truncates and saturates. Beyond 2⁵³ a float has no fraction; 2¹²⁷ itself is not an `i128`.
    let whole = float as i128;
    if float >= 170_141_183_460_469_231_731_687_303_715_884_105_728.0 {
        return Some(Ordering::Less);
    }
    Some(integer.cmp(&whole).then_with(|| (whole as f64).partial_cmp(&float).unwrap_or(Ordering::Equal)))
}

/// The value of `left operator right`, or none.
#[inline]
pub(crate) fn calculate(calculation: Calculation, left: Value<'_>, right: Value<'_>) -> Value<'static> {
    match (left, right) {
        (Value::Integer(a), Value::Integer(b)) => integers(calculation, a, b).map_or(Value::Missing, Value::Integer),
        (Value::Float(a), Value::Float(b)) => floats(calculation, a, b),
        (Value::Integer(a), Value::Float(b)) => floats(calculation, a as f64, b),
        (Value::Float(a), Value::Integer(b)) => floats(calculation, a, b as f64),
        _ => Value::Missing,
    }
}

fn integers(calculation: Calculation, a: i128, b: i128) -> Option<i128> {
    // Calculations of 128 bits take several times as long as of 64, which nearly always do.
    if let (Ok(a), Ok(b)) = (i64::try_from(a), i64::try_from(b)) {
        if let Some(result) = narrow(calculation, a, b) {
            return Some(result.into());
        }
    }
    wide(calculation, a, b)
}

/// The result where 64 bits are enough for it; `None`: it may have one all the same.
#[inline]
fn narrow(calculation: Calculation, a: i64, b: i64) -> Option<i64> {
    let shift = || u32::try_from(b).ok().filter(|bits| *bits < i64::BITS);
    match calculation {
        Calculation::BitOr => Some(a | b),
        Calculation::BitXor => Some(a ^ b),
        Calculation::BitAnd => Some(a & b),
        Calculation::ShiftLeft => shift().map(|bits| (a << bits, bits)).filter(|(c, bits)| c >> bits == a).map(|(c, _)| c),
        Calculation::ShiftRight => shift().map(|bits| a >> bits),
        Calculation::Add => a.checked_add(b),
        Calculation::Subtract => a.checked_sub(b),
        Calculation::Multiply => a.checked_mul(b),
        Calculation::Divide => a.checked_div(b),
        Calculation::Remainder => a.checked_rem(b),
    }
}

#[cold]
fn wide(calculation: Calculation, a: i128, b: i128) -> Option<i128> {
    let shift = || u32::try_from(b).ok().filter(|bits| *bits < i128::BITS);
    match calculation {
        Calculation::BitOr => Some(a | b),
        Calculation::BitXor => Some(a ^ b),
        Calculation::BitAnd => Some(a & b),
        Calculation::ShiftLeft => shift().map(|bits| (a << bits, bits)).filter(|(c, bits)| c >> bits == a).map(|(c, _)| c),
        Calculation::ShiftRight => shift().map(|bits| a >> bits),
        Calculation::Add => a.checked_add(b),
        Calculation::Subtract => a.checked_sub(b),
        Calculation::Multiply => a.checked_mul(b),
        Calculation::Divide => a.checked_div(b),
        Calculation::Remainder => a.checked_rem(b),
    }
}

fn floats(calculation: Calculation, a: f64, b: f64) -> Value<'static> {
    match calculation {
        Calculation::Add => Value::Float(a + b),
        Calculation::Subtract => Value::Float(a - b),
        Calculation::Multiply => Value::Float(a * b),
        Calculation::Divide => Value::Float(a / b),
        _ => Value::Missing,
    }
}

/// The value with its sign changed.
#[inline]
pub(crate) fn negate(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Integer(value) => value.checked_neg().map_or(Value::Missing, Value::Integer),
        Value::Float(value) => Value::Float(-value),
        _ => Value::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Value::{Float, Integer, Missing};

    #[test]
    fn integers_and_floats_compare_without_rounding() {
        assert_eq!(order(i128::from(u64::MAX), u64::MAX as f64), Some(Ordering::Less), "the float is 2⁶⁴");
        assert_eq!(order((1 << 53) + 1, (1u64 << 53) as f64), Some(Ordering::Greater));
        assert_eq!(order(3, 3.5), Some(Ordering::Less));
        assert_eq!(order(-3, -3.5), Some(Ordering::Greater));
        assert_eq!(order(0, -0.0), Some(Ordering::Equal));
        assert_eq!(order(0, -0.5), Some(Ordering::Greater));
        assert_eq!(order(i128::MAX, f64::INFINITY), Some(Ordering::Less));
        assert_eq!(order(i128::MAX, 1.701_411_834_604_692_3e38), Some(Ordering::Less));
        assert_eq!(order(i128::MIN, f64::NEG_INFINITY), Some(Ordering::Greater));
        assert_eq!(order(i128::MIN, -1.701_411_834_604_692_3e38), Some(Ordering::Equal));
        assert_eq!(order(0, f64::NAN), None);
    }

    #[test]
    fn sixty_four_bits_say_what_128_say() {
        let values =
            [i64::MIN, i64::MIN + 1, -65, -2, -1, 0, 1, 2, 3, 31, 32, 62, 63, 64, 127, 128, 1 << 40, i64::MAX - 1, i64::MAX];
        for calculation in [
            Calculation::BitOr,
            Calculation::BitXor,
            Calculation::BitAnd,
            Calculation::ShiftLeft,
            Calculation::ShiftRight,
            Calculation::Add,
            Calculation::Subtract,
            Calculation::Multiply,
            Calculation::Divide,
            Calculation::Remainder,
        ] {
            for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
                let (a, b) = (i128::from(a), i128::from(b));
                assert_eq!(integers(calculation, a, b), wide(calculation, a, b), "{calculation:?} {a} {b}");
            }
        }
    }

    #[test]
    fn what_has_no_result_is_missing() {
        let of = |c, a, b| calculate(c, Integer(a), Integer(b));
        assert_eq!(of(Calculation::Divide, 1, 0), Missing);
        assert_eq!(of(Calculation::Remainder, 1, 0), Missing);
        assert_eq!(of(Calculation::Divide, i128::MIN, -1), Missing);
        assert_eq!(of(Calculation::Multiply, i128::MAX, 2), Missing);
        assert_eq!(of(Calculation::ShiftLeft, 1, 126), Integer(1 << 126));
        assert_eq!(of(Calculation::ShiftLeft, 1, 127), Missing, "it would be negative");
        assert_eq!(of(Calculation::ShiftRight, -5, 1), Integer(-3));
        assert_eq!(of(Calculation::ShiftRight, 1, 128), Missing);
        assert_eq!(of(Calculation::ShiftRight, 1, -1), Missing);
        assert_eq!(negate(Integer(i128::MIN)), Missing);
        assert!(!holds(Comparison::NotEqual, Missing, Integer(1)) && !holds(Comparison::Equal, Missing, Missing));
        assert!(holds(Comparison::NotEqual, Float(f64::NAN), Integer(1)));
        assert!(!holds(Comparison::Less, Float(f64::NAN), Float(1.0)));
    }

    #[test]
    fn characters_are_texts() {
        assert!(holds(Comparison::Equal, Value::Char('é'), Value::Text("é".as_bytes())));
        assert!(holds(Comparison::Less, Value::Text(b"a"), Value::Char('b')));
        assert_eq!(matches(&Glob::new("?"), Value::Char('€')), Some(true));
        assert_eq!(matches(&Glob::new("*"), Missing), None);
    }

    #[test]
    fn signed_and_unsigned_mix() {
        assert!(holds(Comparison::Less, Integer(i128::from(i64::MIN)), Integer(i128::from(u64::MAX))));
        assert_eq!(calculate(Calculation::Add, Integer(u64::MAX.into()), Integer(1)), Integer(1 << 64));
    }
}
