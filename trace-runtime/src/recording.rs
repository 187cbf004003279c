//! What a session is inside: rules, channel, reading end, files.
//!
//! One file, because rules, channel and delivery of a recording change together, under locks whose order stands here.

use crate::attach::{self, NamedProbe};
use crate::builder::{Builder, Clock, Heir, Output};
use crate::catalogue;
use crate::channel::{Channel, Plan};
use crate::condition::{self, Made, Progress};
use crate::consumer::{self, Request};
use crate::context::Context;
use crate::delivery::{Delivery, Failure, Figures, Round};
use crate::error::{Error, Kind, Result};
use crate::follow::{Lost, ToldRings};
use crate::journal::{Journal, Origin};
use crate::keep::Kept;
use crate::metadata;
use crate::output::deferred::Deferred;
use crate::output::rotation::Rotated;
use crate::output::{self, Claim, Directory, Elsewhere, Sink};
use crate::print::Printer;
use crate::process::{self, Process};
use crate::rcu::lock;
use crate::recovery;
use crate::report;
use crate::ring_buffer::{AHEAD, ClockKind, Core, Geometry, HeaderKind, Mode, Purpose};
use crate::rule::Rule;
use crate::snapshot;
use crate::state;
use crate::statistics::{RuleState, Statistics};
use crate::storage::{Names, Storage};
use crate::sys;
use crate::threads;
use crate::transfer::Classes;
use crate::trigger::{self, Follower, Source, Trigger};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};
use trace_ctf::schema as ctf;
use trace_registry::condition::{Conditional, FILTERED, LIMITED};
use trace_registry::event_id::EventKey;
use trace_registry::per_cpu::PerCpu;
use trace_registry::sync::{AtomicBool, AtomicU64, Ordering};
use trace_registry::{EventClass, Level};

/// What a session is, shared by its handle, its recorders, the consumer and the lists.
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) process: &'static Process,
    pub(crate) channel: Channel,
    rules: Mutex<Vec<Rule>>,
    /// Generation of the channel while the session records; 0 while it is stopped, which no channel accepts.
    pub(crate) generation: AtomicU64,
    /// Whether the consumer's thread is ending the recording.
    pub(crate) is_stopping: AtomicBool,
    /// Held while the output is written, which may hang: never awaited by who holds the control lock.
    pub(crate) delivery: Mutex<Delivery>,
    /// How far that was after its last round.
    figures: Mutex<Figures>,
    failure: Failure,
    /// Held while the journal is written, which lies with the rings: in memory, or where the session was told to keep them. Then it
    /// is never awaited by who holds the control lock.
    journal: Mutex<Journal>,
    classes: Classes,
    /// Whether there is something to be described and published that could not be under the control lock.
    is_behind: AtomicBool,
    storage: Mutex<Storage>,
    _told: ToldRings,
    /// Where the rings are, or will be; `None`: they have no name.
    base: Option<PathBuf>,
    /// Where its family counts what it could not record, and whoever of it lives tells.
    lost: Option<Lost>,
    pub(crate) path: Option<PathBuf>,
    /// Where snapshots lie.
    pub(crate) snapshots: PathBuf,
    pub(crate) warnings: Mutex<Vec<String>>,
    retired: Mutex<Retired>,
    pub(crate) triggers: Mutex<Vec<Arc<Trigger>>>,
    /// Keys by which events are kept.
    pub(crate) kept: Arc<Kept>,
    /// How many of its snapshots there are.
    pub(crate) saved: AtomicU64,
    pub(crate) memory: u64,
    announced: bool,
    /// What it was made as.
    pub(crate) builder: Builder,
    /// Whether no `Session` of the program holds it: the agent may end it.
    pub(crate) is_agents: bool,
    pub(crate) begun: Instant,
}

/// How long a thread of the program, or the agent's, waits for an output that may hang.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a change of the rules did.
pub(crate) struct Change {
    /// Number of probes that the new rules match.
    pub(crate) probes: usize,
    /// Number of state dumps that they match.
    pub(crate) state_dumps: usize,
    /// What is questionable about the rules.
    pub(crate) warnings: Vec<String>,
}

/// What rules counted that are gone: in sum, and those that may still count.
#[derive(Default)]
struct Retired {
    counts: Vec<Arc<PerCpu>>,
    filtered: u64,
    limited: u64,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("name", &self.name).field("path", &self.path).finish_non_exhaustive()
    }
}

