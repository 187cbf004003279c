//! What an aggregation does with the events of one class, on the event path.
#![expect(unsafe_code, reason = "a target reaches what its events are added to by address")]

use super::carrier::{Asked, Carrier, Pieces, Scattered, Words};
use super::key;
use super::projection::Projection;
use super::spec::Spec;
use super::table::{Figures, Group, Key, Table};
use super::{KeyValue, Number};
use crate::condition::{Source, scope};
use crate::provider::Room;
use crate::rule::Placed;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use trace_filter::{Error, Input, Key as Path, Scope};
use trace_registry::EventClass;
use trace_registry::condition::{Condition, Values};
use trace_registry::field::{FieldClass, FieldDescriptor, Finished, Label, Piece, Slices, Step, VariantOption};
use trace_registry::per_cpu::PerCpu;
use trace_registry::probe::{Functions, Loss, Target};
use trace_registry::sync::{AtomicU64, Ordering};

/// Pair of [`PerCpu`] that counts events without a value.
pub(super) const VALUELESS: usize = 3;

/// What lists of an aggregation reach.
pub(super) struct State {
    pub(super) table: Table,
    /// Events that found every stripe locked.
    pub(super) busy: AtomicU64,
    pub(super) nested: AtomicU64,
    pub(super) panicked: AtomicU64,
}

/// What 64 bits of a figure are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unsigned,
    Signed,
    Float,
}

impl Kind {
    /// The bits of a value, which is what its key says and has these; `None`: it is no number, or no finite one.
    #[inline(always)]
    pub(super) fn bits(self, (what, bits): (u8, u64)) -> Option<u64> {
        (key::is_number(what) && (self != Kind::Float || f64::from_bits(bits).is_finite())).then_some(bits)
    }

    /// Figures with one more value. A sum that does not fit stays at its bound.
    #[inline]
    fn fold(self, before: Option<Figures>, value: u64) -> Figures {
        let Some([sum, least, most]) = before else { return [value; 3] };
        match self {
            Kind::Unsigned => [sum.saturating_add(value), least.min(value), most.max(value)],
            Kind::Signed => {
                let sum = sum as i64;
                let new = if is_bound(sum) { sum } else { sum.saturating_add(value as i64) };
                [new as u64, (least as i64).min(value as i64) as u64, (most as i64).max(value as i64) as u64]
            }
            Kind::Float => {
                let [sum, least, most, value] = [sum, least, most, value].map(f64::from_bits);
                [(sum + value).to_bits(), least.min(value).to_bits(), most.max(value).to_bits()]
            }
        }
    }

    pub(super) fn number(self, bits: u64) -> Number {
        match self {
            Kind::Unsigned => Number::Integer(bits.into()),
            Kind::Signed => Number::Integer((bits as i64).into()),
            Kind::Float => Number::Float(f64::from_bits(bits)),
        }
    }

    /// The same for a sum; `None`: it did not fit.
    pub(super) fn sum(self, bits: u64) -> Option<Number> {
        match self {
            Kind::Unsigned if bits == u64::MAX => None,
            Kind::Signed if is_bound(bits as i64) => None,
            _ => Some(self.number(bits)),
        }
    }
}

fn is_bound(sum: i64) -> bool {
    sum == i64::MAX || sum == i64::MIN
}

/// Which bucket of a histogram a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buckets {
    One,
    /// Powers of two: bucket 64 is of 0, 64 + n of values from 2ⁿ⁻¹ to below 2ⁿ, 64 - n of their negatives.
    Powers,
    /// Equal steps from a least value, so many; one bucket is below them and one above.
    Steps {
        low: i64,
        step: u64,
        count: u32,
    },
}

const ZERO: u32 = 64;

impl Buckets {
    pub(super) fn count(self) -> u32 {
        match self {
            Buckets::One => 1,
            Buckets::Powers => 2 * ZERO + 1,
            Buckets::Steps { count, .. } => count + 2,
        }
    }

