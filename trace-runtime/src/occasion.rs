//! Snapshots that nobody asks for at the moment: on a signal, on a panic.
//!
//! Nothing is installed unless a session wants it, and what the program had installed is run too. The signal's handler stores a
//! bit and wakes a thread, which takes the snapshots; the panic hook has a thread take them and waits for it, since the process
//! may be about to abort.
//!
//! A handler that the program installs afterwards replaces ours, unless it chains as well.

use crate::attach;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::process::{self, Process};
use crate::recording::Recording;
use crate::report;
use crate::snapshot::Wanted;
use crate::sys;
use rustix::process::Signal;
use rustix::thread::futex;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use trace_registry::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// When a session is to be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Occasion {
    /// The process gets this signal.
    Signal(i32),
    /// A thread panics, outside of probes.
    Panic,
}

/// Signals that may be asked for by name; signal(7).
const SIGNALS: [(&str, i32); 10] = [
    ("SIGUSR1", Signal::USR1.as_raw()),
    ("SIGUSR2", Signal::USR2.as_raw()),
    ("SIGHUP", Signal::HUP.as_raw()),
    ("SIGINT", Signal::INT.as_raw()),
    ("SIGQUIT", Signal::QUIT.as_raw()),
    ("SIGTERM", Signal::TERM.as_raw()),
    ("SIGALRM", Signal::ALARM.as_raw()),
    ("SIGCONT", Signal::CONT.as_raw()),
    ("SIGURG", Signal::URG.as_raw()),
    ("SIGWINCH", Signal::WINCH.as_raw()),
];
/// Those whose default action is to end the process: with a handler they would not.
const ENDING: [i32; 4] = [Signal::HUP.as_raw(), Signal::INT.as_raw(), Signal::QUIT.as_raw(), Signal::TERM.as_raw()];

impl Occasion {
    /// Reads `SIGUSR2` or `panic`.
    pub(crate) fn named(name: &str) -> std::result::Result<Occasion, String> {
        if name == "panic" {
            return Ok(Occasion::Panic);
        }
        let found = SIGNALS.into_iter().find(|(known, _)| *known == name || known[3..] == *name);
        let names = || SIGNALS.map(|(name, _)| name).join(", ");
        let (_, number) = found.ok_or_else(|| format!("no snapshot can be taken on `{name}`, but on panic, {}", names()))?;
        Ok(Occasion::Signal(number))
    }

    pub(crate) fn name(self) -> String {
        match self {
            Occasion::Panic => "panic".to_owned(),
            Occasion::Signal(number) => {
                let known = SIGNALS.into_iter().find(|(_, known)| *known == number);
                known.map_or_else(|| format!("signal {number}"), |(name, _)| name.to_owned())
            }
        }
    }
}

/// Sees to it that sessions are saved on these occasions from now on.
///
/// # Errors
///
/// [`Error::is_io`]: the signal cannot have a handler, or the thread does not start.
pub(crate) fn watch(occasions: &[Occasion]) -> Result<()> {
    for occasion in occasions {
        match *occasion {
            Occasion::Signal(number) => watch_signal(number)?,
            Occasion::Panic => watch_panics(),
        }
    }
    Ok(())
}

/// Signals that came and are not looked at, bit by number.
static CAME: AtomicU64 = AtomicU64::new(0);
/// What the thread sleeps on: changes with each signal.
static BELL: AtomicU32 = AtomicU32::new(0);

/// For who holds the control lock, under which sessions begin: it comes here one at a time.
fn watch_signal(number: i32) -> Result<()> {
    /// Signals that have the handler, bit by number. A forked child has its parent's handlers.
    static WATCHED: AtomicU64 = AtomicU64::new(0);
    let cannot = |e: io::Error| Error::io("cannot take snapshots on", Occasion::Signal(number).name(), e);
    // A forked child has the handlers, and no thread of ours.
    static THREAD_OF: AtomicU32 = AtomicU32::new(0);
    if THREAD_OF.swap(std::process::id(), Ordering::Relaxed) != std::process::id() {
        let body = || {
            sys::mark_thread_untraced();
            attend();
        };
        if let Err(error) = sys::spawn_with_signals_blocked(c"ringtrace-sig", body) {
            // The next session tries again.
            THREAD_OF.store(0, Ordering::Relaxed);
            return Err(cannot(error));
        }
    }
    sys::on_signal(number, came).map_err(cannot)?;
    // Relaxed: the control lock orders it.
    let is_new = WATCHED.fetch_or(1 << number, Ordering::Relaxed) & 1 << number == 0;
    if is_new && ENDING.contains(&number) {
        // As without us: what the program has not taken itself ends it, after the snapshot.
        report::say(format_args!("{} no longer ends the program, but takes a snapshot", Occasion::Signal(number).name()));
    }
    Ok(())
}