/// A panic changes nothing halfway that others see: the state is behind locks, and a failure is set once.
impl std::panic::RefUnwindSafe for Recording {}

impl Recording {
    pub(crate) fn create(
        process: &'static Process,
        builder: &Builder,
        rules: Vec<Rule>,
        mut warnings: Vec<String>,
        (geometry, by_cid): (Geometry, bool),
    ) -> Result<Recording> {
        let memory = geometry.file_size();
        let classes = attach::probes().filter(|p| p.probe.class.is_some() && attach::decides(&rules, p)).count();
        let plan = Plan {
            mode: if builder.overwrite { Mode::Overwrite } else { Mode::Discard },
            clock: match builder.clock {
                Clock::None => ClockKind::None,
                _ if !process.clock.is_counter() => ClockKind::Os,
                Clock::Os => ClockKind::Os,
                Clock::Fast => ClockKind::Raw,
                Clock::Ordered => ClockKind::Ordered,
            },
            // IDs beyond a compact header's, of classes that are enabled later, take the extended form.
            header: if classes <= 31 { HeaderKind::Compact } else { HeaderKind::Large },
            by_cid,
        };
        let (mut storage, warning) = match (&builder.output, &builder.heir) {
            // What a trigger has seen is worth nothing without the process.
            (Output::Trigger(_), _) => (Storage::without_a_name()?, None),
            (_, Some(heir)) => Storage::for_child(&builder.name, memory, heir.base.as_deref())?,
            _ => Storage::create(&builder.name, memory, builder.rings.as_deref())?,
        };
        warnings.extend(warning);
        let mut told = ToldRings::new(storage.rings.inheritance());
        let mut built = Self::build(process, builder, plan, geometry, &storage, &told);
        if let Some(error) = built.as_ref().err().filter(|_| builder.heir.is_some() && storage.is_in_directory()) {
            // Without room for as much as control pages there, in memory that no other file system limits.
            warnings.push(format!("the ring buffers have no name, so they do not outlive the process: {error}"));
            storage = Storage::without_a_name()?;
            told = ToldRings::new(storage.rings.inheritance());
            built = Self::build(process, builder, plan, geometry, &storage, &told);
        }
        let (channel, delivery, journal, classes, path) = match built {
            Ok(built) => built,
            Err(error) => {
                storage.remove();
                return Err(error);
            }
        };
        Ok(Recording {
            name: builder.name.clone(),
            process,
            channel,
            rules: Mutex::new(rules),
            generation: AtomicU64::new(1),
            is_stopping: AtomicBool::new(false),
            failure: delivery.failures(),
            figures: Mutex::new(delivery.figures()),
            delivery: Mutex::new(delivery),
            journal: Mutex::new(journal),
            classes,
            is_behind: AtomicBool::new(false),
            _told: told,
            base: storage.base(),
            lost: match &builder.heir {
                Some(heir) => heir.lost,
                None if builder.follow => Lost::new(),
                None => None,
            },
            storage: Mutex::new(storage),
            snapshots: snapshot::directory_of(&builder.name, path.as_deref()),
            path,
            warnings: Mutex::new(warnings),
            retired: Mutex::default(),
            triggers: Mutex::default(),
            kept: Arc::default(),
            saved: AtomicU64::new(0),
            memory,
            announced: builder.announced,
            builder: builder.clone(),
            is_agents: builder.is_agents,
            begun: Instant::now(),
        })
    }

