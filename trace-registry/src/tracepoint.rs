//! The gate and the descriptor of a tracepoint, and the emitter behind the gate.
//!
//! # The gate
//!
//! One pointer per tracepoint definition, null while no probe is attached. The traced code loads it, tests it and goes on
//! ([`Gate::is_on`]); all else is behind a predicted branch, in one cold function per definition, which calls [`emit`].
//! The pointer that the gate test sees is a hint: the emitter loads the list again inside its read-side critical section.
//!
//! # Invariants
//!
//! - TP-1: A list that a gate points to stays valid until a grace period after the gate stopped pointing to it.
//! - TP-2: Every function in the list of a tracepoint has that tracepoint's probe type: lists are made from
//!   [`ProbeDescriptor`](crate::ProbeDescriptor)s, whose functions were typed by the tracepoint's own signature.
//! - TP-3: What ties a gate, a descriptor and a type of functions together is promised, by `unsafe`, wherever it is declared: by the
//!   expansion of a macro. Safe code can publish no list, and declare nothing that is not so. What an expansion promises of items of
//!   ringtrace holds for items of that name: `unsafe(crate = path)` is its author's word that `path` has them, and otherwise they are those
//!   of `::ringtrace`. A program that gives another crate this name at its root (`extern crate other as ringtrace;`) deceives the
//!   macros, as it does those of any crate.

#![expect(unsafe_code, reason = "lists are reached by address")]

use crate::abi::ArgumentType;
use crate::name::Name;
use crate::probe::{Entry, Loss};
use crate::read_side::{self, Section};
use crate::sync::{AtomicPtr, Ordering};
use crate::sys::{self, ThreadBlock};
use crate::{is_mutated, mutation};
use core::any::TypeId;
use core::ptr;

/// How deep tracepoints nest in one thread (a probe, a signal handler, an allocator that traces) before firings are counted
/// as nested loss.
pub const MAX_NESTING: u32 = 4;

/// A declared tracepoint: the type that `#[tracepoint]` makes beside the function.
///
/// # Safety
///
/// For `#[tracepoint]` alone. [`descriptor`](Self::descriptor) returns the descriptor of the tracepoint whose probes `Itself` types
/// (TP-2): its `__probe` takes a function of the type that the emitter of that descriptor's gate calls, and returns it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tracepoint",
    label = "not declared with `#[tracepoint]`",
    note = "a tracepoint is declared by `#[ringtrace::tracepoint] fn name(arguments);`"
)]
pub unsafe trait Tracepoint {
    /// The type itself: through it, a type that is no tracepoint is one error and not two.
    #[doc(hidden)]
    type Itself;

    /// Returns its descriptor.
    fn descriptor() -> &'static TracepointDescriptor;
}

/// A tracepoint of `N` arguments; through it, a probe gets at the tracepoint's types.
///
/// # Safety
///
/// As for [`Tracepoint`], with the same `Itself`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the tracepoint takes another number of arguments than {N}",
    label = "a probe takes the arguments of its tracepoint, all of them"
)]
pub unsafe trait Takes<const N: usize> {
    /// The type itself, as in [`Tracepoint`].
    type Itself;
    /// Its one value.
    const ITSELF: Self::Itself;
}

/// A type that a tracepoint can take as an argument: any `Copy` type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a tracepoint",
    label = "not `Copy`",
    note = "arguments are handed to every probe, so they are `Copy`; take a reference: `&{Self}`"
)]
pub trait Argument {}

// Messages name `Argument`, which says what to do, and not `Copy`.
#[diagnostic::do_not_recommend]
impl<T: Copy> Argument for T {}

/// Checks the type of an argument where it is named.
#[doc(hidden)]
pub const fn argument<T: Argument>() {}

/// Whether any probe is attached to a tracepoint.
#[repr(transparent)]
pub struct Gate(AtomicPtr<Entry>);

static_assertions::assert_eq_size!(Gate, usize);
static_assertions::assert_impl_all!(Gate: Send, Sync);

impl Gate {
    /// A closed gate.
    #[allow(clippy::new_without_default, reason = "a gate is a static, never a default")]
    pub const fn new() -> Gate {
        Gate(AtomicPtr::new(ptr::null_mut()))
    }

    /// The gate of a [site](crate::site): closed, or leading to its emitter, where that makes itself known when it is hit first.
    pub const fn of_site() -> Gate {
        Gate(AtomicPtr::new(if sys::IS_LINKED { ptr::null_mut() } else { UNHIT }))
    }

    /// Whether nobody knows yet what the site behind it records: no list was published, and it was not hit.
    pub fn is_unhit(&self) -> bool {
        // Relaxed: a number, and nothing behind it.
        !sys::IS_LINKED && self.0.load(Ordering::Relaxed) == UNHIT
    }

