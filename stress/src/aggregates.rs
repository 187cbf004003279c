//! Aggregations under load: threads that change their CPU and handlers add to the same figures, and one thread reads them.

use crate::shared::{Counts, THREADS};
use crate::writer::{is_armed, timer};
use anyhow::Result;
use ringtrace::{Aggregation, Figures, Number};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The value of every event.
const VALUE: u64 = 7;

#[ringtrace::tracepoint(record)]
fn weighed(value: u64, key: u64);

static IS_FIRING: AtomicBool = AtomicBool::new(false);
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_timer(_: libc::c_int) {
    if IS_FIRING.load(SeqCst) {
        weighed(VALUE, HANDLED.fetch_add(1, SeqCst) % 2);
    }
}

/// Whether the figures can be those of whole events.
fn are_whole(figures: &Figures) -> bool {
    let integer = |value: u64| Some(Number::Integer(value.into()));
    figures.sum == integer(VALUE * figures.count) && figures.min == integer(VALUE) && figures.max == integer(VALUE)
}

/// Fires `events` events into two aggregations at once.
pub(crate) fn fire(counts: &Counts, events: u64) -> Result<()> {
    let all = Aggregation::of("stress:*:weighed.value").quantize().start()?;
    let by_key = Aggregation::of("stress:*:weighed.value by key").start()?;
    let is_over = AtomicBool::new(false);
    IS_FIRING.store(true, SeqCst);
    timer(on_timer, 70);
    let each = events / (2 * THREADS as u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                let torn = [&all, &by_key].into_iter().flat_map(|a| a.read().groups).filter(|g| !are_whole(&g.figures)).count();
                counts.torn.fetch_add(torn as u64, SeqCst);
            }
        });
        let threads: Vec<_> = (0..THREADS as u64)
            .map(|thread| {
                scope.spawn(move || {
                    for round in 0..each {
                        weighed(VALUE, (round + thread) % 2);
                        if round.is_multiple_of(4096) {
                            crate::lists::migrate(round / 4096 + thread);
                        }
                        if is_armed() {
                            counts.armed.fetch_add(1, SeqCst);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            let _ = thread.join(); // a panic is one of the scope
        }
        is_over.store(true, SeqCst);
    });
    timer(on_timer, 0);
    IS_FIRING.store(false, SeqCst);
    let fired = each * THREADS as u64 + HANDLED.load(SeqCst);
    for aggregation in [all, by_key] {
        let read = aggregation.read();
        let figures = || read.groups.iter().map(|g| &g.figures);
        let found = figures().map(|f| f.count).sum::<u64>() + read.lost.total();
        let torn = figures().filter(|f| !are_whole(f)).count() as u64;
        counts.torn.fetch_add(torn + found.abs_diff(fired), SeqCst);
        counts.streams[0].recorded.fetch_add(found, Relaxed);
    }
    Ok(())
}