    fn build(
        process: &'static Process,
        builder: &Builder,
        plan: Plan,
        geometry: Geometry,
        storage: &Storage,
        told: &ToldRings,
    ) -> Result<(Channel, Delivery, Journal, Classes, Option<PathBuf>)> {
        let at = storage.rings_path().unwrap_or_else(|| PathBuf::from("memfd"));
        // By concurrency ID the first numbers are used first, so the rings are those.
        let indices = if plan.by_cid { (0..geometry.buffers).collect() } else { process.cpus.clone() };
        let indices = &indices[..geometry.buffers as usize];
        let ahead = if builder.heir.is_some() { None } else { Some(AHEAD) };
        let core = plan.create(&storage.rings, geometry, indices, process.clock, ahead);
        let core = core.map_err(|e| Error::io("cannot map ring buffers in", &at, e))?;
        told.map(&core);
        core.populate(2);
        let uuid = uuid();
        let header = match plan.header {
            HeaderKind::Compact => ctf::EventHeader::Compact,
            HeaderKind::Large => ctf::EventHeader::Large,
        };
        let trace = metadata::trace(process, &builder.name, uuid, header, builder.context);
        write_identity(&core, process, &uuid);
        let origin_ns = if plan.clock == ClockKind::None { 0 } else { process.clock.now_ns() };
        let take: fn(&Path) -> Result<Claim> = if builder.rotation.is_wanted() { Rotated::claim } else { Claim::new };
        // A followed child makes nothing yet. Its number is in the name, which is nobody else's.
        let claim = |path: &Path| match builder.heir {
            Some(_) => Claim::check_free(path).map(|()| None),
            None => take(path).map(Some),
        };
        let place = match &builder.output {
            Output::Print | Output::Trigger(_) | Output::Elsewhere(_) => None,
            Output::Directory(path) => Some((path.clone(), claim(path)?)),
            Output::Shared(path) => Some(Claim::first(output::numbered(shared_path(path)), claim)?),
            Output::Default => Some(Claim::first(output::numbered(default_path(&builder.name)), claim)?),
        };
        let path = match (&place, &builder.output) {
            (Some((path, _)), _) => Some(path.clone()),
            (_, Output::Elsewhere(path)) => path.clone(),
            _ => None,
        };
        let journal = storage.journal.try_clone().map_err(|e| Error::io("cannot use", storage.journal_path(), e))?;
        let snapshots = builder.overwrite.then(|| snapshot::directory_of(&builder.name, path.as_deref()));
        let origin = Origin::new(origin_ns, path.as_deref(), snapshots.as_deref());
        let is_mapped = !matches!(builder.output, Output::Trigger(_));
        let mut journal = Journal::new(journal, &storage.journal_path(), &trace, &origin, is_mapped)?;
        let is_elsewhere = matches!(builder.output, Output::Elsewhere(_));
        let sink: Box<dyn Sink> = match (place, &builder.output) {
            (_, Output::Elsewhere(_)) => Box::new(Elsewhere::default()),
            (None, Output::Trigger(source)) => Box::new(Follower::new(source.clone(), &trace)?),
            (None, _) => Box::new(Printer::new(&trace, core.clone())?),
            (Some((path, claim)), _) => {
                let (format, rotation, trace, own) = (builder.format, builder.rotation, trace.clone(), path.clone());
                let make = move |claim| -> Result<Box<dyn Sink>> {
                    Ok(if rotation.is_wanted() {
                        Box::new(Rotated::create((&own, claim), &trace, format, origin_ns, rotation)?)
                    } else {
                        Box::new(Directory::within(claim, &trace, format, Some(origin_ns))?)
                    })
                };
                match claim {
                    Some(claim) => make(claim)?,
                    None => Box::new(Deferred::new(Box::new(move || make(take(&path)?)))),
                }
            }
        };
        let reader =
            core.reader(Purpose::Consume).ok_or_else(|| Error::io("cannot read", &at, std::io::ErrorKind::ResourceBusy))?;
        let has_names = builder.context.contains(Context::THREADS);
        if builder.context.contains(Context::THREAD_NAME) {
            threads::want_names();
        }
        let first = vec![metadata::thread_name()];
        journal.describe(&first)?;
        let classes = Classes::new(Mutex::new(first));
        let mut delivery = Delivery::new(reader, trace, has_names, sink, classes.clone());
        delivery.origin_ns = origin_ns;
        if is_elsewhere {
            delivery.leave_to_others();
        }
        delivery.describe_first()?;
        Ok((Channel::new(core, process, plan, builder.context, !builder.sensitive), delivery, journal, classes, path))
    }

    pub(crate) fn check_process(&self) -> Result<()> {
        if !self.process.is_alive() {
            return Err(Kind::Off("the session belongs to the process that this one was forked from").into());
        }
        process::current().map(|_| ())
    }

    /// What a child that is forked now is to record; `None`: nothing.
    pub(crate) fn heir(&self) -> Option<Builder> {
        if !self.builder.follow || !self.is_recording() {
            return None;
        }
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let root = self.builder.root.clone().or_else(|| self.path.as_deref().map(absolute));
        let heir = Some(Heir { base: self.base.clone(), lost: self.lost });
        Some(Builder { rules: self.rules(), triggers: trigger::texts(self), root, heir, ..self.builder.clone() })
    }

