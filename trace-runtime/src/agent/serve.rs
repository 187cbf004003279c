//! What the agent does for whom.

use super::admission::Door;
use super::aggregates;
use super::connection::Held;
use super::describe;
use super::diagnose;
use super::hits::Watched;
use super::modules;
use crate::attach;
use crate::builder::{Builder, Clock};
use crate::consumer;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::module::Module;
use crate::occasion::Occasion;
use crate::output::rotation::Rotation;
use crate::rcu::lock;
use crate::recording::Recording;
use crate::session::Session;
use crate::snapshot::{Receipt, Wanted};
use crate::sys;
use crate::trigger::{self, Firing};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use trace_control::protocol::{
    self as words, Changed, Diagnosis, Envelope, Firings, LONGEST_WATCH, Refusal, RefusalKind, Request, Rules, SessionPlan,
    SessionState, Snapshot, Triggered,
};

pub(super) type Answered = std::result::Result<Value, Refusal>;

/// How a request is answered.
pub(super) enum Reply {
    Now(Answered),
    Later(Waiting),
}

/// What an answer waits for.
pub(super) enum Waiting {
    /// The consumer's thread ends a recording.
    Consumer(Receiver<Result<()>>, Arc<Recording>),
    /// Events are counted.
    Watch(Watched, Instant),
    /// A trigger notifies, after the firing of this number.
    Firings(u64, Instant),
    /// A snapshot is written.
    Snapshot(Receiver<Result<Receipt>>, Arc<Recording>),
    /// A module is loaded or unloaded.
    Module(Receiver<Result<words::Module>>),
    /// Events are counted; what was found before comes in front.
    Why(Watched, Instant, Diagnosis),
}

impl Waiting {
    /// Returns the answer, or what to wait on for.
    pub(super) fn poll(self) -> std::result::Result<Answered, Waiting> {
        match self {
            Waiting::Consumer(receiver, recording) => match receiver.try_recv() {
                Ok(Ok(())) => Ok(value(&describe::session(&recording))),
                Ok(Err(error)) => Ok(Err(refusal(&error))),
                Err(TryRecvError::Empty) => Err(Waiting::Consumer(receiver, recording)),
                Err(TryRecvError::Disconnected) => {
                    Ok(Err(Refusal::new(RefusalKind::Off, "the consumer's thread of this process has ended")))
                }
            },
            Waiting::Snapshot(receiver, recording) => match receiver.try_recv() {
                Ok(Ok(receipt)) => Ok(value(&describe::receipt(&recording.name, receipt))),
                Ok(Err(error)) => Ok(Err(refusal(&error))),
                Err(TryRecvError::Empty) => Err(Waiting::Snapshot(receiver, recording)),
                Err(TryRecvError::Disconnected) => Ok(Err(Refusal::new(RefusalKind::Other, "the snapshot was not finished"))),
            },
            Waiting::Firings(after, until) if trigger::last_firing() > after || Instant::now() >= until => {
                Ok(value(&firings(after)))
            }
            Waiting::Module(receiver) => match receiver.try_recv() {
                Ok(Ok(module)) => Ok(value(&module)),
                Ok(Err(error)) => Ok(Err(refusal(&error))),
                Err(TryRecvError::Empty) => Err(Waiting::Module(receiver)),
                Err(TryRecvError::Disconnected) => Ok(Err(Refusal::new(RefusalKind::Other, "the module was left as it was"))),
            },
            Waiting::Watch(watched, until) if Instant::now() >= until => Ok(value(&watched.hits())),
            Waiting::Why(watched, until, mut found) if Instant::now() >= until => {
                diagnose::add_hits(&mut found, &watched.hits());
                Ok(value(&found))
            }
            waiting => Err(waiting),
        }
    }
}

fn firings(after: u64) -> Firings {
    let found = trigger::firings_after(after);
    let last = found.last().map_or(after, |(number, _)| *number);
    let describe = |(_, firing): &(u64, Arc<Firing>)| describe::firing(&firing.session, Firing::clone(firing));
    Firings { last, forgotten: last - after - found.len() as u64, firings: found.iter().map(describe).collect() }
}

