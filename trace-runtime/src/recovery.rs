//! Recovery: the trace of a process that has ended in any way, from the files of its rings.
//!
//! Nothing in the process takes part, and nothing has to be repaired: at every instruction the rings' committed positions cover
//! whole records only. Recovery does what the consumer's thread would have done: it delivers what was committed and not yet
//! delivered, behind what the trace directory has.
//!
//! ```no_run
//! use trace_runtime::recovery::Remains;
//! # fn main() -> Result<(), trace_runtime::Error> {
//! let remains = Remains::open("/run/user/1000/ringtrace/4711-31337-89abcdef/default".as_ref())?;
//! let recovered = remains.recover(None)?;
//! println!("{} more events in {}", recovered.events, recovered.path.display());
//! # Ok(()) }
//! ```
//!
//! # Invariants
//!
//! - RC-1: Nobody else reads or writes the rings: their process is gone, or has said in them that it does not any more, and who
//!   recovers holds a lock on their file (flock(2), which is another than that of their process), and the claim.
//! - RC-2: What is read from the rings is given back only after it lies in the trace, and files are removed only after that is
//!   on its disk. A recovery that fails or is killed can be repeated, and then does the rest.
//! - RC-3: What is read is no link, and regular, and of the user whose rings they are; what is written to is this user's own. What
//!   the files of another user say decides about no path that is written to.
//! - RC-4: Whoever may write the files may do so while they are read: their owner, whom nothing here stops. So packets are copied before
//!   they are looked at, and no length in them is taken on trust. If the owner makes the file shorter, SIGBUS ends this process, before
//!   it reads anything else in its place. That is why opening them is safe, as it is for the sessions of this process, whose rings this
//!   user's processes can shorten as well.
#![expect(unsafe_code, reason = "maps the rings of a process that is gone")]

use crate::error::{Error, Kind, Result};
use crate::external;
use crate::journal;
use crate::metadata;
use crate::output::rotation::{self, Rotated};
use crate::output::{self, Claim, Directory, Sink};
use crate::process;
use crate::ring_buffer::{self, Holder, Losses, Purpose, Reader, STALE_NS};
use crate::snapshot;
use crate::storage::OwnFile;
use crate::sys;
use crate::transfer::{Front, Span, Transfer};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace_control::directory::Directory as Opened;
use trace_control::place::{self, Image, ImageName, OpenedSession, Removed};
use trace_ctf::metadata::Format;
use trace_ctf::schema as ctf;

/// What a process that has ended left of one session.
#[derive(Debug)]
pub struct Remains {
    /// Where the files lie. `None`: copies, of which nothing is to be removed.
    place: Option<OpenedSession>,
    rings: OwnFile,
    /// `None`: nothing was recorded before it ended.
    recorded: Option<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    journal: journal::Contents,
    reader: Reader,
}

/// What was recovered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// The trace directory; empty where nothing had been recorded.
    pub path: PathBuf,
    /// Events that the rings held and the trace did not.
    pub events: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Bytes of partial packets that were cut off the trace's files.
    pub cut: u64,
    /// Events that the session lost in its whole life, by cause.
    pub lost: Losses,
    /// Snapshots that its process had not completed, which are removed.
    pub unfinished: usize,
    /// The machine was started again since: of rings on disk, a power cut leaves what the disk had of them, page by page.
    pub is_of_earlier_boot: bool,
}

/// The positions of a process that still records differ after this time, unless it records nothing.
const STILL: Duration = Duration::from_millis(10);

// Words of the superblock that belong to the session, as `recording` writes them.
const UUID: usize = 0;
const PID: usize = 2;
const START_TIME: usize = 3;
const NAMESPACE: usize = 4;
const BOOT: usize = 5;
pub(crate) const ENDED: usize = 6;

/// What the superblock says of the boot in which its process ran: half of the kernel's boot ID.
pub(crate) fn boot_word(boot_id: &[u8; 16]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| boot_id[i]))
}

/// Whether the process said that it uses the rings no longer: it may go on.
fn has_ended(rings: &Reader) -> bool {
    // Its load acquires; pairs with the store in `Recording::leave_files`: what the process did comes before.
    rings.caller_word(ENDED) == Some(1)
}

/// Whether rings are of this boot, where they say that. Process IDs, namespaces and clocks mean something within one only.
fn is_of_this_boot(rings: &Reader) -> bool {
    let (own, its) = (process::boot_id().map_or(0, |id| boot_word(&id)), rings.caller_word(BOOT).unwrap_or(0));
    own == its || own == 0 || its == 0
}