    /// Records again after it was stopped.
    pub(crate) fn start(self: &Arc<Self>) -> Result<()> {
        self.check_process()?;
        self.tick(Instant::now());
        self.describe_ahead(|p| self.wants(p))?;
        let mut control = attach::control();
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if self.is_stopping.load(Ordering::Relaxed) {
            return Err(Kind::Stopping(self.name.clone()).into());
        }
        self.prepare_locked(|p| self.wants(p))?;
        self.generation.store(self.channel.core.generation(), Ordering::Relaxed);
        control.publish(|p| self.wants(p));
        consumer::hurry();
        Ok(())
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.generation() != 0
    }

    pub(crate) fn generation(&self) -> u64 {
        // Relaxed: changed under the control lock. Whoever has an old one is refused by the channel.
        self.generation.load(Ordering::Relaxed)
    }

    /// Whether a rule takes the probe, with a condition that fits its events if it has one.
    pub(crate) fn wants(&self, probe: &NamedProbe) -> bool {
        self.takes(&lock(&self.rules), probe)
    }

    fn takes(&self, rules: &[Rule], probe: &NamedProbe) -> bool {
        attach::deciding(rules, probe).is_some_and(|rule| !rule.is_conditional() || self.made(rule, probe).is_some())
    }

    fn made(&self, rule: &Rule, probe: &NamedProbe) -> Option<Arc<Made>> {
        rule.progress.as_ref()?.made(rule, probe.probe.class?, self.channel.redact).ok()
    }

    /// Describes the classes of the probes that `concerns`, so that [`place`](Self::place) finds them; not under the control lock.
    /// Returns whether there were new ones.
    ///
    /// # Errors
    ///
    /// The journal cannot be written. A class that is too large for the session's records is a warning.
    pub(crate) fn prepare(&self, concerns: impl Fn(&NamedProbe) -> bool) -> Result<bool> {
        self.describe(self.undescribed(concerns))
    }

    /// The same under the control lock: what has become known since. Where the rings lie on a disk, which may hang, the consumer's
    /// thread describes it soon, and [`catches up`](Self::catch_up) with the lists.
    pub(crate) fn prepare_locked(&self, concerns: impl Fn(&NamedProbe) -> bool) -> Result<()> {
        let keys = self.undescribed(concerns);
        if self.builder.rings.is_none() || keys.is_empty() {
            return self.describe(keys).map(drop);
        }
        // Relaxed: what is to be described is found under locks.
        self.is_behind.store(true, Ordering::Relaxed);
        consumer::hurry();
        Ok(())
    }

    /// Does what [`prepare_locked`](Self::prepare_locked) left; for the consumer's thread.
    pub(crate) fn catch_up(&self) {
        if self.is_behind.swap(false, Ordering::Relaxed) {
            if let Err(error) = self.prepare(|p| self.wants(p)) {
                self.warn(error.to_string());
            }
            attach::control().publish(|p| self.wants(p));
        }
    }

    /// As [`prepare`](Self::prepare), and waits for the output to have the new ones.
    fn describe_ahead(self: &Arc<Self>, concerns: impl Fn(&NamedProbe) -> bool) -> Result<()> {
        if self.prepare(concerns)? { self.describe_to_output() } else { Ok(()) }
    }

    /// Waits for the output to have what is described, to tell whether it can; for a moment, since its disk may hang. It will be there
    /// before the next packet (JR-4).
    pub(crate) fn describe_to_output(self: &Arc<Self>) -> Result<()> {
        if consumer::is_this_thread() || !consumer::is_running() {
            return lock(&self.delivery).describe();
        }
        if process::may_wait("").is_err() {
            return Ok(());
        }
        consumer::request_within(PATIENCE, |reply| Request::Describe(self.clone(), reply))
    }

