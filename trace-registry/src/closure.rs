//! Closures as probes: attached to a tracepoint at run time, typed by its signature, for as long as a guard lives.
//!
//! A closure stands in the list of its tracepoint behind the probes. It is shared by its guard, the run time and the lists that
//! name it; the last of them to go is a list, which goes after a grace period.
//!
//! # Invariants
//!
//! - CL-1: An entry's closure has the type that its trampoline was made for: both come from one call of [`attach`].
//! - CL-2: A closure that was attached is dropped by the reclaimer, never by a thread that may be running it. One that could not be
//!   attached runs nowhere, and is dropped with its guard.
#![expect(unsafe_code, reason = "a closure is reached without its type")]

use crate::image::Image;
use crate::probe::{Entry, ErasedProbe, contain, inside};
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use crate::sys;
use crate::tracepoint::{Promise, TracepointDescriptor};
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::panic::Location;
use core::time::Duration;

/// A closure of unknown type.
pub type Attached = Closure<dyn Send + Sync>;

/// A closure that is a probe, and what is known of it.
pub struct Closure<F: ?Sized> {
    /// The tracepoint that it is attached to.
    pub tracepoint: &'static TracepointDescriptor,
    /// Where it was attached.
    pub location: &'static Location<'static>,
    /// How often it was skipped, being nested.
    pub skipped: AtomicU64,
    /// How often it panicked.
    pub panics: AtomicU64,
    /// Runs it, as any probe of the tracepoint is run.
    pub(crate) function: ErasedProbe,
    /// Whether it runs when nested, too.
    nests: bool,
    call: ManuallyDrop<F>,
}

// SAFETY: `function` is the address of code.
unsafe impl<F: Send + ?Sized> Send for Closure<F> {}
// SAFETY: as above.
unsafe impl<F: Sync + ?Sized> Sync for Closure<F> {}

impl<F: ?Sized> Drop for Closure<F> {
    fn drop(&mut self) {
        // Foreign code, mostly in the tracer's own thread (CL-2).
        // SAFETY: dropped once, here, and not used again.
        contain(|| unsafe { ManuallyDrop::drop(&mut self.call) });
    }
}

impl Attached {
    /// Runs `call` with the closure, by its entry. Returns false if it panicked.
    ///
    /// # Safety
    ///
    /// The closure has the type `F` (CL-1).
    #[inline(always)]
    pub(crate) unsafe fn run<F>(&self, entry: &Entry, call: impl FnOnce(&F)) -> bool {
        if !self.nests && sys::depth() > 1 {
            // Relaxed: a count for people.
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let outside = MaybeUninit::uninit();
        // SAFETY: the caller's duty.
        contain(|| inside(entry, &outside, || call(unsafe { &(*core::ptr::from_ref(self).cast::<Closure<F>>()).call })))
    }
}

/// What the run time does for closures.
///
/// # Promise
///
/// `is_panicking` says so of this thread, `attach` and `detach` keep CL-2.
pub struct Runtime {
    /// Puts a closure into the list of its tracepoint; or says why not.
    pub attach: fn(Arc<Attached>) -> Result<(), String>,
    /// Takes it out of there.
    pub detach: fn(Arc<Attached>),
    /// The same, and waits until it has been dropped.
    pub detach_and_wait: fn(Arc<Attached>, Duration) -> Result<(), DetachError>,
    /// Takes the tracepoints and probes of an image that was loaded.
    pub register: fn(&'static Image),
    /// Lets go of them. Nothing of the image is used by others then, or it stays mapped.
    pub unregister: fn(&'static Image),
    /// Whether this thread panics by the run time's standard library; a shared object may have one of its own.
    pub is_panicking: fn() -> bool,
    /// See above.
    #[doc(hidden)]
    pub promise: Promise,
}

/// The run time, where one is linked into the program.
#[linkme::distributed_slice]
pub static RINGTRACE_RUNTIMES_0_1_0: [Runtime];

/// The program's run time, in a shared object that has none of its own.
static HOST: AtomicPtr<Runtime> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the run time of this shared object: that of the program.
pub(crate) fn set_runtime(runtime: &'static Runtime) {
    // Release: orders the table. Pairs with the Acquire load in `runtime`.
    HOST.store(core::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
}

pub(crate) fn runtime() -> Option<&'static Runtime> {
    // Acquire: pairs with the Release store in `set_runtime`.
    // SAFETY: null, or a static of the program's.
    unsafe { HOST.load(Ordering::Acquire).as_ref() }.or_else(|| RINGTRACE_RUNTIMES_0_1_0.first())
}

/// Whether the run time of another image is this one's too.
pub fn is_hosted() -> bool {
    // Relaxed: set before anything of this image runs but its constructors.
    !HOST.load(Ordering::Relaxed).is_null()
}

/// Attaches a closure that runs `nests` also inside other tracepoints' probes.
///
/// # Safety
///
/// `function` is of the probe type of `tracepoint` (TP-2), and runs the closure as an `F` (CL-1). Where `nests`, the closure may be
/// run in signal handlers and allocators.
#[doc(hidden)]
#[track_caller]
pub unsafe fn attach<F: Send + Sync + 'static>(
    tracepoint: &'static TracepointDescriptor,
    function: ErasedProbe,
    nests: bool,
    call: F,
) -> AttachGuard {
    let closure: Arc<Attached> = Arc::new(Closure {
        tracepoint,
        location: Location::caller(),
        skipped: AtomicU64::new(0),
        panics: AtomicU64::new(0),
        function,
        nests,
        call: ManuallyDrop::new(call),
    });
    let attached = match runtime() {
        // What one image allocates, another may not be able to free.
        _ if is_hosted() => Err(String::from("a shared object that was loaded cannot attach closures: give it a `#[probe]`")),
        Some(runtime) => (runtime.attach)(closure.clone()),
        None => Err(String::from("the program has no run time: enable the feature `runtime` of ringtrace in the application")),
    };
    AttachGuard { closure: ManuallyDrop::new(closure), failure: attached.err() }
}

/// Whether a closure may be attached without a promise of its author. No type is; the bound is on tracepoints that are
/// `reentrant`.
#[diagnostic::on_unimplemented(
    message = "a closure is attached to a reentrant tracepoint by `unsafe attach_reentrant` only",
    label = "it may run in signal handlers and allocators",
    note = "`attach_reentrant` says what the closure must not do there"
)]
pub trait AttachesSafely {}

