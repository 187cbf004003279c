//! Context keys: values such as a request's ID that a future carries with it, across awaits and threads.
//!
//! # Invariants
//!
//! - KY-1: A pointer in `TEXTS` is null, or is that of a text which stays where it is until its thread has put back what was there
//!   before. That happens where the scope or the poll ends that set it, so not while an event that began in it is recorded.

#![expect(unsafe_code, reason = "pins a field, and reads texts by address")]

use crate::context::Context;
use crate::error::Result;
use crate::provider::{self, MOST, Provide};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr;
use std::task::Poll;
use trace_registry::site::{Within, current_future};
use trace_registry::sync::{Ordering, compiler_fence};

// By slot, which is the number of the key's context field. Without destructors, so that they are there for any event.
thread_local! {
    static NUMBERS: [Cell<u64>; MOST] = const { [const { Cell::new(0) }; MOST] };
    static TEXTS: [Cell<*const KeyText>; MOST] = const { [const { Cell::new(ptr::null()) }; MOST] };
}

/// The number of a key in this thread.
///
/// # Signal safety
///
/// Async-signal-safe and wait-free.
#[inline]
pub(crate) fn number(slot: usize) -> u64 {
    NUMBERS.with(|numbers| numbers.get(slot).map_or(0, Cell::get))
}

/// The text of a key in this thread.
///
/// # Safety
///
/// It is used no longer than the scope or poll lasts that the caller is in (KY-1).
///
/// # Signal safety
///
/// Async-signal-safe and wait-free.
#[inline]
pub(crate) unsafe fn text<'s>(slot: usize) -> &'s KeyText {
    const NONE: &KeyText = &KeyText([0; KeyText::BYTES]);
    let text = TEXTS.with(|texts| texts.get(slot).map_or(ptr::null(), Cell::get));
    // SAFETY: KY-1, and the caller's duty.
    unsafe { text.as_ref() }.unwrap_or(NONE)
}

/// A value of the program's own that belongs to what a thread does at the moment: the request that it works for, the tenant
/// whose request it is.
///
/// It is a number, or a text of at most [32 bytes](KeyText).
///
/// ```
/// # fn main() -> Result<(), trace_runtime::Error> {
/// use trace_runtime::{Carry as _, Context, Key, Session};
///
/// let request = Key::register("request")?;
/// let tenant = Key::register_text("tenant")?;
/// # let directory = tempfile::tempdir().expect("a directory");
/// let session = Session::builder("requests")
///     .enable("* if $ctx.request == 7 || $ctx.tenant == \"acme\"")
///     .context(Context::VTID | request.context() | tenant.context())
/// #   .output(directory.path().join("trace"))
///     .start()?;
/// let answer = async { /* … */ }.with_key(request, 7).with_key(tenant, "acme"); // on whatever threads it is polled
/// request.scope(8, || { /* … */ }); // and without a future
/// # drop(answer); drop(session);
/// # Ok(()) }
/// ```
///
/// # Signal safety
///
/// Reading the value for an event is async-signal-safe and wait-free: a load of thread-local storage that needs no initialisation,
/// and of a text its 32 bytes.
pub struct Key<V: KeyType = u64> {
    slot: usize,
    context: Context,
    values: PhantomData<fn() -> V>,
}

impl<V: KeyType> Clone for Key<V> {
    fn clone(&self) -> Key<V> {
        *self
    }
}

impl<V: KeyType> Copy for Key<V> {}

impl<V: KeyType> fmt::Debug for Key<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("slot", &self.slot).field("context", &self.context).finish()
    }
}

impl Key {
    /// Registers a key for numbers; the same name gives the same key. It is one of the program's context fields
    /// ([`Context::provide`]), of which there are at most 16.
    ///
    /// Rules of `RINGTRACE` and of the `ringtrace` command may name it before; they begin now.
    ///
    /// # Errors
    ///
    /// As for [`Context::provide`].
    pub fn register(name: &'static str) -> Result<Key> {
        Key::of(name, Provide::Number)
    }
}

impl Key<KeyText> {
    /// Registers a key for texts, as [`register`](Key::register) does one for numbers.
    ///
    /// # Errors
    ///
    /// As for [`Context::provide`].
    pub fn register_text(name: &'static str) -> Result<Key<KeyText>> {
        Key::of(name, Provide::Text)
    }
}

impl<V: KeyType> Key<V> {
    fn of(name: &'static str, provide: Provide) -> Result<Key<V>> {
        let slot = provider::register(name, provide)?;
        Ok(Key { slot, context: Context::provided_by(slot, provide), values: PhantomData })
    }

    /// Returns the context field that records it.
    pub fn context(self) -> Context {
        self.context
    }

    /// Returns the value in this thread now; 0, or an empty text: none.
    pub fn get(self) -> V {
        V::current(self.slot)
    }

    /// Runs `run` with a value.
    pub fn scope<R>(self, value: V::Given<'_>, run: impl FnOnce() -> R) -> R {
        let value = V::value(value);
        let _restored = value.set(self.slot);
        run()
    }
}

/// A text of a [`Key`]: at most 32 bytes. A longer one loses its end, which `…` stands for, and so does one with a zero byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyText([u8; KeyText::BYTES]);

impl KeyText {
    /// Most bytes.
    pub const BYTES: usize = 32;