    /// Classes of probes that have no event ID yet, and can have one.
    fn undescribed(&self, concerns: impl Fn(&NamedProbe) -> bool) -> Vec<EventKey> {
        let mut keys = Vec::new();
        for named in attach::probes().filter(|p| concerns(p)) {
            let Some(class) = named.probe.class else { continue };
            if self.channel.event_id(&named.name, named.probe.level, class).is_some() {
                continue;
            }
            match self.channel.check_class(class, named.probe.least) {
                Ok(()) => keys.push(EventKey { name: named.name.clone(), level: named.probe.level, class }),
                Err(error) => {
                    self.warn(format!("{} is not recorded: {error}; give the session larger sub-buffers", named.name));
                }
            }
        }
        keys
    }

    /// Gives classes event IDs, once they are described (JR-1). Returns whether any was new. All at once: thousands are one write.
    fn describe(&self, keys: Vec<EventKey>) -> Result<bool> {
        if keys.is_empty() {
            return Ok(false);
        }
        let mut journal = lock(&self.journal);
        let (new, descriptions) = self.channel.new_classes(keys);
        if descriptions.is_empty() {
            return Ok(false); // another thread was faster
        }
        journal.describe(&descriptions)?;
        // Before their IDs are used: the output has them before any packet that holds an event of theirs.
        lock(&self.classes).extend(descriptions);
        self.channel.take(&new);
        Ok(true)
    }

    /// What a list is to have of this session for a probe; `None`: no rule [takes it](Self::wants). Without a target it only runs:
    /// it makes no events, or they cannot be recorded here.
    pub(crate) fn place(&self, named: &NamedProbe) -> Option<Option<Conditional>> {
        let (progress, made) = {
            let rules = lock(&self.rules);
            let rule = attach::deciding(&rules, named)?;
            let made = if rule.is_conditional() { Some(self.made(rule, named)?) } else { None };
            (rule.progress.clone(), made)
        };
        Some(named.probe.class.and_then(|class| self.target(named, class, progress.as_ref(), made.as_deref())))
    }

    fn target(
        &self,
        named: &NamedProbe,
        class: &'static EventClass,
        progress: Option<&Arc<Progress>>,
        made: Option<&Made>,
    ) -> Option<Conditional> {
        let probe = named.probe;
        // Without one it is too large, or not described yet.
        let id = self.channel.event_id(&named.name, probe.level, class)?;
        let target = self.channel.target(id, self.generation(), probe.least);
        let conditional = match made {
            None => Conditional::always(target),
            Some(made) => progress?.conditional(made, target),
        };
        match self.source() {
            None => Some(conditional),
            Some(source) => source.on_path(class, &progress?.counts, conditional),
        }
    }

    /// Returns the event ID of a class, which it has from now on.
    pub(crate) fn event_id(&self, name: &str, level: Level, class: &'static EventClass, least: usize) -> Result<u32> {
        self.channel.check_class(class, least)?;
        loop {
            if let Some(id) = self.channel.event_id(name, level, class) {
                return Ok(id);
            }
            self.describe(vec![EventKey { name: name.to_owned(), level, class }])?;
        }
    }

    /// The rules, as they were written.
    pub(crate) fn rules(&self) -> Vec<String> {
        lock(&self.rules).iter().map(Rule::to_string).collect()
    }

    pub(crate) fn with_rules<T>(&self, look: impl FnOnce(&[Rule]) -> T) -> T {
        look(&lock(&self.rules))
    }

    /// Adds rules; with `exclude`, ones that leave out what they match.
    pub(crate) fn change(self: &Arc<Self>, text: &str, exclude: bool) -> Result<Change> {
        self.check_process()?;
        crate::rcu::admit()?;
        let mut warnings = Vec::new();
        let rules = attach::rules(text, exclude, self.channel.redact, self.is_agents, &mut warnings)?;
        self.describe_ahead(|p| self.takes(&rules, p))?;
        let mut control = attach::control();
        let before = lock(&self.rules).clone();
        // An earlier rule for the same probes can decide nothing any more, unless this one ends.
        let replaces = |new: &Rule, old: &Rule| new.lifetime.is_none() && new.glob == old.glob && new.level == old.level;
        let (gone, mut after): (Vec<Rule>, Vec<Rule>) =
            before.iter().cloned().partition(|old| rules.iter().any(|new| replaces(new, old)));
        after.extend(rules.iter().cloned());
        *lock(&self.rules) = after;
        let concerned = |p: &NamedProbe| rules.iter().any(|r| r.matches(p.probe, &p.name));
        if let Err(error) = self.prepare_locked(|p| concerned(p) && self.wants(p)) {
            *lock(&self.rules) = before;
            return Err(error);
        }
        control.publish(concerned);
        drop(control);
        self.retire_counts(gone);
        warnings.iter().for_each(|w| self.warn(w.clone()));
        let state_dumps = catalogue::state_dumps().iter().filter(|dump| rules.iter().any(|r| state::matches(r, dump))).count();
        Ok(Change { probes: attach::probes().filter(|p| concerned(p)).count(), state_dumps, warnings })
    }

