//! Conditions: which events of a probe a target takes.
//!
//! A probe list without conditions does not know of them: its entries have targets, and events go there straight away. An
//! entry with a condition for any of its targets has [`Conditional`] ones instead, which are reached by way of a branch that
//! is there anyway.

use crate::event::Event;
use crate::field::{Step, Value};
use crate::per_cpu::PerCpu;
use crate::probe::Target;
use alloc::sync::Arc;

/// Pair of [`PerCpu`] that counts events that a filter rejected.
pub const FILTERED: usize = 0;
/// Pair of [`PerCpu`] that counts events that a filter accepted and a limit did not let through.
pub const LIMITED: usize = 1;
/// Pair of [`PerCpu`] for the position of a limit that lets every nth event through.
pub const TURN: usize = 2;

/// What a condition may ask of an event.
pub trait Values {
    /// Returns the value of the field of index `field`, at the end of `path`.
    fn value(&self, field: u16, path: &[Step]) -> Value<'_>;
    /// Returns the same, if it is text: in registers, where a value would be copied twice.
    fn text(&self, field: u16, path: &[Step]) -> Option<&[u8]>;
}

struct Of<'e, E>(&'e E);

impl<E: Event> Values for Of<'_, E> {
    fn value(&self, field: u16, path: &[Step]) -> Value<'_> {
        self.0.value(field, path)
    }
    fn text(&self, field: u16, path: &[Step]) -> Option<&[u8]> {
        self.0.value(field, path).text()
    }
}

/// Which events to take; the run time supplies it.
pub trait Condition: Send + Sync {
    /// Returns whether to take an event of the class that the condition was made for, having counted it if not.
    ///
    /// # Signal safety
    ///
    /// Must be async-signal-safe: it runs on the event path.
    fn accepts(&self, event: &dyn Values, counts: &PerCpu) -> bool;
}

/// The commonest filter, in a shorter form: one integer field lies within bounds, or (`negated`) beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Index of the field.
    pub field: u16,
    /// Lowest value.
    pub low: i128,
    /// Highest value.
    pub high: i128,
    /// Whether values within the bounds are those to reject.
    pub negated: bool,
}

impl Bounds {
    #[inline(always)]
    fn hold(&self, value: Value<'_>) -> bool {
        match value {
            Value::Integer(value) => (self.low <= value && value <= self.high) != self.negated,
            _ => false,
        }
    }
}

/// A target that takes some of the events.
pub struct Conditional {
    /// What is asked first, if anything.
    pub bounds: Option<Bounds>,
    /// What is asked then, if anything.
    pub condition: Option<Arc<dyn Condition>>,
    /// Where what is not taken is counted.
    pub counts: Option<Arc<PerCpu>>,
    /// Where the others go.
    pub target: Target,
}

impl Conditional {
    /// A target that takes all events.
    pub fn always(target: Target) -> Conditional {
        Conditional { bounds: None, condition: None, counts: None, target }
    }

    pub(crate) fn is_conditional(&self) -> bool {
        self.bounds.is_some() || self.condition.is_some()
    }

    /// Whether the bounds, if any, accept `event`.
    #[inline(always)]
    pub(crate) fn is_within_bounds<E: Event>(&self, event: &E) -> bool {
        self.bounds.as_ref().is_none_or(|bounds| bounds.hold(event.value(bounds.field, &[])))
    }

    /// Whether the condition, if any, accepts `event`; counts it otherwise.
    #[inline(always)]
    pub(crate) fn accepts<E: Event>(&self, event: &E) -> bool {
        match (&self.condition, &self.counts) {
            (Some(condition), Some(counts)) => condition.accepts(&Of(event), counts),
            _ => true,
        }
    }

    /// Out of line: one copy for all classes of events.
    #[inline(never)]
    pub(crate) fn count_filtered(&self) {
        if let Some(counts) = &self.counts {
            counts.count::<FILTERED>();
        }
    }
}
