//! Triggers: when a condition holds, something is done.
//!
//! ```text
//! event path    a source's target: filter, maximum; may stop the session's channel at once         [on_path]
//!               └─ the event is appended to the source's own ring, which holds nothing else
//! consumer      follows the committed positions of the sources, decodes, correlates                [follow, matching]
//!               └─ fires, unless debounce or a limit folds it into an earlier firing
//! trigger       records `ringtrace:trigger_fired`, then acts: snapshots, stops, enables, notifies   [act]
//! ```
//!
//! A *source* is a recording of its own, in discard mode, of the events that one trigger waits for: so how much else a session
//! records makes no difference to its triggers, and what a source loses is counted. It is made with the trigger, takes 1 MiB,
//! and is seen nowhere but here. The trigger's thread runs only in processes that had a trigger.
//!
//! # Invariants
//!
//! - TR-1: The consumer's thread never waits for the trigger's, which may wait for it.
//! - TR-2: A session is stopped or destroyed after what its triggers saw until then was acted on: such requests pass through
//!   the trigger's thread.
//! - TR-3: A source follows its session in the table of sessions, so an event is in the session's ring before it is seen, and
//!   before it stops the channel.

pub(crate) mod act;
mod fired;
mod follow;
pub(crate) mod grammar;
mod matching;
mod on_path;
mod signals;
mod words;

use crate::attach;
use crate::builder::Output;
use crate::condition::scope;
use crate::consumer::{self, Request};
use crate::context::Context;
use crate::error::{Error, Kind, Result};
use crate::keep::Kept;
use crate::per_image::PerImage;
use crate::process;
use crate::rcu::lock;
use crate::recording::Recording;
use crate::ring_buffer::{ClockKind, Mode};
use crate::session::Session;
use crate::snapshot::Receipt;
use fired::fired_class;
pub(crate) use follow::Follower;
use grammar::{Condition, Limits, Spec};
pub(crate) use matching::Key;
use matching::{Cause, Matcher};
use on_path::OnPath;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use trace_registry::EventClass;
use trace_registry::condition::Conditional;
use trace_registry::per_cpu::PerCpu;

/// Ring memory of one source, in bytes, where there are few CPUs.
const MEMORY: u64 = 1 << 20;
/// And for each CPU where there are many.
const MEMORY_PER_CPU: u64 = 48 << 10;
/// Most triggers of a session.
const MOST: usize = 64;
/// Most firings that are kept for those who watch.
const MOST_FIRINGS: usize = 1000;

/// What a trigger has done so far.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TriggerState {
    /// Its name: given by `as`, or `trigger-1` and so on.
    pub name: String,
    /// As it was written.
    pub trigger: String,
    /// How often it fired.
    pub fired: u64,
    /// How often its condition held besides, and debounce or a limit kept it from firing.
    pub folded: u64,
    /// Events that it waits for and did not see: they were lost before it came to them.
    pub lost: u64,
    /// Whether it has fired as often as it may.
    pub is_exhausted: bool,
    /// The last time it fired.
    pub last: Option<Firing>,
}

/// One firing of a trigger, and what was done then: its receipt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Firing {
    /// The session.
    pub session: String,
    /// The trigger's name.
    pub trigger: String,
    /// Number among the firings of this trigger, from 1.
    pub number: u64,
    /// When the condition held, in ns of the trace's clock.
    pub at_ns: u64,
    /// The same, in ns from the Unix epoch.
    pub time_ns: u64,
    /// The event or events, in words.
    pub what: String,
    /// What the action `notify` says, if anything.
    pub message: Option<String>,
    /// For how long nobody did anything, in ns: until the trigger's thread began.
    pub delay_ns: u64,
    /// Events of the condition that were lost until then.
    pub lost: u64,
    /// For how long the session's channel stood still, in ns, so that nothing was overwritten, and nothing was recorded.
    pub frozen_ns: Option<u64>,
    /// The snapshot, if one was taken.
    pub saved: Option<Saved>,
    /// What could not be done.
    pub failures: Vec<String>,
}

