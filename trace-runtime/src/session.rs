//! Sessions: one recording each, with its own rules, rings, output and lifetime.

use crate::attach::{self, NamedProbe};
use crate::channel::{Channel, Plan};
use crate::consumer::{self, Request};
use crate::context::Context;
use crate::delivery::{Delivery, Round};
use crate::error::{Error, Kind, Result};
use crate::journal::Journal;
use crate::metadata;
use crate::output::{Directory, Sink};
use crate::plan::{self, Wanted};
use crate::print::Printer;
use crate::process::{self, Process};
use crate::rcu::lock;
use crate::ring_buffer::{ClockKind, Core, HeaderKind, Mode, Placement, Purpose};
use crate::rule::Rule;
use crate::statistics::Statistics;
use crate::storage::Storage;
use crate::sys;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use trace_ctf::schema as ctf;
use trace_registry::probe::Target;
use trace_registry::sync::{AtomicBool, AtomicU64, Ordering};
use trace_registry::{Event, Level, Name, tracepoint};

/// Memory of a session whose builder names none, in bytes.
const MEMORY: u64 = 16 << 20;

static CEILING: AtomicU64 = AtomicU64::new(1 << 30);

/// Sets the memory that all sessions of this process together may map, in bytes. 1 GiB at first.
pub fn set_memory_ceiling(bytes: u64) {
    CEILING.store(bytes, Ordering::Relaxed);
}

/// How the time stamps of a session are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The fastest: right on each CPU, and between CPUs within a microsecond.
    #[default]
    Fast,
    /// Causal order holds between CPUs too; some 7 ns more for each event.
    Ordered,
    /// The operating system's monotonic clock; some 13 ns more. Also what the others are where the processor's time stamp
    /// counter cannot be used.
    Os,
}

/// What a session is to be; made by [`Session::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `start`"]
pub struct Builder {
    name: String,
    rules: Vec<String>,
    overwrite: bool,
    memory: u64,
    sub_buffer: Option<u32>,
    output: Output,
    context: Context,
    sensitive: bool,
    clock: Clock,
    announced: bool,
}

#[derive(Clone, Debug)]
enum Output {
    Default,
    Directory(PathBuf),
    Print,
}

impl Builder {
    /// Records what `rules` match, as further rules after those given before. Parsed by [`start`](Self::start).
    pub fn enable(mut self, rules: &str) -> Builder {
        self.rules.push(rules.to_owned());
        self
    }

    /// Keeps the newest events when the rings are full (flight recorder). Otherwise the newest are discarded.
    pub fn overwrite(mut self) -> Builder {
        self.overwrite = true;
        self
    }

    /// Sets the memory ceiling of the session, in bytes, for everything that it maps. 16 MiB at first.
    pub fn memory(mut self, bytes: u64) -> Builder {
        self.memory = bytes;
        self
    }

    /// Sets the size of the sub-buffers, in bytes: a power of two from 4 KiB to 4 MiB. By default an eighth of a ring.
    pub fn sub_buffer(mut self, bytes: u32) -> Builder {
        self.sub_buffer = Some(bytes);
        self
    }

    /// Writes the trace into a new directory at `path`. By default `./NAME-TIME.ringtrace`.
    pub fn output(mut self, path: impl Into<PathBuf>) -> Builder {
        self.output = Output::Directory(path.into());
        self
    }

    /// Prints the events on stderr, from the consumer's thread, and writes no trace.
    pub fn print(mut self) -> Builder {
        self.output = Output::Print;
        self
    }

    /// Sets the context fields of each record. By default the thread ID.
    pub fn context(mut self, context: Context) -> Builder {
        self.context = context;
        self
    }

    /// Records sensitive fields as they are. Otherwise they are left out.
    pub fn sensitive(mut self) -> Builder {
        self.sensitive = true;
        self
    }

    /// Sets how time stamps are taken.
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// Says on stderr where the trace lies, at the end of the process.
    pub(crate) fn announced(mut self, announced: bool) -> Builder {
        self.announced = announced;
        self
    }

