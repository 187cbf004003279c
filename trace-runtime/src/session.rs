//! Sessions: one recording each, with its own rules, rings, output and lifetime.

use crate::builder::Builder;
use crate::consumer;
use crate::error::Result;
use crate::process;
use crate::rcu::lock;
use crate::recording::Recording;
use crate::ring_buffer::HeaderKind;
use crate::snapshot::{Receipt, Wanted};
use crate::state;
use crate::statistics::{RuleState, Statistics};
use crate::trigger::{self, TriggerState};
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trace_registry::probe::{Loss, Target};
use trace_registry::{Event, Level, Name, tracepoint};

/// A recording. Dropping it stops it and delivers what its rings hold.
///
/// ```no_run
/// # fn main() -> Result<(), trace_runtime::Error> {
/// use trace_runtime::Session;
/// let session = Session::builder("slow-evictions").enable("storage:* level info").memory(64 << 20).start()?;
/// // … the program runs …
/// let statistics = session.stop()?;
/// println!("{statistics}");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Session {
    pub(crate) recording: Arc<Recording>,
}

impl Session {
    /// Begins the description of a session. The name is unique in the process: letters, digits, `-`, `_`, `.`.
    pub fn builder(name: &str) -> Builder {
        Builder::new(name)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.recording.name
    }

    /// Returns the trace directory; `None`: the session prints.
    pub fn path(&self) -> Option<&Path> {
        self.recording.path.as_deref()
    }

    /// Records what `rules` match from now on, whatever earlier rules said of it.
    ///
    /// Never waits for a grace period. Other threads see the change within nanoseconds.
    ///
    /// # Errors
    ///
    /// As for [`Builder::start`]; then no rule has changed. [`Error::is_io`](crate::Error::is_io): the output cannot take the
    /// descriptions of new events; then the recording has ended. An output that hangs is waited for no longer than a second.
    /// [`Error::is_busy`](crate::Error::is_busy): too much waits for a grace period.
    pub fn enable(&self, rules: &str) -> Result<()> {
        self.recording.change(rules, false)?;
        state::dump(&self.recording, Some(rules));
        Ok(())
    }

    /// Records what `rules` match no longer. An event that is being recorded may still be.
    ///
    /// # Errors
    ///
    /// As for [`enable`](Self::enable).
    pub fn disable(&self, rules: &str) -> Result<()> {
        self.recording.change(rules, true).map(drop)
    }

    /// Stops recording and delivers everything that was recorded. The trace is complete when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::is_io`](crate::Error::is_io) if the output failed, now or earlier: what was written before is a complete trace.
    /// An error too if called from inside a probe.
    pub fn stop(&self) -> Result<Statistics> {
        self.recording.check_process()?;
        process::may_wait("`Session::stop`")?;
        consumer::wait(consumer::stop(&self.recording)?)?;
        Ok(self.recording.statistics())
    }

    /// Records again after [`stop`](Self::stop), into the same trace.
    ///
    /// # Errors
    ///
    /// As for [`enable`](Self::enable); [`Error::is_io`](crate::Error::is_io) if the output had failed;
    /// [`Error::is_busy`](crate::Error::is_busy) while another thread stops it.
    pub fn start(&self) -> Result<()> {
        self.recording.start()?;
        state::dump(&self.recording, None);
        Ok(())
    }

    /// Writes what the rings of a session in [overwrite mode](crate::Builder::overwrite) hold now as a trace of its own, while
    /// writers go on. Nothing is stopped, switched or consumed; the same events are in the next snapshot too.
    ///
    /// It lies beside the session's trace, in `SESSION.snapshots/TIME-REASON.ringtrace`, and is complete as soon as it has that
    /// name. The newest ten of this process are kept, or as many as [`Builder::keep`](crate::Builder::keep) says.
    ///
    /// # Errors
    ///
    /// [`Error::is_io`](crate::Error::is_io) if it cannot be written; an error if the session is in discard mode, or stopped.
    pub fn snapshot(&self, reason: &str) -> Result<Receipt> {
        self.recording.snapshot(Wanted { reason, last: None, keep: self.recording.builder.keep })
    }

    /// The same, of the sub-buffers that hold what happened in the time `last` before now.
    ///
    /// # Errors
    ///
    /// As for [`snapshot`](Self::snapshot).
    pub fn snapshot_last(&self, last: Duration, reason: &str) -> Result<Receipt> {
        self.recording.snapshot(Wanted { reason, last: Some(last), keep: self.recording.builder.keep })
    }