/// The snapshot of a firing, and how much of what was promised it holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// What is in it.
    pub receipt: Receipt,
    /// The look-back that was asked for, in ns; `None`: all there is.
    pub before_ns: Option<u64>,
    /// The time before the firing of which nothing was overwritten, in ns; of the session's life, if that is shorter.
    pub covered_before_ns: u64,
    /// The look-forward that was asked for, in ns.
    pub after_ns: u64,
    /// The time after the firing that it holds, in ns.
    pub covered_after_ns: u64,
    /// Whether what happened at the time of the firing is in it. Otherwise it was overwritten before it was copied.
    pub has_moment: bool,
}

impl Saved {
    /// Whether it holds all that was promised.
    pub fn is_complete(&self) -> bool {
        self.has_moment && self.before_ns.is_none_or(|ns| self.covered_before_ns >= ns) && self.covered_after_ns >= self.after_ns
    }
}

/// A trigger of a session.
pub(crate) struct Trigger {
    pub(crate) name: String,
    spec: Spec,
    session: Weak<Recording>,
    session_name: String,
    on_path: Arc<OnPath>,
    seen: Mutex<State>,
    sources: Mutex<Vec<Arc<Recording>>>,
    /// Event ID of `ringtrace:trigger_fired` in the session.
    event_id: u32,
    /// Where it marks what is to be kept.
    kept: Arc<Kept>,
}

#[derive(Debug, Default)]
struct State {
    matcher: Matcher,
    admission: Admission,
    /// How far each source was followed.
    horizons: [u64; 2],
    /// What each lost.
    lost: [u64; 2],
    last: Option<Firing>,
    /// Rounds since the event path stopped the channel, and its event was not found.
    unexplained: u32,
    is_removed: bool,
    /// Signals of its number that came so far.
    signals: u64,
}

/// How often it fired, and whether it may again.
#[derive(Debug, Default)]
struct Admission {
    fired: u64,
    folded: u64,
    last: Option<u64>,
    recent: VecDeque<u64>,
}

impl Admission {
    fn is_free(&self, limits: &Limits, ns: u64) -> bool {
        let within = |begin: u64, time: Duration| u128::from(ns.saturating_sub(begin)) < time.as_nanos();
        !self.is_exhausted(limits)
            && !self.last.is_some_and(|last| within(last, limits.debounce))
            && limits.rate.is_none_or(|(most, time)| self.recent.iter().filter(|at| within(**at, time)).count() < most)
    }

    fn is_exhausted(&self, limits: &Limits) -> bool {
        limits.times.is_some_and(|times| self.fired >= times)
    }

    fn take(&mut self, limits: &Limits, ns: u64) {
        self.fired += 1;
        self.last = Some(ns.max(self.last.unwrap_or(0)));
        if let Some((most, _)) = limits.rate {
            self.recent.push_back(ns);
            while self.recent.len() > most {
                self.recent.pop_front();
            }
        }
    }
}

/// One of the events that a trigger waits for.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) trigger: Arc<Trigger>,
    /// Its place in the condition.
    index: usize,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {} of {}", self.index, self.trigger.name)
    }
}

/// Adds the triggers of `text` to a session.
///
/// # Errors
///
/// [`Error::is_rule`] where a trigger is wrong, [`Error::is_memory`] where there is none for its sources. Those in front of
/// the one that is refused were added.
pub(crate) fn add(session: &Arc<Recording>, text: &str) -> Result<Vec<String>> {
    session.check_process()?;
    let specs = Spec::parse_all(text)?;
    specs.iter().try_for_each(|spec| check(session, spec, text))?;
    specs.into_iter().map(|spec| add_one(session, spec, text)).collect()
}

/// What a trigger needs of its session.
pub(crate) fn check(session: &Recording, spec: &Spec, text: &str) -> Result<()> {
    if spec.keeps().is_some() && session.is_consumed_elsewhere() {
        let remedy = "have the program write the trace: record without `--external`";
        return Err(Error::rule(text, 0..text.len(), "another process writes this session's trace, all of it", remedy));
    }
    check_mode(spec, session.channel.core.settings().mode == Mode::Overwrite, text)
}

pub(crate) fn check_mode(spec: &Spec, overwrites: bool, text: &str) -> Result<()> {
    if spec.takes_snapshots() && !overwrites {
        let at = text.find("snapshot").unwrap_or(0);
        let remedy = "make the session with `overwrite()`, `--overwrite`, or `overwrite` in RINGTRACE";
        return Err(Error::rule(
            text,
            at..at + 8,
            "snapshots are taken of sessions in overwrite mode, and this one is not",
            remedy,
        ));
    }
    Ok(())
}

