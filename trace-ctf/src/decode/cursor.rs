//! Bits to numbers and texts.

use super::{Fault, Item};
use crate::declared::{Encoding, Float, Integer};

/// A place in a packet and the clock there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'d> {
    bytes: &'d [u8],
    /// First bit beyond what may be read.
    end: u64,
    pub(crate) at: u64,
    pub(crate) clock: u64,
}

impl<'d> Cursor<'d> {
    /// Reads `bytes`, of which the first `end` bits count.
    #[inline]
    pub(crate) fn new(bytes: &'d [u8], end: u64, at: u64, clock: u64) -> Self {
        Self { bytes, end: end.min(bytes.len() as u64 * 8), at, clock }
    }

    /// As [`Cursor::new`], where the caller knows that `end` bits are there.
    #[inline(always)]
    pub(crate) fn within(bytes: &'d [u8], end: u64, at: u64, clock: u64) -> Self {
        debug_assert!(end <= bytes.len() as u64 * 8);
        Self { bytes, end, at, clock }
    }

    #[inline(always)]
    pub(crate) fn align(&mut self, align: u32) -> Result<(), Fault> {
        let mask = u64::from(align.max(1)) - 1;
        // Alignments are powers of two.
        self.need((self.at + mask) & !mask)
    }

    /// Moves to `at`, if that much is there.
    #[inline(always)]
    pub(crate) fn need(&mut self, at: u64) -> Result<(), Fault> {
        if at > self.end {
            return Err(Fault::End(at));
        }
        self.at = at;
        Ok(())
    }

