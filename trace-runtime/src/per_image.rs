//! Statics of a process image: what a forked child that traces has anew.
//!
//! After fork(2), a lock may be held for ever by a thread that the child does not have, and what it guards may be half changed.
//! So a child does not repair the state that it inherited: it leaves it alone, and begins with a new one.
#![expect(unsafe_code, reason = "a static that is replaced as a whole")]

use std::ptr;
use trace_registry::sync::{AtomicPtr, Ordering};

/// A value that is made at its first use, and again in a forked child that [renews](Self::renew) it. Never freed.
pub(crate) struct PerImage<T: 'static> {
    value: AtomicPtr<T>,
    make: fn() -> T,
}

impl<T: Send + Sync> PerImage<T> {
    pub(crate) const fn new(make: fn() -> T) -> PerImage<T> {
        PerImage { value: AtomicPtr::new(ptr::null_mut()), make }
    }

    /// Returns the value of this process image. Where several threads are first, one's is everybody's.
    #[inline]
    pub(crate) fn get(&self) -> &'static T {
        self.peek().unwrap_or_else(|| self.first())
    }

    /// Returns the value if it was made. Async-signal-safe.
    #[inline]
    pub(crate) fn peek(&self) -> Option<&'static T> {
        // Acquire: orders the value before its address. Pairs with the exchange in `first`.
        let value = ptr::NonNull::new(self.value.load(Ordering::Acquire))?;
        // SAFETY: made by `Box::into_raw` in `first`, and never freed.
        Some(unsafe { value.as_ref() })
    }

    #[cold]
    fn first(&self) -> &'static T {
        let made = Box::into_raw(Box::new((self.make)()));
        // Release: orders the value before its address; pairs with `get`. Acquire: as there, where another thread was first.
        match self.value.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: never freed from now on.
            Ok(_) => unsafe { &*made },
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: as in `get`.
                unsafe { &*other }
            }
        }
    }

    /// Forgets the parent's value; for a forked child, which has one thread. Whoever has a reference may keep it.
    pub(crate) fn renew(&self) {
        // Relaxed: there is no other thread.
        self.value.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn all_threads_have_one_value_until_it_is_renewed() {
        static VALUE: PerImage<Mutex<u32>> = PerImage::new(|| Mutex::new(7));
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| *VALUE.get().lock().expect("a lock") += 1))));
        let before = VALUE.get();
        let held = before.lock().expect("a lock");
        assert_eq!(*held, 11);
        VALUE.renew();
        assert!(VALUE.peek().is_none(), "whoever only looks makes nothing");
        assert_eq!(*VALUE.get().lock().expect("a lock of its own"), 7);
        assert!(VALUE.peek().is_some());
    }
}
