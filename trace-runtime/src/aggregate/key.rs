//! What events are grouped by: up to four values in 32 bytes.
//!
//! Each value has a byte that says what it is. Numbers come first, a word each, as do those that an event lacks; then texts, one
//! behind the other, but the last of several is at the end. So two of them are words that begin or end with the text, and none is
//! moved to a byte within a word. Where all of them take more than 32, texts share what the numbers leave, and one that is longer than
//! its share becomes the beginning of the text, and a hash of all of it.
//!
//! Keys are made in registers, and stay there: what was stored in words is slow to load by several at once, and copied so.

use super::table::{IS_KEY, KEY, Key, fold};
use std::fmt;
use trace_filter::Value;

/// Most values of a key.
pub(super) const MOST: usize = 4;
const WORD: usize = 8;

// What a value is. Below these: a text of so many bytes.
pub(super) const UNSIGNED: u8 = 64;
const NEGATIVE: u8 = UNSIGNED + 1;
pub(super) const FLOAT: u8 = 66;
const CHAR: u8 = 67;
const MISSING: u8 = 68;
/// And the length of the text's beginning.
const HASHED: u8 = 128;
/// In place of what a number is: it is text. Above all numbers.
pub(super) const TEXT: u8 = HASHED;
/// A number that an event lacks: what it is, and its bits.
pub(super) const NOTHING: (u8, u64) = (MISSING, 0);

/// A value by which events are grouped.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum KeyValue {
    /// The event has none there.
    Missing,
    /// An integer.
    Integer(i128),
    /// True or false.
    Bool(bool),
    /// A floating point number.
    Float(f64),
    /// A text, a character, or the name of an enumeration's value.
    Text(String),
    /// A text that did not fit: its beginning, and a hash of all of it.
    Hashed(String, u64),
}

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyValue::Missing => f.write_str("-"),
            KeyValue::Integer(value) => value.fmt(f),
            KeyValue::Bool(value) => value.fmt(f),
            KeyValue::Float(value) => value.fmt(f),
            KeyValue::Text(text) => text.fmt(f),
            KeyValue::Hashed(begin, hash) => write!(f, "{begin}…#{hash:016x}"),
        }
    }
}

/// The first word of a key, without what its values are.
#[inline(always)]
pub(super) fn head(event: u16) -> u64 {
    IS_KEY | u64::from(event)
}

/// Bits of the first word below those that say what a value is.
pub(super) const fn shift(value: usize) -> u8 {
    16 + 8 * value as u8
}

/// A value on its way into a key.
#[derive(Clone, Copy)]
pub(super) enum Part<'p> {
    /// What it is, and its bits.
    Number(u8, u64),
    Text(&'p [u8]),
}

impl<'p> Part<'p> {
    pub(super) const MISSING: Part<'p> = Part::Number(MISSING, 0);

    /// What it is, and its bits, or [`TEXT`].
    #[inline(always)]
    pub(super) fn number(self) -> (u8, u64) {
        match self {
            Part::Number(what, bits) => (what, bits),
            Part::Text(_) => (TEXT, 0),
        }
    }

