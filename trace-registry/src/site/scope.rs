//! A function, or a span, from its entry to its exit.

use super::capture::{Capture, Captures, Plain, With};
use super::record::{Entry, EntryOfSpan, Exit, ExitOfSpan, record};
use super::{Site, is_panicking, now_ns};
use crate::field::{Field, FieldClass, Label, Payload, Sizes, Step, Value, enumeration};
use crate::sync::Ordering;
use crate::sys;
use core::marker::PhantomData;

/// How a function was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned, early or not.
    Returned = 0,
    /// It panicked, or a panic passed through it.
    Panicked = 1,
    /// Its future was dropped before its end.
    Cancelled = 2,
}

impl Field for Outcome {
    const CLASS: FieldClass = enumeration(
        &[Label { name: "returned", value: 0 }, Label { name: "panicked", value: 1 }, Label { name: "cancelled", value: 2 }],
        None,
    );
    const SIZES: Sizes = Sizes::fixed(1);
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        payload.stage([*self as u8]);
    }
    fn value(&self, _: &[Step]) -> Value<'_> {
        Value::Integer(*self as i128)
    }
}

/// Nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Nanoseconds(pub(super) u64);

impl Capture for Nanoseconds {
    const CLASS: Option<FieldClass> = Some(u64::CLASS);
    const SIZES: Sizes = u64::SIZES;
    const UNIT: &'static str = "ns";
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        self.0.write(payload);
    }
    fn value(&self, path: &[Step]) -> Value<'_> {
        self.0.value(path)
    }
}

/// When something began: nanoseconds, twice, and whether the thread was unwinding already. 0: nobody asked.
pub(super) fn beginning() -> u64 {
    (now_ns() << 1 | u64::from(is_panicking())).max(2)
}

/// Nanoseconds from a [`beginning`] until now.
pub(super) fn elapsed(start: u64) -> u64 {
    now_ns().saturating_sub(start >> 1)
}

/// Whether a panic began after `start`.
pub(super) fn outcome(start: u64) -> Outcome {
    if is_panicking() && start & 1 == 0 { Outcome::Panicked } else { Outcome::Returned }
}

/// Records an entry. Returns when it was, for the exit.
#[cold]
#[inline(never)]
pub fn begin<S: Site, C: Captures>(values: C) -> u64 {
    record::<Entry<S>, C>(values);
    beginning()
}

/// Records an exit.
#[cold]
#[inline(never)]
pub fn leave<S: Site, C: Captures>(start: u64, outcome: Outcome, result: C) {
    let own = (Plain(outcome), Nanoseconds(elapsed(start)));
    record::<Exit<S>, _>(With(own, result));
}

/// A function that was entered; records its exit when it is dropped.
pub struct Scope<S: Site> {
    start: u64,
    site: PhantomData<fn(S)>,
}

impl<S: Site> Scope<S> {
    /// The scope that began at `start`; 0: nobody asked for it.
    #[inline(always)]
    #[must_use = "the scope ends where this is dropped"]
    pub const fn of(start: u64) -> Self {
        Scope { start, site: PhantomData }
    }
}

impl<S: Site> Drop for Scope<S> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.start != 0 {
            leave_scope::<S>(self.start);
        }
    }
}

#[cold]
#[inline(never)]
fn leave_scope<S: Site>(start: u64) {
    leave::<S, ()>(start, outcome(start), ());
}

/// Bits of a thread's ID in the number of a span: Linux has no more.
const THREAD_BITS: u32 = 22;

/// Records that a span is entered. Returns when it was, and the number by which its exit is found.
///
/// The number is made of the time and of the thread, so that no two that are open have the same, and threads share no counter.
#[cold]
#[inline(never)]
pub fn begin_span<S: Site, C: Captures>(values: C) -> (u64, u64) {
    // Relaxed: of this thread alone. 0 before its first event.
    let thread = sys::with_thread(|thread| thread.tid.load(Ordering::Relaxed)).unwrap_or_default();
    let number = now_ns() << THREAD_BITS | u64::from(thread) & ((1 << THREAD_BITS) - 1);
    record::<EntryOfSpan<S>, _>(With((Plain(number),), values));
    (number, beginning())
}

/// A span that was entered; records its exit when it is dropped, on whatever thread that is.
///
/// It may live across an `.await`, where other tasks run on its thread, and it goes on on another one. So the thread does not tell which
/// exit belongs to which entry: both have the span's number.
pub struct Span<S: Site> {
    number: u64,
    start: u64,
    site: PhantomData<fn(S)>,
}

impl<S: Site> Span<S> {
    /// The span that [`begin_span`] announced; with zeroes, one that nobody asked for.
    #[inline(always)]
    #[must_use = "the span ends where this is dropped, which is at once: `let _span = span!(…)`"]
    pub const fn of((number, start): (u64, u64)) -> Self {
        Span { number, start, site: PhantomData }
    }
}

impl<S: Site> Drop for Span<S> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.start != 0 {
            leave_span::<S>(self.number, self.start);
        }
    }
}

#[cold]
#[inline(never)]
fn leave_span<S: Site>(number: u64, start: u64) {
    record::<ExitOfSpan<S>, _>((Plain(number), Plain(outcome(start)), Nanoseconds(elapsed(start))));
}

/// Runs the body of a function whose result is recorded: `exit` records it.
///
/// The body is taken as `FnOnce`, so that what it borrows mutably it may return.
#[inline(always)]
pub fn call<R>(start: u64, body: impl FnOnce() -> R, exit: impl Fn(Outcome, Option<&R>)) -> R {
    struct Unwinding<F: Fn()>(F);
    impl<F: Fn()> Drop for Unwinding<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    if start == 0 {
        return body();
    }
    let unwinding = Unwinding(|| exit(Outcome::Panicked, None));
    let result = body();
    core::mem::forget(unwinding);
    exit(Outcome::Returned, Some(&result));
    result
}