    /// Closes it, if that is so.
    pub fn close_unhit(&self) {
        // Relaxed: as above; a list that was published meanwhile stays.
        let _ = self.0.compare_exchange(UNHIT, ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether a probe is attached.
    ///
    /// # Signal safety
    ///
    /// One load; async-signal-safe and wait-free.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        // Relaxed: a hint. The emitter loads the list again, with Acquire, inside the read side.
        !cfg!(ringtrace_off) && !self.0.load(Ordering::Relaxed).is_null()
    }

    /// Returns the first entry of the list, for use inside a read-side critical section or by the writer.
    #[inline(always)]
    pub fn list(&self) -> *const Entry {
        // Acquire: orders the list's content after its publication. Pairs with the AcqRel swap in `publish`.
        //  - If the reader sees the new list, it sees all of it.
        //  - If it sees the old one, TP-1 keeps that alive until this reader leaves.
        without_mark(self.0.load(Ordering::Acquire))
    }

    /// Puts `list` in place of the current one, and returns that. Null closes the gate; one that [nobody has hit](Self::is_unhit) stays
    /// as it is then.
    ///
    /// # Safety
    ///
    /// `list` is null, or a list of the tracepoint that has this gate: its functions are of that tracepoint's probe type (TP-2). It
    /// is not changed, and stays where it is until a grace period after another one was published in its place (TP-1).
    pub unsafe fn publish(&self, list: *mut Entry) -> *mut Entry {
        if list.is_null() && self.is_unhit() {
            return list;
        }
        // AcqRel: Release for the new list's content (pairs with `list`), Acquire for the old one's, which the writer reads.
        without_mark(self.0.swap(list, Ordering::AcqRel))
    }
}

/// A place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// File as the compiler was given it.
    pub file: &'static str,
    /// Line, from 1.
    pub line: u32,
}

/// What the gate of a site holds that was not hit yet, in place of a list.
const UNHIT: *mut Entry = ptr::without_provenance_mut(1);

/// A list; null where there is none.
#[inline(always)]
fn without_mark(list: *mut Entry) -> *mut Entry {
    if !sys::IS_LINKED && list == UNHIT { ptr::null_mut() } else { list }
}

impl core::fmt::Display for Location {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What declares a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// `#[tracepoint]` on a function without a body.
    Declaration,
    /// `#[tracepoint]` on a function with a body, whose events have names below the tracepoint's.
    Function,
    /// `span!`; the same holds for its events.
    Span,
    /// `event!`.
    Event,
}

/// What its author promises of a descriptor, which says what under "Promise".
#[doc(hidden)]
#[derive(Debug)]
pub struct Promise(());

impl Promise {
    /// Gives it.
    ///
    /// # Safety
    ///
    /// It is true of what it is put into.
    pub const unsafe fn given() -> Promise {
        Promise(())
    }
}

/// What `unsafe(crate = path)` calls.
///
/// # Safety
///
/// `path` names ringtrace, so that what expansions promise of its items is true.
#[doc(hidden)]
pub const unsafe fn crate_given() {}

/// What is known about a tracepoint without firing it.
///
/// # Promise
///
/// `gate` is that of this declaration, and `arguments`, `identity` and `stamp` are what its probes are typed by (TP-2).
pub struct TracepointDescriptor {
    /// Its name: `crate:module::function`, or the one given by `name =`.
    pub name: Name,
    /// What declares it.
    pub form: Form,
    /// Its signature, as declared.
    pub signature: &'static str,
    /// Where it is declared.
    pub location: Location,
    /// Its gate. Gates lie together, apart from the descriptors.
    pub gate: &'static Gate,
    /// Whether it may fire in signal handlers and allocators.
    pub reentrant: bool,
    /// The module in which it is declared, as `module_path!()` says.
    pub module_path: &'static str,
    /// What its arguments are in memory.
    pub arguments: fn() -> &'static [ArgumentType],
    /// What identifies the types of its arguments to the compiler.
    pub identity: fn() -> TypeId,
    /// Hash of the sources that those types come from; 0: not known.
    pub stamp: u64,
    /// See above.
    #[doc(hidden)]
    pub promise: Promise,
}

static_assertions::assert_impl_all!(TracepointDescriptor: Send, Sync);

/// What an emitter entered.
pub struct Entered {
    /// The first entry of the list; null: there is nothing to run.
    pub(crate) first: *const Entry,
    pub(crate) section: Section,
}

impl Entered {
    pub(crate) const NOTHING: Entered = Entered { first: ptr::null(), section: Section::NONE };
}

