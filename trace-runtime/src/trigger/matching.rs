//! What the events of a trigger add up to: latencies, counts, what is missing. Arithmetic only.

use super::grammar::Condition;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// Most keys that wait for a second event, and most that are counted. The oldest are forgotten.
const MOST_KEYS: usize = 1 << 16;

/// The value by which events belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    /// All belong together.
    All,
    Integer(i128),
    /// By its bits.
    Float(u64),
    Text(Box<str>),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::All => Ok(()),
            Key::Integer(n) => write!(f, "{n}"),
            Key::Float(bits) => write!(f, "{}", f64::from_bits(*bits)),
            Key::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// An event, as far as a trigger is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) ns: u64,
    /// Which of the condition's sources it is of.
    pub(super) source: usize,
    pub(super) key: Key,
}

/// Why a trigger fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Time of the event that decided; of what is missing, the time by which it should have come.
    pub(crate) ns: u64,
    /// In words.
    pub(crate) what: String,
    /// The latency, where one is measured.
    pub(crate) latency_ns: Option<u64>,
    /// What the events have in common.
    pub(crate) key: Key,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    /// Events that may still be preceded by others.
    held: Vec<Seen>,
    /// First events by key, and the order of their times.
    open: HashMap<Key, u64>,
    order: VecDeque<(u64, Key)>,
    /// The last events of each key.
    counted: HashMap<Key, VecDeque<u64>>,
    /// The longest latency.
    longest: Option<u64>,
    /// Keys that were forgotten, since there were too many.
    pub(super) forgotten: u64,
}

impl Matcher {
    pub(super) fn see(&mut self, seen: Seen) {
        self.held.push(seen);
    }

    /// Goes through what happened until `horizon`, before which no further event will come.
    pub(super) fn advance(&mut self, condition: &Condition, horizon: u64, fire: &mut impl FnMut(Cause)) {
        let mut held = std::mem::take(&mut self.held);
        // Stable: the first source of a trigger is followed before the second.
        held.sort_by_key(|seen| seen.ns);
        let later = held.split_off(held.partition_point(|seen| seen.ns <= horizon));
        for seen in held {
            self.expire(condition, seen.ns, fire);
            self.take(condition, seen, fire);
        }
        self.expire(condition, horizon, fire);
        self.held = later;
    }

    fn take(&mut self, condition: &Condition, seen: Seen, fire: &mut impl FnMut(Cause)) {
        match condition {
            Condition::Latency { above, maximum, .. } if seen.source == 1 => {
                let Some(begin) = self.open.remove(&seen.key) else { return };
                let latency = seen.ns.saturating_sub(begin);
                let is_above = above.is_none_or(|above| u128::from(latency) > above.as_nanos());
                let is_maximum = self.longest.is_none_or(|longest| latency > longest);
                if is_maximum {
                    self.longest = Some(latency);
                }
                if is_above && (is_maximum || !maximum) {
                    let of = Of(condition, &seen.key);
                    let what = format!("{} from {} to {}{of}", Ns(latency), name(condition, 0), name(condition, 1));
                    fire(Cause { ns: seen.ns, what, latency_ns: Some(latency), key: seen.key });
                }
            }
            Condition::Missing { .. } if seen.source == 1 => drop(self.open.remove(&seen.key)),
            Condition::Latency { .. } | Condition::Missing { .. } => self.begin(seen),
            Condition::Count { least, within, .. } => {
                let times = self.counted.entry(seen.key.clone()).or_default();
                times.push_back(seen.ns);
                let oldest = seen.ns.saturating_sub(nanoseconds(*within));
                while times.front().is_some_and(|ns| *ns < oldest) {
                    times.pop_front();
                }
                if times.len() >= *least {
                    let (count, begin) = (times.len(), times.front().copied().unwrap_or(seen.ns));
                    times.clear();
                    let of = Of(condition, &seen.key);
                    let what = format!("{count} of {} within {}{of}", name(condition, 0), Ns(seen.ns - begin));
                    fire(Cause { ns: seen.ns, what, latency_ns: None, key: seen.key });
                }
                if self.counted.len() > MOST_KEYS {
                    self.forget_counts(oldest);
                }
            }
            Condition::Event(_) | Condition::Keyed(..) | Condition::Maximum(..) | Condition::Signal(..) => {}
        }
    }

