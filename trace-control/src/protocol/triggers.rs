//! What is said of triggers.

use super::Receipt;
use serde::{Deserialize, Serialize};

/// A trigger of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TriggerState {
    /// Its name.
    pub name: String,
    /// As it was written.
    pub trigger: String,
    /// How often it fired.
    pub fired: u64,
    /// How often its condition held besides, within debounce or beyond a limit.
    pub folded: u64,
    /// Events that it waits for and did not see.
    pub lost: u64,
    /// Whether it has fired as often as it may.
    pub exhausted: bool,
    /// The last time it fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Firing>,
}

/// A firing of a trigger, and what was done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Firing {
    /// The session.
    pub session: String,
    /// The trigger's name.
    pub trigger: String,
    /// Number among the firings of this trigger, from 1.
    pub number: u64,
    /// When its condition held, in ns of the trace's clock.
    pub at_ns: u64,
    /// The same, in ns from the Unix epoch.
    pub time_ns: u64,
    /// The event or events, in words.
    pub what: String,
    /// What its action `notify` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// From then until something was done, in ns.
    pub delay_ns: u64,
    /// Events of the condition that were lost until then.
    pub lost: u64,
    /// For how long the session's rings stood still, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_ns: Option<u64>,
    /// The snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Saved>,
    /// What could not be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// The snapshot of a firing, and how much of what was promised it holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// What is in it.
    pub receipt: Receipt,
    /// The look-back that was asked for, in ns; none: all there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_ns: Option<u64>,
    /// The time before the firing of which nothing was overwritten, in ns.
    pub covered_before_ns: u64,
    /// The look-forward that was asked for, in ns.
    pub after_ns: u64,
    /// The time after the firing that it holds, in ns.
    pub covered_after_ns: u64,
    /// Whether what happened at the time of the firing is in it.
    pub has_moment: bool,
    /// Whether it holds all that was asked for.
    pub complete: bool,
}

/// Triggers for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Triggers {
    /// Its name.
    pub session: String,
    /// `when CONDITION then ACTIONS`, several separated by `;`.
    pub triggers: String,
}

/// A trigger to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Untrigger {
    /// The session.
    pub session: String,
    /// The trigger's name.
    pub name: String,
}

/// Triggers that were added or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triggered {
    /// The session.
    pub session: String,
    /// Their names.
    pub triggers: Vec<String>,
    /// What the session finds questionable.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Which firings to wait for, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// Those after the one of this number in the process. None: those from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// For so many milliseconds at most, and at most [`LONGEST_WATCH`](super::LONGEST_WATCH).
    pub ms: u64,
}

/// Firings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Firings {
    /// Number of the last one in the process, to ask for those after it.
    pub last: u64,
    /// How many of those that were asked for are not kept any more: a process keeps the last 1000.
    #[serde(default)]
    pub forgotten: u64,
    /// The others, in their order.
    pub firings: Vec<Firing>,
}
