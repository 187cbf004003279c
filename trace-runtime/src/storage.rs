//! Where the rings lie: named files that outlive the process, in memory, or on disk where a session asks for that.
//!
//! In the directory of the process image ([`trace_control::place`]) each session has one of its own, with `rings`, the mapping
//! with its superblock, and `journal`, what its event IDs stand for.
//!
//! # Invariants
//!
//! - ST-1: A descriptor is written to and closed only as long as it is of the file that was opened. A program may close all
//!   descriptors that it does not know, and then be given their numbers for files of its own. What is left is the moment between
//!   fstat(2) and the call behind it: a program that closes and opens in another thread just then gets our bytes. Only a table of
//!   descriptors of our own would end that, and it would keep open what the program closes: its pipes, its standard streams.
//! - ST-2: Only the process that made a session's directory removes it, or who [recovers](crate::recovery) it when that is gone.
//! - ST-3: The rings are there as long as anything else is: they are made first, held ([`place`], PL-3) before they get their name,
//!   and removed last. A directory of an ended process without them is empty, but for rings that never got their name.

use crate::error::{Error, Result};
use crate::sys;
use crate::sys::memory::Mapping;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_control::directory::Directory;
use trace_control::place::{self, FILES, JOURNAL, OpenedSession, RINGS, Removed, UNHELD};
use trace_registry::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The files of one session's rings. They stay unless they are removed: what they hold may not have been delivered.
pub(crate) struct Storage {
    pub(crate) rings: OwnFile,
    pub(crate) journal: OwnFile,
    /// `None`: the files have no name, so nothing outlives the process.
    directory: Option<SessionDirectory>,
}

const TMPFS: i64 = 0x0102_1994; // statfs(2)

impl Storage {
    /// Creates the files for `bytes` bytes of rings, below `chosen`, or in memory where nothing was chosen. Returns a warning with
    /// it where they cannot outlive the process, or where what others left was removed to make room.
    pub(crate) fn create(session: &str, bytes: u64, chosen: Option<&Path>) -> Result<(Storage, Option<String>)> {
        if let Some(chosen) = chosen {
            std::fs::create_dir_all(chosen).map_err(|e| Error::io("cannot keep ring buffers in", chosen, e))?;
            return in_directory(&chosen.join(place::BELOW), session, bytes);
        }
        let mut why = String::from("no tmpfs with room was found");
        for base in place::bases() {
            match in_memory(&base).and_then(|()| in_directory(&base, session, bytes)) {
                Ok(made) => return Ok(made),
                Err(error) => why = error.to_string(),
            }
        }
        let storage = Storage::without_a_name()?;
        Ok((
            storage,
            Some(format!(
                "the ring buffers have no name, so they do not outlive the process: {why}; `rings DIR` keeps them on disk"
            )),
        ))
    }

    /// Creates files that do not outlive the process.
    pub(crate) fn without_a_name() -> Result<Storage> {
        let anonymous = || {
            let flags = rustix::fs::MemfdFlags::CLOEXEC;
            let file = rustix::fs::memfd_create("ringtrace", flags).map_err(io::Error::from);
            file.and_then(OwnFile::nameless).map_err(|e| Error::io("cannot create ring buffers in", "memfd", e))
        };
        Ok(Storage { rings: anonymous()?, journal: anonymous()?, directory: None })
    }

    /// Creates files for a followed child that get their names in `base` with its first event ([`Names::give`]): until then they end
    /// with the process, however that ends. Returns a warning with them where they never get any.
    pub(crate) fn for_child(session: &str, bytes: u64, base: Option<&Path>) -> Result<(Storage, Option<String>)> {
        let why = match base.map(|base| without_names_yet(base, session, bytes)) {
            Some(Ok(made)) => return Ok(made),
            Some(Err(error)) => error.to_string(),
            None => "those of the process that it was forked from have none".to_owned(),
        };
        Ok((
            Storage::without_a_name()?,
            Some(format!("the ring buffers have no name, so they do not outlive the process: {why}")),
        ))
    }