    fn begin(&mut self, seen: Seen) {
        self.open.insert(seen.key.clone(), seen.ns);
        self.order.push_back((seen.ns, seen.key));
        while self.open.len() > MOST_KEYS {
            let Some((ns, key)) = self.order.pop_front() else { break };
            if self.open.get(&key) == Some(&ns) {
                self.open.remove(&key);
                self.forgotten += 1;
            }
        }
        // Those that ended are passed over when they are as many as those that are open.
        if self.order.len() > 2 * self.open.len() + 64 {
            let open = &self.open;
            self.order.retain(|(ns, key)| open.get(key) == Some(ns));
        }
    }

    /// Keys whose events are all too old to count; where that is none, those that were seen longest ago.
    fn forget_counts(&mut self, oldest: u64) {
        self.counted.retain(|_, times| times.back().is_some_and(|ns| *ns >= oldest));
        if self.counted.len() > MOST_KEYS {
            let last: BTreeMap<(u64, Key), ()> =
                self.counted.iter().map(|(key, times)| ((times.back().copied().unwrap_or(0), key.clone()), ())).collect();
            for ((_, key), ()) in last.into_iter().take(MOST_KEYS / 2) {
                self.counted.remove(&key);
                self.forgotten += 1;
            }
        }
    }

    /// Finds what has not come in time at `now`.
    fn expire(&mut self, condition: &Condition, now: u64, fire: &mut impl FnMut(Cause)) {
        let Condition::Missing { within, .. } = condition else { return };
        let within = nanoseconds(*within);
        while self.order.front().is_some_and(|(ns, _)| ns.saturating_add(within) < now) {
            let Some((ns, key)) = self.order.pop_front() else { break };
            if self.open.get(&key) == Some(&ns) {
                self.open.remove(&key);
                let of = Of(condition, &key);
                let what = format!("no {} within {} of {}{of}", name(condition, 1), Ns(within), name(condition, 0));
                fire(Cause { ns: ns.saturating_add(within), what, latency_ns: None, key });
            }
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The name in a source's rule.
fn name(condition: &Condition, source: usize) -> &str {
    condition.sources().get(source).and_then(|s| s.part.split_whitespace().next()).unwrap_or_default()
}

/// ` of id = 7`.
struct Of<'c>(&'c Condition, &'c Key);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.key() {
            Some(field) => write!(f, ", {} = {}", field.part.as_str(), self.1),
            None => Ok(()),
        }
    }
}

