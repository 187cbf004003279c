//! What metadata declares: types as they lie in a stream, and the classes made of them.
//!
//! This is the reader's side and more general than [`schema`](crate::schema): any width, any alignment, bit fields, lengths and
//! tags as the fields of their own that CTF makes of them. It holds what CTF 1.8 and CTF 2 can say.

mod events;
mod types;

use std::sync::Arc;

pub use crate::schema::{Base, EnvValue, Label, Level, Source};
pub(crate) use events::EventTable;
pub(crate) use types::Import;
pub use types::{
    Array, Blob, Encoding, Enumeration, Flags, Float, Integer, LONG_BITS, Length, Member, Optional, Reference, Role, Root,
    Sequence, Structure, Text, Type, Variant,
};

use crate::extras::is_extras;
use crate::header::Header;

/// A trace as its metadata declares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declarations {
    /// Identifies the trace.
    pub uuid: Option<[u8; 16]>,
    /// Named facts.
    pub environment: Vec<(String, EnvValue)>,
    /// Time sources.
    pub clocks: Vec<Clock>,
    /// Header of every packet, the same for all streams.
    pub packet_header: Option<Arc<Root>>,
    pub(crate) streams: Vec<Arc<StreamClass>>,
    pub(crate) big_endian: bool,
}

/// A time source.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Name.
    pub name: String,
    /// Identifies its origin.
    pub uuid: Option<[u8; 16]>,
    /// For people.
    pub description: String,
    /// Cycles per second.
    pub frequency_hz: u64,
    /// Error bound, in cycles.
    pub precision_cycles: Option<u64>,
    /// Seconds from the Unix epoch to the clock's origin.
    pub offset_s: i64,
    /// Cycles to add to `offset_s`.
    pub offset_cycles: i64,
    /// Whether the origin is the Unix epoch, so that clocks of other traces can be compared without their UUID.
    pub absolute: bool,
}

/// What the packets and event records of some streams have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamClass {
    /// Number within the trace.
    pub id: u64,
    /// Context of every packet.
    pub packet_context: Option<Root>,
    /// Header of every event record.
    pub event_header: Option<Root>,
    /// Context of every event record.
    pub event_context: Option<Root>,
    pub(crate) clock: Option<Clock>,
    pub(crate) events: EventTable,
    pub(crate) header: Header,
    pub(crate) time: Time,
    /// Members of the packet context that are shown with events.
    pub(crate) shown: Box<[u32]>,
}

/// How cycles become nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Time {
    /// There is no clock.
    #[default]
    None,
    /// A cycle is a nanosecond; the number of those from the Unix epoch to the clock's origin.
    Nanoseconds(i64),
    /// By multiplication and division.
    Scaled(Clock),
}

/// What a stream without a clock has in place of times: all of them are one.
const NO_TIME: i64 = i64::MIN;

impl Time {
    pub(crate) fn new(clock: Option<&Clock>) -> Self {
        let Some(clock) = clock else { return Self::None };
        let offset = clock.offset_s.checked_mul(SECOND as i64).and_then(|offset| offset.checked_add(clock.offset_cycles));
        match offset {
            Some(offset) if clock.frequency_hz == SECOND => Self::Nanoseconds(offset),
            _ => Self::Scaled(clock.clone()),
        }
    }

    /// Nanoseconds from the Unix epoch; nothing where 64 bits cannot hold them.
    #[inline(always)]
    pub(crate) fn nanoseconds(&self, cycles: u64) -> Option<i64> {
        match self {
            Self::Nanoseconds(offset) => offset.checked_add_unsigned(cycles),
            Self::Scaled(clock) => clock.nanoseconds(cycles),
            Self::None => Some(NO_TIME),
        }
    }