    /// The bytes from a bit on that begins one, whether they count or not.
    #[inline(always)]
    pub(crate) fn bytes_from(&self, at: u64) -> &'d [u8] {
        self.bytes.get((at / 8) as usize..).unwrap_or_default()
    }

    /// The eight bytes that begin here, whether they count or not.
    #[inline(always)]
    pub(crate) fn word(&self) -> Option<u64> {
        let rest = self.bytes.get((self.at / 8) as usize..)?;
        rest.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// The bits at a place that [`Cursor::need`] was asked for.
    #[inline(always)]
    pub(crate) fn peek(&self, at: u64, bits: u8, big_endian: bool) -> u64 {
        load(self.bytes, at, bits, big_endian)
    }

    #[inline(always)]
    pub(super) fn bits(&mut self, bits: u8, big_endian: bool) -> Result<u64, Fault> {
        let start = self.at;
        self.need(start + u64::from(bits))?;
        Ok(load(self.bytes, start, bits, big_endian))
    }

    #[inline(always)]
    pub(super) fn integer(&mut self, integer: &Integer) -> Result<u64, Fault> {
        self.align(integer.align)?;
        let value = if integer.variable || integer.reversed {
            self.unusual(integer)?
        } else {
            self.bits(integer.bits, integer.big_endian)?
        };
        if integer.clock.is_some() {
            self.clock = advance(self.clock, value, integer.bits);
        }
        Ok(value)
    }

    /// An integer that 64 bits may not hold.
    #[cold]
    pub(super) fn long<'t>(&mut self, integer: &'t Integer) -> Result<Item<'t, 'd>, Fault> {
        self.align(integer.align)?;
        if integer.variable {
            let value = self.variable(integer)?;
            // Most are short.
            return Ok(match (integer.signed, i64::try_from(value as i128), u64::try_from(value)) {
                (true, Ok(value), _) => Item::Signed(integer, value),
                (false, _, Ok(value)) => Item::Unsigned(integer, value),
                _ => Item::Long(integer, value),
            });
        }
        let upper = integer.bits - 64;
        let (high, low) = match integer.big_endian {
            false => {
                let low = self.bits(64, false)?;
                (self.bits(upper, false)?, low)
            }
            true => (self.bits(upper, true)?, self.bits(64, true)?),
        };
        let unused = 128 - u32::from(integer.bits);
        let mut value = u128::from(high) << 64 | u128::from(low);
        if integer.reversed {
            value = value.reverse_bits() >> unused;
        }
        if integer.signed {
            value = ((value << unused) as i128 >> unused) as u128;
        }
        Ok(Item::Long(integer, value))
    }

    #[cold]
    fn unusual(&mut self, integer: &Integer) -> Result<u64, Fault> {
        if !integer.variable {
            let value = self.bits(integer.bits, integer.big_endian)?;
            return Ok(value.reverse_bits() >> (64 - integer.bits));
        }
        self.variable(integer).map(|value| value as u64)
    }

    /// LEB128, as a two's complement where it is signed.
    #[cold]
    fn variable(&mut self, integer: &Integer) -> Result<u128, Fault> {
        let width = u32::from(integer.bits);
        let (mut value, mut shift) = (0u128, 0);
        loop {
            let byte = self.bits(8, false)?;
            let low = u128::from(byte & 0x7F);
            if shift < width {
                value |= low << shift;
            }
            let is_last = byte & 0x80 == 0;
            // What there is no room for may only repeat the sign.
            let room = width.saturating_sub(shift).min(7);
            let is_negative = integer.signed && value >> (width - 1) & 1 == 1;
            if low >> room != if is_negative { 0x7F >> room } else { 0 } {
                return Err(Fault::Invalid(match integer.bits {
                    64 => "integer of more than 64 bits",
                    _ => "integer of more than 128 bits",
                }));
            }
            shift = shift.saturating_add(7);
            if is_last {
                if integer.signed && shift < width && byte & 0x40 != 0 {
                    value |= u128::MAX << shift;
                }
                return Ok(value);
            }
        }
    }

    pub(super) fn float(&mut self, float: &Float) -> Result<f64, Fault> {
        self.align(float.align)?;
        let mut bits = self.bits(float.bits, float.big_endian)?;
        if float.reversed {
            bits = bits.reverse_bits() >> (64 - float.bits);
        }
        Ok(match float.bits {
            16 => half(bits as u16),
            32 => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        })
    }

    #[inline(always)]
    pub(super) fn take(&mut self, bytes: u64) -> Result<&'d [u8], Fault> {
        self.align(8)?;
        let start = self.at;
        let end = bytes.checked_mul(8).and_then(|bits| start.checked_add(bits)).unwrap_or(u64::MAX);
        self.need(end)?;
        Ok(&self.bytes[(start / 8) as usize..(end / 8) as usize])
    }

    /// A text up to its zero, which is stepped over.
    #[inline]
    pub(crate) fn text(&mut self, encoding: Encoding) -> Result<&'d [u8], Fault> {
        self.align(8)?;
        let rest = &self.bytes[(self.at / 8) as usize..(self.end / 8) as usize];
        let unit = encoding.unit();
        let length = match unit {
            1 => memchr::memchr(0, rest),
            unit => {
                let units = rest.chunks_exact(unit as usize);
                units.clone().position(|unit| unit.iter().all(|&byte| byte == 0)).map(|place| place * unit as usize)
            }
        };
        let Some(length) = length else { return Err(Fault::End(self.end + 8)) };
        let text = self.take(length as u64)?;
        self.need(self.at + unit * 8)?;
        Ok(text)
    }
}

/// Up to 64 bits, which must lie inside `bytes`.
#[inline(always)]
fn load(bytes: &[u8], at: u64, bits: u8, big_endian: bool) -> u64 {
    let (first, skip) = ((at / 8) as usize, (at % 8) as u32);
    let unused = 64 - u32::from(bits);
    if let Some(word) = bytes.get(first..).and_then(|rest| rest.first_chunk::<8>()) {
        if skip <= unused {
            return match big_endian {
                false => u64::from_le_bytes(*word) >> skip & u64::MAX >> unused,
                true => u64::from_be_bytes(*word) << skip >> unused,
            };
        }
    }
    load_slow(bytes, at, bits, big_endian)
}

