//! What is wanted of an event: its value and its key, from its bytes on their way to the target, or asked for.
//!
//! Where in a payload a number is, and which text, is known beforehand up to the first field whose size is not. So a number is a load or
//! a shift away, while to ask the event for it ([`Values`](trace_registry::condition::Values)) takes a call that knows nothing of the
//! field. Where anything that is wanted lies behind such a field, the event is asked for all of it.

use super::carrier::{Carrier, Class, Number, Place, Slot};
use super::key::{self, MOST, Part};
use super::measure::{Kind, Plan, Shown};
use super::table::{KEY, Key};
use crate::condition::Source;
use std::array;
use trace_registry::EventClass;
use trace_registry::field::{FieldClass, FieldDescriptor, Step};

/// Runs that are looked at: payloads of more texts may not have a piece for each.
const RUNS: u8 = 11;
/// Arrays up to this size lie in a run.
const STAGED_ARRAY: usize = 32;

/// Where the fields of an event are, with the paths to them, up to the first of unknown size.
#[derive(Default)]
struct Layout {
    slots: Vec<(Vec<Step>, Slot)>,
    /// Lengths of the runs that have a text behind them, up to its length.
    runs: Vec<u16>,
    at: usize,
}

impl Layout {
    /// `None`: what is redacted takes other room, and what is formatted takes long, if nobody wants it.
    fn of(class: &EventClass) -> Option<Layout> {
        let mut layout = Layout::default();
        let is_known = !class.is_sensitive() && !is_formatted(class.fields) && cfg!(target_endian = "little");
        is_known.then(|| {
            _ = layout.add(class.fields, &[]);
            layout
        })
    }