    /// Adds triggers: `when CONDITION then ACTIONS` or `keep EVENT by KEY`, several separated by `;` or line ends. The
    /// [grammar](https://github.com/ringtrace/ringtrace/blob/main/docs/triggers.md) is that of the command and of `RINGTRACE`.
    ///
    /// They hold until they are [removed](Self::remove_trigger) or the session ends; also while it is stopped. Each takes 1 MiB
    /// of memory for each event that it names, within the process's ceiling. Returns their names.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), trace_runtime::Error> {
    /// # use trace_runtime::Session;
    /// let session = Session::builder("flight").enable("*").overwrite().start()?;
    /// session.trigger("when latency(req:start, req:end by id) > 5ms then snapshot before 10s after 1s debounce 30s")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::is_rule`](crate::Error::is_rule) for a wrong trigger, with the place in the text;
    /// [`Error::is_memory`](crate::Error::is_memory) where the ceiling is too small. Those in front of the wrong one are added
    /// only if all could be parsed.
    pub fn trigger(&self, triggers: &str) -> Result<Vec<String>> {
        trigger::add(&self.recording, triggers)
    }

    /// Removes a trigger. What it saw before is still acted on.
    ///
    /// # Errors
    ///
    /// There is none of that name.
    pub fn remove_trigger(&self, name: &str) -> Result<()> {
        trigger::remove(&self.recording, name)
    }

    /// Returns the triggers, with what each has done so far and the receipt of its last firing.
    pub fn triggers(&self) -> Vec<TriggerState> {
        if !self.recording.process.is_alive() {
            return Vec::new();
        }
        trigger::states(&self.recording)
    }

    /// Returns the form of the record headers: compact where at most 31 classes matched when the session was made.
    pub fn header(&self) -> HeaderKind {
        self.recording.channel.header()
    }

    /// Returns what was recorded and lost so far.
    ///
    /// Zeroes in a forked child.
    pub fn statistics(&self) -> Statistics {
        // A lock may have been held when the process was forked.
        if !self.recording.process.is_alive() {
            return Statistics::default();
        }
        self.recording.statistics()
    }

    /// Returns the rules in force, the deciding one last, with what each has passed over so far.
    pub fn rules(&self) -> Vec<RuleState> {
        if !self.recording.process.is_alive() {
            return Vec::new();
        }
        self.recording.rule_states()
    }

    /// Returns what the session found questionable: patterns that match nothing, tracepoints without a probe, rings without
    /// a name, an output that failed.
    pub fn warnings(&self) -> Vec<String> {
        if !self.recording.process.is_alive() {
            return Vec::new();
        }
        lock(&self.recording.warnings).clone()
    }

    /// Returns a recorder for events of one class, which is described in the trace from now on.
    ///
    /// Its events are called `crate:module::Type`, at level Info.
    ///
    /// # Errors
    ///
    /// [`Error::is_io`](crate::Error::is_io) if the output failed; an error if an event of the class is larger than a record
    /// may be.
    pub fn recorder<E: Event>(&self) -> Result<Recorder<E::Class>> {
        self.recording.check_process()?;
        let class = E::DESCRIPTION;
        let name = Name::derived(class.module_path, class.name).to_string();
        let id = self.recording.event_id(&name, Level::Info, class, E::SIZES.least)?;
        self.recording.describe_to_output()?;
        Ok(Recorder::new(id, self.recording.clone()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.recording.process.is_alive() {
            // From inside a probe the consumer's thread does it by itself: waiting would be for this very probe.
            let wait = process::may_wait("").is_ok();
            consumer::destroy(&self.recording, wait);
        }
    }
}

/// Records events of one class into one session, from anywhere in the program.
pub struct Recorder<C> {
    event_id: u32,
    /// Of the recording that `target` is for: each start of a session is another.
    generation: u64,
    target: Target,
    session: Arc<Recording>,
    class: PhantomData<fn(C)>,
}

impl<C> fmt::Debug for Recorder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("session", &self.session.name).field("event_id", &self.event_id).finish_non_exhaustive()
    }
}

impl<C: Event> Recorder<C> {
    fn new(event_id: u32, session: Arc<Recording>) -> Recorder<C> {
        let generation = session.generation();
        let target = session.channel.target(event_id, generation, C::SIZES.least); // CH-1: `session` holds the channel
        Recorder { event_id, generation, target, session, class: PhantomData }
    }

    /// Records `event`, with any lifetimes. Nothing happens while the session is stopped.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free, if the event's fields are.
    #[inline]
    pub fn record<E: Event<Class = C>>(&self, event: E) {
        if self.generation == self.session.generation() {
            record(&self.target, &event);
        } else {
            self.record_in_another_generation(&event);
        }
    }

    /// After the session was stopped, and perhaps started again.
    #[cold]
    fn record_in_another_generation<E: Event<Class = C>>(&self, event: &E) {
        let target = self.session.channel.target(self.event_id, self.session.generation(), C::SIZES.least);
        record(&target, event);
    }
}

#[inline(always)]
fn record<E: Event>(target: &Target, event: &E) {
    if !tracepoint::within(|| target.record(event)) {
        target.lose(Loss::Nested);
    }
}

static_assertions::assert_impl_all!(Session: Send, Sync, std::panic::UnwindSafe, std::panic::RefUnwindSafe);