    /// What gives the files their names later, where they have none yet.
    pub(crate) fn names(&self) -> Option<Arc<Names>> {
        self.directory.as_ref()?.names.clone()
    }

    /// The directory of process images that the files are in, or will be.
    pub(crate) fn base(&self) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.image.parent()?.to_owned())
    }

    /// Whether they may outlive the process.
    pub(crate) fn is_in_directory(&self) -> bool {
        self.directory.is_some()
    }

    /// The path of the ring file.
    pub(crate) fn rings_path(&self) -> Option<PathBuf> {
        let has_name = |d: &&SessionDirectory| d.names.as_ref().is_none_or(|names| names.are_given());
        self.directory.as_ref().filter(has_name).map(|d| d.path().join(RINGS))
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.directory.as_ref().map_or_else(|| PathBuf::from("memfd"), |d| d.path().join(JOURNAL))
    }

    /// Removes the files: what they held was delivered, or was not wanted.
    pub(crate) fn remove(&mut self) {
        if let Some(directory) = self.directory.take() {
            directory.remove();
        }
    }
}

/// A session's directory.
struct SessionDirectory {
    /// Of the process image.
    image: PathBuf,
    name: String,
    creator: u32,
    owner: u32,
    /// Where it is made with the first event.
    names: Option<Arc<Names>>,
}

/// Names that are tried where an earlier session of the same name has not removed its directory yet.
const NAMES: u32 = 16;

impl SessionDirectory {
    /// Makes it below `base`, which lies at `at`, and opens it.
    fn create(base: &Directory, at: &Path, session: &str) -> Result<(SessionDirectory, Directory)> {
        let image_name = crate::process::image_name().to_string();
        let image = at.join(&image_name);
        let mut number = 1;
        loop {
            // Again each time: a session that ends removes the image's directory when it finds nothing there.
            let opened = base.make_private(&image_name).map_err(|e| Error::io("cannot use", &image, e))?;
            let name = if number == 1 { session.to_owned() } else { format!("{session}~{number}") };
            let made = opened.descriptor().and_then(|here| Ok(rustix::fs::mkdirat(here, &name, Mode::RWXU)?));
            let is_made = made.is_ok();
            match made.and_then(|()| opened.at(&name)) {
                Ok(directory) => {
                    let (creator, owner) = (std::process::id(), directory.owner);
                    return Ok((SessionDirectory { image, name, creator, owner, names: None }, directory));
                }
                Err(error) if is_passing(&error) && number < NAMES => number += 1,
                Err(error) => {
                    if is_made {
                        let _ = opened.remove_directory(&name);
                    }
                    // Fails while another session of the process has its directory there.
                    let _ = base.remove_directory(&image_name);
                    return Err(Error::io("cannot create", image.join(name), error));
                }
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.image.join(&self.name)
    }

    /// Removes it with its files, in the process that made it (ST-2).
    fn remove(&self) {
        if self.creator != std::process::id() {
            return; // forked
        }
        if self.names.as_ref().is_some_and(|names| !names.were_given()) {
            return;
        }
        let path = self.path();
        match OpenedSession::open(&path) {
            Ok(session) if session.directory.owner == self.owner => session.remove(),
            // Where the limit on descriptors is reached, by their paths.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => {
                let _ = FILES.map(|name| std::fs::remove_file(path.join(name)));
                let _ = std::fs::remove_dir(&path);
            }
            _ => {}
        }
        // Fails while another session of the process has its directory there.
        let _ = std::fs::remove_dir(&self.image);
    }
}

/// Whether something else was there, or what was there was removed: the next attempt may succeed.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound)
}

/// A file that this process opened, under a descriptor that it gives up when it is no longer of that file (ST-1).
#[derive(Debug)]
pub(crate) struct OwnFile {
    /// Never dropped: of one that the program closed, the standard library says so by ending the process.
    file: ManuallyDrop<File>,
    identity: Identity,
    lost: bool,
    /// Its place among [`SOCKETS`].
    socket: Option<&'static Socket>,
}

/// Device and inode.
type Identity = (u64, u64);

const CLOSED: &str = "the program closed the tracer's descriptors";