    /// As babeltrace2 has them, which scales with floating point numbers: some are wrong by a nanosecond or two.
    pub(crate) fn reference_nanoseconds(&self, cycles: u64) -> Option<i64> {
        let Self::Scaled(clock) = self else { return self.nanoseconds(cycles) };
        let scale = |cycles: u64| 1e9 * cycles as f64 / clock.frequency_hz as f64;
        // It moves whole seconds of the offset in cycles to the one in seconds.
        let frequency = i64::try_from(clock.frequency_hz).unwrap_or(i64::MAX);
        let seconds = clock.offset_s.checked_add(clock.offset_cycles.div_euclid(frequency))?;
        let offset = scale(clock.offset_cycles.rem_euclid(frequency) as u64) as i64;
        let value = scale(cycles);
        let value = if value < i64::MAX as f64 { value as i64 } else { return None };
        seconds.checked_mul(SECOND as i64)?.checked_add(offset)?.checked_add(value)
    }
}

/// One kind of event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventClass {
    /// Event ID within the stream class.
    pub id: u64,
    /// Stream class it belongs to.
    pub stream_id: u64,
    /// Name.
    pub name: String,
    /// Severity.
    pub level: Option<Level>,
    /// Place of the declaration.
    pub source: Option<Source>,
    /// Context of this kind of event.
    pub context: Option<Root>,
    /// Payload.
    pub fields: Option<Root>,
}

impl EventClass {
    /// Whether it has a field whose keys are known only at run time, as `ringtrace::Extra` makes it. Events say
    /// [which](crate::reader::Event::extra).
    pub fn has_extras(&self) -> bool {
        self.fields.iter().flat_map(|root| &root.structure.members).any(|member| is_extras(&member.class))
    }
}

impl Declarations {
    /// The stream classes.
    pub fn streams(&self) -> impl Iterator<Item = &StreamClass> {
        self.streams.iter().map(|stream| &**stream)
    }

    /// Finds a stream class.
    pub fn stream(&self, id: u64) -> Option<&Arc<StreamClass>> {
        self.streams.iter().find(|stream| stream.id == id)
    }

    /// All event classes, by stream class and event ID.
    pub fn events(&self) -> Vec<&EventClass> {
        let mut all: Vec<_> = self.streams().flat_map(StreamClass::events).collect();
        all.sort_by_key(|class| (class.stream_id, class.id));
        all
    }