    /// Looks at the rules that waited for a key, which is registered now. Returns whether there are any.
    pub(crate) fn key_registered(&self, key: &str) -> bool {
        let rules: Vec<Rule> = lock(&self.rules).iter().filter(|rule| rule.context().any(|name| name == key)).cloned().collect();
        for rule in &rules {
            let waited = attach::awaiting(rule, key);
            let now = match rule.awaits() {
                Some(other) => attach::awaiting(rule, other),
                None => format!("`{rule}` records since the program registered the key `{key}`"),
            };
            lock(&self.warnings)
                .iter_mut()
                .filter(|warning| warning.starts_with(&waited))
                .for_each(|warning| *warning = now.clone());
            if rule.awaits().is_none() {
                let matched = attach::probes().filter(|p| rule.matches(p.probe, &p.name));
                let mut warnings = Vec::new();
                let fit = condition::survey(rule, matched, self.channel.redact, &mut warnings);
                if let Some((error, _)) = fit.err().filter(|_| warnings.is_empty()) {
                    warnings.push(format!("`{rule}` does not fit: {}", error.problem()));
                }
                warnings.into_iter().for_each(|warning| self.warn(warning));
            }
        }
        !rules.is_empty()
    }

    /// Opens the next second of limits, and ends rules whose time has come; for the consumer's thread, often.
    pub(crate) fn tick(&self, now: Instant) {
        let is_over = {
            let rules = lock(&self.rules);
            rules.iter().filter_map(|r| r.progress.as_ref()).for_each(|p| p.refill(now));
            rules.iter().any(|r| r.is_over(now))
        };
        if !is_over {
            return;
        }
        let mut control = attach::control();
        let (gone, kept) = lock(&self.rules).drain(..).partition::<Vec<_>, _>(|r| r.is_over(now));
        *lock(&self.rules) = kept;
        let concerned = |p: &NamedProbe| gone.iter().any(|r| r.matches(p.probe, &p.name));
        // What an earlier rule takes again, it may never have taken before.
        if let Err(error) = self.prepare_locked(|p| concerned(p) && self.wants(p)) {
            self.warn(error.to_string());
        }
        control.publish(concerned);
        drop(control);
        self.retire_counts(gone);
    }

    /// Keeps what rules counted that are gone. Lists that may still be read go on counting for them.
    fn retire_counts(&self, gone: Vec<Rule>) {
        let mut retired = lock(&self.retired);
        retired.counts.extend(gone.into_iter().filter(Rule::is_conditional).filter_map(|r| Some(r.progress?.counts.clone())));
        let Retired { counts, filtered, limited } = &mut *retired;
        counts.retain(|counts| {
            if Arc::strong_count(counts) > 1 {
                return true;
            }
            *filtered += counts.sum::<FILTERED>();
            *limited += counts.sum::<LIMITED>();
            false
        });
    }

    /// Events that filters rejected, and that limits did not let through.
    fn passed_over(&self) -> (u64, u64) {
        let rules: Vec<Arc<PerCpu>> = {
            let rules = lock(&self.rules);
            rules.iter().filter_map(|r| r.progress.as_ref()).map(|p| p.counts.clone()).collect()
        };
        let retired = lock(&self.retired);
        let all = || rules.iter().chain(&retired.counts);
        let filtered = all().map(|c| c.sum::<FILTERED>()).sum::<u64>() + retired.filtered;
        (filtered, all().map(|c| c.sum::<LIMITED>()).sum::<u64>() + retired.limited)
    }

    /// What each rule has done so far. The lists are what the rules say.
    pub(crate) fn rule_states(&self) -> Vec<RuleState> {
        let _control = attach::control();
        let now = Instant::now();
        let state = |rule: &Rule| {
            let counts = rule.progress.as_ref().map(|p| &p.counts);
            RuleState {
                rule: rule.to_string(),
                filtered: counts.map_or(0, |c| c.sum::<FILTERED>()),
                limited: counts.map_or(0, |c| c.sum::<LIMITED>()),
                remaining: rule.progress.as_ref().and_then(|p| p.remaining(now)),
            }
        };
        lock(&self.rules).iter().map(state).collect()
    }