/// Async-signal-safe: it changes two words and makes one system call, which does not touch `errno`.
fn came(number: i32) {
    // Release: pairs with the Acquire in `attend`: the bit comes before the bell.
    CAME.fetch_or(1 << number, Ordering::Relaxed);
    BELL.fetch_add(1, Ordering::Release);
    let _ = futex::wake(&BELL, futex::Flags::PRIVATE, 1);
}

/// The thread that takes snapshots on signals.
fn attend() {
    loop {
        let bell = BELL.load(Ordering::Acquire);
        let came = CAME.swap(0, Ordering::Relaxed);
        for number in (1..64).filter(|number| came >> number & 1 != 0) {
            let occasion = Occasion::Signal(number);
            save(occasion, &occasion.name());
        }
        if came == 0 {
            // Woken for nothing, it looks again.
            let _ = futex::wait(&BELL, futex::Flags::PRIVATE, bell, None);
        }
    }
}

/// So long a panic waits for its snapshots.
const PATIENCE: Duration = Duration::from_secs(5);
/// Panics that are caught again and again are saved so often.
const BETWEEN: Duration = Duration::from_secs(1);

fn watch_panics() {
    static IS_SET: AtomicBool = AtomicBool::new(false);
    if std::thread::panicking() {
        return; // the hook cannot be changed now; the next session does it
    }
    // Relaxed: it decides only who sets the hook. A forked child has its parent's.
    if IS_SET.swap(true, Ordering::Relaxed) {
        return;
    }
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // First: the message may end the process.
        let place = info.location().map_or_else(String::new, |at| format!(" at {at}"));
        on_panic(format!("panic{place}"));
        previous(info);
    }));
}

fn on_panic(reason: String) {
    /// When the last one was saved, in ns of the operating system's clock; 0: none was. No lock, which a child that panics might
    /// have inherited locked.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let is_ours = process::get().is_some_and(Process::is_alive) && process::may_wait("").is_ok();
    if !is_ours || !wanting(Occasion::Panic).any(|session| session.is_recording()) {
        return; // a probe's own panic is contained, and counted
    }
    let now = Clock::process().os_ns();
    let is_due = |last: u64| last == 0 || u128::from(now.saturating_sub(last)) >= BETWEEN.as_nanos();
    // Relaxed: of threads that panic together one saves.
    if LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| is_due(last).then_some(now)).is_err() {
        return;
    }
    let (sender, done) = channel();
    let body = move || {
        sys::mark_thread_untraced();
        save(Occasion::Panic, &reason);
        let _ = sender.send(()); // nobody waits so long
    };
    if sys::spawn_with_signals_blocked(c"ringtrace-snap", body).is_ok() {
        // The thread that panics may hold what a snapshot needs, so not for ever.
        let _ = done.recv_timeout(PATIENCE);
    }
}

fn wanting(occasion: Occasion) -> impl Iterator<Item = Arc<Recording>> {
    let sessions: Vec<_> = attach::sessions().iter().filter(|s| s.builder.snapshot_on.contains(&occasion)).cloned().collect();
    sessions.into_iter()
}

/// Saves the sessions that want it.
fn save(occasion: Occasion, reason: &str) {
    for session in wanting(occasion) {
        match session.snapshot(Wanted { reason, last: None, keep: session.builder.keep }) {
            Ok(receipt) => {
                report::say(format_args!("{} events of {} in {}", receipt.events, session.name, receipt.path.display()))
            }
            Err(error) => report::say(format_args!("no snapshot of {}: {error}", session.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occasions_have_names() {
        for name in ["panic", "SIGUSR2", "SIGTERM"] {
            assert_eq!(Occasion::named(name).map(Occasion::name).as_deref(), Ok(name));
        }
        assert_eq!(Occasion::named("USR1"), Occasion::named("SIGUSR1"));
        let error = Occasion::named("SIGSEGV").expect_err("it ends the program");
        assert!(error.contains("`SIGSEGV`") && error.contains("SIGUSR2"), "{error}");
    }
}
