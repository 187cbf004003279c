//! An async function from its first poll to its end: returned, panicked, or dropped before. One that returns a future, from its call.
#![expect(unsafe_code, reason = "pins a field, and drops it before its owner")]

use super::capture::{Captures, Plain, With};
use super::record::{EntryOfFuture, ExitOfFuture, Poll, PollEnd, record};
use super::scope::{Nanoseconds, Outcome, beginning, elapsed, outcome};
use super::{Site, now_ns};
use crate::sync::{AtomicU64, Ordering};
use core::future::Future;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::task::{Context, Poll as Ready};

/// The next number of a future.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Of this thread. Without the standard library no future knows its parent.
#[cfg(feature = "std")]
mod current {
    use core::cell::Cell;

    std::thread_local! {
        /// Without a destructor, so that it is there for any event.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn get() -> u64 {
        NUMBER.with(Cell::get)
    }

    pub(super) fn replace(number: u64) -> u64 {
        NUMBER.with(|own| own.replace(number))
    }
}

#[cfg(not(feature = "std"))]
mod current {
    pub(super) fn get() -> u64 {
        0
    }

    pub(super) fn replace(_: u64) -> u64 {
        0
    }
}

/// Returns the number of the traced future inside of which this thread is; 0: of none that is recorded.
#[must_use]
pub fn current_future() -> u64 {
    current::get()
}

/// Being inside of a traced future, as it says, until this is dropped: futures that begin meanwhile have it as their parent.
pub struct Within {
    before: u64,
}

impl Within {
    /// Inside of the future of this number; 0: of none.
    #[must_use = "it ends where this is dropped"]
    pub fn future(number: u64) -> Within {
        Within { before: current::replace(number) }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        current::replace(self.before);
    }
}

/// What a future did until its end.
#[derive(Clone, Copy, Debug)]
pub struct FutureExit {
    number: u64,
    outcome: Outcome,
    start: u64,
    polls: u32,
    busy_ns: u64,
}

/// Records that an async function begins. Returns when, and the number by which its events belong together.
#[cold]
#[inline(never)]
pub fn begin_future<S: Site, C: Captures>(values: C) -> (u64, u64) {
    // Relaxed: a number of its own, and nothing else.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    record::<EntryOfFuture<S>, _>(With((Plain(number), Plain(current_future())), values));
    (number, beginning())
}

/// Records that it has ended.
#[cold]
#[inline(never)]
pub fn leave_future<S: Site, C: Captures>(exit: FutureExit, result: C) {
    let FutureExit { number, outcome, start, polls, busy_ns } = exit;
    let own = (Plain(number), Plain(outcome), Nanoseconds(elapsed(start)), Plain(polls), Nanoseconds(busy_ns));
    record::<ExitOfFuture<S>, _>(With(own, result));
}

/// A function that returns a future, from its call until it has made that. Records the end, where it makes none: it panicked.
pub struct Calling<T, X: Fn(FutureExit, Option<&T>)> {
    begun: (u64, u64),
    exit: X,
    output: PhantomData<fn(T)>,
}

impl<T, X: Fn(FutureExit, Option<&T>) + Copy> Calling<T, X> {
    /// The call that [`begin_future`] announced; with zeroes, one that nobody asked for.
    #[inline(always)]
    pub const fn new(begun: (u64, u64), exit: X) -> Self {
        Calling { begun, exit, output: PhantomData }
    }

    /// The future that the function returns.
    #[inline(always)]
    pub fn future<S: Site, F: Future<Output = T>>(self, future: F) -> Traced<S, F, X> {
        let (begun, exit) = (self.begun, self.exit);
        core::mem::forget(self);
        Traced::new(begun, future, exit)
    }
}

