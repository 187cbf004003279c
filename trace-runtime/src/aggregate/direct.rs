//! Events that travel in words: what is wanted of them is taken from there.
//!
//! An event of scalars of up to 24 bytes, and perhaps a text behind them, comes to its targets in words. A number of it is a shift away,
//! while to ask the event for it ([`Values`](trace_registry::condition::Values)) takes a call that knows nothing of the field.
//! All others are asked: [`super::measure`].

use super::key::{self, MOST};
use super::measure::{Kind, Plan};
use super::table::{KEY, Key};
use crate::condition::Source;
use trace_filter::Value;
use trace_registry::EventClass;
use trace_registry::field::{FieldClass, Finished, WORDS};

/// An event as it comes: words of the bytes in front of its text, and that.
#[derive(Clone, Copy)]
pub(super) struct Parts<'p> {
    /// One more than there are, so that each has a next one.
    words: [u64; WORDS + 1],
    text: &'p [u8],
}

impl<'p> Parts<'p> {
    #[inline(always)]
    pub(super) fn new([a, b, c]: [u64; WORDS], text: &'p [u8]) -> Parts<'p> {
        Parts { words: [a, b, c, 0], text }
    }

    #[inline(always)]
    fn word(&self, index: u8) -> u64 {
        self.words[usize::from(index) % (WORDS + 1)]
    }
}

/// What the bits of a number are.
#[derive(Clone, Copy)]
enum Bits {
    Unsigned,
    Signed,
    Float,
    Double,
}

/// Where a number is in the words of its event.
#[derive(Clone, Copy)]
struct Place {
    word: u8,
    /// Bits of that word below it.
    below: u8,
    /// Bits that it has less than a word.
    less: u8,
    bits: Bits,
}

impl Place {
    const NOWHERE: Place = Place { word: 0, below: 0, less: 0, bits: Bits::Unsigned };

    fn new(at: usize, size: usize, bits: Bits) -> Place {
        Place { word: (at / 8) as u8, below: (at % 8 * 8) as u8, less: (64 - 8 * size) as u8, bits }
    }

    /// The bits of the number in 64.
    #[inline(always)]
    fn of(self, parts: &Parts<'_>) -> u64 {
        let (low, high) = (parts.word(self.word), parts.word(self.word + 1));
        // Nothing of `high` where it begins with its word.
        let bits = (low >> self.below) | ((high << 1) << (63 - self.below));
        let top = bits << self.less;
        match self.bits {
            Bits::Unsigned | Bits::Double => top >> self.less,
            Bits::Signed => ((top as i64) >> self.less) as u64,
            Bits::Float => f64::from(f32::from_bits(bits as u32)).to_bits(),
        }
    }

