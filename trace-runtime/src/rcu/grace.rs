//! A grace period: in which order the words of the read side are looked at.
//!
//! A model of it is in `models/`, which compiles this file with words of its own.

use trace_registry::is_mutated;

/// The words of the read side.
pub(super) trait Words {
    /// The phase that readers take now.
    fn phase(&self) -> usize;
    /// Turns to the other phase. Returns the one that readers took until now.
    fn flip(&self) -> usize;
    /// How many readers left in a phase.
    fn left(&self, phase: usize) -> u64;
    /// How many readers entered in a phase.
    fn entered(&self, phase: usize) -> u64;
    /// Makes every running thread pass a full fence. Returns whether it did.
    fn barrier(&self) -> bool;
}

/// A grace period under way: every read-side critical section that existed when it began has ended when it is over.
///
/// It is polled, never waited for without limit: a reader that does not leave (a probe that blocks, a longjmp out of one) ends
/// reclaiming, and nothing else.
pub(super) struct GracePeriod {
    /// The phase whose readers must leave.
    phase: usize,
    /// Whether the other phase's have left.
    is_second: bool,
}

impl GracePeriod {
    /// Begins one; WR-1: one at a time.
    pub(super) fn begin(words: &impl Words) -> GracePeriod {
        if is_mutated!(list_one_phase) {
            return GracePeriod { phase: words.flip(), is_second: true };
        }
        // First the readers that took this phase before the last flip and counted themselves after it.
        GracePeriod { phase: words.phase() ^ 1, is_second: false }
    }

    /// Returns whether it is over.
    pub(super) fn poll(&mut self, words: &impl Words) -> bool {
        if !is_idle(words, self.phase) {
            return false;
        }
        if self.is_second {
            return true;
        }
        *self = GracePeriod { phase: words.flip(), is_second: true };
        is_idle(words, self.phase)
    }
}

/// Whether no reader is in a phase. RS-3: the leaves first, then the fence, then the enters; so that no reader is counted as gone
/// whose entry was not counted.
fn is_idle(words: &impl Words, phase: usize) -> bool {
    let left = words.left(phase);
    let is_fenced = words.barrier();
    let entered = words.entered(phase);
    is_fenced && left == entered
}
