//! Directories that somebody else may influence: opened once, checked, and used by their descriptors.
//!
//! # Invariants
//!
//! - DI-1: What lies below a directory is opened by the directory's descriptor and a name, never through a link. Kind and owner are
//!   asked of what was opened, fstat(2). So nobody gains by exchanging what a path leads to, and no FIFO is waited for.
//! - DI-2: A descriptor is used and closed only as long as it is of what was opened. A program may close all descriptors that it
//!   does not know, and then be given their numbers for files of its own.

use crate::sys;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A descriptor of this library's (DI-2).
#[derive(Debug)]
pub(crate) struct Descriptor {
    /// Never dropped: of one that the program closed, the standard library says so by ending the process.
    opened: ManuallyDrop<OwnedFd>,
    identity: (u64, u64),
}

impl Descriptor {
    /// Takes what was just opened. Returns with it what it is.
    pub(crate) fn new(opened: OwnedFd) -> io::Result<(Descriptor, Stat)> {
        let opened = ManuallyDrop::new(opened);
        let stat = rustix::fs::fstat(&*opened)?;
        Ok((Descriptor { opened, identity: (stat.st_dev, stat.st_ino) }, stat))
    }

    fn is_own(&self) -> bool {
        rustix::fs::fstat(&*self.opened).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.identity)
    }

    pub(crate) fn get(&self) -> io::Result<BorrowedFd<'_>> {
        if self.is_own() { Ok(self.opened.as_fd()) } else { Err(io::Error::other("the program closed the tracer's descriptors")) }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.is_own() {
            sys::close(&self.opened);
        }
    }
}

/// A directory that was opened.
#[derive(Debug)]
pub struct Directory {
    descriptor: Descriptor,
    /// User ID of its owner.
    pub owner: u32,
    mode: u32,
}

impl Directory {
    /// Opens a directory that the user named, also through links.
    ///
    /// # Errors
    ///
    /// It is no directory, or cannot be read.
    pub fn named(path: &Path) -> io::Result<Directory> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Self::opened(rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Opens a directory that is no link itself.
    ///
    /// # Errors
    ///
    /// As for [`at`](Self::at).
    pub fn open(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self::opened(rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(|e| explained(e, path, CWD))?)
    }

    /// Opens a directory in this one (DI-1).
    ///
    /// # Errors
    ///
    /// `NotFound`; `NotADirectory`, also where it is a link.
    pub fn at(&self, name: impl AsRef<Path>) -> io::Result<Directory> {
        let (here, name) = (self.descriptor.get()?, name.as_ref());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self::opened(rustix::fs::openat(here, name, flags, Mode::empty()).map_err(|e| explained(e, name, here))?)
    }

    /// Opens a directory in this one that is `owner`'s alone.
    ///
    /// # Errors
    ///
    /// As for [`at`](Self::at); `PermissionDenied` where it is another user's, open to others, or no directory.
    pub fn private(&self, name: impl AsRef<Path>, owner: u32) -> io::Result<Directory> {
        let refused = |problem: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        match self.at(&name) {
            Ok(directory) if directory.is_private_to(owner) => Ok(directory),
            // What others may only read holds nothing of theirs.
            Ok(directory) if directory.owner == owner && directory.mode & 0o022 == 0 => refused(format!(
                "it must be closed to others, and its mode is {:o}: chmod 700 {}",
                directory.mode & 0o777,
                name.as_ref().display()
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
            Err(error) if error.kind() != io::ErrorKind::NotADirectory && error.raw_os_error() != Some(EACCES) => Err(error),
            _ => refused(
                "it must be a directory of this user, closed to others: somebody may have put it there; remove it".to_owned(),
            ),
        }
    }

    /// The same, of this user; it is made where nothing is there.
    ///
    /// # Errors
    ///
    /// As for [`private`](Self::private), or it cannot be made.
    pub fn make_private(&self, name: impl AsRef<Path>) -> io::Result<Directory> {
        let name = name.as_ref();
        match rustix::fs::mkdirat(self.descriptor.get()?, name, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => self.private(name, rustix::process::geteuid().as_raw()),
            Err(error) => Err(error.into()),
        }
    }

    fn opened(opened: OwnedFd) -> io::Result<Directory> {
        let (descriptor, stat) = Descriptor::new(opened)?;
        Ok(Directory { descriptor, owner: stat.st_uid, mode: stat.st_mode })
    }

    /// Opens a regular file in this directory that belongs to one of `owners` (DI-1).
    ///
    /// # Errors
    ///
    /// It is a link, a FIFO or anything else that is no file, or another user's; or it cannot be opened.
    pub fn file(&self, name: impl AsRef<Path>, access: OFlags, owners: &[u32]) -> io::Result<File> {
        let (here, name) = (self.descriptor.get()?, name.as_ref());
        // O_NONBLOCK: a FIFO would be waited for.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(here, name, flags, Mode::empty()).map_err(|e| explained(e, name, here))?);
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a regular file", name.display())));
        }
        if !owners.contains(&stat.st_uid) {
            let problem = format!("{} belongs to another user (user ID {})", name.display(), stat.st_uid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        Ok(file)
    }

    /// What lies under a name in this directory, itself where it is a link.
    ///
    /// # Errors
    ///
    /// `NotFound`, or the directory cannot be searched.
    pub fn stat(&self, name: impl AsRef<Path>) -> io::Result<Stat> {
        Ok(rustix::fs::statat(self.descriptor.get()?, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Whether a regular file of that name lies here.
    pub fn has_file(&self, name: impl AsRef<Path>) -> bool {
        self.stat(name).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    /// The names of what lies here, in no order.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let here = self.descriptor.get()?;
        // Again from the beginning, if it was read before.
        rustix::fs::seek(here, rustix::fs::SeekFrom::Start(0))?;
        let mut names = Vec::new();
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(here, &mut room);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Removes a file, or a link itself.
    ///
    /// # Errors
    ///
    /// As unlinkat(2).
    pub fn remove_file(&self, name: impl AsRef<Path>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.descriptor.get()?, name.as_ref(), AtFlags::empty())?)
    }

    /// Removes a directory that is empty.
    ///
    /// # Errors
    ///
    /// As unlinkat(2).
    pub fn remove_directory(&self, name: impl AsRef<Path>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.descriptor.get()?, name.as_ref(), AtFlags::REMOVEDIR)?)
    }

    /// Its descriptor, for what takes one.
    ///
    /// # Errors
    ///
    /// The program closed it.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.descriptor.get()
    }

    /// Whether it is that user's alone.
    pub(crate) fn is_private_to(&self, user: u32) -> bool {
        self.owner == user && self.mode & 0o077 == 0
    }

    /// Whether it is a directory for all users, such as /tmp, where each removes only what is theirs.
    pub(crate) fn is_shared(&self) -> bool {
        self.mode & 0o1002 == 0o1002
    }
}

const EACCES: i32 = rustix::io::Errno::ACCESS.raw_os_error();

/// Says where what could not be opened is a link.
fn explained(error: rustix::io::Errno, name: &Path, at: BorrowedFd<'_>) -> io::Error {
    let is_link = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    if rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_link) {
        let problem = format!("{} is a symbolic link, which is not followed", name.display());
        return io::Error::new(io::ErrorKind::NotADirectory, problem);
    }
    error.into()
}