    /// Makes the session and starts it.
    ///
    /// # Errors
    ///
    /// [`Error::is_rule`] for a wrong rule, [`Error::is_session_exists`] where another session has the name,
    /// [`Error::is_memory`] where a ceiling is too small, [`Error::is_io`] where the rings or the output cannot be created,
    /// [`Error::is_off`] where this process cannot trace.
    pub fn start(self) -> Result<Session> {
        let process = process::current()?;
        check_name(&self.name)?;
        let mut warnings = Vec::new();
        let mut rules = Vec::new();
        for text in &self.rules {
            for mut rule in Rule::parse_all(text)? {
                attach::resolve(&mut rule, &mut warnings)?;
                rules.push(rule);
            }
        }
        warnings.extend(attach::duplicates(&rules));
        let mut control = attach::control();
        if attach::sessions().iter().any(|s| s.name == self.name) {
            return Err(Kind::SessionExists(self.name).into());
        }
        consumer::ensure_running()?;
        let inner = Arc::new(Inner::create(process, &self, rules, warnings)?);
        if let Err(error) = inner.prepare(|p| inner.wants(p)) {
            inner.remove_files();
            return Err(error);
        }
        control.add(inner.clone());
        populate_the_rest(&inner);
        control.publish(|p| inner.wants(p));
        Ok(Session { inner })
    }
}

/// Makes the memory of the rings present, beyond what the session began with, without keeping anybody waiting.
fn populate_the_rest(session: &Arc<Inner>) {
    let session = session.clone();
    // Without the thread, the first lap of each ring faults.
    let _ = sys::spawn_with_signals_blocked("ringtrace-pages", move || {
        sys::mark_thread_untraced();
        session.channel.core.populate(u32::MAX);
    });
}

fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(good) {
        return Err(Kind::SessionName(name.to_owned()).into());
    }
    Ok(())
}

/// A recording. Dropping it stops it and delivers what its rings hold.
///
/// ```no_run
/// # fn main() -> Result<(), trace_runtime::Error> {
/// use trace_runtime::Session;
/// let session = Session::builder("slow-evictions").enable("storage:* level info").memory(64 << 20).start()?;
/// // … the program runs …
/// let statistics = session.stop()?;
/// println!("{statistics}");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

