//! The consumer's thread: delivers, reclaims, detaches probes that panicked, refines the clock.
//!
//! One thread for the process, all signals blocked, never traced itself. It polls: often while rings fill fast, a hundred times a
//! second for some seconds after they did or recording began, and at most ten times a second when nothing happens. Writers never
//! wake it: what comes all at once after a long quiet time, a ring must hold for a tenth of a second.
//!
//! # Invariants
//!
//! - CO-1: Only this thread reads rings and moves their `consumed` positions.
//! - CO-2: It holds neither the control lock nor a delivery lock while it waits for a grace period (WR-2), and waits for none
//!   without limit.
//! - CO-3: It alone waits for outputs, which may hang, and then holds no lock but that delivery's. Nobody who holds the control lock,
//!   or the dynamic linker's, waits for a disk or for a delivery lock; other threads of the program wait for a moment, except where
//!   they ask for the end of a recording or for a trace: `start`, `stop`, `snapshot`, `keep`.

use crate::attach::{self, NamedProbe};
use crate::error::{Error, Kind, Result};
use crate::follow;
use crate::per_image::PerImage;
use crate::process;
use crate::provider;
use crate::rcu::{self, Reclaimer, lock};
use crate::recording::Recording;
use crate::report;
use crate::sys;
use crate::threads;
use crate::trigger;
use rustix::thread::futex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trace_registry::sync::{AtomicBool, AtomicU32, Ordering};

/// What other threads ask of the consumer's.
pub(crate) enum Request {
    /// End the recording of a session and deliver it.
    Stop(Arc<Recording>, Sender<Result<()>>),
    /// The same, then forget the session.
    Destroy(Arc<Recording>, Option<Sender<Result<()>>>),
    /// Deliver what the triggers of a session wait for, up to now.
    Follow(Arc<Recording>, Sender<Result<()>>),
    /// Describe to the output of a session what it has not yet.
    Describe(Arc<Recording>, Sender<Result<()>>),
    /// Run a round now.
    Hurry,
}

/// Thread ID of the consumer's thread.
static THREAD: AtomicU32 = AtomicU32::new(0);

/// Whether the calling thread is the consumer's, which runs destructors of what closures captured.
pub(crate) fn is_this_thread() -> bool {
    // Relaxed: only that thread finds its own number.
    THREAD.load(Ordering::Relaxed) == sys::gettid()
}

static REQUESTS: PerImage<Mutex<Option<Sender<Request>>>> = PerImage::new(Mutex::default);

/// Leaves the parent's thread behind; for a forked child.
pub(crate) fn renew() {
    REQUESTS.renew();
}

/// Starts the thread if it does not run.
pub(crate) fn ensure_running() -> Result<()> {
    let mut requests = lock(REQUESTS.get());
    if requests.is_none() {
        let (sender, receiver) = channel();
        let body = move || {
            sys::mark_thread_untraced();
            THREAD.store(sys::gettid(), Ordering::Relaxed);
            let _end = AtEnd;
            sleep();
            Consumer::new(receiver).run();
        };
        sys::spawn_with_signals_blocked(c"ringtrace", body)
            .map_err(|e| Error::io("cannot start the consumer's thread of", "this process", e))?;
        *requests = Some(sender);
        run_at_exit();
    }
    Ok(())
}

/// 1 while the thread of a followed child sleeps, from its start to the child's first event, or to the first request.
static ASLEEP: AtomicU32 = AtomicU32::new(0);

/// Has the thread begin asleep, or awake; for a forked child, before the thread starts.
pub(crate) fn set_asleep(is_asleep: bool) {
    ASLEEP.store(is_asleep.into(), Ordering::Relaxed);
}

/// Whether it sleeps: nothing was recorded since this process was forked.
pub(crate) fn is_asleep() -> bool {
    // Acquire: pairs with the Release in `wake`.
    ASLEEP.load(Ordering::Acquire) != 0
}

