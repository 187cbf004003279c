//! Where the rings lie: named files that outlive the process, in memory, or on disk where a session asks for that.
//!
//! In the directory of the process image ([`trace_control::place`]) each session has one of its own, with `rings`, the mapping
//! with its superblock, and `journal`, what its event IDs stand for.
//!
//! # Invariants
//!
//! - ST-1: A descriptor is written to and closed only as long as it is of the file that was opened. A program may close all
//!   descriptors that it does not know, and then be given their numbers for files of its own.
//! - ST-2: Only the process that made a session's directory removes it, or who [recovers](crate::recovery) it when that is gone.

use crate::error::{Error, Result};
use crate::sys;
use crate::sys::memory::Mapping;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
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
use trace_control::place;
use trace_registry::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The files of one session's rings. They stay unless they are removed: what they hold may not have been delivered.
pub(crate) struct Storage {
    pub(crate) rings: OwnFile,
    pub(crate) journal: OwnFile,
    /// `None`: the files have no name, so nothing outlives the process.
    directory: Option<SessionDirectory>,
}

pub(crate) const RINGS: &str = "rings";
pub(crate) const JOURNAL: &str = "journal";
const FILES: [&str; 2] = [RINGS, JOURNAL];
const TMPFS: i64 = 0x0102_1994; // statfs(2)

impl Storage {
    /// Creates the files for `bytes` bytes of rings, below `chosen`, or in memory where nothing was chosen. Returns a warning with
    /// it where they cannot outlive the process.
    pub(crate) fn create(session: &str, bytes: u64, chosen: Option<&Path>) -> Result<(Storage, Option<String>)> {
        if let Some(chosen) = chosen {
            std::fs::create_dir_all(chosen).map_err(|e| Error::io("cannot keep ring buffers in", chosen, e))?;
            let base = chosen.join(place::BELOW);
            let storage = in_directory(&base, session, bytes)?;
            crate::recovery::tidy(&base);
            return Ok((storage, None));
        }
        let mut why = String::from("no tmpfs with room was found");
        for base in place::bases() {
            match in_memory(&base).and_then(|()| in_directory(&base, session, bytes)) {
                Ok(storage) => return Ok((storage, None)),
                Err(error) => why = crate::error::Chain(&error).to_string(),
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
    pub(crate) fn for_child(session: &str, base: Option<&Path>) -> Result<(Storage, Option<String>)> {
        let why = match base.map(|base| without_names_yet(base, session)) {
            Some(Ok(storage)) => return Ok((storage, None)),
            Some(Err(error)) => crate::error::Chain(&error).to_string(),
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
        Some(self.directory.as_ref()?.path.parent()?.parent()?.to_owned())
    }

    /// Whether they may outlive the process.
    pub(crate) fn is_in_directory(&self) -> bool {
        self.directory.is_some()
    }

    /// The path of the ring file.
    pub(crate) fn rings_path(&self) -> Option<PathBuf> {
        let has_name = |d: &&SessionDirectory| d.names.as_ref().is_none_or(|names| names.are_given());
        self.directory.as_ref().filter(has_name).map(|d| d.path.join(RINGS))
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.directory.as_ref().map_or_else(|| PathBuf::from("memfd"), |d| d.path.join(JOURNAL))
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
    path: PathBuf,
    creator: u32,
    /// Where it is made with the first event.
    names: Option<Arc<Names>>,
}

/// Names that are tried where an earlier session of the same name has not removed its directory yet.
const NAMES: u32 = 16;

impl SessionDirectory {
    fn create(image: &Path, session: &str) -> Result<SessionDirectory> {
        let mut number = 1;
        loop {
            // Again each time: a session that ends removes the image's directory when it finds nothing there.
            private_directory(image)?;
            let path = image.join(if number == 1 { session.to_owned() } else { format!("{session}~{number}") });
            match rustix::fs::mkdir(&path, Mode::RWXU) {
                Ok(()) => return Ok(SessionDirectory { path, creator: std::process::id(), names: None }),
                Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOENT) if number < NAMES => number += 1,
                Err(error) => {
                    // Fails while another session of the process has its directory there.
                    let _ = std::fs::remove_dir(image);
                    return Err(Error::io("cannot create", &path, error));
                }
            }
        }
    }

    /// Removes it with its files, in the process that made it (ST-2).
    fn remove(&self) {
        if self.creator != std::process::id() {
            return; // forked
        }
        if self.names.as_ref().is_some_and(|names| !names.were_given()) {
            return;
        }
        remove_session(&self.path);
        // Fails while another session of the process has its directory there.
        let _ = self.path.parent().map(std::fs::remove_dir);
    }
}

/// Removes a session's directory, file by file, which needs no descriptor. What cannot be removed is found by
/// `ringtrace ps --dead`.
pub(crate) fn remove_session(path: &Path) {
    let _ = FILES.map(|name| std::fs::remove_file(path.join(name)));
    let _ = std::fs::remove_dir(path);
}

/// A file that this process opened, under a descriptor that it gives up when it is no longer of that file (ST-1).
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
#[derive(Clone, Copy, Debug)]
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

fn in_directory(base: &Path, session: &str, bytes: u64) -> Result<Storage> {
    let stat = file_system(base)?;
    let free = stat.f_bavail.saturating_mul(stat.f_bsize as u64);
    if free < bytes {
        let message = format!("{bytes} bytes are needed, {free} are free");
        return Err(Error::io("cannot keep ring buffers in", base, io::Error::new(io::ErrorKind::StorageFull, message)));
    }
    private_directory(base)?;
    let image = base.join(crate::process::image_name().to_string());
    let directory = SessionDirectory::create(&image, session)?;
    let create = |name: &str| {
        let path = directory.path.join(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        OwnFile::open(CWD, &path, flags, Mode::RUSR | Mode::WUSR).map_err(|e| Error::io("cannot create", &path, e))
    };
    match create(RINGS).and_then(|rings| Ok((rings, create(JOURNAL)?))) {
        Ok((rings, journal)) => Ok(Storage { rings, journal, directory: Some(directory) }),
        Err(error) => {
            directory.remove();
            Err(error)
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

/// Creates files without names in the file system of `base`.
fn without_names_yet(base: &Path, session: &str) -> Result<Storage> {
    let image = base.join(crate::process::image_name().to_string());
    let path = image.join(session);
    let cannot = |e: io::Error| Error::io("cannot create ring buffers in", base, e);
    let create = || {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = rustix::fs::open(base, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from);
        file.and_then(OwnFile::nameless).map_err(cannot)
    };
    let (rings, journal) = (create()?, create()?);
    // Whoever finds them named finds them in use.
    rustix::fs::flock(&*rings, FlockOperation::LockShared).map_err(|e| cannot(e.into()))?;
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|e| cannot(e.into()));
    let file = |file, name| Nameless::new(file, &path.join(name)).map_err(cannot);
    let files = [file(&rings, RINGS)?, file(&journal, JOURNAL)?];
    let (image, session) = (text(&image)?, text(&path)?);
    let names = Some(Arc::new(Names { image, session, files, state: AtomicU32::new(NOT_GIVEN) }));
    let directory = Some(SessionDirectory { path, creator: std::process::id(), names });
    Ok(Storage { rings, journal, directory })
}

fn private_directory(path: &Path) -> Result<()> {
    place::private_directory(path).map_err(|e| Error::io("cannot use", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags};

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
