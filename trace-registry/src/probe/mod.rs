//! Probes: their descriptors, the list that a gate points to, and what a probe may return.
//!
//! | Room | Does |
//! | --- | --- |
//! | `record` | an event on its way from a probe to its targets |
#![expect(unsafe_code, reason = "lists are reached by address, and probe functions are stored without their type")]

mod record;

pub use record::ProbeOutput;

use crate::closure::Attached;
use crate::condition::Conditional;
use crate::event::{Event, EventClass};
use crate::field::{FieldDescriptor, MAX_TAIL, Piece};
use crate::level::Level;
use crate::name::Name;
use crate::site::Site;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use crate::tracepoint::{Location, Promise, Tracepoint, TracepointDescriptor};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use record::{record, refuse_tail, tail_in_pieces, words_in_pieces};

/// A probe function without its type; TP-2 says which type it has.
pub type ErasedProbe = *const ();

/// What is known about a probe without running it.
///
/// # Promise
///
/// What `function` returns is of the probe type of `tracepoint` (TP-2); or of a site's, an identity of SI-1; or null.
pub struct ProbeDescriptor {
    /// Returns the tracepoint it is written for.
    pub tracepoint: fn() -> &'static TracepointDescriptor,
    /// Its own name, where it does not go by the tracepoint's.
    pub name: Option<Name>,
    /// Severity of its events.
    pub level: Level,
    /// Class of its events; `None`: it records nothing (an action).
    pub class: Option<&'static EventClass>,
    /// Least bytes of an event's payload.
    pub least: usize,
    /// Where it is written.
    pub location: Location,
    /// The module in which it is written, as `module_path!()` says.
    pub module_path: &'static str,
    /// The probe's function, typed by its tracepoint.
    pub function: fn() -> ErasedProbe,
    /// How often it panicked.
    pub panics: AtomicU64,
    /// Values of a traced function that its events lack, because their types are no fields.
    pub skipped: &'static [FieldDescriptor],
    /// See above.
    #[doc(hidden)]
    pub promise: Promise,
}

static_assertions::assert_impl_all!(ProbeDescriptor: Send, Sync);

impl ProbeDescriptor {
    /// Describes a probe of `T` that returns `O`.
    #[doc(hidden)]
    pub const fn of<T: Tracepoint, O: ProbeOutput>(
        name: Option<Name>,
        level: Level,
        location: Location,
        module_path: &'static str,
        function: fn() -> ErasedProbe,
        promise: Promise,
    ) -> ProbeDescriptor {
        ProbeDescriptor {
            tracepoint: T::descriptor,
            name,
            level,
            class: O::CLASS,
            least: O::LEAST,
            location,
            module_path,
            function,
            panics: AtomicU64::new(0),
            skipped: &[],
            promise,
        }
    }

    /// Describes what a site records as events `E`.
    pub(crate) fn of_site<S: Site, E: Event>(
        name: Name,
        level: Level,
        skipped: &'static [FieldDescriptor],
        identity: fn() -> ErasedProbe,
    ) -> ProbeDescriptor {
        ProbeDescriptor {
            tracepoint: S::descriptor,
            name: Some(name),
            level,
            class: Some(E::DESCRIPTION),
            least: E::SIZES.least,
            location: S::LOCATION,
            module_path: S::MODULE,
            function: identity,
            panics: AtomicU64::new(0),
            skipped,
            // SAFETY: the duty of `Site`: the gate is of that site, whose emitters call no entry but compare its identity (SI-1).
            promise: unsafe { Promise::given() },
        }
    }

    /// Returns the name that rules match and traces carry.
    pub fn name(&self) -> Name {
        self.name.unwrap_or_else(|| (self.tracepoint)().name)
    }
}

/// Why a firing was not recorded in a target, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nested deeper than [`MAX_NESTING`](crate::tracepoint::MAX_NESTING).
    Nested,
    /// The record is larger than the target takes.
    TooLarge,
    /// The probe panicked, or its thread was ended in it.
    Panicked,
    /// It was recorded, with a value cut to what fits.
    Cut,
}

/// Appends a payload of up to 24 bytes, of fixed size. Takes the address of the target, and the bytes as words in the order of
/// memory. Returns 0 if it is a record now.
pub type AppendWords = unsafe extern "C" fn(*const Target, u64, u64, u64) -> u8;
/// Appends a payload whose fields stage up to 24 bytes and then add one piece. Takes the address of the target, the staged bytes as
/// words in the order of memory, and the piece. Returns 0 if it is a record now.
pub type AppendTail = unsafe extern "C" fn(*const Target, u64, u64, u64, *const u8, usize) -> u8;
/// Appends a payload: its [`Finished::from_raw`](crate::field::Finished::from_raw), which a function is spared to read from memory. Returns 0 if it is a record now.
pub type AppendPieces = unsafe extern "C" fn(*const Target, NonNull<Piece>, usize, usize) -> u8;