/// Runs the probes of a tracepoint: `call` once for each entry of the list.
///
/// Called by the emitter of each definition. A thread that is [untraced](sys::UNTRACED) or nested too deep runs no probe; the
/// latter is counted in each target.
///
/// # Signal safety
///
/// Async-signal-safe and wait-free, if `call` is. Two system calls at most, in the thread's first event; some more in the first of a
/// followed child ([`read_side::run_before_first`]).
#[inline(always)]
pub fn emit(gate: &Gate, call: impl Fn(&Entry) + Copy) {
    let seen;
    let gate = if is_mutated!(list_not_loaded_again) {
        seen = Gate(AtomicPtr::new(gate.list().cast_mut()));
        mutation::widen(200);
        &seen
    } else {
        gate
    };
    let entered = sys::enter(gate);
    // SAFETY: TP-1: the list outlives every section that was entered before its grace period began.
    let section = match unsafe { entered.first.as_ref() } {
        // Behind the only entry nothing but the section is needed any more: the less is saved in registers meanwhile, the less of
        // them goes to memory and back.
        Some(entry) if entry.next().is_none() => {
            call(entry);
            entered.section
        }
        _ => match call_all(gate, entered, call) {
            Some(section) => section,
            None => return,
        },
    };
    // SAFETY: entered above.
    unsafe { sys::leave(section) };
}

/// Runs the probes of a list that has several, or none; and those of any list where the fast way to enter declined. Returns what is
/// to be left.
#[inline(never)]
fn call_all(gate: &Gate, entered: Entered, call: impl Fn(&Entry) + Copy) -> Option<Section> {
    let Entered { first, section } = if entered.section.is_some() { entered } else { enter_slow(gate) };
    // SAFETY: as in `emit`.
    let mut next = unsafe { first.as_ref() };
    while let Some(entry) = next {
        call(entry);
        next = entry.next();
    }
    section.is_some().then_some(section)
}

/// Whether a thread may run probes now.
enum Admission {
    /// It may, and its nesting was counted.
    Admitted,
    /// It is the tracer's own.
    Untraced,
    /// It is nested too deep already.
    TooDeep,
}

fn admit(thread: &ThreadBlock) -> Admission {
    // This thread's, and its signal handlers', which restore the value before they return.
    let mut nesting = thread.nesting();
    if nesting & (sys::FRESH | sys::UNTRACED) == sys::FRESH {
        // The thread stays fresh meanwhile: a handler's event waits for nothing that this one has not done.
        read_side::before_first();
        sys::prepare_thread(thread);
        nesting = thread.nesting();
    }
    if nesting & sys::UNTRACED != 0 {
        Admission::Untraced
    } else if nesting >= MAX_NESTING {
        Admission::TooDeep
    } else {
        // Relaxed, as in `dismiss`: as above.
        thread.nesting.store(nesting + 1, Ordering::Relaxed);
        Admission::Admitted
    }
}

/// Ends what [`admit`] admitted.
fn dismiss(thread: &ThreadBlock) {
    // Loaded again rather than kept meanwhile.
    thread.nesting.store(thread.nesting().wrapping_sub(1), Ordering::Relaxed);
}

/// Enters where the fast way declines.
#[cold]
fn enter_slow(gate: &Gate) -> Entered {
    match sys::with_thread(admit) {
        // No block: no run time either, so nothing can be attached.
        None | Some(Admission::Untraced) => return Entered::NOTHING,
        Some(Admission::TooDeep) => {
            count_nested(gate);
            return Entered::NOTHING;
        }
        Some(Admission::Admitted) => {}
    }
    let Some(section) = read_side::enter() else {
        sys::with_thread(dismiss);
        return Entered::NOTHING;
    };
    let first = gate.list();
    if is_mutated!(list_one_phase) && section.is_behind() {
        mutation::widen(200_000);
    }
    Entered { first, section }
}

/// Leaves where the fast way declines.
///
/// # Safety
///
/// `section` was entered for an emitter in this thread, and is left once.
#[cold]
pub(crate) unsafe extern "C" fn leave_slow(section: Section) {
    section.leave();
    sys::with_thread(dismiss);
}

/// Runs `record` in a read-side critical section, counted as nesting. Returns false, without running it, where the thread is
/// nested too deep already.
///
/// # Signal safety
///
/// Async-signal-safe and wait-free, if `record` is.
pub fn within(record: impl FnOnce()) -> bool {
    match sys::with_thread(admit) {
        None | Some(Admission::Untraced) => true,
        Some(Admission::TooDeep) => false,
        Some(Admission::Admitted) => {
            read_side::section(|_| record());
            sys::with_thread(dismiss);
            true
        }
    }
}

#[cold]
#[inline(never)]
fn count_nested(gate: &Gate) {
    read_side::section(|_| {
        // SAFETY: TP-1: inside a section.
        let mut entry = unsafe { gate.list().as_ref() };
        while let Some(here) = entry {
            here.lose(Loss::Nested);
            entry = here.next();
        }
    });
}