/// As [`load`], near the end and for what lies in nine bytes.
#[cold]
fn load_slow(bytes: &[u8], at: u64, bits: u8, big_endian: bool) -> u64 {
    let (first, skip) = ((at / 8) as usize, (at % 8) as u32);
    let bytes = &bytes[first..(at + u64::from(bits)).div_ceil(8) as usize];
    let value = if big_endian {
        let joined = bytes.iter().fold(0u128, |joined, &byte| joined << 8 | u128::from(byte));
        joined >> (bytes.len() as u32 * 8 - skip - u32::from(bits))
    } else {
        bytes.iter().rev().fold(0u128, |joined, &byte| joined << 8 | u128::from(byte)) >> skip
    };
    value as u64 & u64::MAX >> (64 - u32::from(bits))
}

/// The clock after a stamp of its low bits: the next value that ends in them.
#[inline]
pub(crate) fn advance(clock: u64, low: u64, bits: u8) -> u64 {
    if bits == 64 {
        return low;
    }
    let mask = (1 << bits) - 1;
    let carry = if low < clock & mask { mask + 1 } else { 0 };
    (clock & !mask).wrapping_add(carry) | low
}

#[inline]
pub(crate) fn sign_extend(value: u64, bits: u8) -> i64 {
    let unused = 64 - u32::from(bits);
    (value << unused) as i64 >> unused
}