    #[inline]
    fn of(self, kind: Kind, bits: u64) -> u32 {
        match self {
            Buckets::One => 0,
            Buckets::Powers => {
                let (is_negative, size) = match kind {
                    Kind::Unsigned => (false, bits),
                    Kind::Signed => ((bits as i64) < 0, (bits as i64).unsigned_abs()),
                    // From 2⁶⁴ the cast stays at its bound, which is of the last bucket.
                    Kind::Float => (f64::from_bits(bits) < 0.0, f64::from_bits(bits).abs() as u64),
                };
                let power = u64::BITS - size.leading_zeros();
                if is_negative { ZERO - power } else { ZERO + power }
            }
            Buckets::Steps { low, step, count } => {
                let value = match kind {
                    Kind::Unsigned => bits.min(i64::MAX as u64) as i64,
                    Kind::Signed => bits as i64,
                    Kind::Float => f64::from_bits(bits).floor() as i64,
                };
                if value < low {
                    return 0;
                }
                let steps = (value.wrapping_sub(low) as u64).checked_div(step).unwrap_or(0);
                if steps < u64::from(count) { 1 + steps as u32 } else { count + 1 }
            }
        }
    }

    /// The bounds of a bucket, the lower one included; `None`: there is none.
    pub(super) fn bounds(self, bucket: u32) -> (Option<i128>, Option<i128>) {
        match self {
            Buckets::One => (None, None),
            Buckets::Powers if bucket == ZERO => (Some(0), Some(1)),
            Buckets::Powers if bucket > ZERO => (Some(1 << (bucket - ZERO - 1)), Some(1 << (bucket - ZERO))),
            // Mirrored: without the lower bound, and with the upper one.
            Buckets::Powers => (Some(-(1 << (ZERO - bucket))), Some(-(1 << (ZERO - bucket - 1)))),
            Buckets::Steps { low, step, count } => {
                let at = |steps: u32| i128::from(low) + i128::from(step) * i128::from(steps);
                match bucket {
                    0 => (None, Some(at(0))),
                    _ if bucket > count => (Some(at(count)), None),
                    _ => (Some(at(bucket - 1)), Some(at(bucket))),
                }
            }
        }
    }
}