impl<T, X: Fn(FutureExit, Option<&T>)> Drop for Calling<T, X> {
    #[inline(always)]
    fn drop(&mut self) {
        let (number, start) = self.begun;
        if number != 0 {
            (self.exit)(FutureExit { number, outcome: outcome(start), start, polls: 0, busy_ns: 0 }, None);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    /// A poll panicked; whoever caught that drops the future some time later.
    Panicked,
    Over,
}

/// The body of an async function: records its polls, and its end.
///
/// # Invariants
///
/// - FU-1: `future` is never moved once it was polled, and is dropped in place, once, by `Drop`.
pub struct Traced<S: Site, F: Future, X: Fn(FutureExit, Option<&F::Output>)> {
    future: ManuallyDrop<F>,
    /// 0: nobody asked for it.
    number: u64,
    start: u64,
    polls: u32,
    busy_ns: u64,
    state: State,
    exit: X,
    site: PhantomData<fn(S)>,
}

impl<S: Site, F: Future, X: Fn(FutureExit, Option<&F::Output>)> Traced<S, F, X> {
    /// The future that [`begin_future`] announced; with zeroes, one that nobody asked for.
    #[inline(always)]
    pub const fn new((number, start): (u64, u64), future: F, exit: X) -> Self {
        let future = ManuallyDrop::new(future);
        Traced { future, number, start, polls: 0, busy_ns: 0, state: State::Open, exit, site: PhantomData }
    }

    fn end(&self, outcome: Outcome, result: Option<&F::Output>) {
        let Self { number, start, polls, busy_ns, .. } = *self;
        (self.exit)(FutureExit { number, outcome, start, polls, busy_ns }, result);
    }

    #[cold]
    #[inline(never)]
    fn poll_traced(self: Pin<&mut Self>, context: &mut Context<'_>) -> Ready<F::Output> {
        /// Also the end of a poll that panics.
        struct Polling<'p, S: Site> {
            number: u64,
            began_ns: u64,
            is_ready: bool,
            has_returned: bool,
            busy_ns: &'p mut u64,
            state: &'p mut State,
            site: PhantomData<fn(S)>,
        }
        impl<S: Site> Drop for Polling<'_, S> {
            fn drop(&mut self) {
                *self.busy_ns += now_ns().saturating_sub(self.began_ns);
                if !self.has_returned {
                    *self.state = State::Panicked;
                }
                record::<PollEnd<S>, _>((Plain(self.number), Plain(self.is_ready)));
            }
        }
        // SAFETY: FU-1: `future` is pinned below, the rest is not.
        let this = unsafe { self.get_unchecked_mut() };
        this.polls = this.polls.saturating_add(1);
        record::<Poll<S>, _>((Plain(this.number),));
        let within = Within::future(this.number);
        let mut polling: Polling<'_, S> = Polling {
            number: this.number,
            began_ns: now_ns(),
            is_ready: false,
            has_returned: false,
            busy_ns: &mut this.busy_ns,
            state: &mut this.state,
            site: PhantomData,
        };
        // SAFETY: FU-1.
        let result = unsafe { Pin::new_unchecked(&mut *this.future) }.poll(context);
        (polling.is_ready, polling.has_returned) = (result.is_ready(), true);
        drop((within, polling));
        if let Ready::Ready(value) = &result {
            this.state = State::Over;
            this.end(Outcome::Returned, Some(value));
        }
        result
    }
}

impl<S: Site, F: Future, X: Fn(FutureExit, Option<&F::Output>)> Future for Traced<S, F, X> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Ready<F::Output> {
        if self.number != 0 {
            return self.poll_traced(context);
        }
        // SAFETY: FU-1: pinned with its owner.
        unsafe { self.map_unchecked_mut(|this| &mut *this.future) }.poll(context)
    }
}

impl<S: Site, F: Future, X: Fn(FutureExit, Option<&F::Output>)> Drop for Traced<S, F, X> {
    #[inline]
    fn drop(&mut self) {
        struct Ending<'e, S: Site, F: Future, X: Fn(FutureExit, Option<&F::Output>)>(&'e mut Traced<S, F, X>);
        impl<S: Site, F: Future, X: Fn(FutureExit, Option<&F::Output>)> Drop for Ending<'_, S, F, X> {
            #[inline]
            fn drop(&mut self) {
                if self.0.number == 0 {
                    return;
                }
                match self.0.state {
                    State::Open => self.0.end(Outcome::Cancelled, None),
                    State::Panicked => self.0.end(Outcome::Panicked, None),
                    State::Over => {}
                }
            }
        }
        // Its end is recorded after that of what it holds, even if that panics.
        let ending = Ending(self);
        // SAFETY: FU-1: nothing uses it any more.
        unsafe { ManuallyDrop::drop(&mut ending.0.future) };
    }
}