    /// `None`: what comes behind is at no known place.
    fn add(&mut self, fields: &[FieldDescriptor], path: &[Step]) -> Option<()> {
        for (field, index) in fields.iter().zip(0..) {
            let path = [path, &[Step::Field(index)]].concat();
            let run = 2 * self.runs.len() as u8;
            match field.class {
                FieldClass::String { length_bits: 16 } if run / 2 + 1 < RUNS => {
                    self.slots.push((path, Slot::Text(run + 1)));
                    self.runs.push(self.at as u16);
                    self.at = 0;
                }
                FieldClass::Structure { fields } => self.add(fields, &path)?,
                FieldClass::Optional { value } => {
                    let place = Place::new(run, self.at + 1, fixed(value)?.1?);
                    let presence = Place::new(run, self.at, Class::Unsigned8);
                    self.slots.push((path, Slot::Number(Number::optional(place, presence))));
                    return None;
                }
                _ => {
                    let (size, number) = fixed(&field.class)?;
                    let place = number.map(|class| Place::new(run, self.at, class));
                    self.slots.extend(place.map(|place| (path, Slot::Number(Number::at(place)))));
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

/// Whether anything of these fields is formatted when it is written.
fn is_formatted(fields: &[FieldDescriptor]) -> bool {
    fn within(class: &FieldClass) -> bool {
        match *class {
            FieldClass::Structure { fields } => is_formatted(fields),
            FieldClass::Array { element, .. } | FieldClass::Sequence { element, .. } => within(element),
            FieldClass::Optional { value } => within(value),
            FieldClass::Variant { options } => options.iter().any(|option| within(&option.class)),
            _ => false,
        }
    }
    fields.iter().any(|field| field.formatted || within(&field.class))
}

/// Bytes of a value, always as many, and what number it is, if it is one of a word at most.
fn fixed(class: &FieldClass) -> Option<(usize, Option<Class>)> {
    match *class {
        FieldClass::Integer { bits, network_order: true, .. } => Some((usize::from(bits) / 8, None)),
        FieldClass::Integer { bits, signed, .. } | FieldClass::Enumeration { bits, signed, .. } => {
            Some((usize::from(bits) / 8, Class::integer(bits, signed)))
        }
        FieldClass::Bool => Some((1, Some(Class::Unsigned8))),
        FieldClass::Float { bits: 32 } => Some((4, Some(Class::Float32))),
        FieldClass::Float { .. } => Some((8, Some(Class::Float64))),
        FieldClass::Array { element, length } => {
            let size = fixed(element)?.0 * length;
            (size <= STAGED_ARRAY).then_some((size, None))
        }
        _ => None,
    }
}

/// Where a source of a [`Plan`] is, if that is known beforehand.
fn known(source: &Source, layout: Option<&Layout>) -> Option<Slot> {
    match source {
        Source::Context(context) if context.is_text() => None,
        Source::Context(context) => Some(Slot::Number(Number::context(*context))),
        _ => layout?.find(source),
    }
}

/// What an aggregation takes of events.
pub(super) struct Projection {
    value: Number,
    /// Of the key, with the place in its head that says what they are; so many of them.
    numbers: [(Number, u8); MOST],
    count: usize,
    /// The same of texts.
    texts: [(u8, u8); MOST],
    text_count: usize,
    /// Of the key, without what its values are.
    head: u64,
    /// Lengths of the runs that have a text behind them, up to its length, as far as anything is wanted from there.
    pub(super) runs: Box<[u16]>,
    /// Whether all numbers are always there, in the payload.
    pub(super) is_plain: bool,
    /// Whether not all of it is at known places: events are [`Asked`](super::carrier::Asked).
    pub(super) is_asked: bool,
}

impl Projection {
    pub(super) fn new(plan: &Plan, event: u16, class: &EventClass) -> Projection {
        let layout = Layout::of(class);
        let places: Vec<_> = plan.sources.iter().map(|source| known(source, layout.as_ref())).collect();
        let is_asked = places.iter().any(Option::is_none);
        let (mut numbers, mut texts, mut value) = (Vec::new(), Vec::new(), Number::NONE);
        for (i, place) in (0..).zip(places) {
            let shown = plan.shown.get(usize::from(i));
            let asked = if matches!(shown, Some(Shown::Text)) { Slot::Text(i) } else { Slot::Number(Number::asked(i)) };
            match (shown, place.filter(|_| !is_asked).unwrap_or(asked)) {
                (Some(_), Slot::Number(number)) => numbers.push((number, key::shift(i.into()))),
                (Some(_), Slot::Text(text)) => texts.push((text, key::shift(i.into()))),
                (None, Slot::Number(number)) => value = number,
                // The plan has none whose values are text.
                (None, Slot::Text(_)) => {}
            }
        }
        let all = || numbers.iter().map(|(number, _)| number).chain([&value]);
        let last = all().map(Number::piece).chain(texts.iter().map(|(piece, _)| *piece)).max().unwrap_or(0);
        let runs = layout.filter(|_| !is_asked).map_or(Vec::new(), |layout| layout.runs);
        Projection {
            value,
            numbers: array::from_fn(|i| numbers.get(i).copied().unwrap_or((Number::NONE, 0))),
            count: numbers.len(),
            texts: array::from_fn(|i| texts.get(i).copied().unwrap_or_default()),
            text_count: texts.len(),
            head: key::head(event),
            runs: runs.into_iter().take(usize::from(last).div_ceil(2)).collect(),
            is_plain: all().all(Number::is_plain),
            is_asked,
        }
    }

    /// The bits of the value; `None`: no finite one.
    #[inline(always)]
    pub(super) fn value<const PLAIN: bool>(&self, kind: Kind, event: &impl Carrier) -> Option<u64> {
        kind.bits(event.number::<PLAIN>(&self.value))
    }

    /// The key; the same as [`key::encode`] makes of the same values. All of it stays in registers.
    #[inline(always)]
    pub(super) fn key<const PLAIN: bool>(&self, event: &impl Carrier) -> Key {
        self.short_key::<PLAIN>(event).unwrap_or_else(|| self.long_key(*event).in_registers())
    }

    /// What a number adds to the head of the key, and its bits; `None`: it is none.
    #[inline(always)]
    fn number<const PLAIN: bool>(&self, i: usize, event: &impl Carrier) -> Option<(u64, u64)> {
        let Some((number, at)) = self.numbers.get(i).filter(|_| i < self.count) else { return Some((0, 0)) };
        let (what, bits) = event.number::<PLAIN>(number);
        (what != key::TEXT).then_some((u64::from(what) << at, bits))
    }

    /// The key of numbers and a text, of numbers and two texts that fit, or of two texts.
    #[inline(always)]
    fn short_key<const PLAIN: bool>(&self, event: &impl Carrier) -> Option<Key> {
        let (p, a) = self.number::<PLAIN>(0, event)?;
        let (q, b) = self.number::<PLAIN>(1, event)?;
        let (r, c) = self.number::<PLAIN>(2, event)?;
        let (s, d) = self.number::<PLAIN>(3, event)?;
        let head = self.head | p | q | r | s;
        let [(first, first_at), (last, last_at), ..] = self.texts;
        if self.text_count == 0 {
            return Some(Key { head, bytes: [a, b, c, d] });
        }
        let text = event.text(first)?;
        let rest = 8 * self.count + text.len();
        if rest > KEY && self.text_count == 1 {
            let (what, bytes) = key::behind([a, b, c], self.count, text);
            return Some(Key { head: head | what << first_at, bytes });
        }
        let other = match self.text_count {
            1 => &[],
            2 => event.text(last)?,
            _ => return None,
        };
        if rest + other.len() > KEY {
            return (self.count == 0).then(|| {
                let ([p, q], [a, b, c, d]) = key::halves(text, other);
                Key { head: self.head | p << first_at | q << last_at, bytes: [a, b, c, d] }
            });
        }
        let head = head | (text.len() as u64) << first_at;
        let word = |i| key::word(text, i);
        let [a, b, c, d] = match self.count {
            0 => [word(0), word(1), word(2), word(3)],
            1 => [a, word(0), word(1), word(2)],
            2 => [a, b, word(0), word(1)],
            _ => [a, b, c, word(0)],
        };
        if self.text_count == 1 {
            return Some(Key { head, bytes: [a, b, c, d] });
        }
        let word = |i| key::word_before_end(other, i);
        let head = head | (other.len() as u64) << last_at;
        Some(Key { head, bytes: [a | word(3), b | word(2), c | word(1), d | word(0)] })
    }

    /// The key of those of which [`short_key`](Self::short_key) makes none.
    #[cold]
    #[inline(never)]
    fn long_key(&self, event: impl Carrier) -> Key {
        let mut parts = [Part::MISSING; MOST];
        let numbers = self.numbers.iter().take(self.count).map(|(number, at)| (*at, Slot::Number(*number)));
        let texts = self.texts.iter().take(self.text_count).map(|(text, at)| (*at, Slot::Text(*text)));
        for (at, slot) in numbers.chain(texts) {
            if let Some(part) = parts.get_mut(usize::from(at - key::shift(0)) / 8) {
                *part = event.part(slot);
            }
        }
        key::encode(self.head as u16, parts.get(..self.count + self.text_count).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::carrier::{Asked, Pieces, Scattered, Words};
    use crate::provider::{ContextValue, Room};
    use proptest::prelude::*;
    use trace_filter::Value;
    use trace_registry::condition::Values;
    use trace_registry::field::{Base, Field as _, Payload, Sizes, Storage, WORDS};
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
    enum Given {
        Scalar(Scalar),
        Text(String),
        /// As a field may stage it that is not of our types.
        Staged(String),
        /// What is at no wanted place, and takes some room.
        Array([u16; 3]),
        /// At the end only.
        Option(Option<i32>),
    }

    impl Given {
        fn class(&self) -> FieldClass {
            match self {
                Given::Scalar(scalar) => scalar.class(),
                Given::Text(_) | Given::Staged(_) => FieldClass::String { length_bits: 16 },
                Given::Array(_) => FieldClass::Array { element: const { &FieldClass::unsigned(16) }, length: 3 },
                Given::Option(_) => FieldClass::Optional { value: const { &FieldClass::signed(32) } },
            }
        }

        fn value(&self) -> Value<'_> {
            match self {
                Given::Scalar(scalar) => scalar.value(),
                Given::Text(text) | Given::Staged(text) => Value::Text(text.as_bytes()),
                Given::Array(_) => Value::Missing,
                Given::Option(option) => option.value(&[]),
            }
        }
    }

    fn given() -> impl Strategy<Value = Given> {
        prop_oneof![
            8 => scalar().prop_map(Given::Scalar),
            4 => "\\PC{0,20}".prop_map(Given::Text),
            1 => "\\PC{0,20}".prop_map(Given::Staged),
            2 => any::<[u16; 3]>().prop_map(Given::Array),
        ]
    }

    fn at(field: usize) -> Source {
        Source::Field(field as u16, Box::new([]))
    }

    fn class_of(fields: Vec<FieldDescriptor>) -> EventClass {
        EventClass { name: "", module_path: "", location: Location { file: "", line: 0 }, fields: Box::leak(fields.into()) }
    }

    /// Encodes what is given as the event would.
    fn encode<'p>(all: &'p [Given], payload: &mut Payload<'p>) {
        for given in all {
            match given {
                Given::Scalar(scalar) => scalar.bytes().into_iter().for_each(|byte| payload.stage([byte])),
                Given::Text(text) => text.write(payload),
                Given::Staged(text) => {
                    payload.stage((text.len() as u16).to_ne_bytes());
                    text.bytes().for_each(|byte| payload.stage([byte]));
                }
                Given::Array(array) => array.write(payload),
                Given::Option(option) => option.write(payload),
            }
        }
    }

    /// An event that is asked.
    struct Fields<'p>(&'p [Given]);

    impl Values for Fields<'_> {
        fn value(&self, field: u16, _: &[Step]) -> Value<'_> {
            self.0[usize::from(field)].value()
        }

        fn text(&self, field: u16, path: &[Step]) -> Option<&[u8]> {
            self.value(field, path).text()
        }
    }

    proptest! {
        #[test]
        fn an_event_that_is_asked_says_all(
            parts in proptest::collection::vec(prop_oneof![9 => given(), 1 => any::<Option<i32>>().prop_map(Given::Option)], 1..10),
            wanted in proptest::collection::vec(0..12_usize, 0..=MOST),
            valued in 0..12_usize,
            says_text in proptest::option::of(any::<bool>()),
        ) {
            let keys: Vec<usize> = wanted.iter().map(|i| i % parts.len()).collect();
            let value = Some(valued % parts.len()).and_then(|i| match &parts[i] {
                Given::Scalar(scalar) => Some((i, scalar.kind())),
                Given::Option(_) => Some((i, Kind::Signed)),
                _ => None,
            });
            // A field of a type of the program's own may be what its class does not say.
            let is_text = |i: &usize| says_text.unwrap_or(matches!(parts[*i], Given::Text(_) | Given::Staged(_)));
            let shown = |i: &usize| if is_text(i) { Shown::Text } else { Shown::AsIs };
            let sources = keys.iter().copied().chain(value.map(|(i, _)| i)).map(at).collect();
            let plan = Plan { sources, shown: keys.iter().map(shown).collect(), kind: value.map(|(_, kind)| kind) };
            let unknown = FieldDescriptor { sensitive: true, ..FieldDescriptor::new("part", FieldClass::Bool) };
            let projection = Projection::new(&plan, 7, &class_of(vec![unknown]));
            prop_assert_eq!(projection.is_asked, !plan.sources.is_empty());
            let (fields, room) = (Fields(&parts), Room::default());
            let asked = Asked::new(&fields, &plan, &room);
            let said: Vec<Part<'_>> = keys.iter().map(|i| Part::of(parts[*i].value())).collect();
            prop_assert_eq!(projection.key::<false>(&asked), key::encode(7, &said));
            if let Some((i, kind)) = value {
                prop_assert_eq!(projection.value::<false>(kind, &asked), kind.bits(Part::of(parts[i].value()).number()));
            }
        }

        #[test]
        #[cfg_attr(target_endian = "big", ignore = "events are asked there")]
        fn it_takes_what_the_event_would_say(
            mut parts in proptest::collection::vec(given(), 1..10),
            last in proptest::option::of(proptest::option::of(any::<i32>())),
            wanted in proptest::collection::vec(0..12_usize, 0..=MOST),
            valued in 0..12_usize,
            event in any::<u16>(),
        ) {
            parts.extend(last.map(Given::Option));
            let class = class_of(parts.iter().map(|part| FieldDescriptor::new("part", part.class())).collect());
            let is_known = |i: &usize| !matches!(parts[*i], Given::Array(_));
            let keys: Vec<usize> = wanted.iter().map(|i| i % parts.len()).filter(is_known).collect();
            let value = Some(valued % parts.len()).and_then(|i| match &parts[i] {
                Given::Scalar(scalar) => Some((i, scalar.kind(), scalar.kind().bits(Part::of(scalar.value()).number()))),
                Given::Option(option) => Some((i, Kind::Signed, Kind::Signed.bits(Part::of(option.value(&[])).number()))),
                _ => None,
            });
            let is_text = |i: &usize| matches!(parts[*i], Given::Text(_) | Given::Staged(_));
            let shown = |i: &usize| if is_text(i) { Shown::Text } else { Shown::AsIs };
            let plan = Plan {
                sources: keys.iter().copied().chain(value.map(|(i, ..)| i)).map(at).collect(),
                shown: keys.iter().map(shown).collect(),
                kind: value.map(|(_, kind, _)| kind),
            };
            let projection = Projection::new(&plan, event, &class);
            prop_assert!(!projection.is_asked, "all of it is at known places");
            let said: Vec<Part<'_>> = keys.iter().map(|i| Part::of(parts[*i].value())).collect();
            let key = key::encode(event, &said);

            let mut storage = Storage::<512, 25>::new();
            let mut payload = storage.begin(usize::MAX, Sizes::fixed(0), false);
            encode(&parts, &mut payload);
            let mut encoded = payload.finish().expect("it fits");
            let finished = encoded.finished();
            let scattered = Scattered::new(finished.slices(), &projection.runs);
            prop_assert_eq!(projection.key::<false>(&scattered), key);
            if let Some((_, kind, bits)) = value {
                prop_assert_eq!(projection.value::<false>(kind, &scattered), bits);
            }
            let pieces = Pieces::new(finished.slices(), &projection.runs);
            let is_staged = parts.iter().any(|part| matches!(part, Given::Staged(_)));
            prop_assert!(pieces.is_some() || is_staged, "each is a piece");
            if let Some(pieces) = pieces {
                prop_assert_eq!(projection.key::<false>(&pieces), key);
                if let Some((_, kind, bits)) = value {
                    prop_assert_eq!(projection.value::<false>(kind, &pieces), bits);
                }
            }
            if !projection.is_plain {
                return Ok(());
            }
            if let Some(pieces) = pieces {
                prop_assert_eq!(projection.key::<true>(&pieces), key);
                if let Some((_, kind, bits)) = value {
                    prop_assert_eq!(projection.value::<true>(kind, &pieces), bits);
                }
            }

            let (last, before) = parts.split_last().expect("there is one");
            let text = if let Given::Text(text) = last { text } else { "" };
            let run = finished.slices().get(0);
            let is_fixed = |given: &Given| !matches!(given, Given::Text(_) | Given::Staged(_));
            if run.len() > 8 * WORDS || matches!(last, Given::Staged(_)) || !before.iter().all(is_fixed) {
                return Ok(());
            }
            let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|b| run.get(8 * i + b).copied().unwrap_or(0)));
            let words = Words::new([word(0), word(1), word(2)], text.as_bytes());
            prop_assert_eq!(projection.key::<true>(&words), key);
            if let Some((_, kind, bits)) = value {
                prop_assert_eq!(projection.value::<true>(kind, &words), bits);
            }
        }
    }