impl Session {
    /// Begins the description of a session. The name is unique in the process: letters, digits, `-`, `_`, `.`.
    pub fn builder(name: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            rules: Vec::new(),
            overwrite: false,
            memory: MEMORY,
            sub_buffer: None,
            output: Output::Default,
            context: Context::default(),
            sensitive: false,
            clock: Clock::default(),
            announced: false,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the trace directory; `None`: the session prints.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// Records what `rules` match from now on, whatever earlier rules said of it.
    ///
    /// Never waits for a grace period. Other threads see the change within nanoseconds.
    ///
    /// # Errors
    ///
    /// As for [`Builder::start`]; then nothing has changed. [`Error::is_busy`]: too much waits for a grace period.
    pub fn enable(&self, rules: &str) -> Result<()> {
        self.inner.change(rules, false)
    }

    /// Records what `rules` match no longer. An event that is being recorded may still be.
    ///
    /// # Errors
    ///
    /// As for [`enable`](Self::enable).
    pub fn disable(&self, rules: &str) -> Result<()> {
        self.inner.change(rules, true)
    }

    /// Stops recording and delivers everything that was recorded. The trace is complete when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::is_io`] if the output failed, now or earlier: what was written before is a complete trace.
    /// An error too if called from inside a probe.
    pub fn stop(&self) -> Result<Statistics> {
        self.inner.check_process()?;
        process::may_wait("`Session::stop`")?;
        consumer::request(|reply| Request::Stop(self.inner.clone(), reply))?;
        Ok(self.inner.statistics())
    }

    /// Records again after [`stop`](Self::stop), into the same trace.
    ///
    /// # Errors
    ///
    /// As for [`enable`](Self::enable); [`Error::is_io`] if the output had failed; [`Error::is_busy`] while another thread stops it.
    pub fn start(&self) -> Result<()> {
        self.inner.check_process()?;
        let mut control = attach::control();
        if let Some(failure) = self.inner.failure() {
            return Err(failure);
        }
        if self.inner.is_stopping.load(Ordering::Relaxed) {
            return Err(Kind::Stopping(self.inner.name.clone()).into());
        }
        self.inner.prepare(|p| self.inner.wants(p))?;
        self.inner.generation.store(self.inner.channel.core.generation(), Ordering::Relaxed);
        control.publish(|p| self.inner.wants(p));
        Ok(())
    }

    /// Returns the form of the record headers: compact where at most 31 classes matched when the session was made.
    pub fn header(&self) -> HeaderKind {
        self.inner.channel.header
    }

    /// Returns what was recorded and lost so far.
    ///
    /// Zeroes in a forked child.
    pub fn statistics(&self) -> Statistics {
        // A lock may have been held when the process was forked.
        if !self.inner.process.is_alive() {
            return Statistics::default();
        }
        self.inner.statistics()
    }

    /// Returns what the session found questionable: patterns that match nothing, tracepoints without a probe, rings without
    /// a name, an output that failed.
    pub fn warnings(&self) -> Vec<String> {
        if !self.inner.process.is_alive() {
            return Vec::new();
        }
        lock(&self.inner.warnings).clone()
    }

    /// Returns a recorder for events of one class, which is described in the trace from now on.
    ///
    /// Its events are called `crate:module::Type`, at level Info.
    ///
    /// # Errors
    ///
    /// [`Error::is_io`] if the output failed; an error if an event of the class is larger than a record may be.
    pub fn recorder<E: Event>(&self) -> Result<Recorder<E::Class>> {
        self.inner.check_process()?;
        let class = E::DESCRIPTION;
        let name = Name::derived(class.module_path, class.name).to_string();
        let id = self.inner.event_id(&name, Level::Info, class, E::SIZES.least)?;
        Ok(Recorder { event_id: id, session: self.inner.clone(), class: PhantomData })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.inner.process.is_alive() {
            // From inside a probe the consumer's thread does it by itself: waiting would be for this very probe.
            let wait = process::may_wait("").is_ok();
            consumer::destroy(&self.inner, wait);
        }
    }
}

/// Records events of one class into one session, from anywhere in the program.
#[derive(Debug)]
pub struct Recorder<C> {
    event_id: u32,
    session: Arc<Inner>,
    class: PhantomData<fn(C)>,
}

impl<C: Event> Recorder<C> {
    /// Records `event`, with any lifetimes. Nothing happens while the session is stopped.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free, if the event's fields are.
    #[inline]
    pub fn record<E: Event<Class = C>>(&self, event: E) {
        let target = self.session.channel.target(self.event_id, self.session.generation()); // CH-1: `session` holds the channel
        if !tracepoint::within(|| target.record(&event)) {
            target.lose(trace_registry::probe::Loss::Nested);
        }
    }
}

/// What a session is, shared by its handle, its recorders, the consumer and the lists.
pub(crate) struct Inner {
    pub(crate) name: String,
    process: &'static Process,
    pub(crate) channel: Channel,
    rules: Mutex<Vec<Rule>>,
    /// Generation of the channel while the session records; 0 while it is stopped, which no channel accepts.
    generation: AtomicU64,
    /// Whether the consumer's thread is ending the recording.
    pub(crate) is_stopping: AtomicBool,
    pub(crate) delivery: Mutex<Delivery>,
    storage: Mutex<Storage>,
    path: Option<PathBuf>,
    warnings: Mutex<Vec<String>>,
    memory: u64,
    announced: bool,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("name", &self.name).field("path", &self.path).finish_non_exhaustive()
    }
}

impl Inner {
    fn create(process: &'static Process, builder: &Builder, rules: Vec<Rule>, mut warnings: Vec<String>) -> Result<Inner> {
        let sequences = trace_registry::sys::cpu_id() != u32::MAX;
        let (geometry, placement) = plan::divide(Wanted {
            memory: builder.memory,
            sub_buffer: builder.sub_buffer,
            cpus: if sequences { process.cpus.len() as u32 } else { 0 },
            has_cid: Placement::MmCid.is_available(),
        })?;
        let memory = geometry.file_size();
        let used: u64 = attach::sessions().iter().map(|s| s.memory).sum();
        let ceiling = CEILING.load(Ordering::Relaxed);
        if used + memory > ceiling {
            return Err(Kind::Memory(format!(
                "the sessions of this process map {used} bytes and this one needs {memory}: more than the process's ceiling of \
                 {ceiling}; make it smaller, stop another, or raise the ceiling by `ringtrace::set_memory_ceiling`"
            ))
            .into());
        }
        let classes = attach::probes().filter(|p| p.probe.class.is_some() && attach::decides(&rules, p)).count();
        let plan = Plan {
            mode: if builder.overwrite { Mode::Overwrite } else { Mode::Discard },
            clock: match builder.clock {
                _ if !process.clock.is_counter() => ClockKind::Os,
                Clock::Os => ClockKind::Os,
                Clock::Fast => ClockKind::Raw,
                Clock::Ordered => ClockKind::Ordered,
            },
            // IDs beyond a compact header's, of classes that are enabled later, take the extended form.
            header: if classes <= 31 { HeaderKind::Compact } else { HeaderKind::Large },
            placement,
        };
        let (storage, warning) = Storage::create(process, &builder.name, memory)?;
        warnings.extend(warning);
        let mut storage = storage;
        let built = Self::build(process, builder, plan, geometry, &storage);
        let (channel, delivery, path) = match built {
            Ok(built) => built,
            Err(error) => {
                storage.remove();
                return Err(error);
            }
        };
        Ok(Inner {
            name: builder.name.clone(),
            process,
            channel,
            rules: Mutex::new(rules),
            generation: AtomicU64::new(1),
            is_stopping: AtomicBool::new(false),
            delivery: Mutex::new(delivery),
            storage: Mutex::new(storage),
            path,
            warnings: Mutex::new(warnings),
            memory,
            announced: builder.announced,
        })
    }