    pub(crate) fn warn(&self, warning: String) {
        let mut warnings = lock(&self.warnings);
        if !warnings.contains(&warning) && warnings.len() < 100 {
            warnings.push(warning);
        }
    }

    /// Whether another process has not yet delivered all.
    pub(crate) fn is_held_elsewhere(&self) -> bool {
        lock(&self.delivery).is_held_elsewhere()
    }

    pub(crate) fn is_consumed_elsewhere(&self) -> bool {
        matches!(self.builder.output, Output::Elsewhere(_))
    }

    /// What of a trigger it is a source of, if it is no session.
    pub(crate) fn source(&self) -> Option<&Source> {
        match &self.builder.output {
            Output::Trigger(source) => Some(source),
            _ => None,
        }
    }

    /// Lets a channel go on that a trigger stopped, unless the session was stopped meanwhile.
    pub(crate) fn thaw(&self) {
        let mut control = attach::control();
        if self.is_recording() {
            self.generation.store(self.channel.core.generation(), Ordering::Relaxed);
            control.publish(|p| self.wants(p));
        }
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().map(Error::again)
    }

    /// From now on the output gets only what is kept. Waits for it.
    pub(crate) fn keep(&self) -> Result<()> {
        let mut delivery = lock(&self.delivery);
        if delivery.keeps() {
            return Ok(());
        }
        let class = vec![metadata::not_kept()];
        lock(&self.journal).describe(&class)?;
        lock(&self.classes).extend(class);
        delivery.keep(self.kept.clone())
    }

    /// Closes the gates for this session. The events under way end with a grace period.
    pub(crate) fn switch_off(&self) {
        let mut control = attach::control();
        self.generation.store(0, Ordering::Relaxed);
        self.channel.core.bump_generation();
        control.publish(|p| self.wants(p));
    }

    /// The time of what the consumer writes itself: in a trace without time stamps all is at the origin.
    fn now_ns(&self) -> u64 {
        if self.channel.core.settings().clock == ClockKind::None { 0 } else { self.process.clock.now_ns() }
    }

    fn with_delivery<T>(&self, act: impl FnOnce(&mut Delivery) -> T) -> T {
        let mut delivery = lock(&self.delivery);
        let result = act(&mut delivery);
        *lock(&self.figures) = delivery.figures();
        result
    }

