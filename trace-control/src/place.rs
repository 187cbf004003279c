//! Where the files of a program lie while it runs.
//!
//! ```text
//! $XDG_RUNTIME_DIR/ringtrace/        0700, the user's own; else /dev/shm/ringtrace-UID/, else /tmp/ringtrace-UID/;
//!                                    where RINGTRACE_DIR is set, that directory and no other
//!   PID-STARTTIME-ID/                0700, one process image; ID: 8 random hexadecimal digits
//!     control                        0600, the agent's socket
//!     SESSION/…                      rings and journal of a session
//!   removed-SESSIONS-BYTES           empty; what was removed unrecovered to make room, see [`make_room`]
//! ```
//!
//! A session may have its rings elsewhere, on disk: in `DIR/ringtrace/`, which looks the same, without sockets.
//!
//! exec(2) keeps PID and start time, and two run times in one process (a program's and a plugin's) share them; the random ID
//! keeps them apart.
//!
//! # Invariants
//!
//! - PL-1: A base directory and those of images are used only if they are no links, belong to the user and are closed to others; so
//!   nobody else can have put anything into them. What a base lies in belongs to the user or to root, and what lies below is
//!   opened by descriptors ([`directory`](crate::directory)), so nobody else can exchange them either.
//! - PL-2: A socket gets its final name when it listens already. So one that refuses a connection has no process any more; nor has
//!   one that was made by a process that has ended, and is only held open by a child that it forked.
//! - PL-3: A file of rings gets its name when its process [holds](crate::hold) it already. So rings that nobody holds are of a
//!   process that has ended, in whatever PID namespace, unless the file system has no such locks.
//! - PL-4: What lies in a directory of another user is connected to and removed by descriptors of what was checked, since a path may
//!   lead elsewhere a moment later.

mod room;

pub use room::{Removed, forget_removed, make_room, removed};

use crate::directory::{Descriptor, Directory};
use crate::sys::has_peer_ended;
use crate::{is_held, peer};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Name of the agent's socket in the directory of its process image.
pub const SOCKET: &str = "control";
/// Its name until it listens.
const UNFINISHED: &str = "control.new";

/// Names of a session's files: its rings, and what their event IDs stand for.
pub const RINGS: &str = "rings";
/// See above.
pub const JOURNAL: &str = "journal";
/// The name of its rings until they are held (PL-3).
pub const UNHELD: &str = "rings.new";
/// All of them, in the order in which they are removed.
pub const FILES: [&str; 3] = [JOURNAL, RINGS, UNHELD];

/// Name of the directory of process images in one that the user named.
pub const BELOW: &str = "ringtrace";

/// Returns the directories that may hold the user's process images, the best first: the one that the environment variable
/// `RINGTRACE_DIR` names, and no other then; else those of the table above.
pub fn bases() -> Vec<PathBuf> {
    if let Some(chosen) = chosen() {
        return vec![chosen];
    }
    let uid = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|d| Path::new(&d).join(BELOW));
    let shared = ["/dev/shm", "/tmp"].map(|parent| PathBuf::from(format!("{parent}/ringtrace-{uid}")));
    runtime.into_iter().filter(|d| d.is_absolute()).chain(shared).collect()
}

fn chosen() -> Option<PathBuf> {
    std::env::var_os("RINGTRACE_DIR").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns where to look for programs: [`bases`], and where those of the user's other sessions put themselves.
pub fn searched() -> Vec<PathBuf> {
    let mut found = bases();
    if chosen().is_some() {
        return found;
    }
    let login = PathBuf::from(format!("/run/user/{}/ringtrace", rustix::process::geteuid().as_raw()));
    if !found.contains(&login) {
        found.push(login);
    }
    found
}

/// A directory of another user that holds process images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfOther {
    /// User ID.
    pub user: u32,
    /// Where it lies.
    pub path: PathBuf,
    /// How many process images there are, alive or not.
    pub images: usize,
}