/// Removes what ended processes left in `base`, which lies at `at`, the oldest first, until there is room for `bytes` bytes of rings, and
/// `free` bytes are free.
pub(crate) fn make_room(base: &Opened, at: &Path, bytes: u64, free: u64) -> Removed {
    let remove = |session: &Path| match Remains::open(session) {
        Ok(remains) => {
            remains.remove();
            true
        }
        Err(error) if error.is_busy() => false,
        Err(_) => OpenedSession::open(session).map(|session| session.remove()).is_ok(),
    };
    // Where that fails, the rings find no room, or no place.
    place::make_room(base, at, bytes, free, remove).unwrap_or_default()
}

impl Remains {
    /// Opens the directory of a session's rings, and makes sure that nobody uses it any more.
    ///
    /// Its files are not to be made shorter while this is there: that raises SIGBUS, which ends this process. Nothing else that others
    /// write into them can do harm (RC-4).
    ///
    /// # Errors
    ///
    /// [`Error::is_busy`] where the process still records into it, or somebody else recovers it; [`Error::is_io`] where the files cannot be
    /// read, or are none.
    pub fn open(directory: &Path) -> Result<Remains> {
        let path = directory.join(place::RINGS);
        let cannot = |e: io::Error| Error::io("cannot recover", &path, e);
        let busy = |why| Err(Kind::InUse { path: path.clone(), why }.into());
        let place = OpenedSession::open(directory).map_err(cannot)?;
        let file = |name, access| OwnFile::of(place.directory.file(name, access, &[place.directory.owner])?); // RC-3
        let rings = file(place::RINGS, OFlags::RDWR).map_err(cannot)?;
        let image = Image::of_session(directory);
        // SAFETY: nothing is consumed. A process that lives never makes its file shorter.
        let probe = unsafe { Reader::open(&rings, Purpose::Snapshot) }.ok();
        let has_ended = probe.as_ref().is_some_and(has_ended);
        if !has_ended && image.as_ref().is_some_and(Image::listens) {
            return busy("its process runs: its agent answers");
        }
        // RC-1.
        if rustix::fs::flock(&*rings, FlockOperation::NonBlockingLockExclusive).is_err() {
            return busy("somebody else is recovering it");
        }
        let is_held = trace_control::is_held(&*rings);
        if let Some(why) = use_of(probe.as_ref(), image.map(|i| i.name), is_held).filter(|_| !has_ended) {
            return busy(why);
        }
        let journal_path = directory.join(place::JOURNAL);
        let bytes = match file(place::JOURNAL, OFlags::RDONLY).and_then(|journal| journal::bytes(&journal)) {
            // Ended between the two files: an empty journal.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|e| Error::io("cannot recover", &journal_path, e))?,
        };
        let journal = journal::read(&bytes, &journal_path)?;
        let recorded = journal.map(|journal| {
            let recorded = Recorded::new(&rings, journal).map_err(cannot)?;
            recorded.ok_or_else(|| cannot(io::Error::other("rings and journal are of different traces")))
        });
        Ok(Remains { place: Some(place), rings, recorded: recorded.transpose()? })
    }

    /// Takes copies of a session's two files, such as a core dump has them. Of several journals, that of the session is taken;
    /// `None`: they are all of other sessions.
    ///
    /// What is recovered is a trace of its own, of what the rings held: the one that the process wrote is not touched.
    ///
    /// # Errors
    ///
    /// [`Error::is_io`] where they are none.
    pub fn of_copies(rings: RingsCopy, journals: &[Vec<u8>]) -> Result<Option<Remains>> {
        let cannot = |e: io::Error| Error::io("cannot recover", place::RINGS, e);
        let rings = OwnFile::of(rings.0).map_err(cannot)?;
        for journal in journals {
            let Some(journal) = journal::read(journal, Path::new(place::JOURNAL))? else { continue };
            if let Some(recorded) = Recorded::new(&rings, journal).map_err(cannot)? {
                return Ok(Some(Remains { place: None, rings, recorded: Some(recorded) }));
            }
        }
        Ok(None)
    }

    /// What it is called: `SESSION-PID`; `None`: it recorded nothing.
    pub fn name(&self) -> Option<String> {
        Some(name(&self.recorded.as_ref()?.journal.schema.trace))
    }

    /// The trace directory that its process wrote; `None`: it printed, or recorded nothing.
    pub fn output(&self) -> Option<PathBuf> {
        self.recorded.as_ref()?.journal.origin.output()
    }

