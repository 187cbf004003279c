//! Which process consumes: a claim in the file, next to the positions that its holder moves.
//!
//! ```text
//! holder  63         32 31                    0        seen_ns
//!         │ process ID │ start time, low half │       │ CLOCK_MONOTONIC of the holder's last sign of life │
//! ```
//!
//! | State | Becomes | By |
//! | --- | --- | --- |
//! | free: holder 0 | held | compare-and-swap from 0, [`Reader::claim`] |
//! | held | held, seen later | its holder, [`Reader::renew`] |
//! | held | free | its holder, [`Reader::release`] |
//! | held, not seen for [`STALE_NS`] | held by another | compare-and-swap from the old holder: one of all that try |
//!
//! A holder that was stopped for so long finds that it has lost the claim when it renews it, which it does before each round. It
//! may be stopped between renewing and consuming: what it delivers then is delivered twice, and nothing is lost or torn, since
//! positions are compared when a successor begins.

use super::reader::Reader;
use trace_registry::sync::Ordering;

/// A holder that was not seen for so long, in ns, may lose its claim.
pub const STALE_NS: u64 = 2_000_000_000;

/// A process, as a claim names it. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(u64);

impl Holder {
    /// The process with this ID and start time (in clock ticks from boot).
    pub fn new(pid: u32, start_time: u64) -> Holder {
        Holder(u64::from(pid.max(1)) << 32 | start_time & 0xffff_ffff)
    }

    /// Returns the process ID.
    pub fn pid(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl Reader {
    /// Takes the right to consume, at `now_ns` of CLOCK_MONOTONIC. True where `holder` has it already.
    ///
    /// # Errors
    ///
    /// Who has it.
    pub fn claim(&self, holder: Holder, now_ns: u64) -> Result<(), Holder> {
        let Some((_, page)) = self.memory().fallback() else { return Ok(()) };
        // Acquire: what the holder before did comes before; pairs with the Release in `renew` and `release`.
        let before = page.holder.load(Ordering::Acquire);
        let seen = page.seen_ns.load(Ordering::Acquire);
        let is_stale = now_ns.saturating_sub(seen) > STALE_NS;
        if before != 0 && before != holder.0 && !is_stale {
            return Err(Holder(before));
        }
        match page.holder.compare_exchange(before, holder.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                page.seen_ns.store(now_ns, Ordering::Release);
                Ok(())
            }
            Err(other) => Err(Holder(other)),
        }
    }

    /// Says that the holder is alive. False: another has the claim now, and this one consumes no more.
    #[must_use]
    pub fn renew(&self, holder: Holder, now_ns: u64) -> bool {
        let Some((_, page)) = self.memory().fallback() else { return true };
        let is_held = page.holder.load(Ordering::Acquire) == holder.0;
        if is_held {
            // Release: positions that were moved before are seen by whoever finds this stale.
            page.seen_ns.store(now_ns, Ordering::Release);
        }
        is_held
    }

    /// Gives the claim back.
    pub fn release(&self, holder: Holder) {
        if let Some((_, page)) = self.memory().fallback() {
            // Release: positions that were moved come before. Somebody else's claim stays.
            let _ = page.holder.compare_exchange(holder.0, 0, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Whether somebody ever had the right to consume.
    pub fn was_claimed(&self) -> bool {
        self.memory().fallback().is_some_and(|(_, page)| page.seen_ns.load(Ordering::Acquire) != 0)
    }

    /// Returns who consumes, and when it was last seen.
    pub fn holder(&self) -> Option<(Holder, u64)> {
        let (_, page) = self.memory().fallback()?;
        let holder = page.holder.load(Ordering::Acquire);
        (holder != 0).then(|| (Holder(holder), page.seen_ns.load(Ordering::Acquire)))
    }
}