pub(super) fn value(answer: &impl Serialize) -> Answered {
    serde_json::to_value(answer).map_err(|error| Refusal::new(RefusalKind::Other, error.to_string()))
}

pub(super) fn refusal(error: &Error) -> Refusal {
    let kind = match error {
        e if e.names_nothing() => RefusalKind::UnknownName,
        e if e.is_rule() => RefusalKind::Rule,
        e if e.is_session_exists() => RefusalKind::SessionExists,
        e if e.is_memory() => RefusalKind::Memory,
        e if e.is_io() => RefusalKind::Io,
        e if e.is_off() => RefusalKind::Off,
        e if e.is_busy() => RefusalKind::Busy,
        _ => RefusalKind::Other,
    };
    Refusal::new(kind, error.to_string())
}

/// A session that a forked child has of its parent, whose connection it ends with, is waited for so long.
const ADOPTION: Duration = Duration::from_secs(5);

/// What the agent knows of the sessions beside themselves.
pub(super) struct Sessions {
    door: Door,
    /// Those that end with a connection.
    bound: HashSet<String>,
    /// Those that end soon unless a connection takes them over.
    orphans: Vec<(String, Instant)>,
}

impl Sessions {
    pub(super) fn new(orphans: Vec<String>) -> Sessions {
        let until = Instant::now() + ADOPTION;
        let bound = orphans.iter().cloned().collect();
        Sessions { door: Door::default(), bound, orphans: orphans.into_iter().map(|name| (name, until)).collect() }
    }

    /// Ends the sessions that nobody took over in time.
    pub(super) fn end_orphans(&mut self) {
        let (over, waiting) = std::mem::take(&mut self.orphans).into_iter().partition(|(_, until)| *until <= Instant::now());
        self.orphans = waiting;
        let over: Vec<String> = Vec::into_iter(over).map(|(name, _)| name).collect();
        self.end_bound(&over);
    }

    /// Lets a session end with the connection that asks.
    fn bind(&mut self, name: &str, bound: &mut Vec<String>) -> Answered {
        let session = find(name).and_then(destroyable)?;
        let orphan = self.orphans.iter().position(|(orphan, _)| orphan == name);
        if orphan.is_none() && self.bound.contains(name) {
            let message = format!("the session `{name}` ends with another connection");
            return Err(Refusal::new(RefusalKind::Busy, message));
        }
        orphan.map(|at| self.orphans.remove(at));
        self.bound.insert(name.to_owned());
        bound.push(name.to_owned());
        value(&self.describe(&session))
    }