    /// Bytes of records that the rings hold and the trace has not.
    pub fn bytes(&self) -> u64 {
        let pending = |reader: &Reader| (0..reader.geometry().buffers).map(|buffer| reader.pending(buffer)).sum();
        self.recorded.as_ref().map_or(0, |recorded| pending(&recorded.reader))
    }

    /// Builds the trace, and removes the files of the rings.
    ///
    /// The trace that the process wrote is continued where it lies. With `output`, a copy of it there is, and the first stays
    /// as it is. That of a session that printed is created, in the working directory where `output` names no place.
    ///
    /// # Errors
    ///
    /// [`Error::is_io`]: what was recovered until then stays, and so do the rings, so that another attempt does the rest. Also where
    /// the rings are another user's, and no `output` is given: their trace lies where that user says.
    pub fn recover(self, output: Option<&Path>) -> Result<Recovered> {
        if let Some((place, owner)) = self.place.as_ref().zip(self.other_user()).filter(|_| output.is_none()) {
            let problem = format!(
                "the rings are those of another user (user ID {owner}), whose files say where their trace is; recover them as that \
                 user, or name a new directory for the trace: ringtrace recover {} --output DIR",
                place.path.display()
            );
            return Err(Error::io("cannot recover", &place.path, io::Error::new(io::ErrorKind::PermissionDenied, problem)));
        }
        let rings = self.place.as_ref().map(|place| place.path.clone());
        let done = self.build(output);
        // Of copies nothing is removed.
        if let Some(rings) = rings { done.map_err(|error| error.unrecovered(&rings)) } else { done }
    }

    fn build(self, output: Option<&Path>) -> Result<Recovered> {
        let unfinished = self.remove_unfinished();
        let owner = self.place.as_ref().map_or_else(user, |place| place.directory.owner);
        let Remains { place, rings, recorded } = self;
        let Some(Recorded { journal, reader }) = recorded else {
            place.iter().for_each(OpenedSession::remove);
            let none = Losses::default();
            let path = PathBuf::new();
            return Ok(Recovered { path, events: 0, bytes: 0, cut: 0, lost: none, unfinished: 0, is_of_earlier_boot: false });
        };
        let is_copy = place.is_none();
        if !claim(&reader, is_copy) {
            let path = place.map(|place| place.path).unwrap_or_default().join(place::RINGS);
            let why = "another process consumes its rings, and writes the trace";
            return Err(Kind::InUse { path, why }.into());
        }
        let written = journal.origin.output().filter(|_| !is_copy);
        // Of what was held back, nobody knows any more which keys would have been kept: all of it becomes a trace beside the other.
        let is_not_kept = |class: &trace_ctf::schema::EventClass| class.name == metadata::NOT_KEPT;
        let is_undecided =
            reader.settings().mode == ring_buffer::Mode::Discard && journal.schema.events().iter().any(is_not_kept);
        let mut taken = None;
        let mut free = |names: &dyn Fn(u32) -> PathBuf| -> Result<PathBuf> {
            let (path, claim) = Claim::first(output::numbered(names), Claim::new)?;
            taken = Some(claim);
            Ok(path)
        };
        let path = match (output, written) {
            (Some(output), _) if is_undecided => output.to_owned(),
            (None, Some(written)) if is_undecided => free(&beside(&written))?,
            (Some(output), written) => {
                if let Some(written) = written.filter(|w| w.exists()) {
                    copy(&written, output, owner).map_err(|e| Error::io("cannot copy the trace to", output, e))?;
                }
                output.to_owned()
            }
            (None, Some(written)) => written,
            (None, None) => free(&new_trace(&journal.schema.trace))?,
        };
        let (schema, origin) = (&journal.schema, &journal.origin);
        let (sink, cut): (Box<dyn Sink>, u64) = if let Some(claim) = taken {
            let mut directory = Directory::within(claim, &schema.trace, Format::default(), Some(origin.begun_ns))?;
            directory.describe(schema.events())?;
            (Box::new(directory), 0)
        } else if rotation::numbers(&path).is_empty() {
            let (directory, cut) = Directory::resume(&path, schema, origin.begun_ns)?;
            (Box::new(directory), cut)
        } else {
            let (traces, cut) = Rotated::resume(&path, schema, origin.begun_ns)?;
            (Box::new(traces), cut)
        };
        let end_ns = sink.told().iter().map(|(_, told)| told.end_ns).max().unwrap_or(0).max(origin.begun_ns);
        let mut transfer = Transfer::new(reader, Front::of(&schema.trace), Span::Whole, sink);
        transfer.is_foreign = true; // RC-4
        transfer.deliver(!trace_registry::is_mutated!(recovery_tail_dropped), true)?;
        let end_ns = transfer.told().values().map(|told| told.end_ns).fold(end_ns, u64::max);
        transfer.close(end_ns)?;
        transfer.sink.flush()?;
        sync(&path).map_err(|e| Error::io("cannot write out", &path, e))?; // RC-2
        let reader = &transfer.reader;
        let lost =
            (0..reader.geometry().buffers).map(|b| reader.buffer_losses(b)).fold(reader.fallback_losses(), |a, b| a.plus(&b));
        let events = transfer.told().values().map(|told| told.records).sum();
        let is_of_earlier_boot = !is_of_this_boot(reader);
        let recovered = Recovered { path, events, bytes: transfer.bytes, cut, lost, unfinished, is_of_earlier_boot };
        place.iter().for_each(OpenedSession::remove);
        drop(rings); // and the lock
        Ok(recovered)
    }

