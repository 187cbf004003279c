//! Attachment: which probes run, and into which sessions they record.
//!
//! The control lock guards what decides that: the sessions, their rules, the probes that panicked. Under it the lists of
//! the tracepoints concerned are made anew and published; the old ones are retired. Nothing here waits for a grace period, nor for
//! a disk, also not by way of another lock: whoever detaches a closure, or loads a shared object, waits for the control lock.

#![expect(unsafe_code, reason = "publishes lists, and takes them back from their gates")]
use crate::aggregate;
use crate::builder::CEILING;
use crate::catalogue::{self, Site};
pub(crate) use crate::catalogue::{NamedProbe, probes, sites};
use crate::closure;
use crate::condition::{self, Progress};
use crate::error::{Error, Kind, Result};
use crate::follow;
use crate::per_image::PerImage;
use crate::process;
use crate::provider;
use crate::rcu;
use crate::recording::Recording;
use crate::rule::Rule;
use crate::state;
use arc_swap::ArcSwap;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Instant;
use trace_registry::closure::Attached;
use trace_registry::condition::Conditional;
use trace_registry::image::{Contents, Image};
use trace_registry::probe::Entry;
use trace_registry::registry::{self, Match};
use trace_registry::sync::Ordering;
use trace_registry::{Glob, ProbeDescriptor};

/// Who is given events of a probe beside the sessions. It is dropped a grace period after the last list that names it.
pub(crate) trait Watch: Send + Sync {
    /// Makes its target.
    fn conditional(&self) -> Conditional;
}

/// What the control lock guards.
pub(crate) struct Control {
    /// Probes that panicked, by address: they are attached to nothing any more.
    detached: Vec<usize>,
    /// What the agent counts and tests collect, by address of the probe.
    watched: Vec<(usize, Arc<dyn Watch>)>,
    aggregations: Vec<Arc<aggregate::Inner>>,
    /// Names and memory of sessions that are being made.
    reserved: Vec<(String, u64)>,
    /// Closures, in the order in which they were attached.
    closures: Vec<Arc<Attached>>,
    /// Closures of this process image that have a guard, by address: a forked child may have guards of its parent's.
    guarded: Vec<usize>,
    /// What is to be said of closures that panicked; their guards may be gone.
    panicked: Vec<String>,
}

static CONTROL: PerImage<Mutex<Control>> = PerImage::new(|| {
    // A followed child detaches what panicked in its parent.
    let panicked = probes().filter(|p| p.probe.panics.load(Ordering::Relaxed) > 0);
    Mutex::new(Control {
        detached: panicked.map(address).collect(),
        watched: Vec::new(),
        aggregations: Vec::new(),
        reserved: Vec::new(),
        closures: Vec::new(),
        guarded: Vec::new(),
        panicked: Vec::new(),
    })
});

/// The sessions that exist, recording or not. Changed under the control lock; the consumer takes it without.
static SESSIONS: PerImage<ArcSwap<Vec<Arc<Recording>>>> = PerImage::new(|| ArcSwap::from_pointee(Vec::new()));

/// Leaves the parent's sessions behind; for a forked child.
pub(crate) fn renew() {
    CONTROL.renew();
    SESSIONS.renew();
}

/// Returns the sessions that exist.
pub(crate) fn sessions() -> Vec<Arc<Recording>> {
    recordings().iter().filter(|r| r.source().is_none()).cloned().collect()
}

/// Returns the sessions that exist, and the sources of their triggers behind them.
pub(crate) fn recordings() -> Arc<Vec<Arc<Recording>>> {
    SESSIONS.get().load_full()
}

pub(crate) fn control() -> MutexGuard<'static, Control> {
    let mut control = rcu::lock(CONTROL.get());
    control.look_again();
    control
}

/// Takes in what became known, and ticks the aggregations, unless somebody has the control lock just now; for the consumer's
/// thread, often.
pub(crate) fn tick(now: Instant) {
    match CONTROL.get().try_lock() {
        Ok(mut control) => control.tick(now),
        Err(TryLockError::Poisoned(control)) => control.into_inner().tick(now),
        Err(TryLockError::WouldBlock) => {}
    }
}

