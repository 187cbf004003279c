//! Probe lists under load: tracepoints fire in threads and handlers while others switch them on and off as fast as they can.

use crate::shared::{Counts, THREADS};
use crate::writer::{is_armed, timer};
use anyhow::Result;
use ringtrace::Session;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace_registry::read_side;

#[ringtrace::tracepoint(record)]
fn plain(value: u64);

#[ringtrace::tracepoint(record)]
fn text(value: u64, text: &str);

/// Its probe gives the CPU away now and then: lists change while a section lasts, and it is left on another CPU.
#[ringtrace::tracepoint]
fn slow(value: u64);

#[derive(ringtrace::Event)]
struct Slow {
    value: u64,
}

#[ringtrace::probe(slow)]
fn record_slow(value: u64) -> Slow {
    if value.is_multiple_of(64) {
        migrate(value / 64);
    }
    if value.is_multiple_of(256) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Slow { value }
}

/// Moves this thread to another CPU.
pub(crate) fn migrate(round: u64) {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut set = rustix::thread::CpuSet::new();
    set.set((round % cpus) as usize);
    let _ = rustix::thread::sched_setaffinity(None, &set); // where it may not, it stays
}

static IS_FIRING: AtomicBool = AtomicBool::new(false);
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_timer(_: libc::c_int) {
    if IS_FIRING.load(SeqCst) {
        plain(HANDLED.fetch_add(1, SeqCst));
    }
}

/// Fires `events` tracepoints.
pub(crate) fn fire(counts: &Counts, events: u64) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let session = |name: &str| Session::builder(name).memory(4 << 20).overwrite().output(directory.path().join(name)).start();
    let (a, b, always) = (session("a")?, session("b")?, session("always")?);
    for rule in ["stress:*:plain", "stress:*:slow"] {
        always.enable(rule)?;
    }
    let is_over = AtomicBool::new(false);
    IS_FIRING.store(true, SeqCst);
    timer(on_timer, 70);
    std::thread::scope(|scope| {
        for (session, rule) in [(&a, "stress:*:plain"), (&a, "stress:*:slow"), (&b, "stress:*"), (&b, "stress:*:text")] {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    // Busy where grace periods do not keep up.
                    if session.enable(rule).is_err() || session.disable(rule).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let threads: Vec<_> = (0..THREADS as u64)
            .map(|thread| {
                scope.spawn(move || {
                    for round in 0..events / (3 * THREADS as u64) {
                        plain(round);
                        text(round, "a text");
                        slow(round + thread);
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
    for session in [a, b, always] {
        match session.stop() {
            Ok(statistics) => counts.streams[0].recorded.fetch_add(statistics.events, Relaxed),
            Err(_) => counts.failed.fetch_add(1, Relaxed),
        };
    }
    // Nobody fires any more.
    for phase in 0..2 {
        let (mut entered, mut left) = (0_u64, 0_u64);
        for cpu in read_side::counters() {
            let words = &cpu.phases[phase];
            entered = entered.wrapping_add(words.entered());
            left = left.wrapping_add(words.left());
        }
        counts.unbalanced.fetch_add(entered.abs_diff(left), SeqCst);
    }
    Ok(())
}