    #[inline]
    pub(super) fn of(value: Value<'p>) -> Part<'p> {
        match value {
            Value::Missing => Part::MISSING,
            Value::Integer(value) => {
                let (what, bits) = of_integer(value);
                Part::Number(what, bits)
            }
            Value::Float(value) => Part::Number(FLOAT, value.to_bits()),
            Value::Char(value) => Part::Number(CHAR, u32::from(value).into()),
            Value::Text(text) => Part::Text(text),
        }
    }
}

/// Whether what a value is says that it is an integer or a floating point number.
#[inline(always)]
pub(super) fn is_number(what: u8) -> bool {
    what <= FLOAT
}

/// What an integer is, and its bits.
#[inline(always)]
pub(super) fn of_integer(value: i128) -> (u8, u64) {
    (if value < 0 { NEGATIVE } else { UNSIGNED }, value as u64)
}

/// The words of a key behind its first one.
pub(super) type Bytes = [u64; KEY / WORD];

/// Makes the key of the values of one event; `event` is its number.
///
/// # Signal safety
///
/// Async-signal-safe and wait-free; in proportion to the length of texts.
#[inline]
pub(super) fn encode(event: u16, parts: &[Part<'_>]) -> Key {
    let (mut head, mut numbers, mut count) = (head(event), [0; KEY / WORD], 0);
    let (mut texts, mut last, mut size) = (0, 0, 0);
    for (i, part) in parts.iter().take(MOST).enumerate() {
        match *part {
            Part::Number(what, bits) => {
                head |= u64::from(what) << shift(i);
                if let Some(number) = numbers.get_mut(count) {
                    *number = bits;
                }
                count += 1;
            }
            Part::Text(text) => (texts, last, size) = (texts + 1, i, size + text.len()),
        }
    }
    let [a, b, c, d] = numbers;
    let (mut bytes, mut rest) = ([a, b, c, d], WORD * count);
    let room = if rest + size <= KEY { KEY } else { KEY.saturating_sub(rest) / texts.max(1) };
    for (i, part) in parts.iter().take(MOST).enumerate() {
        let Part::Text(text) = *part else { continue };
        let size = text.len().min(room);
        let at = if texts > 1 && i == last { KEY - size } else { rest };
        match text.get(..room - WORD) {
            Some(begin) if text.len() > room => {
                bytes = put(put(bytes, at, begin), at + begin.len(), &hash(text).to_le_bytes());
                head |= u64::from(HASHED | begin.len() as u8) << shift(i);
            }
            _ => {
                bytes = put(bytes, at, text);
                head |= (text.len() as u64) << shift(i);
            }
        }
        rest += size;
    }
    Key { head, bytes }
}

/// Puts a text of at most 32 bytes at byte `at`, from where there are zeroes to the end.
#[inline(always)]
fn put([a, b, c, d]: Bytes, at: usize, text: &[u8]) -> Bytes {
    let shift = 8 * (at % WORD) as u32;
    let [p, q, r, s] = [word(text, 0), word(text, 1), word(text, 2), word(text, 3)];
    // Nothing of the one below where the shift is 0.
    let next = |below: u64, word: u64| (word << shift) | ((below >> 1) >> (63 - shift));
    let [p, q, r, s] = [p << shift, next(p, q), next(q, r), next(r, s)];
    match at / WORD {
        0 => [a | p, b | q, c | r, d | s],
        1 => [a, b | p, c | q, d | r],
        2 => [a, b, c | p, d | q],
        3 => [a, b, c, d | p],
        _ => [a, b, c, d],
    }
}

/// A text that does not fit behind so many numbers: what it is, and the bytes of all.
#[inline(always)]
pub(super) fn behind([a, b, c]: [u64; 3], count: usize, text: &[u8]) -> (u64, Bytes) {
    let word = |i| word(text, i);
    let [a, b, c] = match count {
        0 => [word(0), word(1), word(2)],
        1 => [a, word(0), word(1)],
        2 => [a, b, word(0)],
        _ => [a, b, c],
    };
    (u64::from(HASHED) | (KEY - WORD).saturating_sub(WORD * count) as u64, [a, b, c, hash(text)])
}

/// Two texts that do not fit together, half of a key each: what they are, and the bytes.
#[inline(never)]
pub(super) fn halves(first: &[u8], last: &[u8]) -> ([u64; 2], Bytes) {
    let half = |text: &[u8], whole| match text.len() {
        len if len <= KEY / 2 => (len as u64, whole),
        _ => (u64::from(HASHED) | WORD as u64, [word(text, 0), hash(text)]),
    };
    let (p, [a, b]) = half(first, [word(first, 0), word(first, 1)]);
    let (q, [c, d]) = half(last, [word_before_end(last, 1), word_before_end(last, 0)]);
    ([p, q], [a, b, c, d])
}

/// Evenly spread. By two words at a time, and at last by the last two, of which some bytes may have been taken before.
#[inline]
fn hash(text: &[u8]) -> u64 {
    const PAIR: usize = 2 * WORD;
    let mixed = |hash: u64, a: u64, b: u64| fold(hash ^ a ^ 0x2d35_8dcc_aa6c_78a5, b ^ 0x8bb8_4b93_962e_acc9);
    let pairs = text.chunks_exact(PAIR);
    let rest = pairs.remainder().len();
    let hash = pairs.fold(text.len() as u64, |hash, pair| mixed(hash, word(pair, 0), word(pair, 1)));
    match text.last_chunk::<PAIR>() {
        Some(last) if rest > 0 => mixed(hash, word(last, 0), word(last, 1)),
        Some(_) => hash,
        None => mixed(hash, word(text, 0), word(text, 1)),
    }
}

/// The word of this number of a text, and zeroes behind its end.
#[inline(always)]
pub(super) fn word(text: &[u8], number: usize) -> u64 {
    let at = WORD * number;
    match (text.get(at..at + WORD), text.last_chunk::<WORD>()) {
        (Some(eight), _) => eight.try_into().map_or(0, u64::from_le_bytes),
        _ if at >= text.len() => 0,
        // Without those that belong to the word before.
        (_, Some(last)) => u64::from_le_bytes(*last) >> (8 * (at + WORD - text.len())),
        _ => little(text),
    }
}

/// The word that is so many words before the end of a text, and zeroes in front of its beginning.
#[inline(always)]
pub(super) fn word_before_end(text: &[u8], number: usize) -> u64 {
    let behind = WORD * number;
    let Some(end) = text.len().checked_sub(behind) else { return 0 };
    match (end.checked_sub(WORD).and_then(|start| text.get(start..end)), text.first_chunk::<WORD>()) {
        (Some(eight), _) => eight.try_into().map_or(0, u64::from_le_bytes),
        _ if end == 0 => 0,
        // Without those that belong to the word behind.
        (_, Some(first)) => u64::from_le_bytes(*first) << (8 * (WORD - end)),
        _ => little(text) << (8 * (WORD - end)),
    }
}

/// The word of fewer than eight bytes.
#[inline]
fn little(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            let [first, last] = [first, last].map(|four| u64::from(u32::from_le_bytes(*four)));
            first | (last << (8 * (bytes.len() - 4)))
        }
        _ => bytes.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte)),
    }
}