    /// Finds an environment entry.
    pub fn environment(&self, name: &str) -> Option<&EnvValue> {
        self.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl StreamClass {
    /// The clock of its time stamps.
    pub fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// Compiles what was declared, when all of it is there.
    pub(crate) fn compile(&mut self) {
        self.header = Header::new(self.event_header.as_ref());
        self.time = Time::new(self.clock.as_ref());
        let members = self.packet_context.iter().flat_map(|root| &root.structure.members).enumerate();
        let shown = members.filter(|(_, member)| !is_bookkeeping(&member.class));
        self.shown = shown.map(|(place, _)| place as u32).collect();
    }

    /// Its event classes, in the order of their declaration.
    pub fn events(&self) -> impl Iterator<Item = &EventClass> {
        self.events.iter()
    }

    /// Finds an event class.
    pub fn event(&self, id: u64) -> Option<&EventClass> {
        self.events.place(id).map(|place| self.events.at(place))
    }
}

/// Whether a member of the packet context is one that only readers need, as babeltrace2 leaves them out.
fn is_bookkeeping(class: &Type) -> bool {
    let role = class.integer().and_then(|integer| integer.role);
    role.is_some_and(|role| role != Role::CpuId)
}

const SECOND: u64 = 1_000_000_000;

impl Clock {
    /// A clock without a name that counts nanoseconds from the Unix epoch.
    pub(crate) fn new() -> Self {
        Self {
            name: String::new(),
            uuid: None,
            description: String::new(),
            frequency_hz: SECOND,
            precision_cycles: None,
            offset_s: 0,
            offset_cycles: 0,
            absolute: false,
        }
    }

    /// Nanoseconds from the Unix epoch, exact but for the last fraction; nothing where 64 bits cannot hold them: beyond 292 years.
    #[inline]
    pub fn nanoseconds(&self, cycles: u64) -> Option<i64> {
        let cycles = i128::from(cycles) + i128::from(self.offset_cycles);
        let frequency = i128::from(self.frequency_hz.max(1));
        let whole = i128::from(self.offset_s) * i128::from(SECOND);
        let fraction = match i64::try_from(cycles) {
            // Two divisions of 64 bits are quicker than one of 128.
            Ok(cycles) if self.frequency_hz <= i64::MAX as u64 / SECOND => {
                let frequency = self.frequency_hz.max(1) as i64;
                let (seconds, rest) = (cycles.div_euclid(frequency), cycles.rem_euclid(frequency));
                i128::from(seconds) * i128::from(SECOND) + i128::from(rest * SECOND as i64 / frequency)
            }
            _ => (cycles * i128::from(SECOND)).div_euclid(frequency),
        };
        i64::try_from(whole + fraction).ok()
    }

    /// The last cycle that is not later than a time in nanoseconds from the Unix epoch; saturating.
    pub fn cycles(&self, nanoseconds: i64) -> u64 {
        let distance = i128::from(nanoseconds) - i128::from(self.offset_s) * i128::from(SECOND);
        let cycles = (distance * i128::from(self.frequency_hz)).div_euclid(SECOND.into()) - i128::from(self.offset_cycles);
        cycles.clamp(0, u64::MAX.into()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(frequency_hz: u64, offset_s: i64, offset_cycles: i64) -> Clock {
        Clock { frequency_hz, offset_s, offset_cycles, ..Clock::new() }
    }

    proptest::proptest! {
        #[test]
        fn times_are_exact(frequency in proptest::sample::select(vec![1, 3, 1000, SECOND - 1, SECOND, 2_445_375_000, u64::MAX]),
                           seconds in proptest::prelude::any::<i32>(), offset in proptest::prelude::any::<i64>(),
                           cycles in proptest::prelude::any::<u64>(), shift in 0u32..64) {
            let (clock, cycles) = (clock(frequency, seconds.into(), offset), cycles >> shift);
            proptest::prop_assert_eq!(Time::new(Some(&clock)).nanoseconds(cycles), clock.nanoseconds(cycles));
            let sum = (i128::from(cycles) + i128::from(offset)) * i128::from(SECOND);
            let expected = i128::from(seconds) * i128::from(SECOND) + sum.div_euclid(frequency.into());
            proptest::prop_assert_eq!(clock.nanoseconds(cycles), i64::try_from(expected).ok());
        }

        #[test]
        fn the_other_readers_times_are_wrong_by_little(frequency in 1u64..4_000_000_000, offset in 0i64..1 << 40, cycles in 0u64..1 << 50) {
            let clock = clock(frequency, 1_700_000_000, offset);
            let exact = clock.nanoseconds(cycles);
            let other = Time::new(Some(&clock)).reference_nanoseconds(cycles);
            let Some((exact, other)) = exact.zip(other) else {
                proptest::prop_assert_eq!(exact, other);
                return Ok(());
            };
            // Two roundings, and 53 bits of a value of up to 63.
            proptest::prop_assert!(exact.abs_diff(other) <= 2 + (exact.unsigned_abs() >> 52), "{} {}", exact, other);
            if frequency == SECOND {
                proptest::prop_assert_eq!(exact, other);
            }
        }

        #[test]
        fn cycles_are_found_again(frequency in 1u64..4_000_000_000, offset in 0i64..1 << 40, cycles in 0u64..1 << 40) {
            let clock = clock(frequency, 1_700_000_000, offset);
            let Some(nanoseconds) = clock.nanoseconds(cycles) else { return Ok(()) };
            let found = clock.cycles(nanoseconds);
            proptest::prop_assert!(found <= cycles && clock.nanoseconds(found) <= Some(nanoseconds));
            proptest::prop_assert!(clock.nanoseconds(found + 1).is_none_or(|next| next >= nanoseconds));
        }
    }
}
