//! What is wanted of an event, taken from its bytes on their way to its target.
//!
//! Where in a payload a number is, and which text, is known beforehand up to the first field whose size is not. So a number is a load or
//! a shift away, while to ask the event for it ([`Values`](trace_registry::condition::Values)) takes a call that knows nothing of the
//! field. What lies behind such a field is asked for all the same: [`super::measure`].
//!
//! ```text
//! fields     a: u32, b: &str, c: u64, d: &str
//! payload    run 0: a, length of b │ text 0: b │ run 1: c, length of d │ text 1: d
//! ```
//!
//! An event comes in words ([`Words`]: run 0 in registers, and perhaps a text) or in pieces ([`Pieces`]).

use super::key::{self, MOST};
use super::measure::{Kind, Plan};
use super::table::{KEY, Key};
use crate::condition::Source;
use crate::provider::{ContextValue, Room};
use trace_filter::Value;
use trace_registry::EventClass;
use trace_registry::field::{FieldClass, FieldDescriptor, Finished, Step, WORDS};

/// Runs that are looked at: payloads of more texts may not have a piece for each.
const RUNS: u8 = 11;
/// Arrays up to this size lie in a run.
const STAGED_ARRAY: usize = 32;
/// Payloads of less have no text that was cut, since texts of so many bytes are not.
const UNCUT: usize = 65_000;

/// An event as it comes.
pub(super) trait Carrier {
    /// The bits of a number, and perhaps others above it.
    fn bits(&self, place: Place) -> u64;
    /// A text.
    fn text(&self, number: u8) -> &[u8];
}

/// Words of the bytes in front of its text, and that.
#[derive(Clone, Copy)]
pub(super) struct Words<'p> {
    /// One more than there are, so that each has a next one.
    words: [u64; WORDS + 1],
    text: &'p [u8],
}

impl<'p> Words<'p> {
    #[inline(always)]
    pub(super) fn new([a, b, c]: [u64; WORDS], text: &'p [u8]) -> Words<'p> {
        Words { words: [a, b, c, 0], text }
    }

    #[inline(always)]
    fn word(&self, index: u8) -> u64 {
        self.words[usize::from(index) % (WORDS + 1)]
    }
}

impl Carrier for Words<'_> {
    #[inline(always)]
    fn bits(&self, place: Place) -> u64 {
        let (low, high) = (self.word(place.word), self.word(place.word + 1));
        // Nothing of `high` where it begins with its word.
        (low >> place.below) | ((high << 1) << (63 - place.below))
    }

    #[inline(always)]
    fn text(&self, _: u8) -> &[u8] {
        self.text
    }
}

/// Runs and texts in turns.
pub(super) struct Pieces<'p>(pub(super) &'p Finished<'p>);

impl Pieces<'_> {
    /// The piece of this number, where a text that was cut, which is followed by the sign for that, counts as one.
    #[inline(always)]
    fn piece(&self, number: usize) -> &[u8] {
        if self.0.total() < UNCUT { self.0.slice(number) } else { self.piece_of_cut(number) }
    }

    #[cold]
    #[inline(never)]
    fn piece_of_cut(&self, number: usize) -> &[u8] {
        let mut at = 0;
        for _ in 0..number / 2 {
            let announced = self.0.slice(at).last_chunk::<2>().map_or(0, |two| u16::from_le_bytes(*two));
            at += if self.0.slice(at + 1).len() == usize::from(announced) { 2 } else { 3 };
        }
        self.0.slice(at + number % 2)
    }
}

impl Carrier for Pieces<'_> {
    #[inline(always)]
    fn bits(&self, place: Place) -> u64 {
        let rest = self.piece(2 * usize::from(place.run)).get(usize::from(place.at)..).unwrap_or_default();
        // As it was stored just now: a load of more waits until it is in the cache.
        match place.less {
            0 => rest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            32 => rest.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes).into()),
            48 => rest.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes).into()),
            _ => rest.first().map_or(0, |byte| u64::from(*byte)),
        }
    }

    #[inline(always)]
    fn text(&self, number: u8) -> &[u8] {
        self.piece(2 * usize::from(number) + 1)
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

/// Where a number is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    run: u8,
    /// Byte of the run.
    at: u16,
    /// The same in words, where the event comes in such: which, and bits of it below the number.
    word: u8,
    below: u8,
    /// Bits that it has less than a word.
    less: u8,
    bits: Bits,
}