/// Descriptors below are left to the program, which may rely on being given the lowest.
const LOWEST_DESCRIPTOR: i32 = 100;

impl OwnFile {
    /// Opens a file, not inherited by programs that are run. What lies under its path says whether the descriptor is still of it.
    pub(crate) fn open(directory: impl AsFd, path: impl AsRef<Path>, flags: OFlags, mode: Mode) -> io::Result<OwnFile> {
        let path = path.as_ref();
        let opened = rustix::fs::openat(&directory, path, flags | OFlags::CLOEXEC, mode)?;
        let there = rustix::fs::statat(&directory, path, AtFlags::empty())?;
        Self::hold(opened, |stat| identity(stat) == identity(&there))
    }

    /// Takes a socket that was just made, which a forked child must not keep open: its peer would not notice that this process
    /// has ended.
    pub(crate) fn socket(opened: OwnedFd) -> io::Result<OwnFile> {
        let mut own = Self::hold(opened, |stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)?;
        let (descriptor, inode) = (own.as_raw_fd(), own.identity.1);
        own.socket = SOCKETS
            .iter()
            .find(|place| place.descriptor.compare_exchange(-1, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok());
        if let Some(place) = own.socket {
            place.inode.store(inode, Ordering::Relaxed);
        }
        Ok(own)
    }

    /// Takes a file that was just opened, and has no name.
    pub(crate) fn nameless(opened: OwnedFd) -> io::Result<OwnFile> {
        Self::hold(opened, |stat| stat.st_nlink == 0)
    }

    /// Takes a file that was just opened, and which nothing else tells from others.
    pub(crate) fn of(opened: File) -> io::Result<OwnFile> {
        Self::hold(opened.into(), |_| true)
    }

    /// Opens it a second time.
    pub(crate) fn try_clone(&self) -> io::Result<OwnFile> {
        Self::hold(self.file.try_clone()?.into(), |stat| identity(stat) == self.identity)
    }

    /// Takes a file that was just opened, and moves its descriptor out of the program's way, unless the program has closed it
    /// meanwhile, and may have opened another under its number: that is not what `is_it` knows.
    fn hold(opened: OwnedFd, is_it: impl Fn(&Stat) -> bool) -> io::Result<OwnFile> {
        let opened = ManuallyDrop::new(opened);
        let stat = rustix::fs::fstat(&*opened)?;
        if !is_it(&stat) {
            return Err(io::Error::other(CLOSED));
        }
        let identity = identity(&stat);
        let file = match rustix::io::fcntl_dupfd_cloexec(&*opened, LOWEST_DESCRIPTOR) {
            Ok(moved) => {
                close(opened.as_raw_fd(), identity);
                File::from(moved)
            }
            // Where the limit on descriptors is lower, it stays where it is.
            Err(_) => File::from(ManuallyDrop::into_inner(opened)),
        };
        Ok(OwnFile { file: ManuallyDrop::new(file), identity, lost: false, socket: None })
    }

    /// Returns what a forked child needs to close it.
    pub(crate) fn inheritance(&self) -> Inherited {
        Inherited(self.as_raw_fd(), self.identity)
    }

    /// Returns the file for writing, by one fstat(2).
    ///
    /// # Errors
    ///
    /// The descriptor was closed by the program. It is never used again.
    pub(crate) fn file(&mut self) -> io::Result<&File> {
        self.lost |= !self.is_own();
        if self.lost {
            return Err(io::Error::other(CLOSED));
        }
        Ok(self)
    }

    /// Writes to it, or changes its length, [without a signal](sys::without_signals) to the program.
    ///
    /// # Errors
    ///
    /// As for [`file`](Self::file), and those of `write`.
    pub(crate) fn write<T>(&mut self, write: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let file = self.file()?;
        sys::without_signals(|| write(file))
    }

    fn is_own(&self) -> bool {
        rustix::fs::fstat(&*self.file).is_ok_and(|stat| identity(&stat) == self.identity)
    }
}

/// For reading and mapping, while nothing can have closed it yet.
impl Deref for OwnFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if let Some(place) = self.socket {
            place.inode.store(0, Ordering::Relaxed);
            place.descriptor.store(-1, Ordering::Relaxed);
        }
        if !self.lost {
            close(self.as_raw_fd(), self.identity);
        }
    }
}

