//! Values as an event of their site: its class, its identity, and the emitter.

use super::Site;
use super::capture::{Captures, List};
use crate::event::{Event, EventClass, NoEvent, check_event};
use crate::field::{FieldClass, FieldDescriptor, Payload, Sizes, Step, Value};
use crate::level::Level;
use crate::probe::{self, ErasedProbe, ProbeDescriptor};
use crate::sys;
use crate::tracepoint::emit;
use core::cell::Cell;
use core::marker::PhantomData;

/// What of a site is recorded.
pub trait Kind: 'static {
    /// The site.
    type Site: Site;
    /// The end of the event's name; empty: it goes by the site's own.
    const PHASE: &'static str;
    /// The names of its first fields.
    const FIRST: &'static [&'static str];
    /// The names of those behind them.
    const THEN: &'static [&'static str];
    /// Severity of its events.
    const LEVEL: Level;
}

macro_rules! kinds {
    ($($(#[$document:meta])* $vis:vis $name:ident, $phase:literal, $first:expr, $then:expr, $level:expr;)*) => {$(
        $(#[$document])*
        $vis struct $name<S>(PhantomData<fn(S)>);

        impl<S: Site> Kind for $name<S> {
            type Site = S;
            const PHASE: &'static str = $phase;
            const FIRST: &'static [&'static str] = $first;
            const THEN: &'static [&'static str] = $then;
            const LEVEL: Level = $level;
        }
    )*};
}

kinds! {
    /// The one event of an `event!`.
    pub Once, "", &[], S::FIELDS, S::LEVEL;
    /// A function is entered.
    pub(super) Entry, "entry", &[], S::FIELDS, S::LEVEL;
    /// It is left.
    pub(super) Exit, "exit", &["outcome", "duration"], S::RESULT, S::LEVEL;
    /// A span is entered.
    pub(super) EntryOfSpan, "entry", &["span"], S::FIELDS, S::LEVEL;
    /// It is left.
    pub(super) ExitOfSpan, "exit", &["span", "outcome", "duration"], &[], S::LEVEL;
    /// An async function begins.
    pub(super) EntryOfFuture, "entry", &["future", "parent_future"], S::FIELDS, S::LEVEL;
    /// It has ended, or was dropped.
    pub(super) ExitOfFuture, "exit", &["future", "outcome", "duration", "polls", "busy"], S::RESULT, S::LEVEL;
    /// It is polled.
    pub(super) Poll, "poll::entry", &["future"], &[], of_detail(S::LEVEL);
    /// A poll has ended.
    pub(super) PollEnd, "poll::exit", &["future", "ready"], &[], of_detail(S::LEVEL);
}

/// The level of what is a detail of something: polls, which are many, are of no interest to whoever asks for a level of functions.
const fn of_detail(level: Level) -> Level {
    const DETAIL: Level = Level::DebugFunction;
    if (level as u8) < DETAIL as u8 { DETAIL } else { level }
}

/// Values that are an event.
struct Record<K, C>(C, PhantomData<fn(K)>);

impl<K: Kind, C: Captures> Record<K, C> {
    const NAMED: List = C::LIST.named(K::FIRST, K::THEN, false).0;
    const SKIPPED: List = C::LIST.named(K::FIRST, K::THEN, true).0;
}

impl<K: Kind, C: Captures> Event for Record<K, C> {
    type Class = NoEvent;
    const DESCRIPTION: &'static EventClass =
        &EventClass { name: K::PHASE, module_path: K::Site::MODULE, location: K::Site::LOCATION, fields: Self::NAMED.fields() };
    const SIZES: Sizes = C::SIZES;

    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        self.0.write(payload);
    }

    #[inline]
    fn value(&self, field: u16, path: &[Step]) -> Value<'_> {
        self.0.value(field, path)
    }
}

/// Records an event of a site wherever it is wanted. The emitter: one for each kind of event and types of values.
///
/// # Signal safety
///
/// That of the values' fields; the rest is async-signal-safe and wait-free.
#[cold]
#[inline(never)]
pub fn record<K: Kind, C: Captures>(values: C) {
    const { check_event(C::SIZES) };
    sys::collect::<Described<K, C>>();
    let gate = K::Site::descriptor().gate;
    if sys::IS_LINKED {
        return emit(gate, |entry| _ = run::<K, C>(entry, values));
    }
    let has_run = Cell::new(false);
    emit(gate, |entry| has_run.set(has_run.get() | run::<K, C>(entry, values)));
    if !has_run.get() {
        sys::hit::<Described<K, C>>(gate);
    }
}