/// Returns where the programs of other users put themselves by default, as far as this user may look: root may. Only names are
/// read; nobody is connected to. A directory that does not belong to the user whose number it has is left out.
pub fn of_others() -> Vec<OfOther> {
    let own = rustix::process::geteuid().as_raw();
    let mut found = Vec::new();
    for (parent, prefix, below) in
        [("/run/user", "", Some(BELOW)), ("/dev/shm", "ringtrace-", None), ("/tmp", "ringtrace-", None)]
    {
        let names = Directory::open(Path::new(parent)).and_then(|parent| parent.names()).unwrap_or_default();
        let users = names.iter().filter_map(|name| {
            let number = name.to_str()?.strip_prefix(prefix)?;
            // One spelling each.
            number.parse::<u32>().ok().filter(|user| user.to_string() == number && *user != own)
        });
        for user in users {
            let mut path = Path::new(parent).join(format!("{prefix}{user}"));
            path.extend(below);
            let images =
                open_base(&path, Some(user)).and_then(|base| images_in(&base, &path, user)).map_or(0, |images| images.len());
            if images > 0 {
                found.push(OfOther { user, path, images });
            }
        }
    }
    found.sort_by(|a, b| (a.user, &a.path).cmp(&(b.user, &b.path)));
    found
}

/// Creates a directory that is nobody else's, or checks that an existing one is none.
///
/// # Errors
///
/// It cannot be created; it is a link or no directory, belongs to somebody else, or is open to others (`PermissionDenied`).
pub fn private_directory(path: &Path) -> io::Result<()> {
    let (parent, name) = split(path)?;
    Directory::named(parent)?.make_private(name).map(drop)
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    path.parent().zip(path.file_name()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Opens a base directory of this user, which is made where nothing is there (PL-1).
///
/// # Errors
///
/// As for [`private_directory`]; `PermissionDenied` also where it would lie in another user's directory.
pub fn make_base(path: &Path) -> io::Result<Directory> {
    let (parent, name) = split(path)?;
    let above = Directory::named(parent)?;
    check_above(&above, parent, rustix::process::geteuid().as_raw())?;
    above.make_private(name)
}

/// Opens a base directory that is there, of `owner`, or of whoever it is by the caller's choice.
fn open_base(path: &Path, owner: Option<u32>) -> io::Result<Directory> {
    let (parent, name) = split(path)?;
    let above = Directory::named(parent)?;
    let owner = match owner {
        Some(owner) => owner,
        None => above.stat(name)?.st_uid,
    };
    let base = above.private(name, owner)?;
    check_above(&above, parent, owner)?;
    Ok(base)
}

/// User ID as which those appear that a user namespace does not map: root, in a sandbox; user_namespaces(7).
const UNMAPPED: u32 = 65534;

/// Refuses what lies in the directory of somebody who is neither root, nor this user, nor the `owner` of what lies there: they could
/// exchange it at any time, and would find there what this process makes.
fn check_above(above: &Directory, path: &Path, owner: u32) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    if [0, user, owner].contains(&above.owner) || above.owner == UNMAPPED && above.is_shared() {
        return Ok(());
    }
    let problem = format!(
        "{} belongs to another user (user ID {}), who could exchange what lies in it; name a directory of this user",
        path.display(),
        above.owner
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// What tells process images apart: the name of their directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageName {
    /// Process ID, in the process's own namespace.
    pub pid: u32,
    /// Clock ticks from boot to the start of the process, as in proc_pid_stat(5).
    pub start_time: u64,
    /// Random.
    pub id: u32,
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:08x}", self.pid, self.start_time, self.id)
    }
}

impl FromStr for ImageName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('-');
        let (Some(pid), Some(start), Some(id), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err(());
        };
        let name = ImageName {
            pid: pid.parse().map_err(drop)?,
            start_time: start.parse().map_err(drop)?,
            id: u32::from_str_radix(id, 16).map_err(drop)?,
        };
        // One spelling each: `+1`, `01` and capitals are no names of ours.
        if name.to_string() == text { Ok(name) } else { Err(()) }
    }
}

impl ImageName {
    /// Whether the process of that number and start time exists, as far as this PID namespace shows, and has not ended.
    pub fn is_running(&self) -> bool {
        start_time(self.pid) == Some(self.start_time)
    }
}