impl Place {
    fn new(run: u8, at: usize, size: usize, bits: Bits) -> Place {
        Place { run, at: at as u16, word: (at / 8) as u8, below: (at % 8 * 8) as u8, less: (64 - 8 * size) as u8, bits }
    }

    /// The bits of the number in 64.
    #[inline(always)]
    fn of(self, event: &impl Carrier) -> u64 {
        let bits = event.bits(self);
        let top = bits << self.less;
        match self.bits {
            Bits::Unsigned | Bits::Double => top >> self.less,
            Bits::Signed => ((top as i64) >> self.less) as u64,
            Bits::Float => f64::from(f32::from_bits(bits as u32)).to_bits(),
        }
    }
}

/// A number that is wanted.
#[derive(Clone, Copy)]
enum Number {
    Zero,
    At(Place),
    Context(ContextValue),
}

impl Number {
    /// Its bits in 64; `None`: there is none now.
    #[inline(always)]
    fn of(self, event: &impl Carrier) -> Option<u64> {
        match self {
            Number::Zero => Some(0),
            Number::At(place) => Some(place.of(event)),
            Number::Context(context) => of_context(context),
        }
    }

    /// As the event itself would say it.
    fn value(self, event: &impl Carrier) -> Value<'static> {
        let bits = match self.of(event) {
            Some(bits) => bits,
            None => return Value::Missing,
        };
        match self {
            Number::At(Place { bits: Bits::Signed, .. }) => Value::Integer((bits as i64).into()),
            Number::At(Place { bits: Bits::Float | Bits::Double, .. }) => Value::Float(f64::from_bits(bits)),
            _ => Value::Integer(bits.into()),
        }
    }
}

/// Apart: a [`Room`] is in memory.
#[inline(never)]
fn of_context(context: ContextValue) -> Option<u64> {
    match context.value(&Room::default()) {
        Value::Integer(value) => Some(value as u64),
        _ => None,
    }
}

/// What lies at a known place of a payload.
#[derive(Clone, Copy)]
enum Slot {
    Number(Place),
    Text(u8),
}

/// Where the fields of an event are, with the paths to them, up to the first of unknown size.
#[derive(Default)]
struct Layout {
    slots: Vec<(Vec<Step>, Slot)>,
    run: u8,
    at: usize,
}

impl Layout {
    fn of(class: &EventClass) -> Option<Layout> {
        let mut layout = Layout::default();
        // What is redacted takes other room.
        let is_known = !class.is_sensitive() && cfg!(target_endian = "little");
        is_known.then(|| {
            _ = layout.add(class.fields, &[]);
            layout
        })
    }

    /// `None`: what comes behind is at no known place.
    fn add(&mut self, fields: &[FieldDescriptor], path: &[Step]) -> Option<()> {
        for (field, index) in fields.iter().zip(0..) {
            let path = [path, &[Step::Field(index)]].concat();
            match field.class {
                FieldClass::String { length_bits: 16 } if !field.formatted && self.run + 1 < RUNS => {
                    self.slots.push((path, Slot::Text(self.run)));
                    // Behind its length.
                    (self.run, self.at) = (self.run + 1, 0);
                }
                FieldClass::Structure { fields } => self.add(fields, &path)?,
                _ => {
                    let (size, bits) = fixed(&field.class)?;
                    if let Some(bits) = bits {
                        self.slots.push((path, Slot::Number(Place::new(self.run, self.at, size, bits))));
                    }
                    self.at += size;
                }
            }
        }
        Some(())
    }

    fn find(&self, source: &Source) -> Option<Slot> {
        let Source::Field(index, path) = source else { return None };
        let is_it = |of: &[Step]| of.split_first().is_some_and(|(first, rest)| *first == Step::Field(*index) && *rest == **path);
        self.slots.iter().find(|(of, _)| is_it(of)).map(|(_, slot)| *slot)
    }
}

/// Bytes of a value, always as many, and what its bits are, if it is a number of a word at most.
fn fixed(class: &FieldClass) -> Option<(usize, Option<Bits>)> {
    match *class {
        FieldClass::Integer { bits, signed, network_order, .. } => {
            let number = if signed { Bits::Signed } else { Bits::Unsigned };
            Some((usize::from(bits) / 8, Some(number).filter(|_| bits <= 64 && !network_order)))
        }
        FieldClass::Enumeration { bits, signed, .. } => {
            Some((usize::from(bits) / 8, Some(if signed { Bits::Signed } else { Bits::Unsigned })))
        }
        FieldClass::Bool => Some((1, Some(Bits::Unsigned))),
        FieldClass::Float { bits: 32 } => Some((4, Some(Bits::Float))),
        FieldClass::Float { .. } => Some((8, Some(Bits::Double))),
        FieldClass::Array { element, length } => {
            let size = fixed(element)?.0 * length;
            (size <= STAGED_ARRAY).then_some((size, None))
        }
        _ => None,
    }
}

