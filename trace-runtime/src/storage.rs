//! Where the rings lie: named files that outlive the process, in memory.
//!
//! ```text
//! $XDG_RUNTIME_DIR/ringtrace/        0700, the user's own (/dev/shm/ringtrace-UID/ where that is no tmpfs)
//!   PID-STARTTIME/                   one process image
//!     SESSION/rings                  the mapping, with its superblock
//!     SESSION/journal                what its event IDs stand for
//! ```

use crate::error::{Error, Result};
use crate::process::Process;
use rustix::fs::{FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The files of one session's rings. Dropping it removes them: what they held was delivered, or was not wanted.
pub(crate) struct Storage {
    pub(crate) rings: File,
    pub(crate) journal: File,
    /// The session's directory; `None`: the files have no name, so nothing outlives the process.
    directory: Option<PathBuf>,
}

const TMPFS: i64 = 0x0102_1994; // statfs(2)

impl Storage {
    /// Creates the files for `bytes` bytes of rings. Returns a warning with it where they cannot outlive the process.
    pub(crate) fn create(process: &Process, session: &str, bytes: u64) -> Result<(Storage, Option<String>)> {
        let mut why = String::from("no tmpfs with room was found");
        for base in bases() {
            match in_directory(&base, process, session, bytes) {
                Ok(storage) => return Ok((storage, None)),
                Err(error) => why = crate::error::Chain(&error).to_string(),
            }
        }
        let anonymous = || {
            let flags = rustix::fs::MemfdFlags::CLOEXEC;
            let file = rustix::fs::memfd_create("ringtrace", flags).map(File::from);
            file.map_err(|e| Error::io("cannot create ring buffers in", "memfd", e))
        };
        let storage = Storage { rings: anonymous()?, journal: anonymous()?, directory: None };
        Ok((storage, Some(format!("the ring buffers have no name, so they do not outlive the process: {why}"))))
    }

    /// The path of the ring file.
    pub(crate) fn rings_path(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(|d| d.join("rings"))
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.directory.as_ref().map_or_else(|| PathBuf::from("memfd"), |d| d.join("journal"))
    }

    /// Removes the files.
    pub(crate) fn remove(&mut self) {
        if let Some(directory) = self.directory.take() {
            // What cannot be removed is found by `ringtrace ps --dead`.
            let _ = std::fs::remove_dir_all(&directory);
            // Fails while another session of the process has its directory there.
            let _ = directory.parent().map(std::fs::remove_dir);
        }
    }
}

/// The user's directories for rings, the best first.
fn bases() -> Vec<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|d| Path::new(&d).join("ringtrace"));
    runtime.into_iter().filter(|d| d.is_absolute()).chain([PathBuf::from(format!("/dev/shm/ringtrace-{uid}"))]).collect()
}

fn in_directory(base: &Path, process: &Process, session: &str, bytes: u64) -> Result<Storage> {
    private_directory(base)?;
    let parent = base.parent().unwrap_or(base);
    let stat = rustix::fs::statfs(parent).map_err(|e| Error::io("cannot examine", parent, e))?;
    if stat.f_type as i64 != TMPFS {
        return Err(Error::io("cannot keep ring buffers in", base, io::Error::other("it is not in memory (tmpfs)")));
    }
    let free = stat.f_bavail.saturating_mul(stat.f_bsize as u64);
    if free < bytes {
        let message = format!("{bytes} bytes are needed, {free} are free");
        return Err(Error::io("cannot keep ring buffers in", base, io::Error::new(io::ErrorKind::StorageFull, message)));
    }
    let image = base.join(format!("{}-{}", process.pid, process.start_time));
    private_directory(&image)?;
    let directory = image.join(session);
    // A directory of this name was left by a session whose removal failed; its process is this one.
    let _ = std::fs::remove_dir_all(&directory);
    rustix::fs::mkdir(&directory, Mode::RWXU).map_err(|e| Error::io("cannot create", &directory, e))?;
    let create = |name: &str| {
        let path = directory.join(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map(File::from);
        file.map_err(|e| Error::io("cannot create", &path, e))
    };
    Ok(Storage { rings: create("rings")?, journal: create("journal")?, directory: Some(directory) })
}

/// Creates a directory that is nobody else's, or checks that an existing one is none: not a link, ours, closed to others.
fn private_directory(path: &Path) -> Result<()> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(Error::io("cannot create", path, error)),
    }
    let stat = rustix::fs::lstat(path).map_err(|e| Error::io("cannot examine", path, e))?;
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if !is_directory || stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
        let problem = io::Error::new(io::ErrorKind::PermissionDenied, "it must be a directory of this user, closed to others");
        return Err(Error::io("cannot use", path, problem));
    }
    Ok(())
}