    /// As the event itself would say it.
    fn value(self, parts: &Parts<'_>) -> Value<'static> {
        let bits = self.of(parts);
        match self.bits {
            Bits::Unsigned => Value::Integer(bits.into()),
            Bits::Signed => Value::Integer((bits as i64).into()),
            Bits::Float | Bits::Double => Value::Float(f64::from_bits(bits)),
        }
    }
}

/// What the fields of an event are where it travels in words: its numbers, and whether a text comes behind them.
///
/// `None`: it does not, or not with these fields only.
fn layout(class: &EventClass, least: usize) -> Option<Vec<Option<Place>>> {
    let mut at = 0;
    let mut places = Vec::new();
    for (i, field) in class.fields.iter().enumerate() {
        let (size, place) = match field.class {
            FieldClass::Integer { bits, signed, network_order: false, .. } | FieldClass::Enumeration { bits, signed, .. } => {
                (usize::from(bits) / 8, Some(if signed { Bits::Signed } else { Bits::Unsigned }))
            }
            FieldClass::Bool => (1, Some(Bits::Unsigned)),
            FieldClass::Float { bits: 32 } => (4, Some(Bits::Float)),
            FieldClass::Float { .. } => (8, Some(Bits::Double)),
            // Behind its length.
            FieldClass::String { length_bits: 16 } if i + 1 == class.fields.len() && !field.formatted => (2, None),
            _ => return None,
        };
        places.push(place.map(|bits| Place::new(at, size, bits)));
        at += size;
    }
    // Words are in the order of memory, and shifts in that of numbers.
    let travels = at == least && at <= 8 * WORDS && !class.is_sensitive() && cfg!(target_endian = "little");
    travels.then_some(places)
}

/// What an aggregation takes of events that travel in words.
pub(super) struct Direct {
    /// Bytes in front of the text.
    fixed: usize,
    value: Place,
    /// Of the key, with the place in its head that says what they are; so many of them.
    numbers: [(Place, u8); MOST],
    count: usize,
    /// The same of the text, where it is of the key.
    text: Option<u8>,
    /// Of the key, for values that are not negative.
    head: u64,
}

impl Direct {
    /// `None`: events of this class, or what is wanted of them, are not all in words and text.
    pub(super) fn new(plan: &Plan, event: u16, class: &EventClass, least: usize) -> Option<Direct> {
        let places = layout(class, least)?;
        let place = |source: &Source| match source {
            Source::Field(index, path) if path.is_empty() => places.get(usize::from(*index)).copied(),
            _ => None,
        };
        let value = match &plan.value {
            Some((source, _)) => place(source)??,
            None => Place::NOWHERE,
        };
        let mut direct =
            Direct { fixed: least, value, numbers: [(Place::NOWHERE, 0); MOST], count: 0, text: None, head: key::head(event) };
        for (i, source) in plan.keys.iter().enumerate() {
            let at = key::shift(i);
            match place(source)? {
                Some(number) => {
                    let what = if let Bits::Float | Bits::Double = number.bits { key::FLOAT } else { key::UNSIGNED };
                    direct.head |= u64::from(what) << at;
                    *direct.numbers.get_mut(direct.count)? = (number, at);
                    direct.count += 1;
                }
                // The same text twice: the general way.
                None if direct.text.is_some() => return None,
                None => direct.text = Some(at),
            }
        }
        Some(direct)
    }

    #[inline(always)]
    fn numbers(&self) -> impl Iterator<Item = &(Place, u8)> {
        self.numbers.iter().take(self.count)
    }