    /// Does what is asked. What is to end with the connection is added to `held`.
    pub(super) fn serve(&mut self, envelope: Envelope, held: &mut Held) -> Reply {
        let bound = &mut held.sessions;
        let request = match Request::of(envelope) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(Err(refusal)),
        };
        if !matches!(request, Request::Prove(_)) {
            if let Err(refusal) = self.door.admit(&held.visitor) {
                return Reply::Now(Err(refusal));
            }
        }
        let answer = match request {
            Request::Prove(proof) => self.door.prove(&mut held.visitor, &proof.secret).map(|()| Value::Object(Map::new())),
            Request::Hello => value(&describe::process()),
            Request::List => value(&describe::listing()),
            Request::Status => value(&describe::status(|session| self.describe(session))),
            Request::Create(plan) => self.create(*plan, bound),
            Request::Bind(name) => self.bind(&name.session, bound),
            Request::Enable(rules) => change(&rules, false),
            Request::Disable(rules) => change(&rules, true),
            Request::Start(name) => {
                find(&name.session).and_then(|s| s.start().map_err(|e| refusal(&e)).and_then(|()| value(&self.describe(&s))))
            }
            Request::Stop(name) => return later(find(&name.session), consumer::stop),
            Request::Destroy(name) => {
                self.bound.remove(&name.session);
                self.orphans.retain(|(orphan, _)| *orphan != name.session);
                bound.retain(|bound| *bound != name.session);
                return later(find(&name.session).and_then(destroyable), consumer::forget);
            }
            Request::Watch(watch) => match Watched::begin(&watch.rules) {
                Ok(watched) => {
                    let until = watched.begun() + Duration::from_millis(watch.ms.min(LONGEST_WATCH));
                    return Reply::Later(Waiting::Watch(watched, until));
                }
                Err(error) => Err(refusal(&error)),
            },
            Request::Why(why) => return self.why(&why.event, Duration::from_millis(why.ms.min(LONGEST_WATCH))),
            Request::Snapshot(wanted) => {
                return find(&wanted.session)
                    .and_then(|session| snapshot(session, wanted))
                    .map_or_else(|refusal| Reply::Now(Err(refusal)), Reply::Later);
            }
            Request::Trigger(wanted) => find(&wanted.session).and_then(|session| {
                let triggers = trigger::add(&session, &wanted.triggers).map_err(|e| refusal(&e))?;
                value(&Triggered { session: session.name.clone(), triggers, warnings: lock(&session.warnings).clone() })
            }),
            Request::Untrigger(wanted) => find(&wanted.session).and_then(|session| {
                trigger::remove(&session, &wanted.name).map_err(|e| refusal(&e))?;
                value(&Triggered { session: session.name.clone(), triggers: vec![wanted.name.clone()], warnings: Vec::new() })
            }),
            Request::Firings(wanted) => {
                // Whoever knows of more than there are knows another process.
                let after = wanted.after.unwrap_or(u64::MAX).min(trigger::last_firing());
                return Reply::Later(Waiting::Firings(
                    after,
                    Instant::now() + Duration::from_millis(wanted.ms.min(LONGEST_WATCH)),
                ));
            }
            Request::Named(wanted) => value(&words::Named { rules: describe::named(&wanted.rules) }),
            Request::Doctor => value(&diagnose::doctor()),
            Request::Modules => value(&words::Modules { modules: Module::loaded().iter().map(describe::module).collect() }),
            Request::LoadModule(wanted) => return modules::load(wanted),
            Request::UnloadModule(wanted) => return modules::unload(wanted),
            Request::Aggregate(wanted) => aggregates::begin(&wanted, &mut held.aggregations),
            Request::Aggregates(wanted) => aggregates::read(wanted.number, &held.aggregations),
        };
        Reply::Now(answer)
    }

    fn describe(&self, session: &Recording) -> SessionState {
        SessionState { bound: self.bound.contains(&session.name), ..describe::session(session) }
    }

    fn create(&mut self, plan: SessionPlan, bound: &mut Vec<String>) -> Answered {
        let is_bound = plan.bound;
        let session = builder(plan)?.for_agent().begin().map_err(|e| refusal(&e))?;
        crate::state::dump_aside(&session, None);
        if is_bound {
            bound.push(session.name.clone());
            self.bound.insert(session.name.clone());
        }
        value(&self.describe(&session))
    }

    /// Ends the sessions of a connection that has ended.
    pub(super) fn end_bound(&mut self, bound: &[String]) {
        for name in bound {
            self.bound.remove(name);
            // Without anybody who waits for it.
            let _ = find(name).map(|session| consumer::destroy(&session, false));
        }
    }

    fn why(&self, event: &str, time: Duration) -> Reply {
        let (probes, found) = diagnose::why(event);
        if probes.is_empty() {
            return Reply::Now(value(&found));
        }
        match Watched::of(probes.into_iter()) {
            Ok(watched) => {
                let until = watched.begun() + time;
                Reply::Later(Waiting::Why(watched, until, found))
            }
            Err(error) => Reply::Now(Err(refusal(&error))),
        }
    }
}

fn find(name: &str) -> std::result::Result<Arc<Recording>, Refusal> {
    let sessions = attach::sessions();
    sessions.iter().find(|s| s.name == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = sessions.iter().map(|s| s.name.as_str()).collect();
        let others = if names.is_empty() { "there is none".to_owned() } else { format!("there are: {}", names.join(", ")) };
        Refusal::new(RefusalKind::NoSession, format!("no session is called `{name}`; {others}"))
    })
}