    /// Whose rings they are, where that is not this user.
    fn other_user(&self) -> Option<u32> {
        self.place.as_ref().map(|place| place.directory.owner).filter(|owner| *owner != user())
    }

    /// Removes the snapshots that its process had not completed.
    fn remove_unfinished(&self) -> usize {
        if self.other_user().is_some() {
            return 0; // RC-3
        }
        let snapshots = self.recorded.as_ref().and_then(|recorded| recorded.journal.origin.snapshots());
        let snapshots = snapshots.filter(|path| Opened::open(path).is_ok_and(|directory| directory.owner == user()));
        let image = self.place.as_ref().and_then(|place| Image::of_session(&place.path));
        snapshots.zip(image).map_or(0, |(snapshots, image)| snapshot::remove_unfinished(&snapshots, image.name))
    }

    /// Removes the files without recovering anything, and snapshots that were not completed.
    pub fn remove(self) {
        self.remove_unfinished();
        self.place.iter().for_each(OpenedSession::remove);
    }
}

/// A copy of a session's rings, to be written before it is [read](Remains::of_copies): a file that nobody else can reach.
#[derive(Debug)]
pub struct RingsCopy(File);

impl RingsCopy {
    /// Creates an empty one in the file system of a directory.
    ///
    /// # Errors
    ///
    /// No file can be created there.
    pub fn create(directory: &Path) -> io::Result<RingsCopy> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        if let Ok(nameless) = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
            return Ok(RingsCopy(nameless.into()));
        }
        // Not every file system has files without names.
        let path = directory.join(format!(".ringtrace-copy-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        std::fs::remove_file(path)?;
        Ok(RingsCopy(file))
    }
}

impl io::Write for RingsCopy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut self.0)
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

impl Recorded {
    /// `None`: the journal is of another trace.
    fn new(rings: &File, journal: journal::Contents) -> io::Result<Option<Recorded>> {
        // SAFETY: RC-1: nobody else can write the file, or will: its process is gone, or it is a `RingsCopy`. It is as long as its
        // superblock says, and this process does not make it shorter. Where its owner does, the kernel ends this process.
        let reader = unsafe { Reader::open(rings, Purpose::Consume) }?;
        let uuid = [UUID, UUID + 1].map(|at| reader.caller_word(at).unwrap_or(0).to_le_bytes()).concat();
        Ok((uuid == journal.schema.trace.uuid).then_some(Recorded { journal, reader }))
    }
}

/// Takes the right to consume. False: another process has it, and goes on although that of the rings has died. One that has died
/// too loses it when it was not seen for a while.
fn claim(reader: &Reader, is_copy: bool) -> bool {
    let own = process::image_name();
    let own = Holder::new(own.pid, own.start_time);
    // A claim of an earlier boot was last renewed by another clock; in a copy it is only a copy.
    if let Some((holder, _)) = reader.holder().filter(|_| is_copy || !is_of_this_boot(reader)) {
        reader.release(holder);
    }
    let begun = external::now_ns();
    loop {
        let now = external::now_ns();
        if reader.claim(own, now).is_ok() {
            return true;
        }
        if now - begun > STALE_NS + STALE_NS / 2 {
            return false;
        }
        std::thread::sleep(STILL);
    }
}