    /// An event in pieces, as one comes whose text is very long.
    pub(super) fn gather<'p>(&self, pieces: &'p Finished<'p>) -> Parts<'p> {
        let mut bytes = [0; 8 * WORDS];
        let (mut at, mut text) = (0, &[][..]);
        for piece in pieces.slices() {
            let (front, behind) = piece.split_at(piece.len().min(self.fixed.saturating_sub(at)));
            bytes.iter_mut().skip(at).zip(front).for_each(|(to, byte)| *to = *byte);
            at += front.len();
            // What comes behind is the sign that it was cut.
            if text.is_empty() {
                text = behind;
            }
        }
        let word = |i: usize| bytes.get(8 * i..8 * i + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        Parts::new([word(0), word(1), word(2)], text)
    }

    /// The bits of the value; `None`: no finite one.
    #[inline(always)]
    pub(super) fn value(&self, kind: Kind, parts: &Parts<'_>) -> Option<u64> {
        let bits = self.value.of(parts);
        (kind != Kind::Float || f64::from_bits(bits).is_finite()).then_some(bits)
    }

    /// The key; the same as [`key::encode`] makes of the same values. All of it stays in registers.
    #[inline(always)]
    pub(super) fn key(&self, parts: &Parts<'_>) -> Key {
        let mut head = self.head;
        let mut number = |i: usize| {
            let Some((number, at)) = self.numbers.get(i).filter(|_| i < self.count) else { return 0 };
            let bits = number.of(parts);
            if let Bits::Signed = number.bits {
                head += (bits >> 63) << at;
            }
            bits
        };
        let [a, b, c, d] = [number(0), number(1), number(2), number(3)];
        let Some(at) = self.text else { return Key { head, bytes: [a, b, c, d] } };
        if 8 * self.count + parts.text.len() > KEY {
            return self.long_key(parts);
        }
        let word = |i| key::word(parts.text, i);
        let bytes = match self.count {
            0 => [word(0), word(1), word(2), word(3)],
            1 => [a, word(0), word(1), word(2)],
            2 => [a, b, word(0), word(1)],
            _ => [a, b, c, word(0)],
        };
        Key { head: head | (parts.text.len() as u64) << at, bytes }
    }

    #[cold]
    #[inline(never)]
    fn long_key(&self, parts: &Parts<'_>) -> Key {
        let mut values = [Value::Missing; MOST];
        let place = |at: u8| usize::from(at - key::shift(0)) / 8;
        let numbers = self.numbers().map(|(number, at)| (*at, number.value(parts)));
        for (at, value) in numbers.chain(self.text.map(|at| (at, Value::Text(parts.text)))) {
            if let Some(place) = values.get_mut(place(at)) {
                *place = value;
            }
        }
        key::encode(self.head as u16, values.get(..self.count + 1).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::measure::Shown;
    use proptest::prelude::*;
    use trace_registry::field::{Base, FieldDescriptor, Sizes, Step, Storage};
    use trace_registry::tracepoint::Location;

    #[derive(Clone, Debug)]
    enum Scalar {
        Bool(bool),
        Byte(u8),
        Short(i16),
        Word(u32),
        Long(i64),
        Unsigned(u64),
        Single(f32),
        Double(f64),
    }

    impl Scalar {
        fn class(&self) -> FieldClass {
            match self {
                Scalar::Bool(_) => FieldClass::Bool,
                Scalar::Byte(_) => FieldClass::unsigned(8),
                Scalar::Short(_) => FieldClass::Enumeration { bits: 16, signed: true, labels: &[] },
                Scalar::Word(_) => FieldClass::unsigned(32),
                Scalar::Long(_) => FieldClass::signed(64),
                Scalar::Unsigned(_) => FieldClass::unsigned(64),
                Scalar::Single(_) => FieldClass::Float { bits: 32 },
                Scalar::Double(_) => FieldClass::Float { bits: 64 },
            }
        }

        fn bytes(&self) -> Vec<u8> {
            match self {
                Scalar::Bool(value) => vec![u8::from(*value)],
                Scalar::Byte(value) => vec![*value],
                Scalar::Short(value) => value.to_ne_bytes().to_vec(),
                Scalar::Word(value) => value.to_ne_bytes().to_vec(),
                Scalar::Long(value) => value.to_ne_bytes().to_vec(),
                Scalar::Unsigned(value) => value.to_ne_bytes().to_vec(),
                Scalar::Single(value) => value.to_ne_bytes().to_vec(),
                Scalar::Double(value) => value.to_ne_bytes().to_vec(),
            }
        }

        /// What the event would say of it.
        fn value(&self) -> Value<'static> {
            match self {
                Scalar::Bool(value) => Value::Integer((*value).into()),
                Scalar::Byte(value) => Value::Integer((*value).into()),
                Scalar::Short(value) => Value::Integer((*value).into()),
                Scalar::Word(value) => Value::Integer((*value).into()),
                Scalar::Long(value) => Value::Integer((*value).into()),
                Scalar::Unsigned(value) => Value::Integer((*value).into()),
                Scalar::Single(value) => Value::Float((*value).into()),
                Scalar::Double(value) => Value::Float(*value),
            }
        }

        fn kind(&self) -> Kind {
            match self {
                Scalar::Short(_) | Scalar::Long(_) => Kind::Signed,
                Scalar::Single(_) | Scalar::Double(_) => Kind::Float,
                _ => Kind::Unsigned,
            }
        }
    }

    fn scalar() -> impl Strategy<Value = Scalar> {
        prop_oneof![
            any::<bool>().prop_map(Scalar::Bool),
            any::<u8>().prop_map(Scalar::Byte),
            any::<i16>().prop_map(Scalar::Short),
            any::<u32>().prop_map(Scalar::Word),
            any::<i64>().prop_map(Scalar::Long),
            any::<u64>().prop_map(Scalar::Unsigned),
            any::<f32>().prop_map(Scalar::Single),
            any::<f64>().prop_map(Scalar::Double),
        ]
    }

    fn at(field: usize) -> Source {
        Source::Field(field as u16, Box::new([]))
    }

    proptest! {
        #[test]
        #[cfg_attr(target_endian = "big", ignore = "events are asked there")]
        fn it_takes_what_the_event_would_say(
            mut scalars in proptest::collection::vec(scalar(), 1..12),
            text in proptest::option::of("\\PC{0,40}"),
            wanted in proptest::collection::vec(0..12_usize, 0..=MOST),
            valued in 0..12_usize,
            event in any::<u16>(),
        ) {
            let size = |scalars: &[Scalar]| scalars.iter().map(|s| s.bytes().len()).sum::<usize>() + 2 * usize::from(text.is_some());
            while size(&scalars) > 8 * WORDS {
                scalars.pop();
            }
            let mut fields: Vec<_> = scalars.iter().map(|s| FieldDescriptor::new("number", s.class())).collect();
            let mut values: Vec<_> = scalars.iter().map(Scalar::value).collect();
            if let Some(text) = &text {
                fields.push(FieldDescriptor::new("text", FieldClass::String { length_bits: 16 }));
                values.push(Value::Text(text.as_bytes()));
            }
            prop_assume!(!scalars.is_empty());
            let location = Location { file: "", line: 0 };
            let class = EventClass { name: "", module_path: "", location, fields: Box::leak(fields.into()) };
            let keys: Vec<usize> = wanted.iter().map(|i| i % values.len()).collect();
            let valued = valued % scalars.len();
            let plan = Plan {
                keys: keys.iter().map(|i| at(*i)).collect(),
                shown: keys.iter().map(|_| Shown::AsIs).collect(),
                value: Some((at(valued), scalars[valued].kind())),
            };
            let least = size(&scalars);
            let direct = Direct::new(&plan, event, &class, least);
            let texts = keys.iter().filter(|i| **i >= scalars.len()).count();
            prop_assert_eq!(direct.is_some(), texts < 2);
            prop_assert!(Direct::new(&plan, event, &class, least + 1).is_none(), "it takes another way");
            let Some(direct) = direct else { return Ok(()) };

            let bytes: Vec<u8> = scalars.iter().flat_map(Scalar::bytes).chain(text.iter().flat_map(|t| (t.len() as u16).to_ne_bytes())).collect();
            let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|b| bytes.get(8 * i + b).copied().unwrap_or(0)));
            let tail = text.as_deref().unwrap_or_default().as_bytes();
            let parts = Parts::new([word(0), word(1), word(2)], tail);
            let said: Vec<Value<'_>> = keys.iter().map(|i| values[*i]).collect();
            prop_assert_eq!(direct.key(&parts), key::encode(event, &said));
            prop_assert_eq!(direct.value(scalars[valued].kind(), &parts), scalars[valued].kind().bits(values[valued]));

            let mut storage = Storage::<512, 8>::new();
            let mut payload = storage.begin(usize::from(u16::MAX), Sizes::fixed(least), false);
            bytes.iter().for_each(|byte| payload.stage([*byte]));
            prop_assert!(payload.piece(tail));
            let mut encoded = payload.finish().expect("it fits");
            let finished = encoded.finished();
            let gathered = direct.gather(&finished);
            prop_assert_eq!((gathered.words, gathered.text), (parts.words, parts.text));
        }
    }

