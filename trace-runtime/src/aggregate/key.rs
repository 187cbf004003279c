//! What events are grouped by: up to four values in 32 bytes.
//!
//! Each value has a byte that says what it is. Numbers come first, a word each; then texts, one behind the other. Where all of them
//! take more than 32, a text longer than its share (32 divided by the number of values) becomes the beginning of the text, and a
//! hash of all of it.

use super::table::{IS_KEY, KEY, Key};
use std::fmt;
use trace_filter::{Key as Path, Value};

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

/// Makes the key of the values of one event; `event` is its number.
///
/// # Signal safety
///
/// Async-signal-safe and wait-free; in proportion to the length of texts.
#[inline(never)]
pub(super) fn encode(event: u16, values: &[Value<'_>]) -> Key {
    let mut key = Key { head: head(event), bytes: [0; KEY / 8] };
    let room = if values.iter().map(size).sum::<usize>() <= KEY { KEY } else { KEY / values.len().max(1) };
    let mut numbers = key.bytes.iter_mut();
    let mut rest = 0;
    for (i, value) in values.iter().take(MOST).enumerate() {
        let (what, number) = match value {
            Value::Integer(value) => (if *value < 0 { NEGATIVE } else { UNSIGNED }, *value as u64),
            Value::Float(value) => (FLOAT, value.to_bits()),
            Value::Char(value) => (CHAR, u64::from(u32::from(*value))),
            Value::Missing => (MISSING, 0),
            Value::Text(_) => continue,
        };
        key.head |= u64::from(what) << shift(i);
        if what != MISSING {
            rest += WORD;
            numbers.next().into_iter().for_each(|word| *word = number);
        }
    }
    for (i, value) in values.iter().take(MOST).enumerate() {
        let Value::Text(text) = value else { continue };
        let (what, begin, hash) = match text.get(..room - WORD) {
            Some(begin) if text.len() > room => (HASHED | begin.len() as u8, begin, Some(Path::hash(*value))),
            _ => (text.len() as u8, *text, None),
        };
        key.head |= u64::from(what) << shift(i);
        put_text(&mut key.bytes, rest, begin);
        rest += begin.len();
        if let Some(hash) = hash {
            put(&mut key.bytes, rest, hash);
            rest += WORD;
        }
    }
    key
}

/// The same for one value. The commonest ones stay in registers: values that were written in parts are slow to copy as a whole.
#[inline(always)]
pub(super) fn encode_one(event: u16, value: Value<'_>) -> Key {
    match value {
        Value::Integer(value) => {
            let what = if value < 0 { NEGATIVE } else { UNSIGNED };
            Key { head: head(event) | (u64::from(what) << shift(0)), bytes: [value as u64, 0, 0, 0] }
        }
        Value::Text(text) if text.len() <= 16 => {
            Key { head: head(event) | ((text.len() as u64) << shift(0)), bytes: [word(text, 0), word(text, 1), 0, 0] }
        }
        value => encode(event, &[value]),
    }
}

/// The word of this number of a text, and zeroes behind its end.
#[inline(always)]
pub(super) fn word(text: &[u8], number: usize) -> u64 {
    match text.get(WORD * number..WORD * (number + 1)) {
        Some(eight) => eight.try_into().map_or(0, u64::from_le_bytes),
        None => text.get(WORD * number..).map_or(0, little),
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

/// Puts a text at byte `at`, where there are zeroes. By words: bytes that are written one by one are slow to read as words.
#[inline]
fn put_text(words: &mut [u64; KEY / 8], at: usize, text: &[u8]) {
    (0..text.len().div_ceil(WORD)).for_each(|i| put(words, at + WORD * i, word(text, i)));
}

/// Puts a word at byte `at`, where there are zeroes. What would lie beyond the end is zero.
#[inline]
fn put(words: &mut [u64; KEY / 8], at: usize, value: u64) {
    let shift = 8 * (at % 8) as u32;
    if let Some(word) = words.get_mut(at / 8) {
        *word |= value << shift;
    }
    if let Some(word) = words.get_mut(at / 8 + 1) {
        // Nothing where the shift is 0.
        *word |= (value >> 1) >> (63 - shift);
    }
}

#[inline]
fn size(value: &Value<'_>) -> usize {
    match value {
        Value::Missing => 0,
        Value::Text(text) => text.len(),
        _ => WORD,
    }
}

/// The event of a key, and its values: so many.
pub(super) fn decode(key: &Key, count: usize) -> (u16, Vec<KeyValue>) {
    let whats: Vec<u8> = (0..count).map(|i| (key.head >> shift(i)) as u8).collect();
    let bytes: Vec<u8> = key.bytes.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (mut numbers, mut texts) =
        bytes.split_at(WORD * whats.iter().filter(|what| (UNSIGNED..MISSING).contains(what)).count().min(KEY / WORD));
    let value = |what| match what {
        UNSIGNED => KeyValue::Integer(number(&mut numbers).into()),
        NEGATIVE => KeyValue::Integer((number(&mut numbers) as i64).into()),
        FLOAT => KeyValue::Float(f64::from_bits(number(&mut numbers))),
        CHAR => KeyValue::Text(char::from_u32(number(&mut numbers) as u32).unwrap_or(char::REPLACEMENT_CHARACTER).into()),
        MISSING => KeyValue::Missing,
        what if what >= HASHED => {
            // The beginning may end within a character.
            let begin = take(&mut texts, what - HASHED).utf8_chunks().map(|c| c.valid()).next().unwrap_or_default().to_owned();
            KeyValue::Hashed(begin, number(&mut texts))
        }
        what => KeyValue::Text(String::from_utf8_lossy(take(&mut texts, what)).into_owned()),
    };
    (key.head as u16, whats.into_iter().map(value).collect())
}

/// Takes so many of the bytes, as far as there are any.
fn take<'b>(bytes: &mut &'b [u8], len: u8) -> &'b [u8] {
    let (taken, left) = bytes.split_at(bytes.len().min(len.into()));
    *bytes = left;
    taken
}

fn number(bytes: &mut &[u8]) -> u64 {
    take(bytes, WORD as u8).try_into().map_or(0, u64::from_le_bytes)
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
            let key = encode(event, &values);
            if let [only] = *values {
                prop_assert_eq!(key, encode_one(event, only));
            }
            let (number, decoded) = decode(&key, values.len());
            prop_assert_eq!(number, event);
            let fits = values.iter().map(size).sum::<usize>() <= KEY;
            for (value, decoded) in values.iter().zip(decoded) {
                match (value, decoded) {
                    (Value::Text(text), KeyValue::Hashed(begin, hash)) => {
                        prop_assert!(!fits && text.starts_with(begin.as_bytes()) && hash == Path::hash(*value));
                    }
                    (value, decoded) => prop_assert_eq!(known(value), decoded),
                }
            }
        }
    }
}