/// When the process of this number began; `None`: there is none, or it has ended.
fn start_time(pid: u32) -> Option<u64> {
    let opened = rustix::fs::open(format!("/proc/{pid}/stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let (opened, _) = Descriptor::new(opened).ok()?;
    let mut stat = [0; 1024];
    let read = rustix::io::pread(opened.get().ok()?, &mut stat, 0).ok()?;
    let stat = String::from_utf8_lossy(&stat[..read]);
    // proc_pid_stat(5): the name in parentheses may hold anything; behind it the state, the number of threads as 18th word, and the
    // start time as 20th.
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().take(20).collect();
    // The first thread may end before the others.
    let is_alone = words.get(17).and_then(|threads| threads.parse().ok()).is_none_or(|threads: u64| threads <= 1);
    let has_ended = matches!(words.first(), Some(&("Z" | "X"))) && is_alone;
    words.get(19).filter(|_| !has_ended)?.parse().ok()
}

/// Whether the process that made the socket to which `stream` is connected has ended. Its forked children may hold that open.
pub(crate) fn is_orphaned(stream: &impl AsRawFd) -> bool {
    if let Some(has_ended) = has_peer_ended(stream) {
        return has_ended;
    }
    // Where the number is another process's by now, this one counts as alive until its children end.
    peer(stream).and_then(|peer| peer.pid).is_some_and(|pid| start_time(pid).is_none())
}

/// The directory of a process image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its name.
    pub name: ImageName,
    /// Where it lies.
    pub path: PathBuf,
    /// Whose it is.
    owner: u32,
}

/// Returns the process images below a directory of this user, by name.
///
/// # Errors
///
/// `NotFound` where there is no such directory; otherwise as for [`make_base`].
pub fn images(base: &Path) -> io::Result<Vec<Image>> {
    let user = rustix::process::geteuid().as_raw();
    images_in(&open_base(base, Some(user))?, base, user)
}

/// Returns the process images below a directory of whatever user, which the caller chose and may read.
///
/// # Errors
///
/// As for [`images`].
pub fn images_of_owner(base: &Path) -> io::Result<Vec<Image>> {
    let opened = open_base(base, None)?;
    images_in(&opened, base, opened.owner)
}

fn images_in(base: &Directory, path: &Path, owner: u32) -> io::Result<Vec<Image>> {
    let image = |name: OsString| Some(Image { name: name.to_str()?.parse().ok()?, path: path.join(&name), owner });
    let mut found: Vec<Image> = base.names()?.into_iter().filter_map(image).collect();
    found.retain(|image| base.private(image.name.to_string(), owner).is_ok());
    found.sort_by_key(|image| image.name);
    Ok(found)
}

impl Image {
    /// Returns the image that a session's directory belongs to. `None`: its parent's name is not that of one.
    pub fn of_session(directory: &Path) -> Option<Image> {
        Self::at(std::path::absolute(directory).ok()?.parent()?.to_owned())
    }

    /// Returns the image whose directory this is. `None`: its name is not that of one, or nothing is there.
    pub fn at(path: PathBuf) -> Option<Image> {
        let name = image_name(&path)?;
        let owner = Directory::open(&path).ok()?.owner;
        Some(Image { name, path, owner })
    }

    /// Opens its directory (PL-1).
    ///
    /// # Errors
    ///
    /// `NotFound`; `PermissionDenied` where another user's lies there now.
    pub fn open(&self) -> io::Result<Directory> {
        let (parent, name) = split(&self.path)?;
        Directory::named(parent)?.private(name, self.owner)
    }

    /// Connects to the agent.
    ///
    /// # Errors
    ///
    /// `NotFound`: the process has no agent. `ConnectionRefused`: it has ended (PL-2), or a link lies there, or anything else that is
    /// no socket of the owner's. Others as for [`open`](Self::open).
    pub fn connect(&self) -> io::Result<UnixStream> {
        let stream = self.reach(|socket| {
            let stream = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            rustix::net::sockopt::set_socket_timeout(&stream, Timeout::Send, Some(ROOM))?;
            rustix::net::connect(&stream, socket)?;
            Ok(UnixStream::from(stream))
        })?;
        if is_orphaned(&stream) { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(stream) }
    }

    /// What [`connect`](Self::connect) says, without waiting for an agent that is stopped.
    fn knock(&self) -> io::Result<()> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, _) = Descriptor::new(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)?;
        self.reach(|socket| match rustix::net::connect(own.get()?, socket) {
            // As many as may wait do.
            Ok(()) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        })?;
        if is_orphaned(&own.get()?) { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
    }

    /// Runs `connect` with the address of the agent's socket, which is the owner's, and to which no link leads (PL-4).
    fn reach<T>(&self, connect: impl Fn(&SocketAddrUnix) -> io::Result<T>) -> io::Result<T> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(self.open()?.descriptor()?, SOCKET, flags, Mode::empty())?;
        let (socket, stat) = Descriptor::new(opened)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || stat.st_uid != self.owner {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        match connect(&SocketAddrUnix::new(by_descriptor(&socket.get()?))?) {
            // Without /proc, by its path: nobody else can exchange what lies in a directory of this user.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.owner == rustix::process::geteuid().as_raw() => {
                connect(&SocketAddrUnix::new(self.path.join(SOCKET))?)
            }
            done => done,
        }
    }

    /// Whether its agent listens.
    pub fn listens(&self) -> bool {
        self.knock().is_ok()
    }

    /// Whether it has an agent's socket whose process has ended.
    pub fn is_dead(&self) -> bool {
        self.knock().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Whether its process has ended, as far as this PID namespace shows: its agent does not listen any more, or it has none and
    /// no such process runs. Of one elsewhere that has no agent, only its rings tell.
    pub fn is_gone(&self) -> bool {
        match self.knock().map_err(|error| error.kind()) {
            Err(io::ErrorKind::ConnectionRefused) => true,
            Err(io::ErrorKind::NotFound) => !self.name.is_running(),
            _ => false,
        }
    }

    /// Names of the sessions whose rings lie here.
    pub fn sessions(&self) -> Vec<String> {
        self.open().map_or_else(|_| Vec::new(), |directory| self.sessions_in(&directory))
    }

    fn sessions_in(&self, directory: &Directory) -> Vec<String> {
        let has_rings = |name: &String| directory.at(name).is_ok_and(|session| session.has_file(RINGS));
        let names = directory.names().unwrap_or_default().into_iter().filter_map(|name| name.into_string().ok());
        let mut names: Vec<String> = names.filter(has_rings).collect();
        names.sort();
        names
    }

    /// Whether anybody holds the rings of a session (PL-3). `None`: the file system does not tell.
    fn holds(&self, session: &Path) -> Option<bool> {
        let rings = || {
            let directory = self.open()?.at(session.file_name().unwrap_or_default())?;
            Descriptor::new(directory.file(RINGS, OFlags::RDONLY, &[self.owner])?.into())
        };
        is_held(&rings().ok()?.0.get().ok()?)
    }

    /// Removes what a process left that has ended, where there is nothing to recover. Returns whether the directory is gone.
    ///
    /// One that is only about to make its socket or its rings, in another PID namespace, makes its directory again.
    pub fn remove_if_empty(&self) -> bool {
        self.is_gone() && self.remove_gone()
    }

    /// The same, of a process that is known to have ended: it may have ended before its agent made a socket, or its rings a name.
    pub fn remove_gone(&self) -> bool {
        let Ok(directory) = self.open() else { return false };
        if !self.sessions_in(&directory).is_empty() {
            return false;
        }
        for name in directory.names().unwrap_or_default() {
            if let Ok(session) = directory.at(&name) {
                let _ = session.remove_file(UNHELD);
                let _ = directory.remove_directory(&name);
            }
        }
        let _ = directory.remove_file(UNFINISHED);
        self.remove_socket()
    }

    /// Removes the agent's socket, and the directory where nothing else is in it. Returns whether that is gone.
    pub fn remove_socket(&self) -> bool {
        let remove = || {
            let (base, name) = split(&self.path)?;
            let base = Directory::named(base)?;
            let _ = base.private(name, self.owner)?.remove_file(SOCKET);
            base.remove_directory(name)
        };
        remove().is_ok()
    }

    /// Opens the directory of one of its sessions, of which its process says that it lies at `path`.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` where it does not lie in a directory of this image, there or elsewhere, that is the owner's alone; otherwise
    /// as for [`OpenedSession::open`].
    pub fn session(&self, path: &Path) -> io::Result<OpenedSession> {
        let session = OpenedSession::open(path)?;
        let is_of_owner = session.directory.owner == self.owner && session.above.is_private_to(self.owner);
        if is_of_owner && session.image_name() == Some(self.name) {
            return Ok(session);
        }
        let problem = format!("this is no directory of a session of process {}, closed to others", self.name.pid);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
    }
}