    #[test]
    fn what_is_no_scalar_is_asked_for() {
        let location = Location { file: "", line: 0 };
        let plan = |field| Plan { keys: Box::new([field]), shown: Box::new([Shown::AsIs]), value: None };
        let number = FieldDescriptor::new("number", FieldClass::unsigned(32));
        let text = FieldDescriptor::new("text", FieldClass::String { length_bits: 16 });
        let swapped = FieldClass::Integer { bits: 32, signed: false, base: Base::Decimal, network_order: true };
        for (fields, least, source) in [
            (vec![text, number], 6, at(1)),
            (vec![number, FieldDescriptor { sensitive: true, ..number }], 8, at(0)),
            (vec![number, FieldDescriptor { formatted: true, ..text }], 6, at(0)),
            (vec![FieldDescriptor::new("swapped", swapped)], 4, at(0)),
            (vec![FieldDescriptor::new("some", FieldClass::Optional { value: &FieldClass::Bool })], 1, at(0)),
            (vec![number; 7], 28, at(0)),
            (vec![number], 4, Source::Field(0, Box::new([Step::Presence]))),
            (vec![number], 4, Source::Nothing),
        ] {
            let class = EventClass { name: "", module_path: "", location, fields: Box::leak(fields.into()) };
            assert!(Direct::new(&plan(source), 0, &class, least).is_none(), "{class:?}");
        }
    }
}