fn add_one(session: &Arc<Recording>, spec: Spec, text: &str) -> Result<String> {
    act::ensure_running()?;
    let event_id = session.event_id(fired::NAME, fired::LEVEL, fired_class(), fired::least())?;
    let name = free_name(session, &spec)?;
    let key = spec.condition.key().cloned();
    let trigger = Arc::new(Trigger {
        name: name.clone(),
        session: Arc::downgrade(session),
        session_name: session.name.clone(),
        on_path: Arc::new(OnPath::new(&spec, session.channel.core.clone())),
        seen: Mutex::default(),
        sources: Mutex::default(),
        event_id,
        kept: session.kept.clone(),
        spec,
    });
    if let Some((field, wait)) = trigger.spec.keeps() {
        // Before anything can mark a key.
        session.keep()?;
        session.kept.add(field.part.as_str(), wait);
    }
    for (index, source) in trigger.spec.condition.sources().into_iter().enumerate() {
        let mut context = Context::VTID;
        if let Some(name) = key.as_ref().and_then(|key| key.part.as_str().strip_prefix("$ctx.")) {
            context = context | Context::named([name].into_iter()).map_err(|problem| at_key(&key, text, problem))?;
        }
        check_key(&source.part, key.as_ref(), text)?;
        let cpus = session.process.cpus.len() as u64;
        let mut builder =
            Session::builder("").enable(&source.part).memory(MEMORY.max((cpus + 2) * MEMORY_PER_CPU)).context(context);
        builder.name = format!("{}/{name}/{index}", session.name);
        builder.sensitive = session.builder.sensitive;
        builder.heir = session.builder.heir.clone();
        if session.builder.clock != crate::Clock::None {
            builder = builder.clock(session.builder.clock);
        }
        builder.output = Output::Trigger(Source { trigger: trigger.clone(), index });
        match builder.begin() {
            Ok(source) => {
                lock(&source.warnings).iter().for_each(|warning| session.warn(format!("trigger {name}: {warning}")));
                lock(&trigger.sources).push(source);
            }
            Err(error) => {
                remove_sources(&trigger);
                return Err(error.shifted(text, source.at));
            }
        }
    }
    if let Condition::Signal(number, _) = trigger.spec.condition {
        signals::count(number)?;
        // Those that came before are not its.
        lock(&trigger.seen).signals = signals::last(number).0;
    }
    lock(&session.triggers).push(trigger);
    tell_forks();
    Ok(name)
}

fn at_key(key: &Option<crate::rule::Placed<trace_filter::Key>>, text: &str, problem: String) -> Error {
    let at = key.as_ref().map_or(0..0, |key| key.at..key.at + key.part.as_str().len());
    Error::rule(text, at, problem, "")
}

/// Whether the events of a source can be told apart by the key.
fn check_key(source: &str, key: Option<&crate::rule::Placed<trace_filter::Key>>, text: &str) -> Result<()> {
    let Some(key) = key else { return Ok(()) };
    let Ok(rules) = attach::rules(source, false, false, false, &mut Vec::new()) else { return Ok(()) }; // told elsewhere
    let mut misfit = None;
    for named in attach::probes().filter(|p| attach::decides(&rules, p)) {
        let Some(class) = named.probe.class else { continue };
        match key.part.resolve(&scope(class, false)) {
            Ok(_) => return Ok(()),
            Err(error) => misfit = misfit.or(Some(error.about(&named.name))),
        }
    }
    misfit.map_or(Ok(()), |error| Err(Error::from_filter(error, text, key.at)))
}

/// Its own name, or the first number that is free.
fn free_name(session: &Recording, spec: &Spec) -> Result<String> {
    let triggers = lock(&session.triggers);
    let is_taken = |name: &str| triggers.iter().any(|t| t.name == name);
    if triggers.len() >= MOST {
        return Err(Kind::TooManyTriggers(session.name.clone(), MOST).into());
    }
    match &spec.name {
        Some(name) if is_taken(name) => Err(Kind::TriggerExists(name.clone(), session.name.clone()).into()),
        Some(name) => Ok(name.clone()),
        None => Ok((1..).map(|n| format!("trigger-{n}")).find(|name| !is_taken(name)).unwrap_or_default()),
    }
}

