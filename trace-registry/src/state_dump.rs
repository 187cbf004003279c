//! State dumps: functions that record what a program's state is, into one session, when it begins to record.

use crate::event::{Event, EventClass};
use crate::name::Name;
use crate::probe::{Loss, Target, contain};
use crate::tracepoint::{self, Location};

/// What is known about a function with `#[state_dump]`.
pub struct StateDumpDescriptor {
    /// The name by which rules take it: `crate:module::function`, or the one given by `name =`.
    pub name: Name,
    /// Where it is written.
    pub location: Location,
    /// The function.
    pub function: fn(&StateDump<'_>),
}

static_assertions::assert_impl_all!(StateDumpDescriptor: Send, Sync);

/// Runs a dump. Returns false if it panicked.
pub(crate) fn run(dump: &StateDumpDescriptor, into: &StateDump<'_>) -> bool {
    contain(|| (dump.function)(into))
}

/// Where a dump goes.
#[doc(hidden)]
pub trait StateSink {
    /// A target for events of a class; `None`: they cannot be recorded.
    fn target(&self, class: &'static EventClass, least: usize) -> Option<Target>;
}

/// Records a program's state into the session that asked for it, and into no other.
///
/// A function with `#[ringtrace::state_dump]` is given one. Its events go by the names of their classes, `crate:module::Type`, at
/// level Info.
pub struct StateDump<'s> {
    sink: &'s dyn StateSink,
}

impl<'s> StateDump<'s> {
    /// A dump into `sink`.
    #[doc(hidden)]
    pub const fn new(sink: &'s dyn StateSink) -> StateDump<'s> {
        StateDump { sink }
    }

    /// Records one event. For ordinary code: the first one of its class is described in the trace, which may write to a file.
    pub fn record<E: Event>(&self, event: E) {
        let Some(target) = self.sink.target(E::DESCRIPTION, E::SIZES.least) else { return };
        if !tracepoint::within(|| target.record(&event)) {
            target.lose(Loss::Nested);
        }
    }
}