/// How a channel takes events.
#[derive(Clone, Copy)]
pub struct Functions {
    /// For small events of fixed size. `None`: they go in pieces.
    pub words: Option<AppendWords>,
    /// For small events that end with text or a slice. `None`: they go in pieces.
    pub tail: Option<AppendTail>,
    /// For all others.
    pub pieces: AppendPieces,
    /// Counts a firing that was not recorded, or not all of it.
    pub lose: unsafe fn(&Target, Loss),
}

/// Memory of a target that belongs to its channel: what `Functions` find first at the target's address.
pub type Own = [MaybeUninit<u64>; 8];

/// Where the events of a probe go: one channel of one session.
#[repr(C, align(64))]
pub struct Target {
    own: Own,
    words: AppendWords,
    with_tail: AppendTail,
    pieces: AppendPieces,
    lose: unsafe fn(&Target, Loss),
    channel: *const (),
    /// Most bytes of payload that the channel takes.
    limit: u32,
    /// Least bytes of a payload of the events that come here.
    least: u16,
    /// Most bytes of a tail behind them.
    most_tail: u16,
    /// Whether sensitive fields are left out.
    redact: bool,
}

// SAFETY: `Target::new` demands functions that may be called from any thread with the channel.
unsafe impl Send for Target {}
// SAFETY: as above; a target is not changed once its list is published.
unsafe impl Sync for Target {}

impl Target {
    /// Makes a target.
    ///
    /// # Safety
    ///
    /// The functions may be called with this target from any thread and signal handler, at any time until a grace period after
    /// the list that holds the target was replaced; `channel` and what `own` refers to stay valid for them that long. `least` is
    /// that of the class of the events that come here.
    pub unsafe fn new(functions: Functions, own: Own, channel: *const (), limit: u32, least: usize, redact: bool) -> Target {
        let Functions { words, tail, pieces, lose } = functions;
        let with_tail = match tail {
            _ if least > limit as usize => refuse_tail,
            Some(tail) => tail,
            None => tail_in_pieces,
        };
        Target {
            own,
            words: words.unwrap_or(words_in_pieces),
            with_tail,
            pieces,
            lose,
            channel,
            limit,
            least: u16::try_from(least).unwrap_or(u16::MAX),
            most_tail: (limit as usize).saturating_sub(least).min(MAX_TAIL) as u16,
            redact,
        }
    }

    /// Returns what the target was made with.
    #[inline(always)]
    pub fn channel(&self) -> *const () {
        self.channel
    }

    /// Records `event` here. A panic of its fields is contained and counted as a loss.
    ///
    /// # Signal safety
    ///
    /// That of the event's [`write`](Event::write); the rest is async-signal-safe.
    #[inline(always)]
    pub fn record<E: Event>(&self, event: &E) {
        if !contain(|| record(event, core::slice::from_ref(self))) {
            self.lose(Loss::Panicked);
        }
    }

    /// Counts one firing as lost here.
    pub fn lose(&self, loss: Loss) {
        // SAFETY: the duty of `Target::new`: the caller reads the list that holds the target, or holds the target.
        unsafe { (self.lose)(self, loss) };
    }
}

/// One probe of a list, and where its events go.
///
/// The probes attached to one tracepoint are a list of entries, which is never changed once a gate points to it.
pub struct Entry {
    /// Null once the probe panicked.
    function: AtomicPtr<()>,
    next: Option<Box<Entry>>,
    /// Where all events go.
    targets: Box<[Target]>,
    /// In place of `targets`, if one of them takes some events only.
    conditional: Box<[Conditional]>,
    origin: Origin,
}

/// What an entry runs.
enum Origin {
    Probe(&'static ProbeDescriptor),
    Closure(Arc<Attached>),
}

static_assertions::assert_impl_all!(Entry: Send, Sync);

impl Entry {
    /// Makes an entry in front of others. With no target the probe runs, and what it returns goes nowhere.
    pub fn new(probe: &'static ProbeDescriptor, targets: Vec<Conditional>, next: Option<Box<Entry>>) -> Entry {
        // SAFETY: the promise of the descriptor.
        unsafe { Entry::of(probe, (probe.function)(), targets, next) }
    }

    /// The same, with another build of the probe's function.
    ///
    /// # Safety
    ///
    /// `function` is of the probe type of the tracepoint in whose list the entry is to be (TP-2).
    pub unsafe fn of(
        probe: &'static ProbeDescriptor,
        function: ErasedProbe,
        targets: Vec<Conditional>,
        next: Option<Box<Entry>>,
    ) -> Entry {
        let (targets, conditional) = match targets.iter().any(Conditional::is_conditional) {
            true => (Vec::new(), targets),
            false => (targets.into_iter().map(|c| c.target).collect(), Vec::new()),
        };
        Entry {
            function: AtomicPtr::new(function.cast_mut()),
            next,
            targets: targets.into(),
            conditional: conditional.into(),
            origin: Origin::Probe(probe),
        }
    }