/// The directory of a session, opened together with the one that it lies in.
#[derive(Debug)]
pub struct OpenedSession {
    /// Where it was found; for messages, and for what lies beside it.
    pub path: PathBuf,
    /// The directory.
    pub directory: Directory,
    above: Directory,
}

impl OpenedSession {
    /// Opens the directory of a session that a user named, and which may be another user's: it is no link, and lies in a directory
    /// of its owner, of this user or of root, which is no link either if it is that of a process image.
    ///
    /// # Errors
    ///
    /// `NotFound`; `NotADirectory`, also where it is a link; `PermissionDenied` where others could exchange it.
    pub fn open(path: &Path) -> io::Result<OpenedSession> {
        let path = std::path::absolute(path)?;
        let (parent, name) = split(&path)?;
        let above = if image_name(parent).is_some() { Directory::open(parent)? } else { Directory::named(parent)? };
        let directory = above.at(name)?;
        check_above(&above, parent, directory.owner)?;
        Ok(OpenedSession { path, directory, above })
    }

    fn image_name(&self) -> Option<ImageName> {
        image_name(self.path.parent()?)
    }

    /// Removes it with its files, and the directory of its process image where nothing else is in it (PL-4). What cannot be removed
    /// is found by `ringtrace ps --dead`.
    pub fn remove(&self) {
        let _ = FILES.map(|name| self.directory.remove_file(name));
        let _ = self.path.file_name().map(|name| self.above.remove_directory(name));
        if let Some(image) = self.image_name() {
            let _ = self.above.at("..").and_then(|base| base.remove_directory(image.to_string()));
        }
    }
}

