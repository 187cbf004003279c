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

mod grace;
mod words;

use self::grace::GracePeriod;
use self::words::ReadSide;
use crate::error::{Kind, Result};
use crate::per_image::PerImage;
use crate::sys;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trace_registry::is_mutated;
use trace_registry::read_side;
use trace_registry::sync::{Ordering, fence};

/// Locks `mutex` whether or not a thread panicked while it held it: every section of ours leaves its data whole.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls `period` until it is over, for at most `limit`. Returns whether it is.
fn wait(period: &mut GracePeriod, limit: Duration) -> bool {
    let begin = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        if period.poll(&ReadSide) {
            return true;
        }
        if begin.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
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

static RETIRED: PerImage<Mutex<Vec<Box<dyn Send>>>> = PerImage::new(Mutex::default);

/// Leaves what the parent retired behind; for a forked child.
pub(crate) fn renew() {
    RETIRED.renew();
}

/// Refuses when too much waits for a grace period already.
pub(crate) fn admit() -> Result<()> {
    let retired = lock(RETIRED.get()).len();
    if retired >= RETIRED_LIMIT {
        return Err(Kind::TooManyRetired { retired, limit: RETIRED_LIMIT }.into());
    }
    Ok(())
}

/// Drops `object` after a grace period; never waits. Returns how many objects wait now.
pub(crate) fn retire(object: Box<dyn Send>) -> usize {
    let mut retired = lock(RETIRED.get());
    retired.push(object);
    retired.len()
}

/// Takes what waits for a grace period.
fn take_retired() -> Vec<Box<dyn Send>> {
    std::mem::take(&mut *lock(RETIRED.get()))
}

/// How many objects wait for a grace period that has not begun.
pub(crate) fn retired() -> usize {
    lock(RETIRED.get()).len()
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
            self.under_way = Some((GracePeriod::begin(&ReadSide), objects)); // WR-3
        }
        if self.under_way.as_mut().is_some_and(|(period, _)| is_mutated!(list_no_grace_period) || wait(period, ROUND)) {
            self.under_way = None; // drops the objects
        }
    }

    /// Waits at most `limit` for every section that exists now. Returns whether they have ended. Reclaims on the way.
    pub(crate) fn synchronize(&mut self, limit: Duration) -> bool {
        // One at a time (WR-1): what is under way began earlier, and is merged into the later one.
        let mut objects = self.under_way.take().map(|(_, objects)| objects).unwrap_or_default();
        objects.extend(take_retired());
        let mut period = GracePeriod::begin(&ReadSide);
        let over = wait(&mut period, limit);
        if !over {
            self.under_way = Some((period, objects));
        }
        over
    }
}