    /// Makes an entry for a closure in front of others.
    pub fn of_closure(closure: Arc<Attached>, next: Option<Box<Entry>>) -> Entry {
        Entry {
            function: AtomicPtr::new(closure.function.cast_mut()),
            next,
            targets: Box::new([]),
            conditional: Box::new([]),
            origin: Origin::Closure(closure),
        }
    }

    /// Returns the entry behind this one.
    #[inline(always)]
    pub fn next(&self) -> Option<&Entry> {
        self.next.as_deref()
    }

    /// Returns all targets.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().chain(self.conditional.iter().map(|c| &c.target))
    }

    /// Returns the function, or null once the probe panicked.
    #[inline(always)]
    pub fn function(&self) -> ErasedProbe {
        // Relaxed: the list's publication ordered the function; null needs no order.
        self.function.load(Ordering::Relaxed)
    }

    /// Returns the function by its type, or `None` once the probe panicked.
    ///
    /// # Safety
    ///
    /// `F` is the probe type of the tracepoint whose list this entry is in (TP-2): a function pointer.
    #[inline(always)]
    pub unsafe fn function_as<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<ErasedProbe>()) };
        let function = self.function();
        // SAFETY: the caller's duty; the pointer was made from a function of that type, and is not null.
        (!function.is_null()).then(|| unsafe { core::mem::transmute_copy(&function) })
    }

    /// Runs a probe and records what it returns. A panic is contained: counted as a loss in each target, and the probe is
    /// taken out of service here; the run time detaches it everywhere and reports it.
    #[inline(always)]
    pub fn run<O: ProbeOutput>(&self, probe: impl FnOnce() -> O) {
        let outside = MaybeUninit::uninit();
        if !contain(|| inside(self, &outside, probe).record(self)) {
            self.panicked();
        }
    }

    /// Runs the closure that this entry is of. A panic is contained and ends it, as for [`run`](Self::run).
    ///
    /// # Safety
    ///
    /// It is the entry of a closure of type `F` (CL-1).
    #[inline(always)]
    pub unsafe fn run_closure<F>(&self, call: impl FnOnce(&F)) {
        let Origin::Closure(closure) = &self.origin else { return };
        // SAFETY: the caller's duty.
        if !unsafe { closure.run(self, call) } {
            self.panicked();
        }
    }

    #[cold]
    fn panicked(&self) {
        self.detach();
        self.lose(Loss::Panicked);
    }

    /// Takes the probe out of service because it panicked, or what it returned did when that was dropped: the run time detaches it
    /// everywhere and reports it.
    #[cold]
    fn detach(&self) {
        self.function.store(core::ptr::null_mut(), Ordering::Relaxed);
        // Relaxed: a count, read by the agent's thread some time later.
        match &self.origin {
            Origin::Probe(probe) => probe.panics.fetch_add(1, Ordering::Relaxed),
            Origin::Closure(closure) => closure.panics.fetch_add(1, Ordering::Relaxed),
        };
        crate::read_side::panics().fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one firing as lost in each target.
    pub fn lose(&self, loss: Loss) {
        for target in self.targets() {
            target.lose(loss);
        }
    }
}

/// Runs `work`. Returns false if it panicked.
#[inline(always)]
pub(crate) fn contain(work: impl FnOnce()) -> bool {
    #[cfg(feature = "std")]
    {
        // Unwind safety: arguments of tracepoints are `Copy`, and nothing of ours is half changed when a probe panics.
        if let Err(panic) = std::panic::catch_unwind(core::panic::AssertUnwindSafe(work)) {
            // The payload's destructor is foreign code that may panic again.
            core::mem::forget(panic);
            return false;
        }
    }
    #[cfg(not(feature = "std"))]
    work();
    true
}

/// Runs a probe inside of [`contain`], which knows panics only, where the thread may be ended. `outside`: a place in the frame that runs
/// `contain`.
#[inline(always)]
pub(crate) fn inside<T>(entry: &Entry, outside: &MaybeUninit<u8>, probe: impl FnOnce() -> T) -> T {
    #[cfg(feature = "std")]
    let inside = Inside { entry, outside };
    // Nothing is contained: what unwinds goes on.
    #[cfg(not(feature = "std"))]
    let _ = (entry, outside);
    let output = probe();
    #[cfg(feature = "std")]
    core::mem::forget(inside);
    output
}

/// Dropped where a probe does not return.
#[cfg(feature = "std")]
struct Inside<'e> {
    entry: &'e Entry,
    outside: &'e MaybeUninit<u8>,
}

#[cfg(feature = "std")]
impl Drop for Inside<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.entry.lose(Loss::Panicked);
        // A panic of the program in a probe of a module is as foreign to it as an exception of C++.
        if !crate::closure::runtime().is_some_and(|program| (program.is_panicking)()) {
            // SAFETY: the emitter calls a probe by its address, so that it may be unwound; TE-1: nothing but `contain` lies between.
            unsafe { crate::sys::end_behind(self.outside) };
        }
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"ringtrace: a probe was left by an exception of another language, or of a Rust that was linked apart: nobody can contain that, \
              so the program is aborted\n",
        );
    }
}
