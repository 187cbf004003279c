//! The trigger's thread: does what triggers that fired are to do.

use super::fired::Fired;
use super::grammar::Action;
use super::matching::Cause;
use super::{Firing, Saved, Trigger, has_clock, notify, now_ns, time_ns};
use crate::consumer::{self, Request};
use crate::error::{Error, Result};
use crate::per_image::PerImage;
use crate::rcu::lock;
use crate::recording::Recording;
use crate::report;
use crate::snapshot::{Receipt, Wanted};
use crate::sys;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trace_registry::tracepoint;

/// What the thread is asked for.
enum Job {
    Fire(Arc<Trigger>, Cause, u64, u64),
    /// End a recording, after what its triggers saw was acted on (TR-2).
    Pass(Arc<Recording>, Request),
}

static JOBS: PerImage<Mutex<Option<Sender<Job>>>> = PerImage::new(Mutex::default);

/// In a forked child: the thread is the parent's.
pub(super) fn renew() {
    JOBS.renew();
}

/// Starts the thread if it does not run.
pub(super) fn ensure_running() -> Result<()> {
    let mut jobs = lock(JOBS.get());
    if jobs.is_none() {
        let (sender, receiver) = channel();
        let body = move || {
            sys::mark_thread_untraced();
            Actor { jobs: receiver, queue: VecDeque::new(), pending: Vec::new() }.run();
        };
        sys::spawn_with_signals_blocked(c"ringtrace-trig", body)
            .map_err(|e| Error::io("cannot start the triggers' thread of", "this process", e))?;
        *jobs = Some(sender);
    }
    Ok(())
}

/// Has a firing acted on. Never waits (TR-1).
pub(super) fn fire(trigger: Arc<Trigger>, cause: Cause, number: u64, lost: u64) {
    if let Some(jobs) = &*lock(JOBS.get()) {
        let _ = jobs.send(Job::Fire(trigger, cause, number, lost));
    }
}

/// Passes a request to end `session` on by way of the thread. Returns it where the thread does not run.
pub(crate) fn pass(session: &Arc<Recording>, request: Request) -> Option<Request> {
    let jobs = lock(JOBS.get());
    let Some(jobs) = &*jobs else { return Some(request) };
    match jobs.send(Job::Pass(session.clone(), request)) {
        Ok(()) => None,
        Err(std::sync::mpsc::SendError(Job::Pass(_, request))) => Some(request),
        Err(_) => None,
    }
}

/// A firing of which not all actions are done.
struct Pending {
    trigger: Arc<Trigger>,
    session: Arc<Recording>,
    firing: Firing,
    /// The next action.
    next: usize,
    /// When that is to be done: a snapshot looks forward.
    due: Instant,
    /// Since when the channel stands still.
    frozen: Option<u64>,
}

struct Actor {
    jobs: Receiver<Job>,
    /// Jobs that were put off.
    queue: VecDeque<Job>,
    pending: Vec<Pending>,
}