/// A session that the program's own code holds ends when that lets it go.
fn destroyable(session: Arc<Recording>) -> std::result::Result<Arc<Recording>, Refusal> {
    if session.is_agents {
        return Ok(session);
    }
    let message =
        format!("the session `{}` belongs to the program's own code; it can be stopped, but not destroyed", session.name);
    Err(Refusal::new(RefusalKind::Other, message))
}

fn later(
    session: std::result::Result<Arc<Recording>, Refusal>,
    wish: impl FnOnce(&Arc<Recording>) -> Result<Receiver<Result<()>>>,
) -> Reply {
    let asked = session.and_then(|session| {
        let receiver = wish(&session).map_err(|e| refusal(&e))?;
        Ok(Waiting::Consumer(receiver, session))
    });
    asked.map_or_else(|refusal| Reply::Now(Err(refusal)), Reply::Later)
}

/// Begins a snapshot on a thread of its own: the agent has others to serve.
fn snapshot(session: Arc<Recording>, wanted: Snapshot) -> std::result::Result<Waiting, Refusal> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let recording = session.clone();
    let body = move || {
        sys::mark_thread_untraced();
        let last = wanted.last_ms.map(Duration::from_millis);
        let keep = wanted.keep.unwrap_or(recording.builder.keep);
        // Whoever asked may have gone.
        let _ = sender.send(recording.snapshot(Wanted { reason: &wanted.reason, last, keep }));
    };
    sys::spawn_with_signals_blocked(c"ringtrace-snap", body)
        .map_err(|error| Refusal::new(RefusalKind::Other, format!("cannot start a thread: {error}")))?;
    Ok(Waiting::Snapshot(receiver, session))
}

fn change(rules: &Rules, exclude: bool) -> Answered {
    let session = find(&rules.session)?;
    let change = session.change(&rules.rules, exclude).map_err(|e| refusal(&e))?;
    if !exclude {
        crate::state::dump_aside(&session, Some(rules.rules.clone()));
    }
    value(&Changed {
        session: session.name.clone(),
        recording: session.is_recording(),
        probes: change.probes,
        state_dumps: change.state_dumps,
        warnings: change.warnings,
    })
}

fn builder(plan: SessionPlan) -> std::result::Result<Builder, Refusal> {
    let bad = |message: String| Refusal::new(RefusalKind::BadRequest, message);
    let mut builder = Session::builder(&plan.session);
    for rules in &plan.rules {
        builder = builder.enable(rules);
    }
    for triggers in &plan.triggers {
        builder = builder.trigger(triggers);
    }
    if plan.overwrite {
        builder = builder.overwrite();
    }
    if let Some(bytes) = plan.memory {
        builder = builder.memory(bytes);
    }
    if let Some(bytes) = plan.sub_buffer {
        builder = builder.sub_buffer(bytes);
    }
    if let Some(path) = plan.rings {
        builder = builder.rings(path);
    }
    if let Some(names) = plan.context {
        builder = builder.context(Context::named(names.iter().map(String::as_str)).map_err(bad)?);
    }
    if let Some(name) = plan.clock {
        builder = builder.clock(Clock::named(&name).map_err(bad)?);
    }
    if let Some(name) = plan.format {
        builder = builder.format(name.parse().map_err(|error: trace_ctf::Error| bad(error.to_string()))?);
    }
    if plan.sensitive {
        builder = builder.sensitive();
    }
    if plan.follow {
        builder = builder.follow();
    }
    builder = builder.bound(plan.bound);
    for name in &plan.snapshot_on {
        builder = builder.save_on(Occasion::named(name).map_err(bad)?);
    }
    builder.rotation = Rotation { size: plan.rotate, time: plan.rotate_ms.map(Duration::from_millis), quota: plan.quota };
    if plan.external {
        builder = builder.consumed_elsewhere(plan.output);
    } else if let Some(path) = plan.output {
        builder = builder.output(path);
    }
    Ok(builder)
}
