//! Handlers of signals that the program shares with us.
//!
//! A handler that the program had installed before runs after ours; one that it installs later replaces ours, unless it chains.
//!
//! A forked child has our handlers, and no thread that attends to them. A signal that would have ended it without us still does, unless
//! the program has put a handler of its own over ours. (Crates for handlers have one handler for all who ask; there it cannot be seen
//! whether anybody else has asked, which is why this is not left to one.)
#![expect(unsafe_code, reason = "sigaction(2)")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use trace_registry::sync::{AtomicPtr, AtomicU32, Ordering};

/// What is done when a signal comes, in the process that asked for it. It must be async-signal-safe and leave `errno` as it is.
pub(crate) type Action = fn(libc::c_int);

struct Handled {
    /// Actions, as addresses of functions; null: none.
    actions: [AtomicPtr<()>; 2],
    /// What was there before the handler; null: there is no handler.
    before: AtomicPtr<libc::sigaction>,
    /// The process whose actions these are.
    process: AtomicU32,
}

const NUMBERS: usize = 65;

static HANDLED: [Handled; NUMBERS] = [const {
    Handled {
        actions: [const { AtomicPtr::new(ptr::null_mut()) }; 2],
        before: AtomicPtr::new(ptr::null_mut()),
        process: AtomicU32::new(0),
    }
}; NUMBERS];

/// Has `action` done when the signal `number` comes to this process. For who holds the control lock; repeated, it changes nothing.
///
/// # Errors
///
/// The signal cannot have a handler.
pub(crate) fn on_signal(number: libc::c_int, action: Action) -> io::Result<()> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "it cannot have a handler");
    // Of a fault, the handler would return to what failed.
    let is_fault = matches!(number, libc::SIGSEGV | libc::SIGILL | libc::SIGFPE | libc::SIGBUS | libc::SIGTRAP | libc::SIGABRT);
    let handled = usize::try_from(number).ok().filter(|_| number > 0 && !is_fault).and_then(|number| HANDLED.get(number));
    let handled = handled.ok_or_else(invalid)?;
    let own = action as *mut ();
    // Relaxed, in all: the control lock orders callers, and the call of sigaction(2) what they did before the handler runs.
    if handled.process.swap(std::process::id(), Ordering::Relaxed) != std::process::id() {
        handled.actions.iter().for_each(|place| place.store(ptr::null_mut(), Ordering::Relaxed));
    }
    let is_known = handled.actions.iter().any(|place| place.load(Ordering::Relaxed) == own);
    let free = handled.actions.iter().find(|place| place.load(Ordering::Relaxed).is_null());
    if let Some(free) = free.filter(|_| !is_known) {
        free.store(own, Ordering::Relaxed);
    }
    if !handled.before.load(Ordering::Relaxed).is_null() {
        return Ok(());
    }
    // Known before the handler can run. What another thread puts there in between is overwritten by ours in any case.
    let before = current(number).ok_or_else(invalid)?;
    handled.before.store(Box::into_raw(Box::new(before)), Ordering::Relaxed);
    let mut ours = action_of(on as *const () as libc::sighandler_t);
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: `on` is a handler for SA_SIGINFO, and async-signal-safe.
    if unsafe { libc::sigaction(number, &raw const ours, ptr::null_mut()) } != 0 {
        let error = io::Error::last_os_error();
        // Not freed: there never was a handler to read it, but nothing depends on that.
        handled.before.store(ptr::null_mut(), Ordering::Relaxed);
        return Err(error);
    }
    Ok(())
}

fn action_of(handler: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: zeroes are an action: the default one, with an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action
}

/// What is done now when the signal comes. Async-signal-safe.
fn current(number: libc::c_int) -> Option<libc::sigaction> {
    let mut action = action_of(libc::SIG_DFL);
    // SAFETY: it writes one action.
    (unsafe { libc::sigaction(number, ptr::null(), &raw mut action) } == 0).then_some(action)
}

/// The handler.
///
/// # Signal safety
///
/// Async-signal-safe, as far as the program's own handlers are.
extern "C" fn on(number: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(handled) = usize::try_from(number).ok().and_then(|number| HANDLED.get(number)) else { return };
    let is_own = handled.process.load(Ordering::Relaxed) == std::process::id()
        && crate::process::get().is_some_and(crate::process::Process::is_alive);
    if is_own {
        for action in &handled.actions {
            let action = action.load(Ordering::Relaxed);
            if !action.is_null() {
                // SAFETY: `on_signal` stored the address of an `Action`.
                let action = unsafe { std::mem::transmute::<*mut (), Action>(action) };
                action(number);
            }
        }
    }
    // SAFETY: stored by `on_signal`, and never freed.
    let Some(before) = (unsafe { handled.before.load(Ordering::Relaxed).as_ref() }) else { return };
    match before.sa_sigaction {
        libc::SIG_IGN => {}
        libc::SIG_DFL => {
            let is_topmost = current(number).is_some_and(|now| now.sa_sigaction == on as *const () as libc::sighandler_t);
            if !is_own && is_topmost {
                let default = action_of(libc::SIG_DFL);
                // SAFETY: the action of a child that has none of ours; what is raised comes when this handler returns.
                unsafe {
                    libc::sigaction(number, &raw const default, ptr::null_mut());
                    libc::raise(number);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: the program installed it with SA_SIGINFO.
            unsafe { std::mem::transmute::<libc::sighandler_t, Handler>(handler)(number, info, context) };
        }
        handler => {
            // SAFETY: the program installed it, without SA_SIGINFO.
            unsafe { std::mem::transmute::<libc::sighandler_t, extern "C" fn(libc::c_int)>(handler)(number) };
        }
    }
}
