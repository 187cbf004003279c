//! Events for tests: what a piece of code records, as values, without a session, rings or files.
#![expect(unsafe_code, reason = "targets reach their memory by address")]

mod events;
mod inside;
mod value;

pub use events::{Event, Events, Of};
pub use inside::Inside;
pub use value::{FromValue, Value};

use crate::attach::{self, NamedProbe, Watch};
use crate::rcu::{self, lock};
use crate::rule::Rule;
use events::Raw;
use std::cell::Cell;
use std::future::Future;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trace_registry::condition::Conditional;
use trace_registry::field::{Finished, Piece};
use trace_registry::probe::{Functions, Loss, Target};
use trace_registry::sync::{AtomicU64, Ordering};

/// Runs `run`, and returns what it recorded of what `rules` match: events of this thread, and of threads that
/// [entered](Handle::enter) a [`handle`] of this recording. Other threads may record the same events meanwhile, and other tests
/// do; they are not in here.
///
/// Where a test fails, the events are printed: when `run` panics, and when a test panics that has them.
///
/// # Panics
///
/// Rules that are wrong, or tracing that is switched off; and whatever `run` panics with.
///
/// # Signal safety
///
/// For tests only: recording an event allocates, and takes a lock. An event inside of that, of a traced allocator, is counted as
/// [lost](Events::lost).
#[track_caller]
pub fn record<R>(rules: &str, run: impl FnOnce() -> R) -> Events {
    let recording = Recording::begin(rules);
    let entered = recording.handle().enter();
    run();
    drop(entered);
    recording.end()
}

/// The same for asynchronous code: what `run` recorded, on whatever threads it was polled. Tasks that it spawns take part if they
/// are [carried](Handle::carry).
///
/// # Panics
///
/// As for [`record`].
#[track_caller]
pub fn record_async<F: Future>(rules: &str, run: F) -> impl Future<Output = Events> + use<F> {
    let recording = Recording::begin(rules);
    let run = recording.handle().carry(run);
    async move {
        run.await;
        recording.end()
    }
}

/// Returns a handle of the recording that this thread is in, for other threads.
///
/// # Panics
///
/// The thread is in none.
#[must_use]
#[track_caller]
pub fn handle() -> Handle {
    let current = CURRENT.with(|current| current.borrow().clone());
    Handle(current.expect("`ringtrace::test::handle` is called inside of `record`, or of a thread that entered a handle"))
}

/// A recording for tests, which threads may enter.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Memory>);

impl Handle {
    /// What this thread records belongs to the recording, until the guard is dropped.
    #[must_use = "the thread leaves when the guard is dropped"]
    pub fn enter(&self) -> EnterGuard {
        let before = CURRENT.with(|current| current.replace(Some(self.0.clone())));
        ADDRESS.set(Arc::as_ptr(&self.0));
        EnterGuard { before, here: std::marker::PhantomData }
    }

    /// The future, in the recording wherever it is polled, and where it is dropped: for tasks that are spawned.
    pub fn carry<F: Future>(&self, future: F) -> Inside<F> {
        Inside::new(self.clone(), future)
    }
}

/// A thread is in a recording until this is dropped.
#[derive(Debug)]
pub struct EnterGuard {
    before: Option<Arc<Memory>>,
    /// Of this thread.
    here: std::marker::PhantomData<*const ()>,
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        let before = self.before.take();
        ADDRESS.set(before.as_ref().map_or(std::ptr::null(), Arc::as_ptr));
        let _ = CURRENT.try_with(|current| current.replace(before));
    }
}

thread_local! {
    static CURRENT: std::cell::RefCell<Option<Arc<Memory>>> = const { std::cell::RefCell::new(None) };
    /// Where that is: what an event is compared with. Without a destructor, so that it is there for any event.
    static ADDRESS: Cell<*const Memory> = const { Cell::new(std::ptr::null()) };
    /// Whether this thread is recording an event.
    static RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// What one recording keeps.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    events: Mutex<Vec<Raw>>,
    lost: AtomicU64,
}

/// Where one probe's events go.
struct Watcher {
    memory: Arc<Memory>,
    named: &'static NamedProbe,
    rule: Rule,
}

/// Most bytes of an event's payload.
const LIMIT: u32 = 32 << 10;