/// Removes a trigger. What it has already seen is still acted on.
pub(crate) fn remove(session: &Arc<Recording>, name: &str) -> Result<()> {
    session.check_process()?;
    let removed = {
        let mut triggers = lock(&session.triggers);
        let Some(at) = triggers.iter().position(|t| t.name == name) else {
            let names: Vec<String> = triggers.iter().map(|t| t.name.clone()).collect();
            return Err(Kind::NoTrigger { name: name.to_owned(), session: session.name.clone(), names }.into());
        };
        triggers.remove(at)
    };
    remove_sources(&removed);
    tell_forks();
    Ok(())
}

/// Takes the triggers of a session that ends; for the consumer's thread, which ends their sources.
pub(crate) fn take_all(session: &Recording) -> Vec<Arc<Recording>> {
    let triggers = std::mem::take(&mut *lock(&session.triggers));
    triggers.iter().flat_map(|trigger| take_sources(trigger)).collect()
}

fn take_sources(trigger: &Trigger) -> Vec<Arc<Recording>> {
    let was_removed = std::mem::replace(&mut lock(&trigger.seen).is_removed, true);
    if let Some((field, _)) = trigger.spec.keeps().filter(|_| !was_removed) {
        trigger.kept.remove(field.part.as_str());
    }
    std::mem::take(&mut *lock(&trigger.sources))
}

fn remove_sources(trigger: &Trigger) {
    let sources = take_sources(trigger);
    for source in sources {
        let _ = consumer::send(Request::Destroy(source, None));
    }
}

pub(crate) fn states(session: &Recording) -> Vec<TriggerState> {
    lock(&session.triggers).iter().map(|trigger| trigger.state()).collect()
}

/// Children have the triggers of the moment.
fn tell_forks() {
    let _control = attach::control();
    crate::follow::tell();
}

/// The triggers as they were written, each with its name, so that they can be made again.
pub(crate) fn texts(session: &Recording) -> Vec<String> {
    let named = |trigger: &Arc<Trigger>| match &trigger.spec.name {
        Some(_) => trigger.spec.text.clone(),
        None => format!("{} as {}", trigger.spec.text, trigger.name),
    };
    lock(&session.triggers).iter().map(named).collect()
}

/// The sources of a session's triggers.
pub(crate) fn sources(session: &Recording) -> Vec<Arc<Recording>> {
    let triggers = lock(&session.triggers).clone();
    triggers.iter().flat_map(|trigger| lock(&trigger.sources).clone()).collect()
}

/// Whether what ends a session has to pass by its triggers.
pub(crate) fn may_pass(session: &Recording) -> bool {
    process::get().is_some_and(process::Process::is_alive) && !lock(&session.triggers).is_empty()
}

impl Trigger {
    fn state(&self) -> TriggerState {
        let state = lock(&self.seen);
        TriggerState {
            name: self.name.clone(),
            trigger: self.spec.text.clone(),
            fired: state.admission.fired,
            folded: state.admission.folded,
            lost: state.lost.iter().sum::<u64>() + state.matcher.forgotten,
            is_exhausted: state.admission.is_exhausted(&self.spec.limits),
            last: state.last.clone(),
        }
    }

    /// The condition held.
    fn fire(self: &Arc<Self>, state: &mut State, cause: Cause) {
        if state.is_removed {
            return;
        }
        let limits = &self.spec.limits;
        if let Some((field, _)) = self.spec.keeps() {
            if !state.admission.is_free(limits, cause.ns) {
                state.admission.folded += 1;
            } else if self.kept.mark(field.part.as_str(), &cause.key) {
                state.admission.take(limits, cause.ns);
            }
            return;
        }
        // An event that stopped the channel was let through by the limits when they armed it.
        let is_first = if self.on_path.freezes() { self.on_path.explain() } else { state.admission.is_free(limits, cause.ns) };
        if !is_first {
            state.admission.folded += 1;
            return;
        }
        state.unexplained = 0;
        state.admission.take(limits, cause.ns);
        let number = state.admission.fired;
        let lost = state.lost.iter().sum::<u64>() + state.matcher.forgotten;
        act::fire(self.clone(), cause, number, lost);
    }