/// The process image whose directory this is, by its name.
fn image_name(directory: &Path) -> Option<ImageName> {
    directory.file_name()?.to_str()?.parse().ok()
}

/// Makes `socket` listen in `directory`, which lies at `path`, under [`SOCKET`]; in place of an earlier one.
///
/// # Errors
///
/// The socket cannot be made a listening one there.
pub fn listen(directory: &Directory, path: &Path, socket: impl AsFd) -> io::Result<()> {
    match directory.remove_file(UNFINISHED) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let here = directory.descriptor()?;
    let bind = |at: &Path| rustix::net::bind(&socket, &SocketAddrUnix::new(at.join(UNFINISHED))?);
    match bind(&by_descriptor(&here)) {
        // Without /proc, by its path.
        Err(rustix::io::Errno::NOENT) => bind(path)?,
        bound => bound?,
    }
    let finish = || {
        rustix::fs::chmodat(here, UNFINISHED, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        rustix::net::listen(&socket, WAITING)?;
        Ok(rustix::fs::renameat(here, UNFINISHED, here, SOCKET)?) // PL-2
    };
    finish().inspect_err(|_| drop(directory.remove_file(UNFINISHED)))
}

/// Connections that may wait for being accepted.
const WAITING: i32 = 128;

/// Whether `path` is a socket.
pub fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
}

/// How long a process may take to have room for another connection: one that is stopped has none at some time.
const ROOM: Duration = Duration::from_millis(500);

