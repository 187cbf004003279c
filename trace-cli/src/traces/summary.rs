//! What is told at the end of a reading: how much was read, and what is missing.

use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;

use trace_ctf::reader::{Event, Loss, LossKind};

use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, remedy};
use crate::live::text::out;

/// The event with which the tracer tells what it left out.
const NOT_KEPT: &str = "ringtrace:not_kept";

/// What is counted on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    /// Events that were read.
    pub(super) events: u64,
    /// Those of them that were wanted.
    pub(super) shown: u64,
    pub(super) discarded_events: u64,
    pub(super) lost_packets: u64,
    /// Events that were left out, since their keys were not kept.
    pub(super) not_kept: u64,
    /// Losses that the trace does not count.
    pub(super) uncounted: bool,
    pub(super) damaged: u64,
    /// Ended before the trace did.
    pub(super) stopped: bool,
    /// Of one of several readings of a trace: another tells what is damaged.
    pub(super) is_quiet: bool,
    /// What was told of damage, which further readings come across again.
    pub(super) told: Vec<String>,
}

impl Summary {
    pub(super) fn loss(&mut self, loss: &Loss) {
        let counter = match loss.kind {
            LossKind::DiscardedEvents => &mut self.discarded_events,
            LossKind::LostPackets => &mut self.lost_packets,
        };
        match loss.count {
            Some(count) => *counter = counter.saturating_add(count),
            None => self.uncounted = true,
        }
    }

    /// Learns from an event, if it is one that tells what was left out.
    pub(super) fn learn(&mut self, event: &Event<'_>) {
        if event.name() == NOT_KEPT {
            let count = event.field("events").and_then(|events| events.as_u64());
            self.not_kept = self.not_kept.saturating_add(count.unwrap_or(0));
        }
    }

    pub(super) fn damage(&mut self, error: &trace_ctf::Error) {
        let is_harmless = error.is_no_stream();
        self.damaged += u64::from(!is_harmless);
        if self.is_quiet {
            return;
        }
        let message = format!("{error}\n  {}", remedy(error));
        if !self.told.contains(&message) {
            let tell = if is_harmless { failure::note } else { failure::error };
            tell(format_args!("{message}"));
            self.told.push(message);
        }
    }

    /// What it is before a further reading of the trace, of which `last` is one.
    pub(super) fn again(&self, last: &Self) -> Self {
        Self { told: last.told.clone(), ..self.clone() }
    }

    /// Takes over what another one counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.shown += other.shown;
        self.discarded_events = self.discarded_events.saturating_add(other.discarded_events);
        self.lost_packets = self.lost_packets.saturating_add(other.lost_packets);
        self.not_kept = self.not_kept.saturating_add(other.not_kept);
        self.uncounted |= other.uncounted;
        self.damaged += other.damaged;
        self.stopped |= other.stopped;
    }

    /// Tells tools that read JSON what was written.
    pub(super) fn written(&self, output: &Path, common: &Common) -> io::Result<()> {
        if common.json {
            let line =
                serde_json::json!({ "output": output, "events": self.shown, "of": self.events, "losses": self.losses_json() });
            writeln!(out(true), "{line}")?;
        }
        Ok(())
    }

    pub(super) fn outcome(&self) -> Outcome {
        if self.damaged > 0 { Outcome::Partial } else { Outcome::Complete }
    }

    /// What is missing, for tools that read JSON.
    pub(super) fn losses_json(&self) -> serde_json::Value {
        serde_json::json!({
            "discarded_events": self.discarded_events,
            "lost_packets": self.lost_packets,
            "not_kept": self.not_kept,
            "uncounted": self.uncounted,
            "damaged": self.damaged,
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shown != self.events {
            write!(f, "{} of ", self.shown)?;
        }
        write!(f, "{}", Count(self.events, "event"))?;
        if self.stopped {
            write!(f, ", the rest was not read")?;
        }
        write!(f, ", {}, {}", Count(self.discarded_events, "discarded event"), Count(self.lost_packets, "lost packet"))?;
        if self.not_kept > 0 {
            write!(f, ", {} not kept", self.not_kept)?;
        }
        if self.uncounted {
            write!(f, ", others before the first packet of a stream")?;
        }
        if self.damaged > 0 {
            write!(f, ", {}", Count(self.damaged, "damaged file"))?;
        }
        Ok(())
    }
}

/// A number of things.
pub(super) struct Count(pub(super) u64, pub(super) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, what) = self;
        write!(f, "{number} {what}{}", if *number == 1 { "" } else { "s" })
    }
}