    /// How far the delivery is; where its output hangs, how far it was before.
    fn figures(&self) -> Figures {
        let begun = Instant::now();
        loop {
            match self.delivery.try_lock() {
                Ok(delivery) => return delivery.figures(),
                Err(TryLockError::Poisoned(delivery)) => return delivery.into_inner().figures(),
                Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => return *lock(&self.figures),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// Delivers what is ready; with `cut`, what is committed.
    pub(crate) fn round(&self, cut: bool) -> Round {
        let now_ns = self.now_ns();
        let round = self.with_delivery(|delivery| delivery.round(cut, now_ns));
        if let Some(source) = self.source() {
            source.delivered(now_ns);
        }
        round
    }

    /// Delivers everything. `quiet`: nobody writes to the rings any more.
    pub(crate) fn finish(&self, quiet: bool) {
        let now_ns = self.now_ns();
        self.with_delivery(|delivery| delivery.finish(now_ns, quiet));
        if let Some(source) = self.source() {
            source.delivered(now_ns);
        }
    }

    /// The trace directory, if it is to be told at the end of the process.
    pub(crate) fn announced_path(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| self.announced)
    }

    pub(crate) fn remove_files(&self) {
        lock(&self.storage).remove();
    }

    /// Leaves the rings to whoever recovers them, while this process runs. Nobody writes to them any more.
    pub(crate) fn leave_files(&self) {
        // Release: what was committed comes before; pairs with the Acquire load in `recovery::has_ended`.
        self.channel.core.caller_area()[recovery::ENDED].store(1, Ordering::Release);
    }

    /// Makes all memory of the rings present, so that the first lap does not fault; allocates what is not yet.
    /// With `patient`, tries again where there is no room.
    pub(crate) fn populate(&self, patient: bool) {
        self.channel.core.populate(u32::MAX);
        loop {
            let more = lock(&self.storage).rings.file().and_then(|file| self.channel.core.allocate_more(file));
            match more {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    // The room that was there when the session began is another's now; it may come back.
                    self.warn(format!(
                        "the rings have not got all their memory yet, and events are lost as if they were full: {error}"
                    ));
                    if !patient {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
            if !attach::sessions().iter().any(|session| std::ptr::eq(&**session, self)) {
                return; // destroyed
            }
        }
    }

    /// Bytes of memory that the rings take at the moment.
    pub(crate) fn resident(&self) -> u64 {
        // st_blocks counts units of 512 bytes, stat(3type).
        lock(&self.storage).rings.metadata().map_or(0, |m| std::os::unix::fs::MetadataExt::blocks(&m) * 512)
    }

    /// What gives the rings their names with the first event.
    pub(crate) fn names(&self) -> Option<Arc<Names>> {
        lock(&self.storage).names()
    }

    /// Counts what children lost that could not be recorded, or whose trace could not be written, as its own losses.
    pub(crate) fn take_lost(&self) {
        let Some(events) = self.lost.filter(|_| self.failure().is_none()).and_then(Lost::take) else { return };
        self.channel.core.count_without_buffer(events);
        self.warn("events of forked processes were lost: they could have no rings, or no trace".to_owned());
    }

    /// Says how much of what a failed output did not get is lost, where nothing is left to recover it from.
    pub(crate) fn give_up(&self) {
        let events = {
            let delivery = lock(&self.delivery);
            // Where there is no trace at all, nor are losses told.
            let told = if delivery.written() > 0 { 0 } else { delivery.losses().total() };
            self.channel.core.records().saturating_sub(delivery.events()) + told
        };
        if let Some(lost) = self.lost {
            lost.add(events);
        }
        report::say(format_args!("{events} events of {} could not be written, and are lost", self.name));
    }

    /// Where the rings lie, if they have a name.
    pub(crate) fn rings_path(&self) -> Option<PathBuf> {
        lock(&self.storage).rings_path()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let core = &self.channel.core;
        let (filtered, limited) = self.passed_over();
        let Figures { bytes, written, lost } = self.figures();
        Statistics {
            events: core.records(),
            bytes,
            lost,
            cut: self.channel.cut_records(),
            filtered,
            limited,
            not_kept: self.kept.not_kept(),
            memory: self.memory,
            buffers: core.geometry().buffers,
            written,
        }
    }
}

/// Writes into the superblock which trace and which process the rings belong to; the rest is in the journal of that UUID.
fn write_identity(core: &Core, process: &Process, uuid: &[u8; 16]) {
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| uuid[at + i]));
    // Process IDs mean something within their namespace only, pid_namespaces(7).
    let namespace = sys::pid_namespace();
    let boot = recovery::boot_word(&process.boot_id);
    let words = [half(0), half(8), u64::from(process.pid), process.start_time, namespace, boot];
    for (place, word) in core.caller_area().iter().zip(words) {
        // Relaxed: a reader comes after the process, or by way of its directory, which is complete when the session is.
        place.store(word, Ordering::Relaxed);
    }
}

/// A random (version 4) UUID.
fn uuid() -> [u8; 16] {
    let mut uuid: [u8; 16] = sys::random();
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// `./NAME-TIME.ringtrace`, with a number where that is taken. The default session goes by the program's name.
fn default_path(name: &str) -> impl Fn(u32) -> PathBuf {
    let name = if name == crate::environment::SESSION_NAME { process::session_name() } else { name.to_owned() };
    let stamp = sys::local_time_stamp();
    move |n| PathBuf::from(if n == 0 { format!("{name}-{stamp}.ringtrace") } else { format!("{name}-{stamp}-{n}.ringtrace") })
}

/// `DIR`; where that is taken, `DIR-PID`, and then with a number.
fn shared_path(path: &Path) -> impl Fn(u32) -> PathBuf {
    move |n| {
        let mut name = path.as_os_str().to_owned();
        match n {
            0 => {}
            1 => name.push(format!("-{}", std::process::id())),
            _ => name.push(format!("-{}-{}", std::process::id(), n - 1)),
        }
        name.into()
    }
}
