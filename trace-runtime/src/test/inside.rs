//! Futures inside a recording for tests.

use super::Handle;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is in a recording wherever it is polled, and where it is dropped; made by [`Handle::carry`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Inside<F> {
    handle: Handle,
    /// `None` while it is being dropped.
    future: Option<Pin<Box<F>>>,
}

impl<F> Inside<F> {
    pub(super) fn new(handle: Handle, future: F) -> Inside<F> {
        Inside { handle, future: Some(Box::pin(future)) }
    }
}

impl<F: Future> Future for Inside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        let _in = this.handle.enter();
        this.future.as_mut().map_or(Poll::Pending, |future| future.as_mut().poll(context))
    }
}

impl<F> Drop for Inside<F> {
    fn drop(&mut self) {
        let _in = self.handle.enter();
        self.future = None;
    }
}

impl<F> fmt::Debug for Inside<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("handle", &self.handle).finish_non_exhaustive()
    }
}