    fn build(
        process: &'static Process,
        builder: &Builder,
        plan: Plan,
        geometry: crate::ring_buffer::Geometry,
        storage: &Storage,
    ) -> Result<(Channel, Delivery, Option<PathBuf>)> {
        let at = storage.rings_path().unwrap_or_else(|| PathBuf::from("memfd"));
        // By concurrency ID the first numbers are used first, so the rings are those.
        let indices: Vec<u32> = match plan.placement {
            Placement::Cpu => process.cpus.clone(),
            Placement::MmCid => (0..geometry.buffers).collect(),
        };
        let indices = &indices[..geometry.buffers as usize];
        let core = plan.create(&storage.rings, geometry, indices, process.clock);
        let core = core.map_err(|e| Error::io("cannot map ring buffers in", &at, e))?;
        core.populate(2);
        let uuid = uuid();
        let header = match plan.header {
            HeaderKind::Compact => ctf::EventHeader::Compact,
            HeaderKind::Large => ctf::EventHeader::Large,
        };
        let trace = metadata::trace(process, &builder.name, uuid, header, builder.context);
        write_identity(&core, process, &uuid);
        let journal = storage.journal.try_clone().map_err(|e| Error::io("cannot use", storage.journal_path(), e))?;
        let journal = Journal::new(journal, &storage.journal_path(), &trace)?;
        let origin_ns = process.clock.now_ns();
        let (sink, path): (Box<dyn Sink>, _) = match &builder.output {
            Output::Print => (Box::new(Printer::new(&trace)?), None),
            Output::Directory(path) => (Box::new(Directory::create(path, &trace, origin_ns)?), Some(path.clone())),
            Output::Default => {
                let path = default_path(&builder.name);
                (Box::new(Directory::create(&path, &trace, origin_ns)?), Some(path))
            }
        };
        let reader =
            core.reader(Purpose::Consume).ok_or_else(|| Error::io("cannot read", &at, std::io::ErrorKind::ResourceBusy))?;
        let mut delivery = Delivery::new(reader, builder.context, sink, journal);
        delivery.describe(&[metadata::thread_name()])?;
        Ok((Channel::new(core, process, plan, builder.context, !builder.sensitive), delivery, path))
    }

    fn check_process(&self) -> Result<()> {
        process::current().map(|_| ())
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.generation() != 0
    }

    fn generation(&self) -> u64 {
        // Relaxed: changed under the control lock. Whoever has an old one is refused by the channel.
        self.generation.load(Ordering::Relaxed)
    }

    pub(crate) fn wants(&self, probe: &NamedProbe) -> bool {
        attach::decides(&lock(&self.rules), probe)
    }

    /// Describes the classes of the probes that `concerns`, so that [`target`](Self::target) finds them.
    ///
    /// # Errors
    ///
    /// The output failed. A class that is too large for the session's records is a warning.
    pub(crate) fn prepare(&self, concerns: impl Fn(&NamedProbe) -> bool) -> Result<()> {
        for named in attach::probes().filter(|p| concerns(p)) {
            match self.class_id(named) {
                Err(error) if error.is_class_too_large() => {
                    self.warn(format!("{} is not recorded: {error}; give the session larger sub-buffers", named.name));
                }
                result => drop(result?),
            }
        }
        Ok(())
    }

    /// Makes the target for a probe's events; `None`: it makes none, or they cannot be recorded here.
    pub(crate) fn target(&self, named: &NamedProbe) -> Option<Target> {
        match self.class_id(named) {
            Ok(id) => id.map(|id| self.channel.target(id, self.generation())),
            Err(error) => {
                if !error.is_class_too_large() {
                    self.warn(format!("{} is not recorded: {error}", named.name));
                }
                None
            }
        }
    }

