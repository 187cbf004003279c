//! Events counted by class, thread and CPU.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use serde_json::{Value as Json, json};
use trace_ctf::reader::Event;

use super::names::{Names, Thread};
use super::source::{Class, Gather, Opened};
use super::summary::Summary;
use crate::failure::Failure;

/// Some events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) events: u64,
    /// Of their records.
    pub(super) bytes: u64,
    /// Times of the first and the last of them.
    span: Option<(i64, i64)>,
}

/// What a trace consists of.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) total: Count,
    /// By the name of the class.
    pub(super) classes: Vec<(String, Count)>,
    pub(super) threads: Vec<(Thread, Count)>,
    pub(super) cpus: Vec<(u64, Count)>,
    pub(super) names: Names,
}

impl Count {
    fn event(&mut self, timestamp: Option<i64>) {
        self.events += 1;
        if let Some(timestamp) = timestamp {
            self.extend((timestamp, timestamp));
        }
    }

    fn extend(&mut self, (begin, end): (i64, i64)) {
        self.span = Some(self.span.map_or((begin, end), |(first, last)| (first.min(begin), last.max(end))));
    }

    fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.bytes += other.bytes;
        if let Some(span) = other.span {
            self.extend(span);
        }
    }

    pub(super) fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    /// Nanoseconds from the first to the last.
    pub(super) fn duration(&self) -> u64 {
        self.span.map_or(0, |(first, last)| last.abs_diff(first))
    }

    /// Events in a second of a duration in nanoseconds.
    pub(super) fn rate(&self, duration: u64) -> Option<f64> {
        (duration > 0).then(|| self.events as f64 * 1e9 / duration as f64)
    }

    pub(super) fn json(&self, duration: u64) -> Json {
        json!({ "events": self.events, "bytes": self.bytes, "events_per_s": self.rate(duration),
                "first_ns": self.span.map(|(first, _)| first), "last_ns": self.span.map(|(_, last)| last) })
    }
}

impl Counts {
    pub(super) fn of(opened: &Opened, summary: &mut Summary) -> Result<Self, Failure> {
        let gathered = opened.gather(summary, Gathered::default);
        let names_of: HashMap<Class, &str> =
            opened.classes().into_iter().map(|(_, class)| (Class::of(class), &*class.name)).collect();
        let (mut classes, mut threads, mut cpus) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut counts = Self::default();
        for part in gathered {
            let named =
                part.classes.rows.iter().map(|(class, count)| (names_of.get(class).copied().unwrap_or("?").to_owned(), count));
            sum(named, &mut classes);
            sum(part.threads.rows.iter().map(|(thread, count)| (*thread, count)), &mut threads);
            sum(part.cpus.rows.iter().filter_map(|(cpu, count)| Some(((*cpu)?, count))), &mut cpus);
            counts.names.add(part.names);
        }
        classes.values().for_each(|count| counts.total.add(count));
        counts.classes = classes.into_iter().collect();
        counts.threads = threads.into_iter().collect();
        counts.cpus = cpus.into_iter().collect();
        counts.classes.sort_by_key(|(_, count)| std::cmp::Reverse(count.events));
        counts.threads.sort_by_key(|(_, count)| std::cmp::Reverse(count.events));
        Ok(counts)
    }
}

fn sum<'c, K: Ord>(parts: impl Iterator<Item = (K, &'c Count)>, into: &mut BTreeMap<K, Count>) {
    parts.for_each(|(key, count)| into.entry(key).or_default().add(count));
}

/// What one thread of ours counts.
#[derive(Default)]
struct Gathered {
    classes: Rows<Class>,
    threads: Rows<Thread>,
    cpus: Rows<Option<u64>>,
    names: Names,
}

/// Counts by a key that seldom changes from one event to the next.
struct Rows<K> {
    places: HashMap<K, usize>,
    rows: Vec<(K, Count)>,
    last: usize,
}

impl<K> Default for Rows<K> {
    fn default() -> Self {
        Self { places: HashMap::new(), rows: Vec::new(), last: 0 }
    }
}

impl<K: Copy + Eq + Hash> Rows<K> {
    fn at(&mut self, key: K) -> &mut Count {
        if self.rows.get(self.last).is_none_or(|(known, _)| *known != key) {
            self.last = *self.places.entry(key).or_insert(self.rows.len());
            if self.last == self.rows.len() {
                self.rows.push((key, Count::default()));
            }
        }
        &mut self.rows[self.last].1
    }

    /// Adds to the count that was asked for last.
    fn size(&mut self, bytes: u64) {
        if let Some((_, count)) = self.rows.get_mut(self.last) {
            count.bytes += bytes;
        }
    }
}

impl Gather for Gathered {
    fn event(&mut self, event: &Event<'_>) {
        let timestamp = event.timestamp();
        self.classes.at(Class::of(event.class())).event(timestamp);
        self.threads.at(self.names.thread(event)).event(timestamp);
        self.cpus.at(event.packet().info().cpu_id).event(timestamp);
    }

    fn size(&mut self, bytes: u64) {
        self.classes.size(bytes);
        self.threads.size(bytes);
        self.cpus.size(bytes);
    }

    fn name(&mut self, event: &Event<'_>) {
        self.names.learn(event);
    }
}