/// How the value of a key is shown.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    AsIs,
    /// As it is; text, where the event has it.
    Text,
    Bool,
    Labels(&'static [Label]),
    Options(&'static [VariantOption]),
}

impl Shown {
    pub(super) fn name(self, value: KeyValue) -> KeyValue {
        let named = |name: Option<&str>| name.map(|name| KeyValue::Text(name.to_owned()));
        match (self, &value) {
            (Shown::Bool, KeyValue::Integer(value)) => Some(KeyValue::Bool(*value != 0)),
            (Shown::Labels(labels), KeyValue::Integer(value)) => named(labels.iter().find(|l| l.value == *value).map(|l| l.name)),
            (Shown::Options(options), KeyValue::Integer(value)) => {
                named(usize::try_from(*value).ok().and_then(|i| options.get(i)).map(|o| o.name))
            }
            _ => None,
        }
        .unwrap_or(value)
    }
}

/// What an aggregation takes from the events of a class.
pub(super) struct Plan {
    /// Of the keys, in their order; then, if there is one, that of the values.
    pub(super) sources: Box<[Source]>,
    /// Of the keys.
    pub(super) shown: Box<[Shown]>,
    /// Of the values.
    pub(super) kind: Option<Kind>,
}

impl Plan {
    /// Finds in `class` what `spec` names.
    ///
    /// # Errors
    ///
    /// What does not fit, with the byte where it stands.
    pub(super) fn new(spec: &Spec, class: &'static EventClass, redact: bool) -> Result<Plan, (Error, usize)> {
        let scope = scope(class, redact);
        let (mut sources, mut shown) = (Vec::new(), Vec::new());
        for path in &spec.by {
            let input = resolve(path, &scope).map_err(|e| (e, path.at))?;
            let source = Source::of(&input);
            shown.push(match (&source, class_of(class.fields, &input)) {
                (Source::Context(context), _) if context.is_text() => Shown::Text,
                // One with a length of 8 bits is a character.
                (_, Some(FieldClass::String { length_bits: 16 })) => Shown::Text,
                (_, Some(FieldClass::Bool)) => Shown::Bool,
                (_, Some(FieldClass::Enumeration { labels, .. })) => Shown::Labels(labels),
                (_, Some(FieldClass::Variant { options })) => Shown::Options(options),
                _ => Shown::AsIs,
            });
            sources.push(source);
        }
        let kind = spec.field.as_ref().map(|path| {
            let input = resolve(path, &scope).map_err(|e| (e, path.at))?;
            let source = Source::of(&input);
            let wrong = |what: &str| {
                let name = path.part.as_str();
                let problem = format!("`{name}` is {what}, which has no sum and no histogram");
                (Error::at(name, 0..name.len(), problem, format!("count its values: `EVENT by {name}`")), path.at)
            };
            let kind = match (&source, class_of(class.fields, &input)) {
                (Source::Context(context), _) if context.is_text() => return Err(wrong("text")),
                (Source::Context(_), _) => Kind::Unsigned,
                (_, Some(FieldClass::Integer { signed, .. })) => {
                    if *signed {
                        Kind::Signed
                    } else {
                        Kind::Unsigned
                    }
                }
                (_, Some(FieldClass::Bool)) => Kind::Unsigned,
                (_, Some(FieldClass::Float { .. })) => Kind::Float,
                (_, Some(FieldClass::Enumeration { .. } | FieldClass::Variant { .. })) => return Err(wrong("an enumeration")),
                _ => return Err(wrong("text")),
            };
            sources.push(source);
            Ok(kind)
        });
        let kind = kind.transpose()?;
        Ok(Plan { sources: sources.into(), shown: shown.into(), kind })
    }
}

/// A context field may be named without `$ctx.`, where no field has its name.
fn resolve(path: &Placed<Path>, scope: &Scope) -> Result<Input, Error> {
    path.part.resolve(scope).or_else(|error| {
        let context = Path::parse(&format!("$ctx.{}", path.part.as_str()));
        context.and_then(|path| path.resolve(scope)).map_err(|_| error)
    })
}

/// The class of the values of a field; `None`: it is none of the event's.
fn class_of(fields: &'static [FieldDescriptor], input: &Input) -> Option<&'static FieldClass> {
    let (Step::Field(first), rest) = input.path.split_first()? else { return None };
    let mut class = &fields.get(usize::from(*first)).filter(|_| !input.context)?.class;
    for step in rest {
        class = match (step, without_option(class)) {
            (Step::Presence, _) => &FieldClass::Bool,
            (Step::Field(index), FieldClass::Structure { fields }) => &fields.get(usize::from(*index))?.class,
            (Step::Option(index), FieldClass::Variant { options }) => &options.get(usize::from(*index))?.class,
            _ => return None,
        };
    }
    Some(without_option(class))
}

fn without_option(mut class: &'static FieldClass) -> &'static FieldClass {
    while let FieldClass::Optional { value } = class {
        class = value;
    }
    class
}

/// What is done with the events of one class.
///
/// Where what is wanted lies at known places, they come to the target that [`target`](Measure::target) makes. Where it does not, this
/// is the condition of that target: it takes what it wants of an event, and then rejects it, so that nothing is encoded.
pub(super) struct Measure {
    pub(super) state: Arc<State>,
    pub(super) counts: Arc<PerCpu>,
    /// The rule's own condition.
    pub(super) inner: Option<Arc<dyn Condition>>,
    /// Number of the event, which is that of its group or of its others.
    pub(super) event: u16,
    pub(super) plan: Plan,
    pub(super) buckets: Buckets,
    pub(super) projection: Projection,
}

impl Condition for Measure {
    fn accepts(&self, event: &dyn Values, counts: &PerCpu) -> bool {
        if self.inner.as_ref().is_none_or(|inner| inner.accepts(event, counts)) {
            self.add_event::<false>(&Asked::new(event, &self.plan, &Room::default()));
        }
        false
    }
}

impl Measure {
    /// The target of its events.
    ///
    /// # Safety
    ///
    /// `self` stays where it is until a grace period after the last list with the target was replaced.
    pub(super) unsafe fn target(&self, redact: bool) -> Target {
        let functions = if self.projection.is_plain { functions::<true>() } else { functions::<false>() };
        let channel = std::ptr::from_ref(self).cast();
        // SAFETY: the functions may be called from any thread and signal handler, and reach nothing but `channel`.
        unsafe { Target::new(functions, [MaybeUninit::uninit(); 8], channel, u32::MAX, 0, redact) }
    }

    /// Adds an event; `PLAIN`: what is wanted of it [is that](Projection::is_plain).
    #[inline(always)]
    fn add_event<const PLAIN: bool>(&self, event: &impl Carrier) {
        let value = match self.plan.kind {
            None => None,
            Some(kind) => match self.projection.value::<PLAIN>(kind, event) {
                Some(value) => Some((kind, value)),
                None => return self.counts.count::<VALUELESS>(),
            },
        };
        let group = if self.plan.shown.is_empty() { self.others() } else { self.group(&self.projection.key::<PLAIN>(event)) };
        self.add(group, value);
    }

    #[cold]
    #[inline(never)]
    fn add_scattered(&self, slices: Slices<'_>) {
        self.add_event::<false>(&Scattered::new(slices, &self.projection.runs));
    }

    /// The group of a key, or where there is no room for it.
    #[inline(always)]
    fn group(&self, key: &Key) -> Group {
        self.state.table.group(key).unwrap_or(self.others())
    }

    /// The group of events without a key of their own.
    #[inline(always)]
    fn others(&self) -> Group {
        self.state.table.of_event(self.event)
    }

    /// Adds an event.
    #[inline(always)]
    fn add(&self, group: Group, value: Option<(Kind, u64)>) {
        let table = &self.state.table;
        let is_added = match value {
            Some((kind, value)) => table.add(group, self.buckets.of(kind, value), move |before| kind.fold(before, value)),
            None => table.count(group),
        };
        if !is_added {
            // Relaxed: a count.
            self.state.busy.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// # Safety
///
/// [`Measure::target`] made `target`, which is in a list that the caller reads; so below.
unsafe fn measure<'t>(target: *const Target) -> &'t Measure {
    // SAFETY: the caller has the target; the duty of `Measure::target`.
    unsafe { &*(*target).channel().cast() }
}

/// The ways of events into the figures, of which no one is slower for what others do.
fn functions<const PLAIN: bool>() -> Functions {
    Functions { words: Some(words::<PLAIN>), tail: Some(tail::<PLAIN>), pieces: pieces::<PLAIN>, lose }
}

/// # Safety
///
/// As for [`measure`].
unsafe extern "C" fn words<const PLAIN: bool>(target: *const Target, a: u64, b: u64, c: u64) -> u8 {
    // SAFETY: the caller's duty.
    let measure = unsafe { measure(target) };
    measure.add_event::<PLAIN>(&Words::new([a, b, c], &[]));
    0
}

/// # Safety
///
/// As for [`measure`]; `start` and `len` are bytes that may be read.
unsafe extern "C" fn tail<const PLAIN: bool>(target: *const Target, a: u64, b: u64, c: u64, start: *const u8, len: usize) -> u8 {
    // SAFETY: the caller's duty; where there are none, `start` is that of an empty slice.
    let (measure, text) = unsafe { (measure(target), std::slice::from_raw_parts(start, len)) };
    measure.add_event::<PLAIN>(&Words::new([a, b, c], text));
    0
}

/// # Safety
///
/// As for [`measure`]; the rest is a [`Finished`], taken apart.
unsafe extern "C" fn pieces<const PLAIN: bool>(target: *const Target, pieces: NonNull<Piece>, count: usize, total: usize) -> u8 {
    // SAFETY: the caller's duty.
    let (measure, finished) = unsafe { (measure(target), Finished::from_raw(pieces, count, total)) };
    match Pieces::new(finished.slices(), &measure.projection.runs) {
        Some(event) => measure.add_event::<PLAIN>(&event),
        None => measure.add_scattered(finished.slices()),
    }
    0
}

/// # Safety
///
/// As for [`measure`].
unsafe fn lose(target: &Target, loss: Loss) {
    // SAFETY: the caller's duty.
    let state = unsafe { &measure(target).state };
    let count = match loss {
        // What was cut is in the figures, by its beginning.
        Loss::Cut => return,
        Loss::Nested => &state.nested,
        Loss::Panicked | Loss::TooLarge => &state.panicked,
    };
    // Relaxed: a count.
    count.fetch_add(1, Ordering::Relaxed);
}