impl Actor {
    fn run(mut self) {
        loop {
            let job = match self.queue.pop_front() {
                Some(job) => Ok(job),
                None => match self.pending.iter().map(|p| p.due).min() {
                    Some(due) => self.jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
                    None => self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                },
            };
            match job {
                Ok(Job::Fire(trigger, cause, number, lost)) => self.begin(trigger, cause, number, lost),
                Ok(Job::Pass(session, request)) => self.pass(&session, request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.go_on(None);
        }
    }

    /// Acts on what the triggers of a session see until now, then lets it end.
    fn pass(&mut self, session: &Arc<Recording>, request: Request) {
        let _ = consumer::request(|reply| Request::Follow(session.clone(), reply));
        while let Ok(job) = self.jobs.try_recv() {
            match job {
                Job::Fire(trigger, cause, number, lost) => self.begin(trigger, cause, number, lost),
                later => self.queue.push_back(later),
            }
        }
        self.go_on(Some(session));
        let _ = consumer::send(request);
    }

    fn begin(&mut self, trigger: Arc<Trigger>, cause: Cause, number: u64, lost: u64) {
        let Some(session) = trigger.session.upgrade() else { return };
        let now = now_ns(&session);
        let mut firing = Firing {
            session: trigger.session_name.clone(),
            trigger: trigger.name.clone(),
            number,
            at_ns: cause.ns,
            time_ns: time_ns(&session, cause.ns),
            what: cause.what,
            message: None,
            delay_ns: now.saturating_sub(cause.ns),
            lost,
            frozen_ns: None,
            saved: None,
            failures: Vec::new(),
        };
        let mut frozen = None;
        if trigger.on_path.freezes() {
            frozen = Some(cause.ns);
        } else if trigger.spec.freezes() && session.is_recording() {
            // What correlates events knows it only now.
            trigger.on_path.freeze();
            frozen = Some(now);
        }
        record(&session, &trigger, &mut firing);
        self.pending.push(Pending { trigger, session, firing, next: 0, due: Instant::now(), frozen });
    }

    /// Goes on with those whose time has come, and with those of a session that is ending.
    fn go_on(&mut self, ending: Option<&Arc<Recording>>) {
        for mut pending in std::mem::take(&mut self.pending) {
            let has_to = ending.is_some_and(|session| Arc::ptr_eq(&pending.session, session));
            if (has_to || pending.due <= Instant::now()) && pending.act(has_to) {
                pending.finish();
            } else {
                self.pending.push(pending);
            }
        }
    }
}

impl Pending {
    /// Does one action after the other. Returns false where one has to wait; with `now`, none has to.
    fn act(&mut self, now: bool) -> bool {
        let trigger = self.trigger.clone();
        while let Some(action) = trigger.spec.actions.get(self.next) {
            if let Action::Snapshot { after, .. } = action {
                let since = now_ns(&self.session).saturating_sub(self.firing.at_ns);
                let left = after.saturating_sub(Duration::from_nanos(since));
                if !left.is_zero() && !now {
                    self.due = Instant::now() + left;
                    return false;
                }
            }
            self.next += 1;
            if let Err(error) = self.do_one(action) {
                self.firing.failures.push(error.to_string());
            }
        }
        true
    }

    fn do_one(&mut self, action: &Action) -> Result<()> {
        match action {
            Action::Snapshot { before, after, .. } => {
                let saved = save(&self.session, &self.firing, *before, *after)?;
                self.firing.saved = Some(saved);
            }
            Action::Stop => consumer::request(|reply| Request::Stop(self.session.clone(), reply))?,
            Action::Start => {
                self.session.start()?;
                record(&self.session, &self.trigger, &mut self.firing);
            }
            Action::Enable(rules) => drop(self.session.change(&rules.part, false)?),
            Action::Disable(rules) => drop(self.session.change(&rules.part, true)?),
            Action::Keep { .. } => {} // done when it was seen
            Action::Notify(message) => {
                self.firing.message = Some(message.clone());
                notify(self.firing.clone());
            }
        }
        Ok(())
    }

    /// All is done: lets the channel go on, and keeps the receipt.
    fn finish(mut self) {
        if let Some(since) = self.frozen {
            self.firing.frozen_ns = Some(now_ns(&self.session).saturating_sub(since));
            self.session.thaw();
            self.trigger.on_path.reopen();
        }
        for failure in &self.firing.failures {
            let Firing { session, trigger, .. } = &self.firing;
            report::say(format_args!("trigger {trigger} of session {session}: {failure}"));
        }
        lock(&self.trigger.seen).last = Some(self.firing);
    }
}

/// Leaves the firing in the session's rings, if it records, and also where they stand still.
fn record(session: &Arc<Recording>, trigger: &Trigger, firing: &mut Firing) {
    if !session.is_recording() {
        return;
    }
    let channel = &session.channel;
    let target = channel.target(trigger.event_id, channel.core.generation(), super::fired::least()); // CH-1: `session` holds it
    let event = Fired {
        trigger: &firing.trigger,
        number: firing.number,
        at_ns: firing.at_ns,
        delay_ns: firing.delay_ns,
        lost: firing.lost,
        what: &firing.what,
    };
    sys::while_traced(|| tracepoint::within(|| target.record(&event)));
}

/// Takes the snapshot of a firing, and finds how much of what was promised it holds.
fn save(session: &Arc<Recording>, firing: &Firing, before: Option<Duration>, after: Duration) -> Result<Saved> {
    let reason = format!("trigger {}", firing.trigger);
    let begun = now_ns(session);
    let elapsed = Duration::from_nanos(begun.saturating_sub(firing.at_ns));
    // Without times in the records, all of them.
    let last = before.filter(|_| has_clock(session)).map(|before| before.saturating_add(elapsed));
    let receipt: Receipt = session.snapshot(Wanted { reason: &reason, last, keep: session.builder.keep })?;
    let age = u64::try_from(session.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let lapped = receipt.rings.iter().filter(|ring| ring.was_lapped).map(|ring| ring.begin_ns).max();
    let oldest = lapped.unwrap_or(0).max(begun.saturating_sub(age));
    let before_ns = before.map(|before| u64::try_from(before.as_nanos()).unwrap_or(u64::MAX));
    let covered = firing.at_ns.saturating_sub(oldest);
    Ok(Saved {
        receipt,
        before_ns,
        covered_before_ns: before_ns.map_or(covered, |before| before.min(covered)),
        after_ns: u64::try_from(after.as_nanos()).unwrap_or(u64::MAX),
        covered_after_ns: begun.saturating_sub(firing.at_ns),
        has_moment: oldest <= firing.at_ns,
    })
}
