//! Counting the events of a probe while somebody looks.
//!
//! # Invariants
//!
//! - HI-1: A counter outlives every list that holds a target of it by a grace period: it is retired when it is unwatched.
#![expect(unsafe_code, reason = "targets reach their counter by address")]

use crate::attach::{self, NamedProbe, Watch};
use crate::clock::Clock;
use crate::consumer;
use crate::error::{Error, Result};
use crate::rule::Rule;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;
use trace_control::protocol::{Hit, Hits};
use trace_registry::condition::Conditional;
use trace_registry::field::Piece;
use trace_registry::probe::{Functions, Loss, Target};
use trace_registry::sync::{AtomicU64, Ordering};

/// Counts events, and when the last one came.
#[derive(Debug)]
pub(super) struct Counter {
    count: AtomicU64,
    last_ns: AtomicU64,
}

/// Bytes of payload that are encoded at most, to be thrown away.
const LIMIT: u32 = 4 << 10;

impl Watch for Counter {
    fn conditional(&self) -> Conditional {
        let functions = Functions { words: Some(count_words), tail: Some(count_tail), pieces: count_pieces, lose: ignore };
        // SAFETY: the functions may be called from any thread and signal handler; HI-1.
        Conditional::always(unsafe {
            Target::new(functions, [MaybeUninit::uninit(); 8], std::ptr::from_ref(self).cast(), LIMIT, 0, true)
        })
    }
}

/// # Safety
///
/// `target` was made by [`Counter::conditional`](Watch::conditional) and is in a list that the caller reads (HI-1).
///
/// # Signal safety
///
/// Async-signal-safe and wait-free.
unsafe fn count(target: *const Target) -> u8 {
    // SAFETY: the caller's duty.
    let counter = unsafe { &*(*target).channel().cast::<Counter>() };
    // Relaxed: two figures for people.
    counter.count.fetch_add(1, Ordering::Relaxed);
    counter.last_ns.store(Clock::process().now_ns(), Ordering::Relaxed);
    0
}

/// # Safety
///
/// As for [`count`].
unsafe extern "C" fn count_words(target: *const Target, _: u64, _: u64, _: u64) -> u8 {
    // SAFETY: the caller's duty.
    unsafe { count(target) }
}

/// # Safety
///
/// As for [`count`].
unsafe extern "C" fn count_tail(target: *const Target, _: u64, _: u64, _: u64, _: *const u8, _: usize) -> u8 {
    // SAFETY: the caller's duty.
    unsafe { count(target) }
}

/// # Safety
///
/// As for [`count`].
unsafe extern "C" fn count_pieces(target: *const Target, _: NonNull<Piece>, _: usize, _: usize) -> u8 {
    // SAFETY: the caller's duty.
    unsafe { count(target) }
}

/// # Safety
///
/// As for [`count`].
unsafe fn ignore(_: &Target, _: Loss) {}

/// Probes whose events are counted, until it is dropped.
pub(super) struct Watched {
    counters: Vec<(&'static NamedProbe, Arc<Counter>)>,
    begun: Instant,
}

impl Watched {
    /// Counts the events of what `rules` match.
    pub(super) fn begin(rules: &str) -> Result<Watched> {
        let text = rules;
        let rules = attach::rules(text, false, true, false, &mut Vec::new())?;
        if rules.iter().any(Rule::is_conditional) {
            let remedy = "leave out the filter or limit; `ringtrace status` tells what those of a session passed over";
            return Err(Error::rule(text, 0..text.len(), "hits are counted of all events", remedy));
        }
        Self::of(attach::probes().filter(|p| attach::decides(&rules, p)))
    }

    pub(super) fn of(probes: impl Iterator<Item = &'static NamedProbe>) -> Result<Watched> {
        crate::process::current()?;
        crate::rcu::admit()?;
        consumer::ensure_running()?;
        let new = || Arc::new(Counter { count: AtomicU64::new(0), last_ns: AtomicU64::new(0) });
        let counters: Vec<_> = probes.filter(|p| p.probe.class.is_some()).map(|p| (p, new())).collect();
        attach::control().watch(&watches(&counters));
        Ok(Watched { counters, begun: Instant::now() })
    }

    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    pub(super) fn hits(&self) -> Hits {
        let now = Clock::process().now_ns();
        let hit = |(probe, counter): &(&NamedProbe, Arc<Counter>)| {
            let count = counter.count.load(Ordering::Relaxed);
            let last = counter.last_ns.load(Ordering::Relaxed);
            Hit { name: probe.name.clone(), count, last_ns: (last > 0).then(|| now.saturating_sub(last)) }
        };
        let mut hits: Vec<Hit> = self.counters.iter().map(hit).collect();
        hits.sort_by(|a, b| a.name.cmp(&b.name));
        Hits { ns: u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX), hits }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        attach::control().unwatch(watches(&self.counters));
    }
}

fn watches(counters: &[(&'static NamedProbe, Arc<Counter>)]) -> Vec<(&'static NamedProbe, Arc<dyn Watch>)> {
    counters.iter().map(|(probe, counter)| (*probe, counter.clone() as Arc<dyn Watch>)).collect()
}