impl Watch for Watcher {
    fn conditional(&self) -> Conditional {
        let functions = Functions { words: None, tail: None, pieces: append, lose };
        let (own, least) = ([MaybeUninit::uninit(); 8], self.named.probe.least);
        // SAFETY: the functions may be called from any thread; the watcher outlives the lists that name it by a grace period.
        let target = unsafe { Target::new(functions, own, std::ptr::from_ref(self).cast(), LIMIT, least, false) };
        let made = |class| self.rule.progress.as_ref()?.made(&self.rule, class, false).ok();
        match (&self.rule.progress, self.named.probe.class.and_then(made)) {
            (Some(progress), Some(made)) if self.rule.is_conditional() => progress.conditional(&made, target),
            _ => Conditional::always(target),
        }
    }
}

/// Probes that are attached for a recording.
struct Recording {
    memory: Arc<Memory>,
    watchers: Vec<(&'static NamedProbe, Arc<dyn Watch>)>,
    /// What is questionable about the rules.
    warnings: Vec<String>,
}

impl Recording {
    #[track_caller]
    fn begin(rules: &str) -> Recording {
        match Recording::of(rules) {
            Ok(recording) => recording,
            Err(error) => panic!("ringtrace::test::record: {error}"),
        }
    }

    fn of(rules: &str) -> crate::Result<Recording> {
        crate::process::current()?;
        crate::consumer::ensure_running()?;
        let mut warnings = Vec::new();
        let rules = attach::rules(rules, false, false, false, &mut warnings)?;
        let memory = Arc::new(Memory::default());
        let watcher = |named: &'static NamedProbe| {
            let rule = attach::deciding(&rules, named)?.clone();
            named.probe.class?;
            let watcher: Arc<dyn Watch> = Arc::new(Watcher { memory: memory.clone(), named, rule });
            Some((named, watcher))
        };
        let watchers: Vec<_> = attach::probes().filter_map(watcher).collect();
        // Many recordings in a row leave lists behind faster than grace periods end.
        while rcu::admit().is_err() {
            crate::consumer::hurry();
            std::thread::sleep(Duration::from_millis(1));
        }
        attach::control().watch(&watchers);
        Ok(Recording { memory, watchers, warnings })
    }

    fn handle(&self) -> Handle {
        Handle(self.memory.clone())
    }

    fn end(mut self) -> Events {
        self.events()
    }

    fn events(&mut self) -> Events {
        let events = std::mem::take(&mut *lock(&self.memory.events));
        Events::new(events, self.memory.lost.load(Ordering::Relaxed), std::mem::take(&mut self.warnings))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        attach::control().unwatch(std::mem::take(&mut self.watchers));
        if std::thread::panicking() {
            // `run` panicked: `Events` prints itself.
            drop(self.events());
        }
    }
}

/// Takes an event, if this thread is in the recording.
///
/// # Safety
///
/// As for the functions of a target: the list that holds it is being read.
unsafe extern "C" fn append(target: *const Target, pieces: NonNull<Piece>, count: usize, total: usize) -> u8 {
    // SAFETY: the caller's duty; the channel is the watcher that made the target.
    let watcher = unsafe { &*(*target).channel().cast::<Watcher>() };
    if ADDRESS.get() != Arc::as_ptr(&watcher.memory) {
        return 0;
    }
    if RECORDING.replace(true) {
        watcher.memory.lost.fetch_add(1, Ordering::Relaxed);
        return 0;
    }
    // SAFETY: the caller's duty.
    let finished = unsafe { Finished::from_raw(pieces, count, total) };
    let bytes = finished.to_bytes();
    let tid = crate::process::thread_id();
    lock(&watcher.memory.events).push(Raw { named: watcher.named, bytes, tid, time_ns: crate::clock::Clock::process().now_ns() });
    RECORDING.set(false);
    0
}

/// # Safety
///
/// As for [`append`].
unsafe fn lose(target: &Target, loss: Loss) {
    // SAFETY: as above.
    let watcher = unsafe { &*target.channel().cast::<Watcher>() };
    if ADDRESS.get() == Arc::as_ptr(&watcher.memory) && loss != Loss::Cut {
        watcher.memory.lost.fetch_add(1, Ordering::Relaxed);
    }
}
