//! What the run time does for closures: see [`trace_registry::closure`].
#![expect(unsafe_code, reason = "promises what the registry asks of a run time")]

use crate::attach;
use crate::consumer;
use crate::error::Result;
use crate::follow;
use crate::module;
use crate::process;
use crate::rcu;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;
use trace_registry::DetachError;
use trace_registry::closure::{Attached, RINGTRACE_RUNTIMES_0_1_0, Runtime};
use trace_registry::linkme::{self, distributed_slice};
use trace_registry::tracepoint::Promise;

#[distributed_slice(RINGTRACE_RUNTIMES_0_1_0)]
#[linkme(crate = linkme)]
pub(crate) static RUNTIME: Runtime = Runtime {
    attach: |closure| attach(closure).map_err(|e| e.to_string()),
    detach,
    detach_and_wait,
    register: module::register,
    unregister: module::unregister,
    is_panicking: std::thread::panicking,
    // SAFETY: CL-2: `detach` leaves the closure to the reclaimer.
    promise: unsafe { Promise::given() },
};

fn attach(closure: Arc<Attached>) -> Result<()> {
    process::current()?;
    rcu::admit()?;
    consumer::ensure_running()?;
    attach::control().attach(closure);
    Ok(())
}

fn detach(closure: Arc<Attached>) {
    // In a forked child a lock may have been held when it was forked, and what was captured is the parent's.
    if follow::is_child() || (process::get().is_some() && !attach::control().release(&closure)) {
        std::mem::forget(closure);
    } else if process::get().is_some() {
        rcu::retire(Box::new(closure)); // CL-2
    }
}

/// Tells, when it is dropped, that what was retired before it has been dropped.
struct Signal(Sender<()>);

impl Drop for Signal {
    fn drop(&mut self) {
        // Whoever waited may have given up.
        let _ = self.0.send(());
    }
}

fn detach_and_wait(closure: Arc<Attached>, limit: Duration) -> std::result::Result<(), DetachError> {
    detach(closure);
    if process::may_wait("").is_err() {
        return Err(DetachError::INSIDE);
    }
    if follow::is_child() || process::get().is_none() {
        return Ok(());
    }
    wait_for_reclaimer(limit).then_some(()).ok_or(DetachError::stuck(limit))
}

/// Waits until what has been retired so far is dropped, for at most `limit`. Returns whether it is.
pub(crate) fn wait_for_reclaimer(limit: Duration) -> bool {
    let (sender, receiver) = mpsc::channel();
    rcu::retire(Box::new(Signal(sender)));
    consumer::hurry();
    match receiver.recv_timeout(limit) {
        Ok(()) => true,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
    }
}

/// What to say of a closure that panicked.
pub(crate) fn panicked(closure: &Attached) -> String {
    format!("a closure attached to {} at {} panicked; it is detached", closure.tracepoint.name, closure.location)
}