/// What an aggregation takes from the bytes of events.
pub(super) struct Direct {
    value: Number,
    /// Of the key, with the place in its head that says what they are; so many of them.
    numbers: [(Number, u8); MOST],
    count: usize,
    /// The same of texts.
    texts: [(u8, u8); MOST],
    text_count: usize,
    /// Of the key, for values that are not negative.
    head: u64,
}

impl Direct {
    /// `None`: what is wanted of events of this class is not all at known places.
    pub(super) fn new(plan: &Plan, event: u16, class: &EventClass) -> Option<Direct> {
        let layout = Layout::of(class)?;
        let number = |source: &Source| match source {
            Source::Context(ContextValue::ProcessName(_) | ContextValue::ThreadName) => None,
            Source::Context(context) => Some(Number::Context(*context)),
            _ => match layout.find(source)? {
                Slot::Number(place) => Some(Number::At(place)),
                Slot::Text(_) => None,
            },
        };
        let value = match &plan.value {
            Some((source, _)) => number(source)?,
            None => Number::Zero,
        };
        let (numbers, texts) = ([(Number::Zero, 0); MOST], [(0, 0); MOST]);
        let mut direct = Direct { value, numbers, count: 0, texts, text_count: 0, head: key::head(event) };
        for (i, source) in plan.keys.iter().enumerate() {
            let at = key::shift(i);
            if let Some(number) = number(source) {
                let is_float = matches!(number, Number::At(Place { bits: Bits::Float | Bits::Double, .. }));
                direct.head |= u64::from(if is_float { key::FLOAT } else { key::UNSIGNED }) << at;
                *direct.numbers.get_mut(direct.count)? = (number, at);
                direct.count += 1;
            } else if let Slot::Text(text) = layout.find(source)? {
                *direct.texts.get_mut(direct.text_count)? = (text, at);
                direct.text_count += 1;
            }
        }
        Some(direct)
    }

    /// The bits of the value; `None`: no finite one.
    #[inline(always)]
    pub(super) fn value(&self, kind: Kind, event: &impl Carrier) -> Option<u64> {
        let bits = self.value.of(event)?;
        (kind != Kind::Float || f64::from_bits(bits).is_finite()).then_some(bits)
    }

    /// The key; the same as [`key::encode`] makes of the same values. With one text at most, all of it stays in registers.
    #[inline(always)]
    pub(super) fn key(&self, event: &impl Carrier) -> Key {
        let (mut head, mut is_whole) = (self.head, true);
        let mut number = |i: usize| {
            let Some((number, at)) = self.numbers.get(i).filter(|_| i < self.count) else { return 0 };
            let bits = number.of(event).unwrap_or_else(|| {
                is_whole = false;
                0
            });
            if let Number::At(Place { bits: Bits::Signed, .. }) = number {
                head += (bits >> 63) << at;
            }
            bits
        };
        let [a, b, c, d] = [number(0), number(1), number(2), number(3)];
        if !is_whole {
            return self.long_key(event);
        }
        match self.text_count {
            0 => Key { head, bytes: [a, b, c, d] },
            1 => {
                let (text, at) = self.texts[0];
                let text = event.text(text);
                match 8 * self.count + text.len() {
                    ..=KEY => {}
                    _ if self.count == 0 => return key::of_long(head, at, text),
                    _ => return self.long_key(event),
                }
                let word = |i| key::word(text, i);
                let bytes = match self.count {
                    0 => [word(0), word(1), word(2), word(3)],
                    1 => [a, word(0), word(1), word(2)],
                    2 => [a, b, word(0), word(1)],
                    _ => [a, b, c, word(0)],
                };
                Key { head: head | (text.len() as u64) << at, bytes }
            }
            _ => self.key_of_texts(event, head, a, b),
        }
    }

    /// The same for several texts. Apart, since it needs the key in memory.
    #[inline(never)]
    fn key_of_texts(&self, event: &impl Carrier, mut head: u64, a: u64, b: u64) -> Key {
        // Four values are at most two numbers beside two texts.
        let mut key = Key { head: 0, bytes: [a, b, 0, 0] };
        let mut rest = 8 * self.count;
        for (text, at) in self.texts.iter().take(self.text_count) {
            let text = event.text(*text);
            if rest + text.len() > KEY {
                return self.long_key(event);
            }
            key::put_text(&mut key.bytes, rest, text);
            head |= (text.len() as u64) << at;
            rest += text.len();
        }
        key.head = head;
        key
    }