/// Keeps a closure attached to a tracepoint. Dropping it detaches the closure, and never waits.
///
/// What the closure captured is dropped by the tracer's own thread, after the last firing that may still run it; or with the guard,
/// where the closure [could not be attached](Self::failure). A guard that is forgotten (`std::mem::forget`) leaves the closure attached for as long as the process lives.
#[must_use = "dropping the guard detaches the closure"]
pub struct AttachGuard {
    closure: ManuallyDrop<Arc<Attached>>,
    failure: Option<String>,
}

impl AttachGuard {
    /// Returns why the closure is not attached: tracing is off in this process, the program has no run time, or too many
    /// replaced lists wait for their grace period. `None`: it is attached.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns how often the closure was skipped because its tracepoint fired inside a probe.
    pub fn skipped(&self) -> u64 {
        self.closure.skipped.load(Ordering::Relaxed)
    }

    /// Whether the closure panicked, and was detached for that.
    pub fn is_panicked(&self) -> bool {
        self.closure.panics.load(Ordering::Relaxed) > 0
    }

    /// Detaches the closure, and waits, for at most `limit`, until it runs nowhere and what it captured has been dropped.
    ///
    /// # Errors
    ///
    /// In each case the closure is detached. [`DetachError::is_inside`]: called from inside a probe, for which it would wait.
    /// [`DetachError::is_stuck`]: a probe has not returned within `limit`.
    pub fn detach_and_wait(self, limit: Duration) -> Result<(), DetachError> {
        let mut this = ManuallyDrop::new(self);
        match this.take() {
            Some((runtime, closure)) => (runtime.detach_and_wait)(closure, limit),
            None => Ok(()),
        }
    }

    /// Takes the closure, for the run time that it is attached by. `None`: it is attached by none, and was dropped (CL-2).
    ///
    /// To be called once, last.
    fn take(&mut self) -> Option<(&'static Runtime, Arc<Attached>)> {
        // SAFETY: taken once: by `drop`, or by `detach_and_wait`, after which there is no `drop`.
        let closure = unsafe { ManuallyDrop::take(&mut self.closure) };
        let is_attached = self.failure.take().is_none();
        Some((runtime().filter(|_| is_attached)?, closure))
    }
}

impl Drop for AttachGuard {
    fn drop(&mut self) {
        if let Some((runtime, closure)) = self.take() {
            (runtime.detach)(closure);
        }
    }
}

impl fmt::Debug for AttachGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut guard = f.debug_struct("AttachGuard");
        guard.field("tracepoint", &format_args!("{}", self.closure.tracepoint.name));
        guard
            .field("location", &format_args!("{}", self.closure.location))
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

/// Why nobody waited until a closure was gone. It is detached all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetachError(Reason);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Inside,
    Stuck(Duration),
}

impl DetachError {
    /// Called from inside a probe.
    #[doc(hidden)]
    pub const INSIDE: DetachError = DetachError(Reason::Inside);

    /// A probe did not return in time.
    #[doc(hidden)]
    pub const fn stuck(limit: Duration) -> DetachError {
        DetachError(Reason::Stuck(limit))
    }

    /// Whether it was called from inside a probe.
    pub fn is_inside(&self) -> bool {
        self.0 == Reason::Inside
    }

    /// Whether a probe did not return within the time.
    pub fn is_stuck(&self) -> bool {
        matches!(self.0, Reason::Stuck(_))
    }
}

impl fmt::Display for DetachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Inside => f.write_str(
                "`detach_and_wait` cannot be called from inside a probe: it would wait for that probe to end; the closure is \
                 detached, and dropped when it runs nowhere",
            ),
            Reason::Stuck(limit) => write!(
                f,
                "a probe that was running when the closure was detached has not returned within {limit:?}; the closure is dropped \
                 when it has"
            ),
        }
    }
}

impl core::error::Error for DetachError {}