/// Name and memory of a session that is being made: that takes files, and a disk may hang, so it is not done under the control lock.
/// Given up when it is dropped, when the control lock is not held.
pub(crate) struct Reservation(String);

/// Reserves the name and the memory of a session.
///
/// # Errors
///
/// [`Error::is_session_exists`]; [`Error::is_memory`]: it would be more than the process's ceiling.
pub(crate) fn reserve(name: &str, memory: u64) -> Result<Reservation> {
    let mut control = control();
    if recordings().iter().any(|s| s.name == name) || control.reserved.iter().any(|(reserved, _)| reserved == name) {
        return Err(Kind::SessionExists(name.to_owned()).into());
    }
    let (used, ceiling) = (control.memory(), CEILING.load(Ordering::Relaxed));
    if used + memory > ceiling {
        return Err(Kind::Memory(format!(
            "the sessions and aggregations of this process map {used} bytes and this one needs {memory}: more than the process's ceiling of \
             {ceiling}; make it smaller, stop another, or raise the ceiling by `ringtrace::set_memory_ceiling`"
        ))
        .into());
    }
    control.reserved.push((name.to_owned(), memory));
    Ok(Reservation(name.to_owned()))
}

impl Drop for Reservation {
    fn drop(&mut self) {
        control().reserved.retain(|(name, _)| *name != self.0);
    }
}

impl Control {
    pub(crate) fn add(&mut self, session: Arc<Recording>) {
        let mut sessions = Vec::clone(&recordings());
        sessions.push(session);
        SESSIONS.get().store(Arc::new(sessions));
        follow::tell();
    }

    pub(crate) fn remove(&mut self, session: &Recording) {
        let kept = recordings().iter().filter(|s| !std::ptr::eq(&***s, session)).cloned().collect();
        SESSIONS.get().store(Arc::new(kept));
        follow::tell();
    }

    /// Makes and publishes the lists of all tracepoints with a probe that `concerns`. It cannot fail: what a session cannot
    /// record is left out of its lists, and the session warns ([`Recording::prepare`] tells beforehand).
    pub(crate) fn publish(&mut self, concerns: impl Fn(&NamedProbe) -> bool) {
        self.publish_sites(|site| site.probes.iter().any(|p| concerns(p)));
    }

    /// The same, for tracepoints that may have no probe.
    fn publish_sites(&mut self, concerns: impl Fn(&Site) -> bool) {
        let (sites, sessions) = (sites(), recordings());
        let mut lists = Vec::new();
        for site in sites.iter().filter(|site| concerns(site)) {
            lists.extend(site.gates().map(|(image, gate)| (gate, self.list(site, image, &sessions))));
        }
        let mut retired = 0;
        for (gate, list) in lists {
            let list = list.map_or(std::ptr::null_mut(), Box::into_raw);
            // SAFETY: TP-2: made for this site by `list`; what it replaces is retired (TP-1).
            retired = retire_list(unsafe { gate.publish(list) }).max(retired);
        }
        if retired >= rcu::RETIRED_HASTE {
            crate::consumer::hurry();
        }
        follow::tell();
    }

    /// The list of one tracepoint in one image; `None`: it has no closure, and no session wants any of its probes.
    fn list(&self, site: &Site, image: &Image, sessions: &[Arc<Recording>]) -> Option<Box<Entry>> {
        let mut list = None;
        // From the last to the first, each in front of those behind it.
        for closure in self.closures.iter().rev().filter(|c| site.has(c.tracepoint.gate)) {
            list = Some(Box::new(Entry::of_closure(closure.clone(), list)));
        }
        for named in site.probes.iter().rev().filter(|p| !self.is_detached(p.probe)) {
            let Some(function) = named.function(image) else { continue };
            let mut wanted = false;
            let mut targets: Vec<Conditional> = Vec::new();
            for session in sessions.iter().filter(|s| s.is_recording()) {
                if let Some(target) = session.place(named) {
                    wanted = true;
                    targets.extend(target);
                }
            }
            for (_, watch) in self.watched.iter().filter(|(probe, _)| *probe == address(named)) {
                wanted = true;
                targets.push(watch.conditional());
            }
            for target in self.aggregations.iter().filter(|a| a.wants(named)).filter_map(|a| a.conditional(named)) {
                wanted = true;
                targets.push(target);
            }
            if wanted {
                // SAFETY: TP-2: a function of a probe that is declared alike (CA-2), for the same tracepoint.
                list = Some(Box::new(unsafe { Entry::of(named.probe, function, targets, list) }));
            }
        }
        list
    }

