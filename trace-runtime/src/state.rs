//! Runs the program's state dumps for a session.

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::plan::{self, Wanted};
use crate::process;
use crate::recording::Recording;
use crate::ring_buffer::{Mode, Placement, Purpose, Reader};
use crate::rule::Rule;
use crate::storage::Storage;
use crate::sys;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use trace_registry::probe::Target;
use trace_registry::registry;
use trace_registry::state_dump::{StateDump, StateDumpDescriptor, StateSink};
use trace_registry::{EventClass, Level, Name};

/// The level of what dumps record.
const LEVEL: Level = Level::Info;

struct Sink<'r> {
    session: &'r Arc<Recording>,
    /// Where the events go: the session's own, or one like it.
    channel: &'r Channel,
    generation: u64,
}

impl StateSink for Sink<'_> {
    fn target(&self, class: &'static EventClass, least: usize) -> Option<Target> {
        let name = Name::derived(class.module_path, class.name).to_string();
        match self.session.event_id(&name, LEVEL, class, least) {
            // The channel is held as long as the target.
            Ok(id) => Some(self.channel.target(id, self.generation, least)),
            Err(error) => {
                self.session.warn(format!("{name} is not recorded: {error}"));
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
    dump_into(session, &session.channel, session.generation(), new);
}

fn dump_into(session: &Arc<Recording>, channel: &Channel, generation: u64, new: Option<&str>) {
    let sink = Sink { session, channel, generation };
    let new = new.and_then(|text| Rule::parse_all(text, false).ok());
    for dump in registry::state_dumps() {
        let is_new = new.as_ref().is_none_or(|rules| rules.iter().any(|rule| matches(rule, dump)));
        let is_taken =
            session.with_rules(|rules| rules.iter().rev().find(|rule| matches(rule, dump)).is_some_and(|rule| !rule.excludes));
        if is_new && is_taken && session.is_recording() {
            // The program's function: its panic is not the tracer's.
            let run = || (dump.function)(&StateDump::new(&sink));
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

/// Memory for the state in one snapshot, in bytes, where the session has as much.
const MEMORY: u64 = 8 << 20;
/// So long dumps may take before a snapshot goes without the rest.
const PATIENCE: Duration = Duration::from_secs(1);

/// The state of the program at the moment of a snapshot.
pub(crate) struct Now {
    /// Of rings of its own, in the form of the session's.
    pub(crate) reader: Reader,
    /// Whether a dump had not returned in time.
    pub(crate) is_late: bool,
}

/// Runs the dumps that a session in overwrite mode takes, for a snapshot: what they recorded when it began may long be overwritten.
/// The session's rings stay as they are. On a thread of its own: whoever takes the snapshot may hold what a dump waits for.
/// `None`: it takes none.
pub(crate) fn now(session: &Arc<Recording>) -> Result<Option<Now>> {
    if !session.with_rules(|rules| rules.iter().any(is_taken)) {
        return Ok(None);
    }
    let own = session.channel.core.geometry();
    let cpus = if own.buffers == 0 { 0 } else { session.process.cpus.len() as u32 };
    let least = own.file_size().min(MEMORY);
    let wanted = Wanted { memory: least, sub_buffer: None, cpus, has_cid: Placement::MmCid.is_available() };
    let (geometry, by_cid) = plan::divide(wanted)?;
    let storage = Storage::without_a_name()?;
    let state = session.channel.like(&storage.rings, Mode::Discard, geometry, by_cid);
    let state = Arc::new(state.map_err(|e| Error::io("cannot map ring buffers in", "memfd", e))?);
    let (done, wait) = channel();
    let (of, into) = (session.clone(), state.clone());
    let body = move || {
        dump_into(&of, &into, into.core.generation(), None);
        let _ = done.send(()); // unless nobody waits any more
    };
    sys::spawn_with_signals_blocked("ringtrace-state", body)
        .map_err(|e| Error::io("cannot start a thread for state dumps in", "this process", e))?;
    let is_late = wait.recv_timeout(PATIENCE).is_err();
    let reader = state.core.reader(Purpose::Snapshot);
    let reader = reader.ok_or_else(|| Error::io("cannot read", "the rings", std::io::ErrorKind::ResourceBusy))?;
    Ok(Some(Now { reader, is_late }))
}
