//! The description of a session, until it starts.

use crate::attach::{self, NamedProbe};
use crate::consumer;
use crate::context::Context;
use crate::error::{Kind, Result};
use crate::follow::Lost;
use crate::occasion::{self, Occasion};
use crate::output::rotation::Rotation;
use crate::plan::{self, Wanted};
use crate::process::{self, Process};
use crate::rcu::lock;
use crate::recording::Recording;
use crate::ring_buffer::{Geometry, Placement};
use crate::rule::Rule;
use crate::session::Session;
use crate::state;
use crate::sys;
use crate::trigger::grammar::Spec;
use crate::trigger::{self, Source};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trace_ctf::metadata::Format;
use trace_registry::sync::{AtomicU64, Ordering};

/// Memory of a session whose builder names none, in bytes.
const MEMORY: u64 = 16 << 20;

/// Snapshots that are kept, where nobody says how many.
pub(crate) const KEEP: usize = 10;

pub(crate) static CEILING: AtomicU64 = AtomicU64::new(1 << 30);

/// Sets the memory that all sessions of this process together may map, in bytes. 1 GiB at first.
pub fn set_memory_ceiling(bytes: u64) {
    CEILING.store(bytes, Ordering::Relaxed);
}

/// How the time stamps of a session are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The fastest: right on each CPU, and between CPUs within a microsecond.
    #[default]
    Fast,
    /// Causal order holds between CPUs too; some 7 ns more for each event.
    Ordered,
    /// The operating system's monotonic clock; some 13 ns more. Also what the others are where the processor's time stamp
    /// counter cannot be used.
    Os,
    /// No time stamps, so that an event costs its bytes alone: a third. Only the order of the events of one CPU is known; readers
    /// show them all at the clock's origin.
    None,
}

impl Clock {
    const ALL: [Clock; 4] = [Clock::Fast, Clock::Ordered, Clock::Os, Clock::None];

    /// Returns the name by which the command and the environment know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Clock::Fast => "fast",
            Clock::Ordered => "ordered",
            Clock::Os => "os",
            Clock::None => "none",
        }
    }

    /// Returns the clock of a name.
    pub(crate) fn named(name: &str) -> std::result::Result<Clock, String> {
        let known = || Self::ALL.map(Clock::name).join(", ");
        let found = Self::ALL.into_iter().find(|clock| clock.name() == name);
        found.ok_or_else(|| format!("no clock is called `{name}`; there are {}", known()))
    }
}

/// What a session is to be; made by [`Session::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `start`"]
pub struct Builder {
    pub(crate) name: String,
    pub(crate) rules: Vec<String>,
    pub(crate) triggers: Vec<String>,
    pub(crate) overwrite: bool,
    pub(crate) keep: usize,
    pub(crate) memory: u64,
    pub(crate) sub_buffer: Option<u32>,
    pub(crate) rings: Option<PathBuf>,
    pub(crate) output: Output,
    pub(crate) format: Format,
    pub(crate) context: Context,
    pub(crate) sensitive: bool,
    pub(crate) clock: Clock,
    pub(crate) snapshot_on: Vec<Occasion>,
    pub(crate) rotation: Rotation,
    pub(crate) announced: bool,
    pub(crate) is_agents: bool,
    pub(crate) follow: bool,
    /// Whether the session ends with a connection to the agent.
    pub(crate) bound: bool,
    /// Output of the first of a family whose children are followed.
    pub(crate) root: Option<PathBuf>,
    /// Whether the session begins without the tracer's threads.
    pub(crate) is_threadless: bool,
    /// Whether it is a forked child's, which makes nothing that would be left before its first event.
    pub(crate) heir: Option<Heir>,
}

/// What a child's session has of its parent's.
#[derive(Clone, Debug)]
pub(crate) struct Heir {
    /// Where the parent's rings are; `None`: they have no name.
    pub(crate) base: Option<PathBuf>,
    /// Where the family counts what it could not record.
    pub(crate) lost: Option<Lost>,
}

#[derive(Clone, Debug)]
pub(crate) enum Output {
    Default,
    Directory(PathBuf),
    /// The same, where programs that are started with the same environment have it too: `DIR-PID` where it is taken.
    Shared(PathBuf),
    Print,
    /// Another process consumes the rings, and writes the trace, there if it said where.
    Elsewhere(Option<PathBuf>),
    /// A trigger follows the events.
    Trigger(Source),
}