    fn look_for_signal(self: &Arc<Self>) {
        let Condition::Signal(number, name) = &self.spec.condition else { return };
        let (count, ns) = signals::last(*number);
        let mut state = lock(&self.seen);
        let news = count.saturating_sub(std::mem::replace(&mut state.signals, count));
        if news > 0 {
            state.admission.folded += news - 1;
            self.fire(&mut state, Cause { ns, what: format!("signal {name}"), latency_ns: None, key: Key::All });
        }
    }
}

/// Fires the triggers whose signals came since the last call; for the consumer's thread. Returns whether any waits for one.
pub(crate) fn look_for_signals() -> bool {
    if !signals::are_counted() {
        return false;
    }
    for session in attach::sessions() {
        let triggers = lock(&session.triggers).clone();
        triggers.iter().for_each(|trigger| trigger.look_for_signal());
    }
    true
}

impl Source {
    /// Adds what the trigger does on the event path.
    pub(crate) fn on_path(&self, class: &EventClass, counts: &Arc<PerCpu>, conditional: Conditional) -> Option<Conditional> {
        self.trigger.on_path.add_to(&self.trigger.spec, class, counts, conditional)
    }

    /// A round of deliveries of this source has ended; everything before `now_ns` was in it.
    pub(crate) fn delivered(&self, now_ns: u64) {
        let trigger = &self.trigger;
        let mut state = lock(&trigger.seen);
        let sources = trigger.spec.condition.sources().len();
        state.horizons[self.index] = now_ns;
        let horizon = state.horizons[..sources].iter().min().copied().unwrap_or(0);
        if !trigger.spec.condition.is_local() {
            let mut causes = Vec::new();
            state.matcher.advance(&trigger.spec.condition, horizon, &mut |cause| causes.push(cause));
            causes.into_iter().for_each(|cause| trigger.fire(&mut state, cause));
        }
        if trigger.on_path.is_closed() {
            // The event comes within a round, unless the source lost it.
            state.unexplained += 1;
            if state.unexplained > 2 {
                let what = "an event that was lost to the trigger".to_owned();
                trigger.fire(&mut state, Cause { ns: now_ns, what, latency_ns: None, key: Key::All });
            }
        } else if state.admission.is_free(&trigger.spec.limits, now_ns) && !state.is_removed {
            trigger.on_path.arm();
        }
    }
}

/// The firings that somebody is to be told of.
struct Log {
    /// Number of the next one, from 1.
    next: u64,
    kept: VecDeque<(u64, Arc<Firing>)>,
}

static LOG: PerImage<Mutex<Log>> = PerImage::new(|| Mutex::new(Log { next: 1, kept: VecDeque::new() }));

/// In a forked child: nothing has happened yet.
pub(crate) fn renew() {
    LOG.renew();
    act::renew();
}

fn notify(firing: Firing) {
    let mut log = lock(LOG.get());
    let number = log.next;
    log.next += 1;
    log.kept.push_back((number, Arc::new(firing)));
    if log.kept.len() > MOST_FIRINGS {
        log.kept.pop_front();
    }
}

/// The number of the last firing that somebody was to be told of.
pub(crate) fn last_firing() -> u64 {
    lock(LOG.get()).next - 1
}

/// Those after the one of number `after`, with their numbers.
pub(crate) fn firings_after(after: u64) -> Vec<(u64, Arc<Firing>)> {
    lock(LOG.get()).kept.iter().filter(|(number, _)| *number > after).cloned().collect()
}

/// The time now, by the clock of a session's trace.
fn now_ns(session: &Recording) -> u64 {
    session.process.clock.now_ns()
}

/// Whether times of the session's records mean anything.
fn has_clock(session: &Recording) -> bool {
    session.channel.core.settings().clock != ClockKind::None
}

/// Nanoseconds from the Unix epoch.
fn time_ns(session: &Recording, ns: u64) -> u64 {
    let origin = session.process.clock.origin();
    (origin.offset_s as u64).wrapping_mul(1_000_000_000).wrapping_add(u64::from(origin.offset_ns)).wrapping_add(ns)
}
