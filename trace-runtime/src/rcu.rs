//! The writer's side of the probe lists: grace periods, and what waits for one.
//!
//! The read side and its counters are in [`trace_registry::read_side`]; RS-1 to RS-4 there are the protocol's invariants.
//!
//! # Invariants
//!
//! - WR-1: One grace period runs at a time.
//! - WR-2: No lock that a probe may take is held while a grace period is awaited: a probe that wants it would wait for a
//!   writer that waits for the probe. In particular the control lock is not.
//! - WR-3: What was retired is dropped only after a grace period that began later.

use crate::error::{Kind, Result};
use crate::sys;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trace_registry::read_side::{self, CpuCounters};
use trace_registry::sync::{AtomicU64, Ordering, fence};

/// Locks `mutex` whether or not a thread panicked while it held it: every section of ours leaves its data whole.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static WRITER: Mutex<()> = Mutex::new(());

/// Waits until every read-side critical section that exists now has ended.
///
/// Must not be called from inside one.
pub(crate) fn synchronize() {
    let _writer = lock(&WRITER); // WR-1
    // Readers that took this phase before the last flip and counted themselves after it.
    wait_until_idle(read_side::phase() ^ 1);
    wait_until_idle(read_side::flip_phase());
}

fn wait_until_idle(phase: usize) {
    let mut pause = Duration::from_micros(20);
    for attempt in 0_u32.. {
        if is_idle(phase) {
            return;
        }
        if attempt < 32 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }
}

fn is_idle(phase: usize) -> bool {
    let sum = |words: fn(&CpuCounters, usize) -> [&AtomicU64; 2]| {
        read_side::counters()
            .iter()
            // Acquire: orders what a reader did before its leave. Pairs with the addition in `Section::drop`.
            .flat_map(|cpu| words(cpu, phase).map(|w| w.load(Ordering::Acquire)))
            .fold(0_u64, u64::wrapping_add)
    };
    let left = sum(|cpu, phase| [&cpu.phases[phase].leave, &cpu.phases[phase].leave_locked]);
    barrier();
    let entered = sum(|cpu, phase| [&cpu.phases[phase].enter, &cpu.phases[phase].enter_locked]);
    left == entered
}

/// Makes every running thread of the process pass a full fence between its earlier and its later accesses (RS-3).
fn barrier() {
    fence(Ordering::SeqCst);
    if read_side::is_sequenced() {
        sys::membarrier();
    }
}

/// Most objects that may wait for a grace period before [`admit`] refuses.
const RETIRED_LIMIT: usize = 65_536;
/// So many make the consumer's thread run a grace period without delay.
pub(crate) const RETIRED_HASTE: usize = 1_024;

static RETIRED: Mutex<Vec<Box<dyn Send>>> = Mutex::new(Vec::new());

/// Refuses when too much waits for a grace period already.
pub(crate) fn admit() -> Result<()> {
    let retired = lock(&RETIRED).len();
    if retired >= RETIRED_LIMIT {
        return Err(Kind::TooManyRetired { retired, limit: RETIRED_LIMIT }.into());
    }
    Ok(())
}

/// Drops `object` after a grace period; never waits. Returns how many objects wait now.
pub(crate) fn retire(object: Box<dyn Send>) -> usize {
    let mut retired = lock(&RETIRED);
    retired.push(object);
    retired.len()
}

/// Runs a grace period, if anything waits for one, and drops what waited. For the consumer's thread.
pub(crate) fn reclaim() {
    let objects = std::mem::take(&mut *lock(&RETIRED));
    if !objects.is_empty() {
        synchronize();
        drop(objects); // WR-3
    }
}

/// How many objects wait for a grace period.
pub(crate) fn retired() -> usize {
    lock(&RETIRED).len()
}