    fn is_detached(&self, probe: &ProbeDescriptor) -> bool {
        self.detached.contains(&std::ptr::from_ref(probe).addr())
    }

    /// Gives events of probes to others than sessions until [`unwatch`](Self::unwatch).
    pub(crate) fn watch(&mut self, watches: &[(&'static NamedProbe, Arc<dyn Watch>)]) {
        self.watched.extend(watches.iter().map(|(probe, watch)| (address(probe), watch.clone())));
        self.publish(|p| watches.iter().any(|(watched, _)| std::ptr::eq(*watched, p)));
    }

    pub(crate) fn unwatch(&mut self, watches: Vec<(&'static NamedProbe, Arc<dyn Watch>)>) {
        self.watched.retain(|(_, kept)| !watches.iter().any(|(_, watch)| Arc::ptr_eq(kept, watch)));
        self.publish(|p| watches.iter().any(|(watched, _)| std::ptr::eq(*watched, p)));
        // Lists that name them may still be read.
        rcu::retire(Box::new(watches));
    }

    /// Gives the events that an aggregation wants to it until [`remove_aggregation`](Self::remove_aggregation).
    pub(crate) fn add_aggregation(&mut self, aggregation: Arc<aggregate::Inner>) {
        self.aggregations.push(aggregation.clone());
        self.publish(|p| aggregation.wants(p));
    }

    pub(crate) fn remove_aggregation(&mut self, aggregation: &Arc<aggregate::Inner>) {
        self.aggregations.retain(|kept| !Arc::ptr_eq(kept, aggregation));
        self.publish(|p| aggregation.takes(p));
        // Lists that reach into it may still be read.
        rcu::retire(Box::new(aggregation.clone()));
    }

    fn tick(&mut self, now: Instant) {
        self.look_again();
        self.tick_aggregations(now);
    }

    /// Opens the next second of their limits, and ends those whose time has come.
    fn tick_aggregations(&mut self, now: Instant) {
        let over: Vec<_> = self.aggregations.iter().filter(|a| a.tick(now)).cloned().collect();
        if !over.is_empty() {
            self.publish(|p| over.iter().any(|a| a.takes(p)));
        }
    }

    /// Bytes that sessions map, and that aggregations may use.
    pub(crate) fn memory(&self) -> u64 {
        let reserved = self.reserved.iter().map(|(_, memory)| memory).sum::<u64>();
        recordings().iter().map(|s| s.memory).sum::<u64>() + reserved + self.aggregations.iter().map(|a| a.memory).sum::<u64>()
    }

    /// Puts a closure behind the probes of its tracepoint.
    pub(crate) fn attach(&mut self, closure: Arc<Attached>) {
        let gate = closure.tracepoint.gate;
        self.guarded.push(Arc::as_ptr(&closure).addr());
        self.closures.push(closure);
        self.publish_sites(|site| site.has(gate));
    }

    /// Takes a closure out of the list of its tracepoint, if it is there.
    pub(crate) fn detach(&mut self, closure: &Arc<Attached>) {
        let before = self.closures.len();
        self.closures.retain(|c| !Arc::ptr_eq(c, closure));
        if self.closures.len() < before {
            self.publish_sites(|site| site.has(closure.tracepoint.gate));
            if has_closure_panicked(closure) {
                self.panicked.push(closure::panicked(closure));
            }
        }
    }

    /// Forgets the guard of a closure, which is no longer attached. Returns whether it is of this process image.
    pub(crate) fn release(&mut self, closure: &Arc<Attached>) -> bool {
        self.detach(closure);
        let before = self.guarded.len();
        self.guarded.retain(|address| *address != Arc::as_ptr(closure).addr());
        self.guarded.len() < before
    }

    /// Detaches the closures that panicked since the last call. Returns them, and what is to be said of them.
    pub(crate) fn detach_panicked_closures(&mut self) -> (Vec<Arc<Attached>>, Vec<String>) {
        let panicked: Vec<_> = self.closures.iter().filter(|c| has_closure_panicked(c)).cloned().collect();
        panicked.iter().for_each(|c| self.detach(c));
        (panicked, std::mem::take(&mut self.panicked))
    }

    /// Takes in what an image declares: rules that match it apply at once.
    pub(crate) fn add_image(&mut self, image: &'static Image, contents: &Contents) {
        let changed = catalogue::add(image, contents);
        self.took_in(&changed);
        follow::tell();
    }

    /// Lets gates of others run what a shared object has, which stays mapped (CA-3).
    pub(crate) fn lend(&mut self, image: &'static Image) {
        catalogue::note_stay(image);
        self.publish_sites(|site| !site.probes.is_empty());
    }

    /// Takes in the probes of sites that were hit for the first time.
    fn look_again(&mut self) {
        let changed = catalogue::look_again();
        if !changed.is_empty() {
            self.took_in(&changed);
        }
    }

    /// Makes rules apply to tracepoints that have new gates or probes.
    fn took_in(&mut self, changed: &BTreeSet<usize>) {
        // What panicked, and is another build now, may try again.
        self.detached.retain(|d| probes().any(|p| std::ptr::from_ref(p.probe).addr() == *d && has_panicked(p)));
        let is_new = |p: &NamedProbe| changed.contains(&catalogue::key(p.tracepoint));
        for session in recordings().iter().filter(|s| s.is_recording()) {
            if let Err(error) = session.prepare_locked(|p| is_new(p) && session.wants(p)) {
                session.warn(error.to_string());
            }
        }
        let is_any = !recordings().is_empty() || !self.closures.is_empty() || !self.watched.is_empty();
        if is_any || !self.aggregations.is_empty() {
            self.publish_sites(|site| changed.contains(&catalogue::key(site.tracepoint)));
        }
    }

    /// Lets rules begin that waited for a key, which is registered now.
    fn key_registered(&mut self, key: &str) {
        let begun: Vec<_> = recordings().iter().filter(|session| session.key_registered(key)).cloned().collect();
        for session in begun.iter().filter(|s| s.is_recording()) {
            if let Err(error) = session.prepare_locked(|p| session.wants(p)) {
                session.warn(error.to_string());
            }
        }
        if !begun.is_empty() {
            self.publish(|p| begun.iter().any(|session| session.wants(p)));
        }
    }

    /// Lets go of all that an image declares. Lists that name it may still be read.
    pub(crate) fn remove_image(&mut self, image: &'static Image) {
        let (gates, changed) = catalogue::remove(image);
        self.publish_sites(|site| changed.contains(&catalogue::key(site.tracepoint)));
        for gate in gates {
            // SAFETY: null; what it replaces is retired (TP-1).
            retire_list(unsafe { gate.publish(std::ptr::null_mut()) });
        }
        follow::tell();
    }

    /// Detaches the probes that panicked since the last call, and returns them.
    pub(crate) fn detach_panicked(&mut self) -> Vec<&'static NamedProbe> {
        let new: Vec<_> = probes().filter(|p| has_panicked(p)).filter(|p| !self.is_detached(p.probe)).collect();
        self.detached.extend(new.iter().map(|p| std::ptr::from_ref(p.probe).addr()));
        self.publish(|p| new.iter().any(|n| std::ptr::eq(n.probe, p.probe)));
        new
    }
}

fn has_closure_panicked(closure: &Attached) -> bool {
    // Relaxed: as below.
    closure.panics.load(Ordering::Relaxed) > 0
}

fn has_panicked(named: &NamedProbe) -> bool {
    // Relaxed: a count; the next look sees what this one misses.
    named.probe.panics.load(Ordering::Relaxed) > 0
}

fn address(probe: &NamedProbe) -> usize {
    std::ptr::from_ref(probe.probe).addr()
}

/// Hands a list that no gate points to any more to the reclaimer. Returns how many objects wait there.
fn retire_list(list: *mut Entry) -> usize {
    if list.is_null() {
        return rcu::retired();
    }
    // SAFETY: `publish` made it by `Box::into_raw` and returned it once; readers may still have it, hence the grace period.
    rcu::retire(unsafe { Box::from_raw(list) })
}

/// Parses rules, and looks up what they stand for. With `waits`, those that name a context field that the program has not registered
/// yet wait for it, which is a warning; otherwise that is an error, as of any name that nothing has.
///
/// # Errors
///
/// As for [`resolve`]; [`Error::is_rule`] too where a filter fits none of the events that its rule matches.
pub(crate) fn rules(text: &str, exclude: bool, redact: bool, waits: bool, warnings: &mut Vec<String>) -> Result<Vec<Rule>> {
    let mut rules = Rule::parse_all(text, exclude)?;
    for rule in &mut rules {
        resolve(rule, warnings)?;
        rule.progress = Some(Arc::new(Progress::new(rule, process::current()?.cpu_limit)));
        match rule.awaits().filter(|_| waits) {
            Some(key) => {
                let near = registry::near(key, provider::names().map(str::to_owned));
                let near = if near.is_empty() { String::new() } else { format!("; did you mean `{}`?", near.join("`, `")) };
                warnings.push(awaiting(rule, key) + &near);
            }
            None => condition::check(rule, text, probes().filter(|p| rule.matches(p.probe, &p.name)), redact, warnings)?,
        }
    }
    Ok(rules)
}

/// What to say of a rule that waits for a key.
pub(crate) fn awaiting(rule: &Rule, key: &str) -> String {
    format!("`{rule}` records nothing until the program registers the key `{key}`")
}

/// Lets what waited for a key begin, which is registered now.
pub(crate) fn key_registered(key: &str) {
    // In a forked child a lock may be held for ever, and nothing waits.
    if !follow::is_child() {
        control().key_registered(key);
    }
}

/// Checks what a rule stands for now.
///
/// # Errors
///
/// [`Error::is_rule`] if an exact name is no probe's, or is the end of more than one name. A pattern without a match is a
/// warning: it may match probes of modules that are loaded later. So is a level that none of its probes has.
pub(crate) fn resolve(rule: &mut Rule, warnings: &mut Vec<String>) -> Result<()> {
    if !look_up(rule, warnings)? {
        warnings.push(format!("`{}` matches no probe", rule.glob));
    }
    let named = || probes().filter(|p| rule.glob.names(&p.name));
    if rule.excludes || named().any(|p| rule.matches(p.probe, &p.name)) || state::is_taken(rule) {
        return Ok(());
    }
    if let Some(most) = named().min_by_key(|p| p.probe.level) {
        let (name, level) = (&most.name, most.probe.level);
        warnings.push(format!("`{rule}` takes no probe: the most severe that it names, {name}, has level {level}"));
    }
    Ok(())
}

/// Whether a rule names something that is here now. A rule that is wrong does, too: it is refused where it is used.
pub(crate) fn names_something(rule: &str) -> bool {
    let Ok(mut rules) = Rule::parse_all(rule, false) else { return true };
    rules.iter_mut().all(|rule| look_up(rule, &mut Vec::new()).unwrap_or_else(|error| !error.names_nothing()))
}

/// Finds what a rule names. Returns whether it names something: an exact name that does not is an error.
fn look_up(rule: &mut Rule, warnings: &mut Vec<String>) -> Result<bool> {
    match registry::find(&rule.glob, probes(), |p| p.name.clone()) {
        Match::Some(found) => {
            if rule.glob.is_exact() {
                // A suffix becomes the whole name.
                rule.glob = Glob::new(&found[0].name);
            }
            Ok(true)
        }
        Match::NoneByGlob => {
            let unprobed = unprobed(rule);
            let names = !unprobed.is_empty() || waits_for_a_hit(rule, warnings) || state::is_taken(rule);
            warnings.extend(unprobed);
            Ok(names)
        }
        Match::NoneByName { .. } if names_a_function(rule) || names_a_dump(rule, warnings) || waits_for_a_hit(rule, warnings) => {
            Ok(true)
        }
        Match::NoneByName { near } => {
            let name = rule.glob.as_str().to_owned();
            // A tracepoint of this name may have probes with names of their own.
            let sites = sites();
            let near = match registry::find(&rule.glob, sites.iter(), |s| s.tracepoint.name.to_string()) {
                Match::Some(sites) => sites.iter().flat_map(|s| &s.probes).map(|p| p.name.clone()).collect(),
                _ => near,
            };
            Err(Error::from(Kind::UnknownName { name, near, unprobed: unprobed(rule).into_iter().next() }))
        }
        Match::Ambiguous { candidates } => Err(Error::from(Kind::Ambiguous { name: rule.glob.as_str().to_owned(), candidates })),
    }
}

/// Whether the exact name of a rule is that of a traced function or a span, whose events have names below it. The rule takes all
/// of them then.
fn names_a_function(rule: &mut Rule) -> bool {
    const ENTRY: &str = "::entry";
    let entry = Glob::new(&format!("{}{ENTRY}", rule.glob));
    let Match::Some(found) = registry::find(&entry, probes(), |p| p.name.clone()) else { return false };
    let Some(name) = found[0].name.strip_suffix(ENTRY) else { return false };
    rule.glob = Glob::new(name);
    true
}

/// Whether the exact name of a rule, or the end of one, is that of a state dump.
fn names_a_dump(rule: &mut Rule, warnings: &mut Vec<String>) -> bool {
    let dumps = catalogue::state_dumps();
    let Match::Some(found) = registry::find(&rule.glob, dumps.iter(), |dump| dump.name.clone()) else { return false };
    rule.glob = Glob::new(&found[0].name);
    if rule.is_conditional() {
        warnings.push(format!("{} is a state dump: filters and limits do not concern it", rule.glob));
    }
    true
}

/// Whether a rule means traced functions or ad-hoc events whose probes become known when they are hit first. It takes them then.
fn waits_for_a_hit(rule: &mut Rule, warnings: &mut Vec<String>) -> bool {
    let sites = sites();
    let unhit = sites.iter().filter(|s| s.is_unhit()).map(|s| s.tracepoint);
    // Names of events lie below that of their function.
    let found = ["", "::entry", "::exit", "::poll::entry", "::poll::exit"].into_iter().find_map(|phase| {
        let stem = Glob::new(rule.glob.as_str().strip_suffix(phase)?);
        match registry::find(&stem, unhit.clone(), |t| t.name.to_string()) {
            Match::Some(found) => Some((found, phase)),
            _ => None,
        }
    });
    let Some((found, phase)) = found else { return false };
    for tracepoint in &found {
        warnings
            .push(format!("{} appears at its first hit, on this system, and is recorded from the next one on", tracepoint.name));
    }
    if rule.glob.is_exact() {
        rule.glob = Glob::new(&format!("{}{phase}", found[0].name));
    }
    true
}

/// What to do about tracepoints that a rule means but that have no probe.
fn unprobed(rule: &Rule) -> Vec<String> {
    let sites = sites();
    let unprobed: Vec<_> = sites.iter().filter(|s| s.probes.is_empty() && !s.is_unhit()).map(|s| s.tracepoint).collect();
    match registry::find(&rule.glob, unprobed.into_iter(), |t| t.name.to_string()) {
        Match::Some(tracepoints) => tracepoints
            .into_iter()
            .map(|t| {
                format!(
                    "{} is declared at {} but no probe for it is linked; name the crate that has it once \
                     (use storage_probes as _;), or declare it #[tracepoint(record)]",
                    t.name, t.location
                )
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The last rule that matches the probe, if it takes it.
pub(crate) fn deciding<'r>(rules: &'r [Rule], probe: &NamedProbe) -> Option<&'r Rule> {
    rules.iter().rev().find(|r| r.matches(probe.probe, &probe.name)).filter(|r| !r.excludes)
}

/// Whether the last rule that matches takes the probe.
pub(crate) fn decides(rules: &[Rule], probe: &NamedProbe) -> bool {
    deciding(rules, probe).is_some()
}

/// What to say of probes that go by one name, where the rules take that name.
pub(crate) fn duplicates(rules: &[Rule]) -> Vec<String> {
    let twins = catalogue::twins().into_iter().filter(|(first, _)| decides(rules, first));
    twins
        .map(|(first, second)| {
            format!(
                "two probes are called {}, at {} and at {}: rules cannot tell them apart; give one of them `name = \"…\"`",
                first.name, first.probe.location, second.probe.location
            )
        })
        .collect()
}
