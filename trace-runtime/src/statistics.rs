use crate::ring_buffer::Losses;
use std::fmt;

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
        Ok(())
    }
}