/// A path that leads to what a descriptor of this thread is of.
fn by_descriptor(descriptor: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/thread-self/fd/{}", descriptor.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::PermissionsExt as _;

    pub(in crate::place) fn listening(directory: &Path) -> OwnedFd {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        listen(&Directory::open(directory).expect("it opens"), directory, &socket).expect("it listens");
        socket
    }

    proptest! {
        #[test]
        fn names_round_trip(pid: u32, start_time: u64, id: u32) {
            let name = ImageName { pid, start_time, id };
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn only_our_names_are_parsed(text in "[-+0-9a-fA-F]{0,24}") {
            if let Ok(name) = text.parse::<ImageName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "a process whose first thread ends")]
    fn a_process_runs_until_its_last_thread_ends() {
        // SAFETY: the child makes system calls only, beside a thread that does nothing.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                std::thread::spawn(|| libc::pause());
                libc::syscall(libc::SYS_exit, 0);
            }
            let pid = u32::try_from(child).expect("a child");
            let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
            while !stat().contains(") Z ") {
                std::thread::yield_now();
            }
            assert!(start_time(pid).is_some(), "{}", stat());
            libc::kill(child, libc::SIGKILL);
            while start_time(pid).is_some() {
                std::thread::yield_now();
            }
            assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
        }
    }

    #[test]
    fn a_base_lies_in_no_directory_of_another_user() {
        let parent = tempfile::tempdir().expect("a directory");
        let at = |name: &str| parent.path().join(name);
        if std::fs::create_dir(at("theirs")).and_then(|()| std::os::unix::fs::chown(at("theirs"), Some(1), Some(1))).is_err() {
            eprintln!("not tested: this needs two users, so it needs to be run by root");
            return;
        }
        let error = make_base(&at("theirs/ringtrace")).expect_err("another user's");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("belongs to another user (user ID 1)"), "{error}");
        assert!(!at("theirs/ringtrace").exists());
        assert_eq!(images(&at("theirs/ringtrace")).expect_err("nothing").kind(), io::ErrorKind::NotFound);
        // Nor in one to which a link of theirs leads; their own processes are looked at all the same.
        std::os::unix::fs::symlink(at("theirs"), at("link")).expect("a link");
        assert_eq!(make_base(&at("link/ringtrace")).expect_err("the same").kind(), io::ErrorKind::PermissionDenied);
        private_directory(&at("theirs/ringtrace")).expect("a directory");
        std::os::unix::fs::chown(at("theirs/ringtrace"), Some(1), Some(1)).expect("it is theirs");
        assert!(images_of_owner(&at("theirs/ringtrace")).expect("theirs").is_empty());
    }

    #[test]
    fn directories_of_others_are_refused() {
        let parent = tempfile::tempdir().expect("a directory");
        let at = |name: &str| parent.path().join(name);
        private_directory(&at("own")).expect("it is made");
        private_directory(&at("own")).expect("it is there");
        assert_eq!(std::fs::metadata(at("own")).expect("it").permissions().mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(at("own"), at("link")).expect("a link");
        std::fs::write(at("file"), "").expect("a file");
        std::fs::create_dir(at("open")).expect("a directory");
        std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        for name in ["link", "file", "open"] {
            let error = private_directory(&at(name)).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}");
            let remedy = if name == "open" { "its mode is 755: chmod 700 open" } else { "remove it" };
            assert!(error.to_string().ends_with(remedy), "{error}");
        }
    }

    #[test]
    fn a_socket_is_closed_to_others_however_deep_it_lies() {
        let parent = tempfile::tempdir().expect("a directory");
        for depth in [1, 12] {
            let base = parent.path().join("a-long-name-of-a-directory/".repeat(depth));
            std::fs::create_dir_all(&base).expect("directories");
            std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o700)).expect("its mode");
            let name = ImageName { pid: 1, start_time: 2, id: 3 };
            private_directory(&base.join(name.to_string())).expect("a directory");
            let image = images(&base).expect("images").pop().expect("one");
            assert_eq!(image.name, name);
            assert!(!image.is_dead() && image.remove_if_empty(), "killed before it had a socket");
            private_directory(&image.path).expect("a directory");
            let listener = listening(&image.path);
            let path = image.path.join(SOCKET);
            assert!(is_socket(&path));
            assert_eq!(std::fs::metadata(&path).expect("it").permissions().mode() & 0o777, 0o600);
            image.connect().expect("it listens");
            assert!(!image.remove_if_empty());
            // As many wait as may: it is stopped, and not gone.
            let waiting: Vec<_> = (0..=WAITING).map(|_| image.knock()).collect();
            assert!(waiting.iter().all(Result::is_ok) && image.listens() && !image.is_gone());
            drop(listener);
            std::fs::create_dir(image.path.join("session")).expect("a directory");
            std::fs::write(image.path.join("session/rings"), "").expect("a file");
            assert!(image.is_dead() && !image.remove_if_empty(), "there are rings to recover");
            std::fs::remove_dir_all(image.path.join("session")).expect("it goes");
            assert!(image.remove_if_empty() && !image.path.exists());
        }
    }
}