/// Says why the process may still use its rings; `None`: it is gone. `is_held`: what the kernel says of the file (PL-3 of
/// [`place`]).
fn use_of(rings: Option<&Reader>, image: Option<ImageName>, is_held: Option<bool>) -> Option<&'static str> {
    let word = |at| rings?.caller_word(at).filter(|word| *word != 0);
    let named = |pid, start_time| Some(ImageName { pid: u32::try_from(pid).ok()?, start_time, id: 0 });
    let name = word(PID).zip(word(START_TIME)).and_then(|(pid, start)| named(pid, start)).or(image);
    // In its own namespace a process is known by its number; a child that it forked may have the rings mapped, and does not
    // use them. In another namespace, or before it said in which one it is, who holds them may be the process itself.
    let (own, its) = (sys::pid_namespace(), word(NAMESPACE).unwrap_or(0));
    let is_own = own != 0 && (its == own || its == 0 && is_held != Some(true)) && rings.is_none_or(is_of_this_boot);
    let elsewhere = "a process in another container or PID namespace has it open; end that, or recover it there";
    let why = match name.filter(|_| is_own) {
        // What nobody holds is not that of a process that runs on, as another program or another image of this one (execve(2)).
        Some(name) => (is_held != Some(false) && name.is_running()).then_some("its process runs"),
        None => (is_held == Some(true)).then_some(elsewhere),
    };
    if why.is_some() || is_held == Some(false) {
        return why;
    }
    // A child, or nobody knows.
    let records = rings?.records();
    std::thread::sleep(STILL);
    (rings?.records() != records).then_some("events are recorded into it")
}

/// `TRACE-undecided`, with a number where that exists.
fn beside(written: &Path) -> impl Fn(u32) -> PathBuf {
    move |n| {
        let mut name = written.as_os_str().to_owned();
        name.push("-undecided");
        if n > 0 {
            name.push(format!("-{n}"));
        }
        PathBuf::from(name)
    }
}

/// `SESSION-PID`, as the environment of the trace says. Of what stands there, only what can be in a file's name.
fn name(trace: &ctf::Trace) -> String {
    let word = |name: &str| match trace.environment.iter().find(|(n, _)| n == name) {
        Some((_, ctf::EnvValue::String(text))) => text.clone(),
        Some((_, ctf::EnvValue::Int(number))) => number.to_string(),
        None => String::new(),
    };
    let both = format!("{}-{}", word("trace_name"), word("vpid"));
    both.trim_start_matches('.').replace(|c: char| !c.is_alphanumeric() && !"-_.~".contains(c), "_")
}

/// `SESSION-PID.ringtrace` here, with a number where that exists.
fn new_trace(trace: &ctf::Trace) -> impl Fn(u32) -> PathBuf {
    let name = name(trace);
    move |n| PathBuf::from(if n == 0 { format!("{name}.ringtrace") } else { format!("{name}-{n}.ringtrace") })
}

/// Copies a trace directory of `owner`, without its indexes, which are made anew, into a new or empty one.
fn copy(from: &Path, to: &Path, owner: u32) -> io::Result<()> {
    // Where this user's own trace lies, a link may lead to it.
    let source = if owner == user() { Opened::named(from)? } else { Opened::open(from)? };
    if owner != user() && source.owner != owner {
        let problem = format!("{} does not belong to the user whose rings these are", from.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    std::fs::create_dir_all(to)?;
    if std::fs::read_dir(to)?.next().is_some() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists already and is not empty"));
    }
    copy_files(&source, to, owner)?;
    for name in source.names()? {
        // One trace of several, with its indexes.
        if let Some(part) = source.at(&name).ok().filter(|part| part.has_file("metadata")) {
            let to = to.join(name);
            std::fs::create_dir_all(to.join("index"))?;
            copy_files(&part, &to, owner)?;
            copy_files(&part.at("index")?, &to.join("index"), owner)?;
        }
    }
    Ok(())
}

/// Copies the files in a directory, those of its owner and of `owner`.
fn copy_files(from: &Opened, to: &Path, owner: u32) -> io::Result<()> {
    for name in from.names()?.into_iter().filter(|name| from.has_file(name)) {
        let mut source = from.file(&name, OFlags::RDONLY, &[owner, from.owner])?;
        let mut copy = File::options().write(true).create_new(true).mode(0o600).open(to.join(name))?;
        sys::without_signals(|| io::copy(&mut source, &mut copy))?;
    }
    Ok(())
}

/// Writes the files of a trace, or of the last of several, to their disk.
fn sync(path: &Path) -> io::Result<()> {
    let last = rotation::numbers(path).last().map(|number| path.join(format!("{number:06}")));
    let trace = Opened::named(last.as_deref().unwrap_or(path))?;
    for directory in [&trace, &trace.at("index")?] {
        for name in directory.names()?.into_iter().filter(|name| directory.has_file(name)) {
            directory.file(name, OFlags::RDONLY, &[user()])?.sync_all()?;
        }
        rustix::fs::fsync(directory.descriptor()?)?;
    }
    Ok(())
}