/// A time as people read it.
pub(crate) struct Ns(pub(crate) u64);

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns @ ..1_000 => write!(f, "{ns} ns"),
            ns @ ..1_000_000 => write!(f, "{:.3} us", ns as f64 / 1e3),
            ns @ ..1_000_000_000 => write!(f, "{:.3} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.3} s", ns as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::grammar::Spec;
    use super::*;
    use proptest::prelude::*;

    fn condition(text: &str) -> Condition {
        Spec::parse_all(&format!("when {text} then stop")).unwrap_or_else(|e| panic!("{e}")).remove(0).condition
    }

    fn seen(ns: u64, source: usize, key: i128) -> Seen {
        Seen { ns, source, key: Key::Integer(key) }
    }

    fn fired(condition: &Condition, matcher: &mut Matcher, horizon: u64) -> Vec<(u64, String)> {
        let mut causes = Vec::new();
        matcher.advance(condition, horizon, &mut |cause| causes.push((cause.ns, cause.what)));
        causes
    }

    #[test]
    fn latencies_are_of_one_key_in_the_order_of_time() {
        let condition = condition("latency(a, b by id) > 100ns");
        let mut matcher = Matcher::default();
        // As they are found: ring by ring.
        for event in [seen(350, 1, 1), seen(120, 1, 2), seen(100, 0, 1), seen(110, 0, 2), seen(400, 1, 3)] {
            matcher.see(event);
        }
        assert_eq!(fired(&condition, &mut matcher, 340), []);
        assert_eq!(fired(&condition, &mut matcher, 1000), [(350, "250 ns from a to b, id = 1".to_owned())]);
        assert_eq!(fired(&condition, &mut matcher, 2000), []);
    }

    #[test]
    fn maxima_rise() {
        let condition = condition("max(latency(a, b by id)) > 10ns");
        let mut matcher = Matcher::default();
        for (key, (begin, latency)) in [(0, 5), (100, 20), (200, 20), (300, 15), (400, 30)].into_iter().enumerate() {
            matcher.see(seen(begin, 0, key as i128));
            matcher.see(seen(begin + latency, 1, key as i128));
        }
        let times: Vec<u64> = fired(&condition, &mut matcher, 1000).into_iter().map(|(ns, _)| ns).collect();
        assert_eq!(times, [120, 430]);
    }

    #[test]
    fn counts_are_within_a_time_and_begin_anew() {
        let condition = condition("count(a by id) >= 3 within 100ns");
        let mut matcher = Matcher::default();
        for ns in [0, 60, 101, 150, 160, 170, 180] {
            matcher.see(seen(ns, 0, 1));
            matcher.see(seen(ns * 10, 0, 2));
        }
        let found = fired(&condition, &mut matcher, 5000);
        assert_eq!(found, [(150, "3 of a within 90 ns, id = 1".to_owned()), (180, "3 of a within 20 ns, id = 1".to_owned())]);
    }

    #[test]
    fn what_is_missing_is_told_when_its_time_has_passed() {
        let condition = condition("missing(a, b by id) within 100ns");
        let mut matcher = Matcher::default();
        for event in [seen(10, 0, 1), seen(20, 0, 2), seen(115, 1, 1), seen(121, 1, 2)] {
            matcher.see(event);
        }
        let late = [(110, "no b within 100 ns of a, id = 1".to_owned()), (120, "no b within 100 ns of a, id = 2".to_owned())];
        assert_eq!(fired(&condition, &mut matcher, 110), []);
        assert_eq!(fired(&condition, &mut matcher, 121), late);
        assert_eq!(fired(&condition, &mut matcher, 500), []);
    }

    #[test]
    fn memory_is_bounded() {
        let condition = condition("latency(a, b by id) > 1ns");
        let mut matcher = Matcher::default();
        for key in 0..3 * MOST_KEYS as i128 {
            matcher.see(seen(key as u64, 0, key));
        }
        assert_eq!(fired(&condition, &mut matcher, u64::MAX), []);
        assert_eq!((matcher.open.len(), matcher.forgotten), (MOST_KEYS, 2 * MOST_KEYS as u64));
        assert!(matcher.order.len() <= 2 * MOST_KEYS + 64);
    }

    proptest! {
        /// However events are cut into rounds and in whatever order a round finds them, the same latencies are found.
        #[test]
        fn rounds_make_no_difference(events in prop::collection::vec((0u64..1000, 0usize..2, 0i128..4), 0..60), cuts in prop::collection::vec(0u64..1000, 0..5)) {
            let condition = condition("latency(a, b by id) > 0ns");
            let mut unique = std::collections::BTreeMap::new();
            for (ns, source, key) in events {
                unique.insert(ns, seen(ns, source, key));
            }
            let (mut whole, mut cut) = (Matcher::default(), Matcher::default());
            unique.values().for_each(|event| whole.see(event.clone()));
            let expected = fired(&condition, &mut whole, 1000);
            let mut found = Vec::new();
            let mut cuts = cuts;
            cuts.extend([1000]);
            cuts.sort_unstable();
            let mut rest: Vec<Seen> = unique.into_values().rev().collect();
            for horizon in cuts {
                // All before the horizon were delivered, and some behind it.
                let (now, later): (Vec<Seen>, Vec<Seen>) = rest.into_iter().partition(|e| e.ns <= horizon || e.ns % 3 == 0);
                now.into_iter().for_each(|event| cut.see(event));
                rest = later;
                found.extend(fired(&condition, &mut cut, horizon));
            }
            prop_assert_eq!(found, expected);
        }
    }
}
