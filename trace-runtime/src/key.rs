//! Context keys: values such as a request's ID that a future carries with it, across awaits and threads.

#![expect(unsafe_code, reason = "pins a field")]

use crate::context::Context;
use crate::error::Result;
use crate::provider::MOST;
use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::Poll;

thread_local! {
    /// Without a destructor, so that it is there for any event.
    static VALUES: [Cell<u64>; MOST] = const { [const { Cell::new(0) }; MOST] };
}

fn value<const SLOT: usize>() -> u64 {
    VALUES.with(|values| values[SLOT].get())
}

/// By number: a key has the slot of its context field's number.
static PROVIDERS: [fn() -> u64; MOST] = [value::<0>, value::<1>, value::<2>, value::<3>];

/// A value of the program's own that belongs to what a thread does at the moment: the request that it works for.
///
/// ```
/// # fn main() -> Result<(), trace_runtime::Error> {
/// use trace_runtime::{Carry as _, Context, Key, Session};
///
/// let request = Key::register("request")?;
/// # let directory = tempfile::tempdir().expect("a directory");
/// let session = Session::builder("requests")
///     .enable("* if $ctx.request == 7")
///     .context(Context::VTID | request.context())
/// #   .output(directory.path().join("trace"))
///     .start()?;
/// let answer = async { /* … */ }.with_key(request, 7); // on whatever threads it is polled
/// request.scope(8, || { /* … */ }); // and without a future
/// # drop(answer); drop(session);
/// # Ok(()) }
/// ```
///
/// # Signal safety
///
/// Reading the value for an event is async-signal-safe and wait-free: a load of thread-local storage that needs no initialisation.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    slot: usize,
    context: Context,
}

impl Key {
    /// Registers a key; the same name gives the same key. It is one of the program's context fields
    /// ([`Context::provide`]), of which there are at most four.
    ///
    /// # Errors
    ///
    /// As for [`Context::provide`].
    pub fn register(name: &'static str) -> Result<Key> {
        Context::provide_by_number(name, PROVIDERS).map(|(slot, context)| Key { slot, context })
    }

    /// Returns the context field that records it.
    pub fn context(self) -> Context {
        self.context
    }

    /// Returns the value in this thread now; 0: none.
    pub fn get(self) -> u64 {
        VALUES.with(|values| values[self.slot].get())
    }

    /// Runs `run` with a value.
    pub fn scope<R>(self, value: u64, run: impl FnOnce() -> R) -> R {
        let _restored = Key::replace(self.slot, value);
        run()
    }

    fn replace(slot: usize, value: u64) -> Restored {
        let before = VALUES.with(|values| values[slot].replace(value));
        Restored { slot, before }
    }
}

/// Puts a value back.
struct Restored {
    slot: usize,
    before: u64,
}

impl Drop for Restored {
    fn drop(&mut self) {
        VALUES.with(|values| values[self.slot].set(self.before));
    }
}

/// Futures that carry the values of [`Key`]s.
pub trait Carry: Future + Sized {
    /// The future, with a value whenever it is polled.
    fn with_key(self, key: Key, value: u64) -> Carrying<Self> {
        let mut values = [None; MOST];
        values[key.slot] = Some(value);
        Carrying { future: ManuallyDrop::new(self), values }
    }

    /// The future, with the values that this thread has now: for tasks that are spawned.
    fn with_current_keys(self) -> Carrying<Self> {
        let values = VALUES.with(|values| std::array::from_fn(|slot| Some(values[slot].get())));
        Carrying { future: ManuallyDrop::new(self), values }
    }
}

impl<F: Future> Carry for F {}

/// A future with values of [`Key`]s; made by [`Carry`]. It has them where it is polled, and where it is dropped before its end.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Carrying<F> {
    /// Pinned with its owner; dropped once, with the values.
    future: ManuallyDrop<F>,
    values: Values,
}

/// A value of each key; `None`: as it is.
type Values = [Option<u64>; MOST];

/// Sets `values` in this thread, until what is returned is dropped.
fn set(values: Values) -> [Option<Restored>; MOST] {
    let mut numbered = values.into_iter().enumerate();
    std::array::from_fn(|_| numbered.next().and_then(|(slot, value)| Some(Key::replace(slot, value?))))
}

impl<F: Future> Future for Carrying<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<F::Output> {
        let _restored = set(self.values);
        // SAFETY: the future is pinned with its owner, which never moves it.
        let future = unsafe { self.map_unchecked_mut(|this| &mut *this.future) };
        future.poll(context)
    }
}

impl<F> Drop for Carrying<F> {
    fn drop(&mut self) {
        let _restored = set(self.values);
        // SAFETY: dropped once, where it is, and not used again.
        unsafe { ManuallyDrop::drop(&mut self.future) };
    }
}