    #[cold]
    #[inline(never)]
    fn long_key(&self, event: &impl Carrier) -> Key {
        let mut values = [Value::Missing; MOST];
        let numbers = self.numbers.iter().take(self.count).map(|(number, at)| (*at, number.value(event)));
        let texts = self.texts.iter().take(self.text_count).map(|(text, at)| (*at, Value::Text(event.text(*text))));
        for (at, value) in numbers.chain(texts) {
            if let Some(place) = values.get_mut(usize::from(at - key::shift(0)) / 8) {
                *place = value;
            }
        }
        key::encode(self.head as u16, values.get(..self.count + self.text_count).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::measure::Shown;
    use proptest::prelude::*;
    use trace_registry::field::{Base, Field as _, Payload, Sizes, Storage};
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

    #[derive(Clone, Debug)]
    enum Part {
        Scalar(Scalar),
        Text(String),
        /// What is at no wanted place, and takes some room.
        Array([u16; 3]),
    }

    impl Part {
        fn class(&self) -> FieldClass {
            match self {
                Part::Scalar(scalar) => scalar.class(),
                Part::Text(_) => FieldClass::String { length_bits: 16 },
                Part::Array(_) => FieldClass::Array { element: const { &FieldClass::unsigned(16) }, length: 3 },
            }
        }

        fn value(&self) -> Value<'_> {
            match self {
                Part::Scalar(scalar) => scalar.value(),
                Part::Text(text) => Value::Text(text.as_bytes()),
                Part::Array(_) => Value::Missing,
            }
        }
    }

    fn part() -> impl Strategy<Value = Part> {
        prop_oneof![
            4 => scalar().prop_map(Part::Scalar),
            2 => "\\PC{0,20}".prop_map(Part::Text),
            1 => any::<[u16; 3]>().prop_map(Part::Array),
        ]
    }

    fn at(field: usize) -> Source {
        Source::Field(field as u16, Box::new([]))
    }

    fn class_of(fields: Vec<FieldDescriptor>) -> EventClass {
        EventClass { name: "", module_path: "", location: Location { file: "", line: 0 }, fields: Box::leak(fields.into()) }
    }

    /// Encodes parts as the event would.
    fn encode<'p>(parts: &'p [Part], payload: &mut Payload<'p>) {
        for part in parts {
            match part {
                Part::Scalar(scalar) => scalar.bytes().into_iter().for_each(|byte| payload.stage([byte])),
                Part::Text(text) => text.write(payload),
                Part::Array(array) => array.write(payload),
            }
        }
    }

