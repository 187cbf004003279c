//! What a trigger does on the event path: nothing but filter, maximum, and a word that stops the channel.

use super::grammar::{Condition as When, Spec};
use crate::condition::{self, scope};
use crate::provider::Room;
use crate::ring_buffer::Core;
use std::sync::Arc;
use trace_filter::Value;
use trace_registry::EventClass;
use trace_registry::condition::{Condition, Conditional, FILTERED, Values};
use trace_registry::per_cpu::PerCpu;
use trace_registry::sync::{AtomicI64, AtomicU32, Ordering};

/// Does not stop the channel.
const OPEN: u32 = 0;
/// The next event stops it.
const ARMED: u32 = 1;
/// An event stopped it, and was not seen by the trigger yet.
const CLOSED: u32 = 2;
/// It was seen; the channel stands still until the actions are done.
const EXPLAINED: u32 = 3;

/// The words that the event path and the trigger share.
pub(super) struct OnPath {
    freezes: bool,
    /// One of the states above.
    latch: AtomicU32,
    /// The largest value so far; at first the one that is to be exceeded.
    largest: AtomicI64,
    /// The session's rings.
    core: Arc<Core>,
}

impl OnPath {
    pub(super) fn new(spec: &Spec, core: Arc<Core>) -> OnPath {
        let largest = match spec.condition {
            When::Maximum(_, _, Some(above)) => above,
            _ => i64::MIN,
        };
        let freezes = spec.freezes() && spec.condition.is_local();
        OnPath { freezes, latch: AtomicU32::new(OPEN), largest: AtomicI64::new(largest), core }
    }

    /// Whether an event stops the channel by itself.
    pub(super) fn freezes(&self) -> bool {
        self.freezes
    }

    /// The next event stops the channel.
    pub(super) fn arm(&self) {
        if self.freezes {
            // Relaxed, here and below: the word orders nothing. An event that does not see it yet is one before it.
            let _ = self.latch.compare_exchange(OPEN, ARMED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.latch.load(Ordering::Relaxed) == CLOSED
    }

    /// Takes the word that an event set. Returns false if none did, or it was taken before.
    pub(super) fn explain(&self) -> bool {
        self.latch.compare_exchange(CLOSED, EXPLAINED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The actions are done: it can be armed again.
    pub(super) fn reopen(&self) {
        let _ = self.latch.compare_exchange(EXPLAINED, OPEN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Stops the channel: what is appended from now on is refused, and is no loss.
    pub(super) fn freeze(&self) {
        self.core.bump_generation();
    }

    /// Adds to `conditional`, a target of a source for events of `class`, what is to be done on the event path.
    pub(super) fn add_to(
        self: &Arc<Self>,
        spec: &Spec,
        class: &EventClass,
        counts: &Arc<PerCpu>,
        conditional: Conditional,
    ) -> Option<Conditional> {
        let maximum = match &spec.condition {
            // Of a class without the field, nothing is to be seen.
            When::Maximum(_, key, _) => Some(condition::Source::of(&key.part.resolve(&scope(class, false)).ok()?)),
            _ => None,
        };
        if maximum.is_none() && !self.freezes {
            return Some(conditional);
        }
        let inner = conditional.condition.clone();
        let local = Local { inner, maximum, on_path: self.clone() };
        Some(Conditional { condition: Some(Arc::new(local)), counts: Some(counts.clone()), ..conditional })
    }
}

/// The condition of a source's target.
struct Local {
    inner: Option<Arc<dyn Condition>>,
    maximum: Option<condition::Source>,
    on_path: Arc<OnPath>,
}

impl Condition for Local {
    fn accepts(&self, event: &dyn Values, counts: &PerCpu) -> bool {
        if self.inner.as_ref().is_some_and(|inner| !inner.accepts(event, counts)) {
            return false;
        }
        let on_path = &*self.on_path;
        if let Some(field) = &self.maximum {
            let largest = &on_path.largest;
            let is_larger = rank(field.value(event, &Room::default()))
                // The load keeps the word shared by all CPUs as long as nothing is larger.
                .is_some_and(|rank| rank > largest.load(Ordering::Relaxed) && rank > largest.fetch_max(rank, Ordering::Relaxed));
            if !is_larger {
                counts.count::<FILTERED>();
                return false;
            }
        }
        if on_path.freezes
            && on_path.latch.load(Ordering::Relaxed) == ARMED
            && on_path.latch.compare_exchange(ARMED, CLOSED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            on_path.freeze();
        }
        true
    }
}

/// A number that is larger where the value is.
fn rank(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Integer(value) => Some(value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64),
        Value::Float(value) if !value.is_nan() => {
            // The order of IEEE 754: of negative numbers, the larger magnitude is less.
            let bits = value.to_bits() as i64;
            Some(bits ^ (((bits >> 63) as u64) >> 1) as i64)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_order_of_values() {
        let floats = [f64::NEG_INFINITY, -2.5, -0.0, 1e-300, 1.0, 2.5, f64::INFINITY];
        let ranks: Vec<_> = floats.iter().map(|f| rank(Value::Float(*f))).collect();
        assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]), "{ranks:?}");
        assert!(rank(Value::Integer(i128::from(u64::MAX))) == Some(i64::MAX) && rank(Value::Integer(-3)) == Some(-3));
        assert_eq!((rank(Value::Float(f64::NAN)), rank(Value::Text(b"7"))), (None, None));
    }
}