impl Builder {
    pub(crate) fn new(name: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            rules: Vec::new(),
            triggers: Vec::new(),
            overwrite: false,
            keep: KEEP,
            memory: MEMORY,
            sub_buffer: None,
            rings: None,
            output: Output::Default,
            format: Format::default(),
            context: Context::default(),
            sensitive: false,
            clock: Clock::default(),
            snapshot_on: Vec::new(),
            rotation: Rotation::default(),
            announced: false,
            is_agents: false,
            follow: false,
            bound: false,
            root: None,
            is_threadless: false,
            heir: None,
        }
    }

    /// Records what `rules` match, as further rules after those given before. Parsed by [`start`](Self::start).
    pub fn enable(mut self, rules: &str) -> Builder {
        self.rules.push(rules.to_owned());
        self
    }

    /// Checks that its rules and triggers can be read, whatever the program has.
    pub(crate) fn parse(&self) -> Result<()> {
        self.rules.iter().try_for_each(|text| Rule::parse_all(text, false).map(drop))?;
        self.triggers.iter().try_for_each(|text| Spec::parse_all(text).map(drop))
    }

    /// Adds [triggers](Session::trigger), as further ones after those given before. Parsed by [`start`](Self::start).
    pub fn trigger(mut self, triggers: &str) -> Builder {
        self.triggers.push(triggers.to_owned());
        self
    }

    /// Keeps the newest events when the rings are full (flight recorder). Otherwise the newest are discarded.
    pub fn overwrite(mut self) -> Builder {
        self.overwrite = true;
        self
    }

    /// Sets how many [snapshots](Session::snapshot) are kept: the newest, at least 1. Ten at first.
    pub fn keep(mut self, snapshots: usize) -> Builder {
        self.keep = snapshots;
        self
    }

    /// Takes a [snapshot](Session::snapshot) whenever the process gets this signal, as numbered in signal(7): `libc::SIGUSR2`.
    /// For a session in [overwrite mode](Self::overwrite).
    ///
    /// A handler that the program has is called too; one that it installs afterwards should chain to ours. The snapshot is
    /// taken by a thread of the tracer, which a line on stderr tells.
    pub fn snapshot_on(self, signal: i32) -> Builder {
        self.save_on(Occasion::Signal(signal))
    }

    /// Takes a [snapshot](Session::snapshot) whenever a thread panics, so also when a test fails; before the panic hook that the
    /// program has, which is called too. For a session in [overwrite mode](Self::overwrite).
    ///
    /// At most once a second. A panic inside a probe takes none.
    ///
    /// ```no_run
    /// #[test]
    /// fn it_works() {
    ///     let _saved = trace_runtime::Session::builder("it-works").enable("*").overwrite().snapshot_on_panic().start();
    ///     // … assertions: where one fails, it-works.snapshots/ has what happened before …
    /// }
    /// # fn main() {}
    /// ```
    pub fn snapshot_on_panic(self) -> Builder {
        self.save_on(Occasion::Panic)
    }

    pub(crate) fn save_on(mut self, occasion: Occasion) -> Builder {
        self.snapshot_on.push(occasion);
        self
    }

    /// Cuts the recording into traces of about so many bytes, `OUTPUT/000001`, `OUTPUT/000002`…, each readable on its own.
    pub fn rotate_size(mut self, bytes: u64) -> Builder {
        self.rotation.size = Some(bytes);
        self
    }

    /// Cuts the recording into traces of so much time, at the first packet after it. With [`rotate_size`](Self::rotate_size),
    /// whichever comes first.
    pub fn rotate_time(mut self, time: Duration) -> Builder {
        self.rotation.time = Some(time);
        self
    }

    /// Removes the oldest traces of a recording that is cut when all together have more than so many bytes.
    pub fn quota(mut self, bytes: u64) -> Builder {
        self.rotation.quota = Some(bytes);
        self
    }

    /// Sets the memory ceiling of the session, in bytes, for everything that it maps. 16 MiB at first.
    pub fn memory(mut self, bytes: u64) -> Builder {
        self.memory = bytes;
        self
    }

    /// Sets the size of the sub-buffers, in bytes: a power of two from 4 KiB to 4 MiB. By default between a sixteenth and an eighth
    /// of a ring.
    pub fn sub_buffer(mut self, bytes: u32) -> Builder {
        self.sub_buffer = Some(bytes);
        self
    }

    /// Keeps the rings in files below `directory`, which is made, in place of memory: what is mounted into a container from its
    /// host's disk outlives the container, and what a killed program recorded is recovered from there.
    ///
    /// They are mapped all the same, and nobody waits for the disk to have them. What becomes known while another thread must not be kept
    /// waiting, such as the tracepoints of a library that is loaded, is recorded a moment later, by way of the tracer's thread. But the kernel writes changed pages to the disk
    /// from time to time, and the next store to such a page faults, which takes a microsecond, or as long as the disk is busy.
    pub fn rings(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.rings = Some(directory.into());
        self
    }

    /// Sets the form of the trace's metadata: CTF 1.8 at first, which every reader understands. The streams are the same.
    pub fn format(mut self, format: Format) -> Builder {
        self.format = format;
        self
    }

    /// Writes the trace into a new directory at `path`. By default `./NAME-TIME.ringtrace`.
    pub fn output(mut self, path: impl Into<PathBuf>) -> Builder {
        self.output = Output::Directory(path.into());
        self
    }

    /// Writes the trace there, or beside it where another process does.
    pub(crate) fn shared_output(mut self, path: impl Into<PathBuf>) -> Builder {
        self.output = Output::Shared(path.into());
        self
    }

    /// Prints the events on stderr, from the consumer's thread, and writes no trace.
    pub fn print(mut self) -> Builder {
        self.output = Output::Print;
        self
    }

    /// Sets the context fields of each record. By default the thread ID.
    pub fn context(mut self, context: Context) -> Builder {
        self.context = context;
        self
    }

    /// Records sensitive fields as they are. Otherwise they are left out.
    pub fn sensitive(mut self) -> Builder {
        self.sensitive = true;
        self
    }

    /// Sets how time stamps are taken.
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// Records children after fork(2) too: each has a session like this one, with the rules of that moment, its own rings, and a
    /// trace of its own in `OUTPUT-PID`, and so have its children. Where this program can be controlled from outside, they can.
    ///
    /// The child is recorded before fork(2) returns in it, which takes a fraction of a millisecond. With its first event its rings get their
    /// memory and their names, which takes as long as the kernel needs to zero that memory, some milliseconds at most; then it can be controlled, and its trace is made. A
    /// child that runs another program, or ends, without an event leaves nothing. Each child that fires takes as much memory as its
    /// parent's session: nobody can count for a family whose members may be killed at any time. Its rules' times (`for 30s`) begin anew.
    /// Closures that the parent attached are not in it. What it recorded is complete when it returns from `main` or calls exit(3); a child that calls `_exit` or is killed leaves
    /// its last events to `ringtrace recover`. Programs that it starts by exec(2) are traced as ever: by their environment.
    ///
    /// Children of vfork(2), of the bare system call, and of a signal handler are not followed: only fork(3) runs handlers, and those
    /// do nothing in the child of a handler, which may hold any lock. Such a child says so on stderr, and is traced when it calls
    /// [`init`](crate::init()). A child that is forked while signals are blocked that have handlers looks the same, and is treated so.
    pub fn follow(mut self) -> Builder {
        self.follow = true;
        self
    }

    /// The session ends with a connection to the agent.
    pub(crate) fn bound(mut self, bound: bool) -> Builder {
        self.bound = bound;
        self
    }

    /// Says on stderr where the trace lies, at the end of the process.
    pub(crate) fn announced(mut self, announced: bool) -> Builder {
        self.announced = announced;
        self
    }

    /// Another process consumes the rings, and writes the trace.
    pub(crate) fn consumed_elsewhere(mut self, output: Option<PathBuf>) -> Builder {
        self.output = Output::Elsewhere(output);
        self
    }

    /// The trace lies there, whoever writes it.
    pub(crate) fn moved(mut self, path: PathBuf) -> Builder {
        self.output = match self.output {
            Output::Elsewhere(_) => Output::Elsewhere(Some(path)),
            _ => Output::Shared(path),
        };
        self
    }

    /// The session begins without the tracer's threads: its rings are not consumed until they run.
    pub(crate) fn threadless(mut self) -> Builder {
        self.is_threadless = true;
        self
    }

    /// The session belongs to nobody in the program: the agent may end it.
    pub(crate) fn for_agent(mut self) -> Builder {
        self.is_agents = true;
        self
    }

    /// Makes the session and starts it.
    ///
    /// # Errors
    ///
    /// [`Error::is_rule`](crate::Error::is_rule) for a wrong rule,
    /// [`Error::is_session_exists`](crate::Error::is_session_exists) where another session has the name,
    /// [`Error::is_memory`](crate::Error::is_memory) where a ceiling is too small, [`Error::is_io`](crate::Error::is_io) where
    /// the rings or the output cannot be created, [`Error::is_off`](crate::Error::is_off) where this process cannot trace.
    pub fn start(self) -> Result<Session> {
        let recording = self.begin()?;
        state::dump(&recording, None);
        Ok(Session { recording })
    }

    /// The sizes of its rings, and whether they are by concurrency ID.
    fn divide(&self, process: &Process) -> Result<(Geometry, bool)> {
        let sequences = trace_registry::sys::cpu_id() != u32::MAX;
        plan::divide(Wanted {
            memory: self.memory,
            sub_buffer: self.sub_buffer,
            cpus: if sequences { process.cpus.len() as u32 } else { 0 },
            has_cid: Placement::MmCid.is_available(),
        })
    }

    /// The same, for whoever ends the recording otherwise.
    pub(crate) fn begin(self) -> Result<Arc<Recording>> {
        let process = process::current()?;
        if !matches!(self.output, Output::Trigger(_)) {
            check_name(&self.name)?;
        }
        for text in &self.triggers {
            Spec::parse_all(text)?.iter().try_for_each(|spec| trigger::check_mode(spec, self.overwrite, text))?;
        }
        if !self.snapshot_on.is_empty() && !self.overwrite {
            return Err(Kind::NoFlightRecorder(self.name).into());
        }
        let mut warnings = Vec::new();
        if self.rotation.quota.is_some() && !self.rotation.is_wanted() {
            warnings.push("a quota removes nothing unless the recording is cut too, by size or time".to_owned());
        }
        let mut rules = Vec::new();
        for text in &self.rules {
            rules.extend(attach::rules(text, false, !self.sensitive, self.is_agents, &mut warnings)?);
        }
        warnings.extend(attach::duplicates(&rules));
        if self.follow {
            sys::remember_utc_offset();
        }
        let divided = self.divide(process)?;
        let _reservation = attach::reserve(&self.name, divided.0.file_size())?;
        if self.is_threadless {
            consumer::run_at_exit();
        } else {
            consumer::ensure_running()?;
        }
        // Before anything is made that would be left: without a session, an occasion saves nothing.
        occasion::watch(&self.snapshot_on)?;
        let recording = Arc::new(Recording::create(process, &self, rules, warnings, divided)?);
        let taken = |p: &NamedProbe| recording.wants(p);
        let described = recording.prepare(taken).and_then(|_| lock(&recording.delivery).describe_first());
        if let Err(error) = described {
            recording.remove_files();
            return Err(error);
        }
        let mut control = attach::control();
        if let Err(error) = recording.prepare_locked(taken) {
            drop(control);
            recording.remove_files();
            return Err(error);
        }
        control.add(recording.clone());
        control.publish(taken);
        drop(control);
        consumer::hurry();
        if recording.builder.heir.is_none() {
            populate_the_rest(&recording);
            // A followed child that sleeps: its program does something.
            consumer::wake();
        }
        for text in &self.triggers {
            if let Err(error) = trigger::add(&recording, text) {
                consumer::destroy(&recording, false);
                return Err(error);
            }
        }
        Ok(recording)
    }
}

/// Makes the memory of the rings present, beyond what the session began with, without keeping anybody waiting.
pub(crate) fn populate_the_rest(session: &Arc<Recording>) {
    let rest = session.clone();
    let body = move || {
        sys::mark_thread_untraced();
        rest.populate(true);
    };
    if session.builder.is_threadless || sys::spawn_with_signals_blocked(c"ringtrace-pages", body).is_err() {
        session.populate(false);
    }
}

fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(good) {
        return Err(Kind::SessionName(name.to_owned()).into());
    }
    Ok(())
}
