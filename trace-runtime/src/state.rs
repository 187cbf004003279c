//! Runs the program's state dumps for a session.

use crate::attach;
use crate::catalogue::{self, NamedDump};
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::per_image::PerImage;
use crate::plan::{self, Wanted};
use crate::process;
use crate::rcu::lock;
use crate::recording::Recording;
use crate::ring_buffer::{Mode, Placement, Purpose, Reader};
use crate::rule::Rule;
use crate::storage::Storage;
use crate::sys;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use trace_registry::image::Image;
use trace_registry::probe::Target;
use trace_registry::state_dump::{StateDump, StateSink};
use trace_registry::{EventClass, Level, Name};

/// The level of what dumps record.
const LEVEL: Level = Level::Info;

struct Sink<'r> {
    session: &'r Arc<Recording>,
    /// Where the events go: the session's own, or one like it.
    channel: &'r Channel,
    generation: u64,
    /// Whether the dump is the program's own.
    is_own: bool,
}

impl StateSink for Sink<'_> {
    fn target(&self, class: &'static EventClass, least: usize) -> Option<Target> {
        let class = if self.is_own { class } else { catalogue::kept_class(class) };
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

/// Dumps that run now.
#[derive(Default)]
struct AllRunning {
    /// Addresses of their images, and their names. A leaf among locks, inside of the catalogue's.
    dumps: Mutex<Vec<(usize, String)>>,
    ended: Condvar,
}

static RUNNING: PerImage<AllRunning> = PerImage::new(AllRunning::default);

/// Forgets those of the parent's threads; for a forked child.
pub(crate) fn renew() {
    RUNNING.renew();
}

/// Keeps the image of a dump from being unloaded while the dump runs.
struct Running(usize, String);

impl Running {
    /// `None`: it was unloaded.
    fn begin(dump: &NamedDump) -> Option<Running> {
        let image = std::ptr::from_ref(dump.image).addr();
        let note = || lock(&RUNNING.get().dumps).push((image, dump.name.clone()));
        catalogue::while_loaded(dump.image, note).then(|| Running(image, dump.name.clone()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let AllRunning { dumps, ended } = RUNNING.get();
        let mut running = lock(dumps);
        if let Some(at) = running.iter().position(|(image, name)| *image == self.0 && *name == self.1) {
            running.swap_remove(at);
        }
        ended.notify_all();
    }
}

/// Waits until no dump of an image that was taken out runs, for at most `limit`. Returns the names of those that still do.
pub(crate) fn wait_for(image: &Image, limit: Duration) -> Vec<String> {
    let AllRunning { dumps, ended } = RUNNING.get();
    let of = |(at, _): &(usize, String)| *at == std::ptr::from_ref(image).addr();
    let waited = ended.wait_timeout_while(lock(dumps), limit, |running| running.iter().any(of));
    let (running, _) = waited.unwrap_or_else(PoisonError::into_inner);
    running.iter().filter(|r| of(r)).map(|(_, name)| name.clone()).collect()
}

/// Whether a rule takes a dump, as it takes a probe of its name.
pub(crate) fn matches(rule: &Rule, dump: &NamedDump) -> bool {
    rule.matches_name(LEVEL, &dump.name)
}

/// Whether a rule takes any dump.
pub(crate) fn is_taken(rule: &Rule) -> bool {
    catalogue::state_dumps().iter().any(|dump| matches(rule, dump))
}

/// Whether the rules of a session take a dump.
pub(crate) fn wants(session: &Recording, dump: &NamedDump) -> bool {
    session.with_rules(|rules| rules.iter().rev().find(|rule| matches(rule, dump)).is_some_and(|rule| !rule.excludes))
}

/// Runs the dumps that the session's rules take; with `new`, only those that these rules concern.
pub(crate) fn dump(session: &Arc<Recording>, new: Option<&str>) {
    dump_into(session, &session.channel, session.generation(), new);
}

fn dump_into(session: &Arc<Recording>, channel: &Channel, generation: u64, new: Option<&str>) {
    let mut new = new.and_then(|text| Rule::parse_all(text, false).ok());
    // They were found good before; ends of names become whole ones.
    new.iter_mut().flatten().for_each(|rule| drop(attach::resolve(rule, &mut Vec::new())));
    for dump in catalogue::state_dumps() {
        let is_new = new.as_ref().is_none_or(|rules| rules.iter().any(|rule| matches(rule, &dump)));
        if is_new && wants(session, &dump) && session.is_recording() {
            let Some(_running) = Running::begin(&dump) else { continue };
            let sink = Sink { session, channel, generation, is_own: dump.is_own() };
            if !dump.run(&StateDump::new(&sink)) {
                session.warn(format!("the state dump {} panicked", dump.name));
            }
        }
    }
}

/// The same on a thread of its own, where nobody is to be kept waiting by the program's functions.
pub(crate) fn dump_aside(session: &Arc<Recording>, new: Option<String>) {
    if catalogue::state_dumps().is_empty() || process::current().is_err() {
        return;
    }
    let session = session.clone();
    let _ = sys::spawn_with_signals_blocked(c"ringtrace-state", move || dump(&session, new.as_deref()));
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
    sys::spawn_with_signals_blocked(c"ringtrace-state", body)
        .map_err(|e| Error::io("cannot start a thread for state dumps in", "this process", e))?;
    let is_late = wait.recv_timeout(PATIENCE).is_err();
    let reader = state.core.reader(Purpose::Snapshot);
    let reader = reader.ok_or_else(|| Error::io("cannot read", "the rings", std::io::ErrorKind::ResourceBusy))?;
    Ok(Some(Now { reader, is_late }))
}
