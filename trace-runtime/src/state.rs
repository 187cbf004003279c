//! Runs the program's state dumps for a session.

use crate::process;
use crate::recording::Recording;
use crate::rule::Rule;
use crate::sys;
use std::sync::Arc;
use trace_registry::probe::Target;
use trace_registry::registry;
use trace_registry::state_dump::{StateDump, StateDumpDescriptor, StateSink};
use trace_registry::{EventClass, Level, Name};

/// The level of what dumps record.
const LEVEL: Level = Level::Info;

struct Sink<'r>(&'r Arc<Recording>);

impl StateSink for Sink<'_> {
    fn target(&self, class: &'static EventClass, least: usize) -> Option<Target> {
        let name = Name::derived(class.module_path, class.name).to_string();
        match self.0.event_id(&name, LEVEL, class, least) {
            // The session is held as long as the target.
            Ok(id) => Some(self.0.channel.target(id, self.0.generation(), least)),
            Err(error) => {
                self.0.warn(format!("{name} is not recorded: {error}"));
                None
            }
        }
    }
}

fn matches(rule: &Rule, dump: &StateDumpDescriptor) -> bool {
    rule.matches_name(LEVEL, &dump.name.to_string())
}

/// Whether a rule takes any dump.
pub(crate) fn is_taken(rule: &Rule) -> bool {
    registry::state_dumps().iter().any(|dump| matches(rule, dump))
}

/// Runs the dumps that the session's rules take; with `new`, only those that these rules concern.
pub(crate) fn dump(session: &Arc<Recording>, new: Option<&str>) {
    let new = new.and_then(|text| Rule::parse_all(text, false).ok());
    for dump in registry::state_dumps() {
        let is_new = new.as_ref().is_none_or(|rules| rules.iter().any(|rule| matches(rule, dump)));
        let is_taken =
            session.with_rules(|rules| rules.iter().rev().find(|rule| matches(rule, dump)).is_some_and(|rule| !rule.excludes));
        if is_new && is_taken && session.is_recording() {
            // The program's function: its panic is not the tracer's.
            let run = || (dump.function)(&StateDump::new(&Sink(session)));
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
                session.warn(format!("the state dump {} panicked", dump.name));
            }
        }
    }
}

/// The same on a thread of its own, where nobody is to be kept waiting by the program's functions.
pub(crate) fn dump_aside(session: &Arc<Recording>, new: Option<String>) {
    if registry::state_dumps().is_empty() || process::current().is_err() {
        return;
    }
    let session = session.clone();
    let _ = sys::spawn_with_signals_blocked("ringtrace-state", move || dump(&session, new.as_deref()));
}
