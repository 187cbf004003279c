//! Consuming the rings of a session in another process, which writes the trace.
//!
//! The rings and the journal of the session suffice: this side maps the rings, describes each class when the journal has it, and
//! moves `consumed`, under a claim of its own ([`ring_buffer`](crate::ring_buffer)). So it goes on when the program has died, and
//! delivers what that committed.

use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::journal;
use crate::output::rotation::{Rotated, Rotation};
use crate::output::{Directory, Sink};
use crate::rcu::lock;
use crate::ring_buffer::{Holder, Losses, Purpose, Reader};
use crate::transfer::Classes;
use rustix::fs::OFlags;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace_control::place::{JOURNAL, OpenedSession, RINGS};
use trace_control::protocol::SessionPlan;
use trace_ctf::schema as ctf;

/// The consuming end of a session of another process.
pub struct Consumer {
    delivery: Delivery,
    classes: Classes,
    journal: File,
    /// Of the journal, for messages.
    path: PathBuf,
    /// Bytes of the journal that were read.
    read: u64,
    /// Classes that the trace has: stream class and event ID.
    described: HashSet<(u32, u32)>,
    holder: Holder,
    session: OpenedSession,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("journal", &self.path).finish_non_exhaustive()
    }
}

/// What an external consumer has delivered, and what was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Event records.
    pub events: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Bytes written to the trace.
    pub written: u64,
    /// Events lost, by cause.
    pub lost: Losses,
    /// How full the fullest ring was, in 1/256: the fuller, the sooner the next round should be.
    pub fullness: u32,
}

impl Consumer {
    /// Takes the rings in the directory of a session, and creates in `output` the trace that its plan wants: its form, and when
    /// it is cut.
    ///
    /// Its files are not to be made shorter while this is there: that raises SIGBUS, which ends this process. It is safe all the same, as
    /// are sessions, whose rings this user's other processes can shorten as well: nothing is read in place of what is missing. Nothing
    /// else that others write into the files can do harm: packets are copied before they are looked at, and no length in them is taken
    /// on trust.
    ///
    /// # Errors
    ///
    /// [`Error::is_io`]: they cannot be read, another process consumes them, or the trace cannot be created.
    pub fn open(session: OpenedSession, output: &Path, plan: &SessionPlan) -> Result<Consumer> {
        let format = plan.format.as_deref().and_then(|name| name.parse().ok()).unwrap_or_default();
        let rotation = Rotation { size: plan.rotate, time: plan.rotate_ms.map(Duration::from_millis), quota: plan.quota };
        let (rings, path) = (session.path.join(RINGS), session.path.join(JOURNAL));
        let open = |name, access| session.directory.file(name, access, &[session.directory.owner]);
        let file = open(RINGS, OFlags::RDWR).map_err(|e| Error::io("cannot open", &rings, e))?;
        let journal = open(JOURNAL, OFlags::RDONLY).map_err(|e| Error::io("cannot open", &path, e))?;
        let journal::Contents { schema, origin, .. } = read_journal(&journal, &path)?;
        let reader = open_reader(&file).map_err(|e| Error::io("cannot map", &rings, e))?;
        let name = crate::process::image_name();
        let holder = Holder::new(name.pid, name.start_time);
        reader.claim(holder, now_ns()).map_err(|other| {
            let problem = format!("process {} consumes them", other.pid());
            Error::io("cannot take", &rings, io::Error::new(io::ErrorKind::ResourceBusy, problem))
        })?;
        // Events may have been recorded before now.
        let begun_ns = origin.begun_ns;
        let sink: Box<dyn Sink> = if rotation.is_wanted() {
            let place = (output, Rotated::claim(output)?);
            Box::new(Rotated::create(place, &schema.trace, format, begun_ns, rotation)?)
        } else {
            Box::new(Directory::create(output, &schema.trace, format, Some(begun_ns))?)
        };
        let classes = Classes::default();
        let delivery = Delivery::new(reader, schema.trace, false, sink, classes.clone()).of_another_process();
        let described = HashSet::new();
        let mut consumer = Consumer { delivery, classes, journal, path, read: 0, described, holder, session };
        consumer.describe()?;
        Ok(consumer)
    }

    /// Describes the classes that are new in the journal. An event's class is there before the event.
    fn describe(&mut self) -> Result<()> {
        let length = self.journal.metadata().map_or(self.read, |m| m.len());
        if length == self.read {
            return Ok(());
        }
        let schema = read_journal(&self.journal, &self.path)?.schema;
        self.read = length;
        let is_new = |class: &&ctf::EventClass| !self.described.contains(&(class.stream_id, class.id));
        let new: Vec<ctf::EventClass> = schema.events().iter().filter(is_new).cloned().collect();
        let described: Vec<_> = new.iter().map(|class| (class.stream_id, class.id)).collect();
        if !new.is_empty() {
            lock(&self.classes).extend(new);
            self.delivery.describe_first().map_err(|error| error.unrecovered(&self.session.path))?;
        }
        self.described.extend(described);
        Ok(())
    }

    /// Delivers what is ready; with `cut`, what is committed.
    ///
    /// # Errors
    ///
    /// [`Error::is_io`]: the trace cannot be written, or another process has taken over.
    pub fn round(&mut self, cut: bool) -> Result<Delivered> {
        self.renew()?;
        self.describe()?;
        let fullness = self.delivery.round(cut, now_ns()).fullness;
        self.delivered(fullness)
    }

    /// Delivers everything and ends the trace. `quiet`: nobody writes to the rings any more.
    ///
    /// # Errors
    ///
    /// As for [`round`](Self::round).
    pub fn finish(&mut self, quiet: bool) -> Result<Delivered> {
        self.renew()?;
        self.describe()?;
        self.delivery.finish(now_ns(), quiet);
        self.delivery.reader().release(self.holder);
        self.delivered(0)
    }

    /// Removes the rings and the journal: everything is delivered, and the process does not use them any more.
    pub fn remove(self) {
        self.session.remove();
    }

    fn renew(&self) -> Result<()> {
        if self.delivery.reader().renew(self.holder, now_ns()) {
            return Ok(());
        }
        let problem = "another process has taken over, as this one was stopped for more than two seconds";
        Err(Error::io("cannot go on with", &self.path, io::Error::new(io::ErrorKind::ResourceBusy, problem)))
    }

    fn delivered(&self, fullness: u32) -> Result<Delivered> {
        if let Some(failure) = self.delivery.failure() {
            return Err(failure.unrecovered(&self.session.path));
        }
        let delivery = &self.delivery;
        Ok(Delivered {
            events: delivery.events(),
            bytes: delivery.bytes(),
            written: delivery.written(),
            lost: delivery.losses(),
            fullness,
        })
    }
}

fn read_journal(file: &File, path: &Path) -> Result<journal::Contents> {
    let bytes = journal::bytes(file).map_err(|e| Error::io("cannot read", path, e))?;
    let empty = || Error::io("cannot use", path, io::Error::other("its session has not begun"));
    journal::read(&bytes, path)?.ok_or_else(empty)
}

#[expect(unsafe_code, reason = "maps a file that its owner could cut")]
fn open_reader(file: &File) -> io::Result<Reader> {
    // SAFETY: the run time never cuts a ring file, and its directory is closed to others; who consumes is settled by the claim,
    // which the caller takes before it reads a position.
    unsafe { Reader::open(file, Purpose::Consume) }
}

/// CLOCK_MONOTONIC, the clock of all stamps and claims.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