/// The event of a key, and its values: so many.
pub(super) fn decode(key: &Key, count: usize) -> (u16, Vec<KeyValue>) {
    let whats: Vec<u8> = (0..count).map(|i| (key.head >> shift(i)) as u8).collect();
    let bytes: Vec<u8> = key.bytes.iter().flat_map(|word| word.to_le_bytes()).collect();
    let is_text = |what: &u8| !(UNSIGNED..=MISSING).contains(what);
    let texts = whats.iter().filter(|what| is_text(what)).count();
    let last = whats.iter().rposition(is_text).filter(|_| texts > 1);
    let (mut numbers, mut rest) = bytes.split_at((WORD * (count - texts)).min(KEY));
    let value = |(i, what)| match what {
        UNSIGNED => KeyValue::Integer(number(&mut numbers).into()),
        NEGATIVE => KeyValue::Integer((number(&mut numbers) as i64).into()),
        FLOAT => KeyValue::Float(f64::from_bits(number(&mut numbers))),
        CHAR => KeyValue::Text(char::from_u32(number(&mut numbers) as u32).unwrap_or(char::REPLACEMENT_CHARACTER).into()),
        MISSING => {
            _ = number(&mut numbers);
            KeyValue::Missing
        }
        what => {
            let is_hashed = what >= HASHED;
            let len = usize::from(what & !HASHED);
            if last == Some(i) {
                let size = len + if is_hashed { WORD } else { 0 };
                rest = &rest[rest.len().saturating_sub(size)..];
            }
            let text = take(&mut rest, len);
            if is_hashed {
                // The beginning may end within a character.
                let begin = text.utf8_chunks().map(|c| c.valid()).next().unwrap_or_default().to_owned();
                KeyValue::Hashed(begin, number(&mut rest))
            } else {
                KeyValue::Text(String::from_utf8_lossy(text).into_owned())
            }
        }
    };
    (key.head as u16, whats.into_iter().enumerate().map(value).collect())
}

/// Takes so many of the bytes, as far as there are any.
fn take<'b>(bytes: &mut &'b [u8], len: usize) -> &'b [u8] {
    let (taken, left) = bytes.split_at(bytes.len().min(len));
    *bytes = left;
    taken
}

fn number(bytes: &mut &[u8]) -> u64 {
    take(bytes, WORD).try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn known(value: &Value<'_>) -> KeyValue {
        match value {
            Value::Missing => KeyValue::Missing,
            Value::Integer(value) => KeyValue::Integer(*value),
            Value::Float(value) => KeyValue::Float(*value),
            Value::Char(value) => KeyValue::Text((*value).into()),
            Value::Text(text) => KeyValue::Text(String::from_utf8_lossy(text).into_owned()),
        }
    }

    #[derive(Clone, Debug)]
    enum Owned {
        Missing,
        Integer(i128),
        Float(f64),
        Char(char),
        Text(String),
    }

    fn owned() -> impl Strategy<Value = Owned> {
        prop_oneof![
            Just(Owned::Missing),
            (i128::from(i64::MIN)..=i128::from(u64::MAX)).prop_map(Owned::Integer),
            any::<i32>().prop_map(|n| Owned::Integer(n.into())),
            any::<f64>().prop_filter("equal to itself", |f| !f.is_nan()).prop_map(Owned::Float),
            any::<char>().prop_map(Owned::Char),
            "\\PC{0,50}".prop_map(Owned::Text),
        ]
    }

    proptest! {
        #[test]
        fn values_come_back(owned in proptest::collection::vec(owned(), 0..=MOST), event in any::<u16>()) {
            let values: Vec<Value<'_>> = owned.iter().map(|value| match value {
                Owned::Missing => Value::Missing,
                Owned::Integer(value) => Value::Integer(*value),
                Owned::Float(value) => Value::Float(*value),
                Owned::Char(value) => Value::Char(*value),
                Owned::Text(text) => Value::Text(text.as_bytes()),
            }).collect();
            let key = encode(event, &values.iter().map(|value| Part::of(*value)).collect::<Vec<_>>());
            let (number, decoded) = decode(&key, values.len());
            prop_assert_eq!(number, event);
            let size = |value: &Value<'_>| if let Value::Text(text) = value { text.len() } else { WORD };
            let fits = values.iter().map(size).sum::<usize>() <= KEY;
            for (value, decoded) in values.iter().zip(decoded) {
                match (value, decoded) {
                    (Value::Text(text), KeyValue::Hashed(begin, hash)) => {
                        prop_assert!(!fits && text.starts_with(begin.as_bytes()) && hash == super::hash(text));
                    }
                    (value, decoded) => prop_assert_eq!(known(value), decoded),
                }
            }
        }
    }
}