    proptest! {
        #[test]
        #[cfg_attr(target_endian = "big", ignore = "events are asked there")]
        fn it_takes_what_the_event_would_say(
            parts in proptest::collection::vec(part(), 1..10),
            wanted in proptest::collection::vec(0..12_usize, 0..=MOST),
            valued in 0..12_usize,
            event in any::<u16>(),
        ) {
            let class = class_of(parts.iter().map(|part| FieldDescriptor::new("part", part.class())).collect());
            let is_known = |i: &usize| !matches!(parts[*i], Part::Array(_));
            let keys: Vec<usize> = wanted.iter().map(|i| i % parts.len()).filter(is_known).collect();
            let value = Some(valued % parts.len()).and_then(|i| match &parts[i] {
                Part::Scalar(scalar) => Some((i, scalar.kind(), scalar.kind().bits(scalar.value()))),
                _ => None,
            });
            let plan = Plan {
                keys: keys.iter().map(|i| at(*i)).collect(),
                shown: keys.iter().map(|_| Shown::AsIs).collect(),
                value: value.map(|(i, kind, _)| (at(i), kind)),
            };
            let direct = Direct::new(&plan, event, &class).expect("all of it is at known places");
            let said: Vec<Value<'_>> = keys.iter().map(|i| parts[*i].value()).collect();
            let key = key::encode(event, &said);

            let mut storage = Storage::<512, 25>::new();
            let mut payload = storage.begin(usize::MAX, Sizes::fixed(0), false);
            encode(&parts, &mut payload);
            let mut encoded = payload.finish().expect("it fits");
            let finished = encoded.finished();
            prop_assert_eq!(direct.key(&Pieces(&finished)), key);
            if let Some((_, kind, bits)) = value {
                prop_assert_eq!(direct.value(kind, &Pieces(&finished)), bits);
            }

            let (last, before) = parts.split_last().expect("there is one");
            let text = if let Part::Text(text) = last { text } else { "" };
            let run = finished.slice(0);
            if run.len() > 8 * WORDS || before.iter().any(|part| matches!(part, Part::Text(_))) {
                return Ok(());
            }
            let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|b| run.get(8 * i + b).copied().unwrap_or(0)));
            let words = Words::new([word(0), word(1), word(2)], text.as_bytes());
            prop_assert_eq!(direct.key(&words), key);
            if let Some((_, kind, bits)) = value {
                prop_assert_eq!(direct.value(kind, &words), bits);
            }
        }
    }

    #[test]
    fn fields_behind_a_text_that_was_cut_are_where_they_are() {
        let long = "x".repeat(70_000);
        let parts = [
            Part::Scalar(Scalar::Byte(3)),
            Part::Text(long),
            Part::Scalar(Scalar::Long(-7)),
            Part::Text("last".to_owned()),
            Part::Scalar(Scalar::Word(9)),
        ];
        let class = class_of(parts.iter().map(|part| FieldDescriptor::new("part", part.class())).collect());
        let keys: Vec<usize> = vec![0, 2, 3];
        let (sources, shown) = (keys.iter().map(|i| at(*i)).collect(), keys.iter().map(|_| Shown::AsIs).collect());
        let plan = Plan { keys: sources, shown, value: Some((at(4), Kind::Unsigned)) };
        let direct = Direct::new(&plan, 1, &class).expect("all of it is at known places");
        let mut storage = Storage::<512, 24>::new();
        let mut payload = storage.begin(usize::MAX, Sizes::fixed(0), false);
        encode(&parts, &mut payload);
        let mut encoded = payload.finish().expect("it fits");
        assert!(encoded.is_cut());
        let finished = encoded.finished();
        let said: Vec<Value<'_>> = keys.iter().map(|i| parts[*i].value()).collect();
        assert_eq!(direct.key(&Pieces(&finished)), key::encode(1, &said));
        assert_eq!(direct.value(Kind::Unsigned, &Pieces(&finished)), Some(9));
    }

    #[test]
    fn what_is_at_no_known_place_is_asked_for() {
        let plan = |field| Plan { keys: Box::new([field]), shown: Box::new([Shown::AsIs]), value: None };
        let number = FieldDescriptor::new("number", FieldClass::unsigned(32));
        let text = FieldDescriptor::new("text", FieldClass::String { length_bits: 16 });
        let some = FieldDescriptor::new("some", FieldClass::Optional { value: &FieldClass::Bool });
        let swapped = FieldClass::Integer { bits: 32, signed: false, base: Base::Decimal, network_order: true };
        let swapped = FieldDescriptor::new("swapped", swapped);
        let wide = FieldDescriptor::new("wide", FieldClass::Array { element: &FieldClass::Bool, length: 33 });
        let nested = FieldDescriptor::new("nested", FieldClass::Structure { fields: Box::leak(Box::new([number, text, some])) });
        let below = |index| Source::Field(0, Box::new([Step::Field(index)]));
        for (fields, source, is_known) in [
            (vec![text, number], at(1), true),
            (vec![text, text, number], at(2), true),
            (vec![number; 70], at(69), true),
            (vec![swapped, number], at(1), true),
            (vec![nested], below(0), true),
            (vec![nested], below(1), true),
            (vec![nested, number], at(0), false),
            (vec![nested], below(2), false),
            (vec![nested, number], at(1), false),
            (vec![wide, number], at(1), false),
            (vec![number, FieldDescriptor { sensitive: true, ..number }], at(0), false),
            (vec![number, FieldDescriptor { formatted: true, ..text }], at(1), false),
            (vec![FieldDescriptor { formatted: true, ..text }, number], at(1), false),
            (vec![swapped], at(0), false),
            (vec![some], at(0), false),
            (vec![number], Source::Field(0, Box::new([Step::Presence])), false),
            (vec![number], Source::Nothing, false),
            (vec![number], Source::Context(ContextValue::Vtid), true),
            (vec![number], Source::Context(ContextValue::ThreadName), false),
        ] {
            let class = class_of(fields);
            assert_eq!(Direct::new(&plan(source), 0, &class).is_some(), is_known, "{class:?}");
        }
    }
}
