//! Publication of probe lists: readers counted by locked additions, and the grace period of the run time itself.

#[path = "../../trace-runtime/src/rcu/grace.rs"]
mod grace;

use grace::{GracePeriod, Words};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;

/// What goes wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// Only the phase that readers took is waited for.
    OnePhase,
    /// The list is loaded before the reader is counted.
    ListNotLoadedAgain,
    /// No fence behind the addition of an enter.
    NoFence,
    /// A leave counts for the phase of its time.
    LeavesAnotherPhase,
    /// A list is freed at once.
    NoGracePeriod,
}

/// The gate holds the number of a list.
struct Shared {
    gate: AtomicUsize,
    phase: AtomicUsize,
    entered: [AtomicU64; 2],
    left: [AtomicU64; 2],
    /// Freed by a write, of which loom tells whether it races.
    lists: Vec<UnsafeCell<bool>>,
}

impl Words for Shared {
    fn phase(&self) -> usize {
        self.phase.load(Ordering::Relaxed)
    }

    fn flip(&self) -> usize {
        self.phase.fetch_xor(1, Ordering::SeqCst)
    }

    fn left(&self, phase: usize) -> u64 {
        self.left[phase].load(Ordering::Acquire)
    }

    fn entered(&self, phase: usize) -> u64 {
        self.entered[phase].load(Ordering::Acquire)
    }

    fn barrier(&self) -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

impl Shared {
    /// One firing; the orderings are those of `trace_registry::read_side` and of the gate.
    fn fire(&self, mutation: Option<Mutation>) {
        let early = self.gate.load(Ordering::Acquire);
        let phase = self.phase.load(Ordering::Relaxed);
        self.entered[phase].fetch_add(1, Ordering::SeqCst);
        if mutation != Some(Mutation::NoFence) {
            fence(Ordering::SeqCst);
        }
        let list = if mutation == Some(Mutation::ListNotLoadedAgain) { early } else { self.gate.load(Ordering::Acquire) };
        // SAFETY: only looked at.
        #[expect(unsafe_code, reason = "loom's cells hand out pointers")]
        self.lists[list].with(|is_freed| assert!(!unsafe { *is_freed }, "a list that was freed"));
        let phase = match mutation {
            Some(Mutation::LeavesAnotherPhase) => self.phase.load(Ordering::Relaxed),
            _ => phase,
        };
        self.left[phase].fetch_add(1, Ordering::Release);
    }

    /// Publishes a list in place of another, which is freed after a grace period.
    fn publish(&self, list: usize, mutation: Option<Mutation>) {
        let old = self.gate.swap(list, Ordering::AcqRel);
        if mutation != Some(Mutation::NoGracePeriod) {
            let mut period = GracePeriod::begin(self);
            let is_short = mutation == Some(Mutation::OnePhase);
            while !(if is_short { self.one_phase() } else { period.poll(self) }) {
                thread::yield_now();
            }
        }
        // SAFETY: only this thread writes.
        #[expect(unsafe_code, reason = "loom's cells hand out pointers")]
        self.lists[old].with_mut(|is_freed| unsafe { *is_freed = true });
    }

    fn one_phase(&self) -> bool {
        let phase = self.flip();
        loop {
            let left = self.left(phase);
            if self.barrier() && left == self.entered(phase) {
                return true;
            }
            thread::yield_now();
        }
    }
}

/// A thread fires while another publishes lists in a row.
pub fn lists_outlive_their_readers(publications: usize, mutation: Option<Mutation>) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(move || {
        let zero = || AtomicU64::new(0);
        let shared = Arc::new(Shared {
            gate: AtomicUsize::new(0),
            phase: AtomicUsize::new(0),
            entered: [zero(), zero()],
            left: [zero(), zero()],
            lists: (0..=publications).map(|_| UnsafeCell::new(false)).collect(),
        });
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.fire(mutation))
        };
        for list in 1..=publications {
            shared.publish(list, mutation);
        }
        reader.join().expect("a reader");
    });
}