    #[test]
    fn fields_behind_a_text_that_was_cut_are_where_they_are() {
        let long = "x".repeat(70_000);
        let parts = [
            Given::Scalar(Scalar::Byte(3)),
            Given::Text(long),
            Given::Scalar(Scalar::Long(-7)),
            Given::Text("last".to_owned()),
            Given::Scalar(Scalar::Word(9)),
        ];
        let class = class_of(parts.iter().map(|part| FieldDescriptor::new("part", part.class())).collect());
        let keys: Vec<usize> = vec![0, 2, 3];
        let shown = Box::new([Shown::AsIs, Shown::AsIs, Shown::Text]);
        let plan = Plan { sources: [0, 2, 3, 4].map(at).into(), shown, kind: Some(Kind::Unsigned) };
        let projection = Projection::new(&plan, 1, &class);
        let mut storage = Storage::<512, 24>::new();
        let mut payload = storage.begin(usize::MAX, Sizes::fixed(0), false);
        encode(&parts, &mut payload);
        let mut encoded = payload.finish().expect("it fits");
        assert!(encoded.is_cut());
        let finished = encoded.finished();
        let said: Vec<Part<'_>> = keys.iter().map(|i| Part::of(parts[*i].value())).collect();
        assert!(Pieces::new(finished.slices(), &projection.runs).is_none());
        let scattered = Scattered::new(finished.slices(), &projection.runs);
        assert_eq!(projection.key::<false>(&scattered), key::encode(1, &said));
        assert_eq!(projection.value::<false>(Kind::Unsigned, &scattered), Some(9));
    }

    #[test]
    fn what_is_at_no_known_place_is_asked_for() {
        let plan = |source| Plan { sources: [source].into(), shown: [Shown::AsIs].into(), kind: None };
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
            (vec![nested], below(2), true),
            (vec![nested, number], at(1), false),
            (vec![wide, number], at(1), false),
            (vec![number, FieldDescriptor { sensitive: true, ..number }], at(0), false),
            (vec![number, FieldDescriptor { formatted: true, ..text }], at(0), false),
            (vec![FieldDescriptor { formatted: true, ..text }, number], at(1), false),
            (vec![swapped], at(0), false),
            (vec![some], at(0), true),
            (vec![some, number], at(1), false),
            (vec![number], Source::Field(0, Box::new([Step::Presence])), false),
            (vec![number], Source::Nothing, false),
            (vec![number], Source::Context(ContextValue::Vtid), true),
            (vec![number], Source::Context(ContextValue::ThreadName), false),
        ] {
            let class = class_of(fields);
            assert_eq!(Projection::new(&plan(source), 0, &class).is_asked, !is_known, "{class:?}");
        }
    }
}