    fn new(text: &str) -> KeyText {
        const MARK: &str = "…";
        let whole = text.split('\0').next().unwrap_or_default();
        let (kept, mark) = if whole.len() == text.len() && text.len() <= Self::BYTES {
            (whole, "")
        } else {
            let fits = |end: &usize| whole.is_char_boundary(*end);
            let end = (0..=whole.len().min(Self::BYTES - MARK.len())).rev().find(fits).unwrap_or(0);
            (&whole[..end], MARK)
        };
        let mut bytes = [0; Self::BYTES];
        bytes.iter_mut().zip(kept.bytes().chain(mark.bytes())).for_each(|(to, from)| *to = from);
        KeyText(bytes)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// All bytes, zeroes behind the text, as words in the order of memory.
    #[inline]
    pub(crate) fn words(&self) -> [u32; Self::BYTES / 4] {
        let word = |at: usize| self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        std::array::from_fn(|i| word(4 * i).map_or(0, |word| u32::from_ne_bytes(*word)))
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the values of a [`Key`] are: `u64`, or [`KeyText`].
pub trait KeyType: sealed::Sealed {}

impl KeyType for u64 {}
impl KeyType for KeyText {}

mod sealed {
    pub trait Sealed: Copy {
        /// How a value is given: a number, or `&str`.
        type Given<'g>;

        fn value(given: Self::Given<'_>) -> super::Value;
        fn current(slot: usize) -> Self;
    }
}

impl sealed::Sealed for u64 {
    type Given<'g> = u64;

    fn value(given: u64) -> Value {
        Value::Number(given)
    }

    fn current(slot: usize) -> u64 {
        number(slot)
    }
}

impl sealed::Sealed for KeyText {
    type Given<'g> = &'g str;

    fn value(given: &str) -> Value {
        Value::Text(KeyText::new(given))
    }

    fn current(slot: usize) -> KeyText {
        // SAFETY: copied at once.
        *unsafe { text(slot) }
    }
}

/// A value of a key.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    Number(u64),
    Text(KeyText),
}

impl Value {
    /// Gives it to the key of a slot in this thread, until what is returned is dropped.
    fn set(&self, slot: usize) -> Restored<'_> {
        let before = match self {
            Value::Number(number) => Before::Number(NUMBERS.with(|numbers| numbers[slot].replace(*number))),
            Value::Text(text) => {
                // Release: orders the text before its address, for a signal handler of this thread. Pairs with the load in `text`,
                // which depends on it.
                compiler_fence(Ordering::Release);
                Before::Text(TEXTS.with(|texts| texts[slot].replace(text)))
            }
        };
        Restored { slot, before, value: PhantomData }
    }
}

/// What a key had before.
enum Before {
    Number(u64),
    Text(*const KeyText),
}

/// Puts that back. It borrows the value meanwhile, and is not leaked: it never leaves this module (KY-1).
struct Restored<'v> {
    slot: usize,
    before: Before,
    value: PhantomData<&'v Value>,
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        match self.before {
            Before::Number(number) => NUMBERS.with(|numbers| numbers[self.slot].set(number)),
            Before::Text(text) => {
                TEXTS.with(|texts| texts[self.slot].set(text));
                // SeqCst: what becomes of the text comes after, for a signal handler of this thread. Pairs as above.
                compiler_fence(Ordering::SeqCst);
            }
        }
    }
}

/// Futures that carry the values of [`Key`]s.
pub trait Carry: Future + Sized {
    /// The future, with a value whenever it is polled.
    fn with_key<V: KeyType>(self, key: Key<V>, value: V::Given<'_>) -> Carrying<Self> {
        Carrying { future: ManuallyDrop::new(self), values: [(key.slot, V::value(value))].into(), within: None }
    }

    /// The future, with the values that this thread has now: for tasks that are spawned. Functions that are traced in it have the
    /// traced future as their parent that this thread polls now, as if they were called here.
    fn with_current_keys(self) -> Carrying<Self> {
        let value = |(slot, provider): (usize, &provider::Provider)| match provider.provide {
            Provide::Function(_) => None,
            Provide::Number => Some((slot, Value::Number(number(slot)))),
            // SAFETY: copied at once.
            Provide::Text => Some((slot, Value::Text(*unsafe { text(slot) }))),
        };
        let values = provider::providers().enumerate().filter_map(value).collect();
        Carrying { future: ManuallyDrop::new(self), values, within: Some(current_future()) }
    }
}

impl<F: Future> Carry for F {}

/// A future with values of [`Key`]s; made by [`Carry`]. It has them where it is polled, and where it is dropped before its end.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Carrying<F> {
    /// Pinned with its owner; dropped once, with the values.
    future: ManuallyDrop<F>,
    /// By slot, each once.
    values: Box<[(usize, Value)]>,
    /// The traced future inside of which it was made; `None`: it goes where it is polled.
    within: Option<u64>,
}

/// Sets what a future carries in this thread, until what is returned is dropped.
fn set(values: &[(usize, Value)], within: Option<u64>) -> ([Option<Restored<'_>>; MOST], Option<Within>) {
    (std::array::from_fn(|i| values.get(i).map(|(slot, value)| value.set(*slot))), within.map(Within::future))
}

impl<F: Future> Future for Carrying<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<F::Output> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        let _restored = set(&this.values, this.within);
        // SAFETY: the future is pinned with its owner, which never moves it.
        unsafe { Pin::new_unchecked(&mut *this.future) }.poll(context)
    }
}

impl<F> Drop for Carrying<F> {
    fn drop(&mut self) {
        let _restored = set(&self.values, self.within);
        // SAFETY: dropped once, where it is, and not used again.
        unsafe { ManuallyDrop::drop(&mut self.future) };
    }
}