/// A number of 16 bits: 5 of exponent, 10 of fraction.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1F), f64::from(bits & 0x3FF));
    let value = match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1F if fraction == 0.0 => f64::INFINITY,
        0x1F => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -value } else { value }
}
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_clock_wraps_once_at_most() {
        assert_eq!(advance(0x1_0000_0005, 6, 27), 0x1_0000_0006);
        assert_eq!(advance(0x1_0000_0005, 4, 27), 0x1_0800_0004);
        assert_eq!(advance(7, 3, 64), 3);
        assert_eq!(advance(u64::MAX, 0, 32), 0);
    }

    fn variable(bytes: &[u8], signed: bool) -> Result<u64, Fault> {
        let integer = Integer { signed, variable: true, ..Integer::unsigned(64, false) };
        Cursor::new(bytes, u64::MAX, 0, 0).integer(&integer)
    }

    #[test]
    fn integers_of_variable_length() {
        assert_eq!(variable(&[0], false), Ok(0));
        assert_eq!(variable(&[0xE5, 0x8E, 0x26], false), Ok(624_485));
        assert_eq!(variable(&[0x80, 0x80, 0x00], false), Ok(0));
        assert_eq!(variable(&[0xC0, 0xBB, 0x78], true).map(|value| value as i64), Ok(-123_456));
        assert_eq!(variable(&[0xFF; 12], true), Err(Fault::End(104)));
        let most = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(variable(&most, false), Ok(u64::MAX));
        assert!(matches!(variable(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02], false), Err(Fault::Invalid(_))));
        let minus_one = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        assert_eq!(variable(&minus_one, true).map(|value| value as i64), Ok(-1));
        assert_eq!(variable(&[0xFF], false), Err(Fault::End(16)));
    }

    fn long(bytes: &[u8], signed: bool) -> Result<i128, Fault> {
        let integer = Integer { signed, variable: true, ..Integer::unsigned(128, false) };
        Ok(match Cursor::new(bytes, u64::MAX, 0, 0).long(&integer)? {
            Item::Unsigned(_, value) => value.into(),
            Item::Signed(_, value) => value.into(),
            Item::Long(_, value) => value as i128,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn long_integers_of_variable_length() {
        let filled = |count: usize, last: u8| [vec![0xFF; count], vec![last]].concat();
        assert_eq!(long(&[0xE5, 0x8E, 0x26], false), Ok(624_485));
        assert_eq!(long(&[0xC0, 0xBB, 0x78], true), Ok(-123_456));
        assert_eq!(long(&filled(9, 0x02), false), Ok((1 << 64) + (u64::MAX as i128 >> 1)));
        assert_eq!(long(&filled(9, 0x00), true), Ok(i128::from(i64::MAX)));
        assert_eq!(long(&[vec![0x80; 9], vec![0x7E]].concat(), true), Ok(-1 << 64));
        assert_eq!(long(&filled(18, 0x03), false), Ok(-1), "all of 128 bits");
        assert_eq!(long(&filled(18, 0x01), true), Ok(i128::MAX));
        assert_eq!(long(&[vec![0x80; 18], vec![0x7E]].concat(), true), Ok(i128::MIN));
        // Zeros and signs may be repeated, nothing else may follow.
        assert_eq!(long(&[vec![0x80; 40], vec![0]].concat(), false), Ok(0));
        assert_eq!(long(&filled(40, 0x7F), true), Ok(-1));
        for (bytes, signed) in [(filled(18, 0x04), false), (filled(18, 0x02), true), (filled(19, 0x00), true)] {
            assert_eq!(long(&bytes, signed), Err(Fault::Invalid("integer of more than 128 bits")));
        }
        assert_eq!(long(&[0xFF; 18], false), Err(Fault::End(19 * 8)));
    }

    #[test]
    fn numbers_of_16_bits() {
        let cases =
            [(0x3C00, 1.0), (0xC000, -2.0), (0x7BFF, 65504.0), (0x0001, 5.960464477539063e-8), (0xFC00, f64::NEG_INFINITY)];
        for (bits, expected) in cases {
            assert_eq!(half(bits), expected);
        }
        assert!(half(0x7E00).is_nan());
    }

    proptest! {
        #[test]
        fn bit_fields_are_those_of_the_bytes(bytes in any::<[u8; 12]>(), skip in 0u64..24, bits in 1u8..=64) {
            let mut little = 0u64;
            let mut big = 0u64;
            for bit in 0..u64::from(bits) {
                let (at, value) = (skip + bit, |shift: u64| u64::from(bytes[((skip + bit) / 8) as usize] >> shift & 1));
                little |= value(at % 8) << bit;
                big = big << 1 | value(7 - at % 8);
            }
            let cursor = Cursor::new(&bytes, 96, skip, 0);
            prop_assert_eq!({ cursor }.bits(bits, false), Ok(little));
            prop_assert_eq!({ cursor }.bits(bits, true), Ok(big));
            prop_assert_eq!(Cursor::new(&bytes, skip, skip, 0).bits(bits, true), Err(Fault::End(skip + u64::from(bits))));
        }

        #[test]
        fn long_bit_fields_are_those_of_the_bytes(bytes in any::<[u8; 20]>(), skip in 0u64..24, bits in 65u8..=128,
                                                  signed in any::<bool>(), reversed in any::<bool>()) {
            for big_endian in [false, true] {
                // From the least significant bit on.
                let bit = |bit: u64| {
                    let at = skip + if big_endian { u64::from(bits) - 1 - bit } else { bit };
                    let shift = if big_endian { 7 - at % 8 } else { at % 8 };
                    u128::from(bytes[(at / 8) as usize] >> shift & 1)
                };
                let place = |shift: u8| u64::from(if reversed { bits - 1 - shift } else { shift });
                let mut expected = (0..bits).fold(0, |value, shift| value | bit(place(shift)) << shift);
                if signed && bits < 128 && expected >> (bits - 1) == 1 {
                    expected |= u128::MAX << bits;
                }
                let integer = Integer { bits, align: 1, signed, reversed, big_endian, ..Integer::unsigned(64, false) };
                let read = |end: u64| Cursor::new(&bytes, end, skip, 0).long(&integer);
                let end = skip + u64::from(bits);
                prop_assert_eq!(read(end), Ok(Item::Long(&integer, expected)));
                prop_assert!(matches!(read(end - 1), Err(Fault::End(_))));
            }
        }
    }
}