/// Wakes the thread where it sleeps.
///
/// # Signal safety
///
/// Async-signal-safe; one system call at most, which leaves `errno` as it was.
pub(crate) fn wake() {
    // Relaxed: a hint. Release: what it is woken for comes before.
    if ASLEEP.load(Ordering::Relaxed) != 0 && ASLEEP.swap(0, Ordering::Release) != 0 {
        let _ = futex::wake(&ASLEEP, futex::Flags::PRIVATE, 1);
    }
}

fn sleep() {
    while is_asleep() {
        // Woken for nothing, it looks again.
        let _ = futex::wait(&ASLEEP, futex::Flags::PRIVATE, 1, None);
    }
}

/// Delivers all at the end of the process, by the thread, which is started then if it does not run.
pub(crate) fn run_at_exit() {
    static IS_SET: AtomicBool = AtomicBool::new(false);
    // Relaxed: it decides only who calls. A forked child has its parent's handlers.
    if !IS_SET.swap(true, Ordering::Relaxed) {
        sys::at_exit(stop_all);
    }
}

/// If the thread ends, which only a bug makes it do, nothing is recorded any more, rather than recorded for nobody.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        *lock(REQUESTS.get()) = None;
        attach::recordings().iter().for_each(|s| s.switch_off());
    }
}

/// Sends a request.
pub(crate) fn send(request: Request) -> Result<()> {
    let sent = lock(REQUESTS.get()).as_ref().is_some_and(|r| r.send(request).is_ok());
    wake();
    if sent { Ok(()) } else { Err(Kind::Off("its consumer's thread has ended").into()) }
}

/// Sends a request and waits for the answer.
pub(crate) fn request(make: impl FnOnce(Sender<Result<()>>) -> Request) -> Result<()> {
    let (reply, answer) = channel();
    send(make(reply))?;
    wait(answer)
}

/// The same, for at most `limit`: without an answer until then, the request was granted, as far as is known.
pub(crate) fn request_within(limit: Duration, make: impl FnOnce(Sender<Result<()>>) -> Request) -> Result<()> {
    let (reply, answer) = channel();
    send(make(reply))?;
    answer.recv_timeout(limit).unwrap_or(Ok(()))
}

/// Waits for an answer.
pub(crate) fn wait(answer: Receiver<Result<()>>) -> Result<()> {
    answer.recv().unwrap_or_else(|_| Err(Kind::Off("its consumer's thread has ended").into()))
}

/// Has a session ended by a request, after what its triggers saw was acted on (TR-2).
fn end(session: &Arc<Recording>, request: Request) -> Result<()> {
    let request = if trigger::may_pass(session) { trigger::act::pass(session, request) } else { Some(request) };
    request.map_or(Ok(()), send)
}

/// Has the recording of a session ended. The answer comes by the channel that is returned.
pub(crate) fn stop(session: &Arc<Recording>) -> Result<Receiver<Result<()>>> {
    let (reply, answer) = channel();
    end(session, Request::Stop(session.clone(), reply))?;
    Ok(answer)
}

/// The same, and has it forgotten.
pub(crate) fn forget(session: &Arc<Recording>) -> Result<Receiver<Result<()>>> {
    let (reply, answer) = channel();
    end(session, Request::Destroy(session.clone(), Some(reply)))?;
    Ok(answer)
}

/// Whether the thread runs. Nothing was ever attached before it did.
pub(crate) fn is_running() -> bool {
    lock(REQUESTS.get()).is_some()
}

/// Whether the process ends.
pub(crate) fn is_ending() -> bool {
    // Relaxed: of use to the thread that ends the process.
    ENDING.load(Ordering::Relaxed)
}

static ENDING: AtomicBool = AtomicBool::new(false);

/// Makes the thread run a round without delay, and the next ones soon.
pub(crate) fn hurry() {
    // Without the thread there is nothing to hurry, nor while it sleeps.
    if !is_asleep() {
        let _ = send(Request::Hurry);
    }
}

/// Ends a session, and waits for that if `wait`.
pub(crate) fn destroy(session: &Arc<Recording>, wait: bool) {
    if let (Ok(answer), true) = (forget(session), wait) {
        // The thread reports a failure of the output itself.
        let _ = answer.recv();
    }
}

