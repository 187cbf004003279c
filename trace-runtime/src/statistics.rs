use crate::keep::NotKept;
use crate::ring_buffer::Losses;
use std::fmt;
use std::time::Duration;

/// What a session has recorded and lost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Event records in the rings or delivered.
    pub events: u64,
    /// Bytes of those records.
    pub bytes: u64,
    /// Events that were lost, by cause.
    pub lost: Losses,
    /// Recorded events of which a value was cut to fit.
    pub cut: u64,
    /// Events that were not recorded because a rule's filter rejected them.
    pub filtered: u64,
    /// Events that were not recorded because a rule's limit did not let them through.
    pub limited: u64,
    /// Recorded events that the output did not get, since nothing marked their keys in time.
    pub not_kept: NotKept,
    /// Bytes of ring buffer memory.
    pub memory: u64,
    /// Number of ring buffers, without the fallback region.
    pub buffers: u32,
    /// Bytes written to the output.
    pub written: u64,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events, {} bytes, {}", self.events, self.bytes, self.lost)?;
        if self.cut > 0 {
            write!(f, ", {} with a value cut", self.cut)?;
        }
        if self.filtered > 0 {
            write!(f, ", {} filtered", self.filtered)?;
        }
        if self.limited > 0 {
            write!(f, ", {} limited", self.limited)?;
        }
        if self.not_kept != NotKept::default() {
            write!(f, ", {}", self.not_kept)?;
        }
        Ok(())
    }
}

/// What a rule of a session has done so far.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleState {
    /// The rule as it was written.
    pub rule: String,
    /// Events that its filter rejected.
    pub filtered: u64,
    /// Events that its filter accepted and its limit did not let through.
    pub limited: u64,
    /// How long it still lasts; `None`: until it is changed.
    pub remaining: Option<Duration>,
}