/// Closes a descriptor, unless the number is the program's by now.
fn close(descriptor: RawFd, its: Identity) {
    sys::close_if(descriptor, |stat| identity(stat) == its);
}

/// A descriptor that a forked child has of its parent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inherited(RawFd, Identity);

impl Inherited {
    /// Closes it, so that the file and its lock end with the parent. Async-signal-safe.
    pub(crate) fn close(self) {
        close(self.0, self.1);
    }
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// A socket of the agent's, for a child that was forked at any moment.
#[derive(Debug)]
struct Socket {
    descriptor: AtomicI32,
    inode: AtomicU64,
}

/// The listening one, and as many connections as there may be.
static SOCKETS: [Socket; 40] = [const { Socket { descriptor: AtomicI32::new(-1), inode: AtomicU64::new(0) } }; 40];

/// Closes the parent's sockets; for a forked child.
pub(crate) fn close_inherited_sockets() {
    for place in &SOCKETS {
        let (descriptor, inode) = (place.descriptor.swap(-1, Ordering::Relaxed), place.inode.swap(0, Ordering::Relaxed));
        if descriptor >= 0 && inode != 0 {
            sys::close_if(descriptor, |stat| stat.st_ino == inode); // ST-1
        }
    }
}

/// A file that grows by whole pieces only.
pub(crate) struct Appended {
    file: OwnFile,
    /// Bytes of whole pieces.
    len: u64,
    /// A part of a piece could not be taken back.
    is_cut: bool,
}

impl Appended {
    /// Takes an empty file.
    pub(crate) fn new(file: OwnFile) -> Appended {
        Appended { file, len: 0, is_cut: false }
    }

    /// Whether somebody has removed the file, which had a name.
    pub(crate) fn is_removed(&self) -> bool {
        rustix::fs::fstat(&*self.file.file).is_ok_and(|stat| identity(&stat) == self.file.identity && stat.st_nlink == 0)
    }

    /// Maps the whole pieces.
    pub(crate) fn map(&mut self) -> io::Result<Mapping> {
        let len = self.len;
        Mapping::new(self.file.file()?, len, false)
    }

    /// Appends a piece, or nothing.
    pub(crate) fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.is_cut {
            return Err(io::Error::other("an earlier write failed halfway"));
        }
        if let Err(error) = self.file.write(|file| file.write_all_at(piece, self.len)) {
            self.is_cut = self.file.write(|file| file.set_len(self.len)).is_err();
            return Err(error);
        }
        self.len += piece.len() as u64;
        Ok(())
    }
}

fn in_memory(base: &Path) -> Result<()> {
    if file_system(base)?.f_type as i64 == TMPFS {
        return Ok(());
    }
    Err(Error::io("cannot keep ring buffers in", base, io::Error::other("it is not in memory (tmpfs)")))
}

/// The file system in which a directory is, or will be.
fn file_system(base: &Path) -> Result<rustix::fs::StatFs> {
    let parent = base.parent().unwrap_or(base);
    rustix::fs::statfs(parent).map_err(|e| Error::io("cannot examine", parent, e))
}

/// How much has to be free in `base` for rings of `bytes` bytes. Where nobody chose it, twice as much: what fills the memory that all
/// programs share makes others fail, and ends those by SIGBUS that have files there without having allocated them.
fn to_be_free(base: &Path, bytes: u64) -> u64 {
    let is_chosen = !place::bases().iter().any(|shared| shared == base);
    if is_chosen { bytes } else { bytes.saturating_mul(2) }
}