/// At the end of the process: what is recorded is delivered, whoever still holds the sessions.
extern "C" fn stop_all() {
    ENDING.store(true, Ordering::Relaxed);
    if follow::is_child() || process::get().is_none() {
        return;
    }
    if is_asleep() || follow::is_being_made() {
        return; // a followed child that recorded nothing, and made nothing that would be left
    }
    if process::may_wait("").is_err() {
        if attach::recordings().iter().any(|recording| recording.announced_path().is_some()) {
            report::say_at_once(INSIDE);
        }
        return;
    }
    let sessions = attach::sessions();
    if !sessions.is_empty() && ensure_running().is_err() {
        return; // the rings stay for `ringtrace recover`
    }
    for session in sessions.iter() {
        destroy(session, true);
        // A followed child without an event has no trace, and one that was removed is none.
        let may_lack_it = session.builder.heir.is_some() || session.failure().is_some();
        if let Some(path) = session.announced_path().filter(|path| !may_lack_it || path.exists()) {
            let saved = session.saved().map_or_else(String::new, |saved| format!("; {saved}"));
            report::say(format_args!("{} in {}{saved}", session.statistics(), path.display()));
        }
    }
}

const INSIDE: &[u8] =
    b"ringtrace: the process ends inside of a probe, or its thread has left one by longjmp(3): what is not in the \
    trace yet stays in the rings, for `ringtrace recover`\n";

/// Intervals between rounds.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(100);
/// The longest while there are triggers: so late they may be.
const TRIGGERED: Duration = Duration::from_millis(5);
/// The longest interval for so long after there was something to deliver, or somebody asked for a round: who fires much often
/// does so again.
const LONGEST_SOON: Duration = Duration::from_millis(10);
const SOON: Duration = Duration::from_secs(5);
/// What is committed is delivered at least so often.
const PERIOD: Duration = Duration::from_secs(1);
/// So long a probe that runs when a session is stopped may take to return.
const PATIENCE: Duration = Duration::from_secs(2);

struct Consumer {
    requests: Receiver<Request>,
    reclaimer: Reclaimer,
    interval: Duration,
    next_round: Instant,
    /// When there was something to deliver, or somebody asked for a round.
    last_busy: Instant,
    next_cut: Instant,
    /// When the clock is to be compared with the operating system's again.
    next_refinement: Instant,
    panics: u64,
    names: threads::Lookout,
}

impl Consumer {
    fn new(requests: Receiver<Request>) -> Consumer {
        let now = Instant::now();
        Consumer {
            requests,
            reclaimer: Reclaimer::default(),
            interval: SHORTEST,
            next_round: now,
            last_busy: now,
            next_cut: now + PERIOD,
            next_refinement: now + Duration::from_millis(10),
            panics: 0,
            names: threads::Lookout::default(),
        }
    }