    fn class_id(&self, named: &NamedProbe) -> Result<Option<u32>> {
        let Some(class) = named.probe.class else { return Ok(None) };
        self.event_id(&named.name, named.probe.level, class, named.probe.least).map(Some)
    }

    fn event_id(&self, name: &str, level: Level, class: &'static trace_registry::EventClass, least: usize) -> Result<u32> {
        self.channel.event_id(name, level, class, least, |classes| lock(&self.delivery).describe(&classes))
    }

    fn change(&self, text: &str, exclude: bool) -> Result<()> {
        self.check_process()?;
        crate::rcu::admit()?;
        let mut warnings = Vec::new();
        let mut rules = Rule::parse_all(text)?;
        for rule in &mut rules {
            attach::resolve(rule, &mut warnings)?;
            rule.excludes ^= exclude;
        }
        let mut control = attach::control();
        let before = lock(&self.rules).clone();
        let mut after = before.clone();
        // An earlier rule for the same probes can decide nothing any more.
        after.retain(|old| !rules.iter().any(|new| new.glob == old.glob && new.level == old.level));
        after.extend(rules.iter().cloned());
        *lock(&self.rules) = after;
        let concerned = |p: &NamedProbe| rules.iter().any(|r| r.matches(p.probe, &p.name));
        if let Err(error) = self.prepare(|p| concerned(p) && self.wants(p)) {
            *lock(&self.rules) = before;
            return Err(error);
        }
        control.publish(concerned);
        warnings.into_iter().for_each(|w| self.warn(w));
        Ok(())
    }

    pub(crate) fn warn(&self, warning: String) {
        let mut warnings = lock(&self.warnings);
        if !warnings.contains(&warning) && warnings.len() < 100 {
            warnings.push(warning);
        }
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        lock(&self.delivery).failure()
    }

    /// Closes the gates for this session. The events under way end with a grace period.
    pub(crate) fn switch_off(&self) {
        let mut control = attach::control();
        self.generation.store(0, Ordering::Relaxed);
        self.channel.core.bump_generation();
        control.publish(|p| self.wants(p));
    }

    /// Delivers what is ready; with `cut`, what is committed.
    pub(crate) fn round(&self, cut: bool) -> Round {
        lock(&self.delivery).round(cut, self.process.clock.now_ns())
    }

    /// Delivers everything. `quiet`: nobody writes to the rings any more.
    pub(crate) fn finish(&self, quiet: bool) {
        lock(&self.delivery).finish(self.process.clock.now_ns(), quiet);
    }

    /// The trace directory, if it is to be told at the end of the process.
    pub(crate) fn announced_path(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| self.announced)
    }

    pub(crate) fn remove_files(&self) {
        lock(&self.storage).remove();
    }

    /// Where the rings lie, if they have a name.
    pub(crate) fn rings_path(&self) -> Option<PathBuf> {
        lock(&self.storage).rings_path()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let core = &self.channel.core;
        let delivery = lock(&self.delivery);
        Statistics {
            events: core.records(),
            bytes: delivery.bytes(),
            lost: delivery.losses(),
            cut: self.channel.cut_records(),
            memory: self.memory,
            buffers: core.geometry().buffers,
            written: delivery.written(),
        }
    }
}

/// Writes into the superblock which trace and which process the rings belong to; the rest is in the journal of that UUID.
fn write_identity(core: &Core, process: &Process, uuid: &[u8; 16]) {
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| uuid[at + i]));
    let words = [half(0), half(8), u64::from(process.pid), process.start_time];
    for (place, word) in core.caller_area().iter().zip(words) {
        // Relaxed: a reader comes after the process, or by way of its directory, which is complete when the session is.
        place.store(word, Ordering::Relaxed);
    }
}

/// A random (version 4) UUID.
fn uuid() -> [u8; 16] {
    let mut uuid = [0; 16];
    // Sixteen bytes come at once or not at all; a machine without randomness still tells its traces apart by time.
    if rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::NONBLOCK).is_err() {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        uuid = (since.as_nanos() ^ u128::from(std::process::id()) << 96).to_le_bytes();
    }
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// `./NAME-TIME.ringtrace`, with a number where that exists.
fn default_path(name: &str) -> PathBuf {
    let stamp = sys::local_time_stamp();
    let path = |n: u32| {
        PathBuf::from(if n == 0 { format!("{name}-{stamp}.ringtrace") } else { format!("{name}-{stamp}-{n}.ringtrace") })
    };
    (0..1000).map(path).find(|p| !p.exists()).unwrap_or_else(|| path(1000))
}