fn in_directory(at: &Path, session: &str, bytes: u64) -> Result<(Storage, Option<String>)> {
    let cannot = |e: io::Error| Error::io("cannot keep ring buffers in", at, e);
    let base = place::make_base(at).map_err(|e| Error::io("cannot use", at, e))?;
    let wanted = to_be_free(at, bytes);
    let removed = crate::recovery::make_room(&base, at, bytes, wanted);
    let stat = base.descriptor().and_then(|base| Ok(rustix::fs::fstatfs(base)?)).map_err(cannot)?;
    let free = stat.f_bavail.saturating_mul(stat.f_bsize as u64);
    if free < wanted {
        let share = if wanted > bytes { ", of which rings take half at most" } else { "" };
        let message = format!("{bytes} bytes are needed, {free} are free{share}");
        return Err(cannot(io::Error::new(io::ErrorKind::StorageFull, message)));
    }
    let mut attempts = 0;
    loop {
        let (directory, opened) = SessionDirectory::create(&base, at, session)?;
        match create_files(&opened) {
            Ok((rings, journal)) => {
                return Ok((Storage { rings, journal, directory: Some(directory) }, told(removed, at)));
            }
            Err(error) => {
                directory.remove();
                // In another PID namespace somebody took this process for one that has ended before it had rings.
                if error.kind() != io::ErrorKind::NotFound || attempts == NAMES {
                    return Err(Error::io("cannot create files in", directory.path(), error));
                }
                attempts += 1;
            }
        }
    }
}

/// Names of the files of a session, made ahead, so that whoever gives them allocates nothing.
pub(crate) struct Names {
    image: CString,
    session: CString,
    files: [Nameless; 2],
    /// [`NOT_GIVEN`] and so on.
    state: AtomicU32,
}

const NOT_GIVEN: u32 = 0;
const BEING_GIVEN: u32 = 1;
const GIVEN: u32 = 2;
const REFUSED: u32 = 3;
/// The session is over: they are wanted no longer.
const OVER: u32 = 4;

struct Nameless {
    descriptor: RawFd,
    identity: Identity,
    /// The descriptor's name, proc_pid_fd(5).
    link: CString,
    name: CString,
}

impl Names {
    /// Gives the files their names, once.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe; some system calls, which leave `errno` as it was.
    pub(crate) fn give(&self) {
        // AcqRel: the names come before whoever finds them given.
        if self.state.compare_exchange(NOT_GIVEN, BEING_GIVEN, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            let state = if self.make().is_ok() { GIVEN } else { REFUSED };
            self.state.store(state, Ordering::Release);
        }
    }

    fn make(&self) -> rustix::io::Result<()> {
        match rustix::fs::mkdir(&*self.image, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        rustix::fs::mkdir(&*self.session, Mode::RWXU)?;
        self.files.iter().try_for_each(Nameless::make).inspect_err(|_| {
            for file in &self.files {
                let _ = rustix::fs::unlink(&*file.name);
            }
            let _ = rustix::fs::rmdir(&*self.session);
            let _ = rustix::fs::rmdir(&*self.image);
        })
    }

    fn are_given(&self) -> bool {
        self.state.load(Ordering::Acquire) == GIVEN
    }

    /// Whether they could not be given.
    pub(crate) fn are_refused(&self) -> bool {
        self.state.load(Ordering::Acquire) == REFUSED
    }

    /// Whether they were given, or are just now; from now on they are not.
    fn were_given(&self) -> bool {
        match self.state.compare_exchange(NOT_GIVEN, OVER, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => false,
            Err(state) => matches!(state, BEING_GIVEN | GIVEN),
        }
    }
}

impl Nameless {
    fn new(file: &OwnFile, name: &Path) -> io::Result<Nameless> {
        let descriptor = file.as_raw_fd();
        let link = CString::new(format!("/proc/self/fd/{descriptor}"))?;
        Ok(Nameless { descriptor, identity: file.identity, link, name: CString::new(name.as_os_str().as_bytes())? })
    }