/// Records an event by one entry, if that is of this emitter.
#[inline(always)]
fn run<K: Kind, C: Captures>(entry: &probe::Entry, values: C) -> bool {
    // SI-1: entries of other kinds, and of other types in a generic function, are for other emitters.
    let is_own = core::ptr::eq(entry.function(), identity::<K, C>());
    if is_own {
        entry.run(|| Record::<K, C>(values, PhantomData));
    }
    is_own
}

/// What is [collected](sys::collect) of an emitter.
pub(super) struct Described<K, C>(PhantomData<fn(K, C)>);

impl<K: Kind, C: Captures> sys::Collected for Described<K, C> {
    fn describe() -> ProbeDescriptor {
        let name = K::Site::descriptor().name.phase(K::PHASE);
        ProbeDescriptor::of_site::<K::Site, Record<K, C>>(
            name,
            K::LEVEL,
            const { Record::<K, C>::SKIPPED.fields() },
            identity::<K, C>,
        )
    }
}

/// What tells the entries of a list apart (SI-1).
fn identity<K: Kind, C: Captures>() -> ErasedProbe {
    // Never null, which is a probe that panicked.
    let number = const { hash_fields(hash_text(BASIS, K::PHASE), Record::<K, C>::NAMED.fields()) | 1 };
    core::ptr::without_provenance(number as usize)
}

// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/: a number of 64 bits, computed by the compiler.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

const fn hash(hash: u64, value: u64) -> u64 {
    let (mut hash, mut i) = (hash, 0);
    while i < 8 {
        hash = (hash ^ (value >> (8 * i) & 0xff)).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

const fn hash_text(mut to: u64, text: &str) -> u64 {
    let (bytes, mut i) = (text.as_bytes(), 0);
    while i < bytes.len() {
        to = hash(to, bytes[i] as u64);
        i += 1;
    }
    hash(to, bytes.len() as u64)
}

const fn hash_fields(mut to: u64, fields: &[FieldDescriptor]) -> u64 {
    let mut i = 0;
    while i < fields.len() {
        to = hash_class(hash_text(to, fields[i].name), &fields[i].class);
        to = hash(hash_text(to, fields[i].unit), fields[i].sensitive as u64 * 2 + fields[i].formatted as u64);
        i += 1;
    }
    hash(to, fields.len() as u64)
}

const fn hash_class(to: u64, class: &FieldClass) -> u64 {
    match class {
        FieldClass::Integer { bits, signed, base, network_order } => {
            let flags = *signed as u64 * 4 + *network_order as u64 * 2 + matches!(base, crate::field::Base::Hexadecimal) as u64;
            hash(hash(to, 1), *bits as u64 * 8 + flags)
        }
        FieldClass::Float { bits } => hash(hash(to, 2), *bits as u64),
        FieldClass::Bool => hash(to, 3),
        FieldClass::String { length_bits } => hash(hash(to, 4), *length_bits as u64),
        FieldClass::Enumeration { bits, signed, labels } => {
            let (mut to, mut i) = (hash(hash(to, 5), *bits as u64 * 2 + *signed as u64), 0);
            while i < labels.len() {
                to = hash(hash_text(to, labels[i].name), labels[i].value as u64);
                i += 1;
            }
            to
        }
        FieldClass::Structure { fields } => hash_fields(hash(to, 6), fields),
        FieldClass::Array { element, length } => hash_class(hash(hash(to, 7), *length as u64), element),
        FieldClass::Sequence { element, length_bits } => hash_class(hash(hash(to, 8), *length_bits as u64), element),
        FieldClass::Optional { value } => hash_class(hash(to, 9), value),
        FieldClass::Variant { options } => {
            let (mut to, mut i) = (hash(to, 10), 0);
            while i < options.len() {
                to = hash_class(hash_text(to, options[i].name), &options[i].class);
                i += 1;
            }
            to
        }
    }
}