    fn run(mut self) {
        // What a process that loaded us late could not do early without delay.
        if sys::register_membarrier() {
            process::use_sequences();
        }
        loop {
            follow::awaken();
            // Rounds come when they are due, however many requests there are.
            match self.requests.recv_timeout(self.next_round.saturating_duration_since(Instant::now())) {
                Ok(Request::Stop(session, reply)) => {
                    // Whoever asked may have gone.
                    let _ = reply.send(self.stop(&session));
                }
                Ok(Request::Destroy(session, reply)) => {
                    let result = self.destroy(session);
                    if let Some(reply) = reply {
                        let _ = reply.send(result);
                    }
                }
                Ok(Request::Follow(session, reply)) => {
                    trigger::sources(&session).iter().filter(|s| s.is_recording()).for_each(|s| _ = s.round(true));
                    let _ = reply.send(Ok(()));
                }
                Ok(Request::Describe(session, reply)) => {
                    let _ = reply.send(lock(&session.delivery).describe());
                }
                Ok(Request::Hurry) => {
                    let now = Instant::now();
                    (self.interval, self.next_round, self.last_busy) = (SHORTEST, now, now);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= self.next_round {
                self.round();
                self.next_round = Instant::now() + self.interval;
            }
        }
    }

    fn round(&mut self) {
        let cut = Instant::now() >= self.next_cut;
        if cut {
            self.next_cut = Instant::now() + PERIOD;
        }
        let mut fullness = 0;
        let mut longest = LONGEST;
        let recordings = attach::recordings();
        let recording = || recordings.iter().filter(|s| s.is_recording());
        if recording().next().is_some() {
            self.names.look();
        }
        for session in recording() {
            session.take_lost();
            session.tick(Instant::now());
            session.catch_up();
            let is_source = session.source().is_some();
            if is_source {
                longest = TRIGGERED;
            }
            fullness = fullness.max(session.round(cut || is_source).fullness);
        }
        attach::tick(Instant::now());
        if trigger::look_for_signals() {
            longest = TRIGGERED;
        }
        let now = Instant::now();
        if fullness > 0 {
            self.last_busy = now;
        }
        if now.duration_since(self.last_busy) < SOON {
            longest = longest.min(LONGEST_SOON);
        }
        self.interval = match fullness {
            64.. => self.interval / 4,
            16.. => self.interval / 2,
            _ => self.interval * 2,
        }
        .clamp(SHORTEST, longest);
        self.detach_panicked();
        follow::tell_of_the_unmade();
        self.reclaimer.round();
        if let Some(process) = process::get().filter(|_| Instant::now() >= self.next_refinement) {
            self.next_refinement = Instant::now() + process.clock.refine();
        }
    }

    fn detach_panicked(&mut self) {
        let panics = trace_registry::read_side::panics().load(Ordering::Relaxed);
        if panics == self.panics {
            return;
        }
        self.panics = panics;
        let (probes, (closures, of_closures)) = {
            let mut control = attach::control();
            (control.detach_panicked(), control.detach_panicked_closures())
        };
        let of_probe =
            |probe: &&NamedProbe| format!("the probe {} ({}) panicked; it is detached", probe.name, probe.probe.location);
        rcu::retire(Box::new(closures)); // CL-2
        for text in probes.iter().map(of_probe).chain(of_closures).chain(provider::panicked()) {
            report::say(format_args!("{text}"));
            attach::sessions().iter().for_each(|s| s.warn(text.clone()));
        }
    }

    /// Ends a recording: closes the gates, waits for the events under way, delivers the rest.
    fn stop(&mut self, session: &Recording) -> Result<()> {
        if !session.is_recording() {
            return session.failure().map_or(Ok(()), Err);
        }
        session.is_stopping.store(true, Ordering::Relaxed);
        session.switch_off();
        let quiet = self.reclaimer.synchronize(PATIENCE);
        session.take_lost();
        session.finish(quiet);
        session.is_stopping.store(false, Ordering::Relaxed);
        match session.failure() {
            Some(failure) => Err(failure),
            None if quiet => Ok(()),
            None => Err(Kind::Stuck(session.name.clone(), PATIENCE.as_secs()).into()),
        }
    }

    fn destroy(&mut self, session: Arc<Recording>) -> Result<()> {
        let result = self.stop(&session);
        for source in trigger::take_all(&session) {
            // What it lost is told with its trigger's firings.
            let _ = self.destroy(source);
        }
        attach::control().remove(&session);
        let failed = session.failure().is_some();
        if !failed && !session.is_held_elsewhere() {
            session.remove_files();
        } else {
            // Whoever consumes the rings drains and removes them, or they are recovered.
            if !result.as_ref().is_err_and(Error::is_stuck) && self.reclaimer.synchronize(PATIENCE) {
                session.leave_files();
            }
            match session.rings_path().filter(|_| failed) {
                Some(path) => {
                    report::say(format_args!("what could not be written of {} is kept in {}", session.name, path.display()));
                }
                None if failed => session.give_up(),
                None => {}
            }
        }
        lock(&session.delivery).close();
        // CH-1: lists that name the channel may still be read: it goes when they do.
        rcu::retire(Box::new(session));
        result
    }
}