    fn make(&self) -> rustix::io::Result<()> {
        // ST-1: it may be the program's by now.
        if !sys::is_open(self.descriptor, |stat| identity(stat) == self.identity) {
            return Err(rustix::io::Errno::BADF);
        }
        rustix::fs::linkat(CWD, &*self.link, CWD, &*self.name, AtFlags::SYMLINK_FOLLOW)
    }
}

/// Creates files without names in the file system of `base`, which lies at `at`, and makes room there for what they will be.
fn without_names_yet(at: &Path, session: &str, bytes: u64) -> Result<(Storage, Option<String>)> {
    let cannot = |e: io::Error| Error::io("cannot create ring buffers in", at, e);
    let base = place::make_base(at).map_err(cannot)?;
    let removed = crate::recovery::make_room(&base, at, bytes, to_be_free(at, bytes));
    let here = base.descriptor().map_err(cannot)?;
    let create = || {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(here, ".", flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from);
        file.and_then(OwnFile::nameless).map_err(cannot)
    };
    let (mut rings, journal) = (create()?, create()?);
    // Whoever finds them named finds them in use.
    trace_control::hold(rings.file().map_err(cannot)?);
    let image = at.join(crate::process::image_name().to_string());
    let path = image.join(session);
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|e| cannot(e.into()));
    let file = |file, name| Nameless::new(file, &path.join(name)).map_err(cannot);
    let files = [file(&rings, RINGS)?, file(&journal, JOURNAL)?];
    let names = Some(Arc::new(Names { image: text(&image)?, session: text(&path)?, files, state: AtomicU32::new(NOT_GIVEN) }));
    let (creator, owner) = (std::process::id(), rustix::process::geteuid().as_raw());
    let directory = Some(SessionDirectory { image, name: session.to_owned(), creator, owner, names });
    Ok((Storage { rings, journal, directory }, told(removed, at)))
}

/// Creates rings and journal (ST-3).
fn create_files(directory: &Directory) -> io::Result<(OwnFile, OwnFile)> {
    let here = directory.descriptor()?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let create = |name: &str| OwnFile::open(here, name, flags, Mode::RUSR | Mode::WUSR);
    let mut rings = create(UNHELD)?;
    // Where the file system has no such locks, positions that stand still have to tell.
    trace_control::hold(rings.file()?);
    rustix::fs::renameat(here, UNHELD, here, RINGS)?;
    Ok((rings, create(JOURNAL)?))
}

/// Says what was removed to make room.
fn told(removed: Removed, base: &Path) -> Option<String> {
    let Removed { sessions, bytes } = removed;
    (sessions > 0).then(|| {
        let (them, were) = if sessions == 1 { ("session", "was") } else { ("sessions", "were") };
        format!(
            "{sessions} {them} ({} MiB) of programs that have ended {were} removed from {} to make room, and cannot be recovered any \
             more; 64 sessions, 1 GiB and half of the file system stay at most, the newest: `ringtrace recover --all` in time keeps more",
            bytes.div_ceil(1 << 20),
            base.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, MemfdFlags, SealFlags};

    #[test]
    fn of_memory_that_programs_share_half_stays_free() {
        let shared = place::bases().pop().expect("a place");
        assert_eq!((to_be_free(&shared, 10), to_be_free(Path::new("/chosen/ringtrace"), 10)), (20, 10));
    }

    #[test]
    fn a_piece_that_is_cut_is_taken_back() {
        let file = rustix::fs::memfd_create("piece", MemfdFlags::ALLOW_SEALING).expect("a file");
        let file = OwnFile::nameless(file).expect("a file");
        // Of a piece beyond this the kernel writes the first page.
        file.set_len(4096).expect("room");
        rustix::fs::fcntl_add_seals(&*file, SealFlags::GROW).expect("it cannot grow");
        let mut appended = Appended::new(file);
        appended.append(b"whole").expect("there is room");
        appended.append(&[1; 6000]).expect_err("there is no room");
        assert_eq!(appended.file.metadata().expect("its size").len(), 5);
        // Nothing can be taken back from here.
        let full = OwnFile::open(CWD, "/dev/full", OFlags::WRONLY, Mode::empty()).expect("a file");
        let mut appended = Appended::new(full);
        appended.append(b"piece").expect_err("it is full");
        assert_eq!(appended.append(b"piece").expect_err("it is cut").to_string(), "an earlier write failed halfway");
    }
}
