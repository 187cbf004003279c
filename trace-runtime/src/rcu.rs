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
use std::time::{Duration, Instant};
use trace_registry::is_mutated;
use trace_registry::read_side::{self, CpuCounters};
use trace_registry::sync::{AtomicU64, Ordering, fence};

/// Locks `mutex` whether or not a thread panicked while it held it: every section of ours leaves its data whole.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A grace period under way: every read-side critical section that existed when it began has ended when it is over.
///
/// It is polled, never waited for without limit: a reader that does not leave (a probe that blocks, a longjmp out of one) ends
/// reclaiming, and nothing else.
pub(crate) struct GracePeriod {
    /// The phase whose readers must leave.
    phase: usize,
    /// Whether the other phase's have left.
    is_second: bool,
}

impl GracePeriod {
    /// Begins one; WR-1: on the consumer's thread, which has at most one.
    pub(crate) fn begin() -> GracePeriod {
        if is_mutated!(list_one_phase) {
            return GracePeriod { phase: read_side::flip_phase(), is_second: true };
        }
        // First the readers that took this phase before the last flip and counted themselves after it.
        GracePeriod { phase: read_side::phase() ^ 1, is_second: false }
    }

    /// Returns whether it is over.
    pub(crate) fn poll(&mut self) -> bool {
        if !is_idle(self.phase) {
            return false;
        }
        if self.is_second {
            return true;
        }
        *self = GracePeriod { phase: read_side::flip_phase(), is_second: true };
        is_idle(self.phase)
    }

    /// Polls until it is over, for at most `limit`. Returns whether it is.
    pub(crate) fn wait(&mut self, limit: Duration) -> bool {
        let begin = Instant::now();
        let mut pause = Duration::from_micros(20);
        loop {
            if self.poll() {
                return true;
            }
            if begin.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }
}

fn is_idle(phase: usize) -> bool {
    let sum = |words: fn(&CpuCounters, usize) -> [&AtomicU64; 2]| {
        read_side::counters()
            .iter()
            // Acquire: orders what a reader did before its leave. Pairs with the addition in `Section::leave`.
            .flat_map(|cpu| words(cpu, phase).map(|w| w.load(Ordering::Acquire)))
            .fold(0_u64, u64::wrapping_add)
    };
    let left = sum(|cpu, phase| [&cpu.phases[phase].leave, &cpu.phases[phase].leave_locked]);
    let fenced = barrier();
    let entered = sum(|cpu, phase| [&cpu.phases[phase].enter, &cpu.phases[phase].enter_locked]);
    fenced && left == entered
}

/// Makes every running thread of the process pass a full fence between its earlier and its later accesses (RS-3). Returns false
/// where that failed: a seccomp filter was installed since. Then no grace period ends any more.
fn barrier() -> bool {
    fence(Ordering::SeqCst);
    !read_side::is_sequenced() || sys::membarrier()
}

/// Most objects that may wait for a grace period before [`admit`] refuses.
const RETIRED_LIMIT: usize = 65_536;
/// So many make the consumer's thread run a grace period without delay.
pub(crate) const RETIRED_HASTE: usize = if cfg!(ringtrace_mutate) { 16 } else { 1_024 };

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

/// Takes what waits for a grace period.
fn take_retired() -> Vec<Box<dyn Send>> {
    std::mem::take(&mut *lock(&RETIRED))
}

/// How many objects wait for a grace period that has not begun.
pub(crate) fn retired() -> usize {
    lock(&RETIRED).len()
}

/// Drops what was retired; the consumer's.
#[derive(Default)]
pub(crate) struct Reclaimer {
    under_way: Option<(GracePeriod, Vec<Box<dyn Send>>)>,
}

/// How long a round of the consumer's thread spends on reclaiming.
const ROUND: Duration = Duration::from_micros(500);

impl Reclaimer {
    /// Goes on with reclaiming, for a moment.
    pub(crate) fn round(&mut self) {
        if self.under_way.is_none() {
            let objects = take_retired();
            if objects.is_empty() {
                return;
            }
            self.under_way = Some((GracePeriod::begin(), objects)); // WR-3
        }
        if self.under_way.as_mut().is_some_and(|(period, _)| is_mutated!(list_no_grace_period) || period.wait(ROUND)) {
            self.under_way = None; // drops the objects
        }
    }

    /// Waits at most `limit` for every section that exists now. Returns whether they have ended. Reclaims on the way.
    pub(crate) fn synchronize(&mut self, limit: Duration) -> bool {
        // One at a time (WR-1): what is under way began earlier, and is merged into the later one.
        let mut objects = self.under_way.take().map(|(_, objects)| objects).unwrap_or_default();
        objects.extend(take_retired());
        let mut period = GracePeriod::begin();
        let over = period.wait(limit);
        if !over {
            self.under_way = Some((period, objects));
        }
        over
    }
}
