//! Where the files of a program lie while it runs.
//!
//! ```text
//! $XDG_RUNTIME_DIR/ringtrace/        0700, the user's own; else /dev/shm/ringtrace-UID/, else /tmp/ringtrace-UID/;
//!                                    where RINGTRACE_DIR is set, that directory and no other
//!   PID-STARTTIME-ID/                0700, one process image; ID: 8 random hexadecimal digits
//!     control                        0600, the agent's socket
//!     SESSION/…                      rings and journal of a session
//! ```
//!
//! A session may have its rings elsewhere, on disk: in `DIR/ringtrace/`, which looks the same, without sockets.
//!
//! exec(2) keeps PID and start time, and two run times in one process (a program's and a plugin's) share them; the random ID
//! keeps them apart.
//!
//! # Invariants
//!
//! - PL-1: A directory is used only if it is no link, belongs to the user and is closed to others; so nobody else can have put
//!   anything into it, and what lies below it needs no further check.
//! - PL-2: A socket gets its final name when it listens already. So one that refuses a connection has no process any more; nor has
//!   one that was made by a process that has ended, and is only held open by a child that it forked.

use crate::peer;
use crate::sys::has_peer_ended;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Name of the agent's socket in the directory of its process image.
pub const SOCKET: &str = "control";
/// Its name until it listens.
const UNFINISHED: &str = "control.new";

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

/// Creates a directory that is nobody else's, or checks that an existing one is none (PL-1).
///
/// # Errors
///
/// It cannot be created; it is a link or no directory, belongs to somebody else, or is open to others (`PermissionDenied`).
pub fn private_directory(path: &Path) -> io::Result<()> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => check_private(path, rustix::process::geteuid().as_raw()),
        Err(error) => Err(error.into()),
    }
}

/// Checks that a directory belongs to `owner` alone (PL-1).
fn check_private(path: &Path, owner: u32) -> io::Result<()> {
    let stat = rustix::fs::lstat(path)?;
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if !is_directory || stat.st_uid != owner || stat.st_mode & 0o077 != 0 {
        let problem = "it must be a directory of this user, closed to others: somebody may have put it there; remove it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    Ok(())
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
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc_pid_stat(5): the name in parentheses may hold anything; behind it the state, and the start time as 20th word.
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().take(20).collect();
    let has_ended = matches!(words.first(), Some(&("Z" | "X")));
    words.get(19).filter(|_| !has_ended)?.parse().ok()
}

/// Whether the process that made the socket to which `stream` is connected has ended. Its forked children may hold that open.
pub(crate) fn is_orphaned(stream: &UnixStream) -> bool {
    if let Some(has_ended) = has_peer_ended(stream) {
        return has_ended;
    }
    // Where the number is another process's by now, this one counts as alive until its children end.
    peer(stream).and_then(|peer| peer.pid).is_some_and(|pid| start_time(pid).is_none())
}

/// Most sessions and bytes that ended processes may leave in a base directory: what is older goes when the next one starts.
const MOST_REMAINS: (usize, u64) = (64, 1 << 30);

/// Removes what ended processes left in `base`: all where there is nothing to recover, else the oldest sessions beyond 64 or
/// 1 GiB, each by `remove`, which makes sure that nobody uses it any more.
pub fn tidy(base: &Path, remove: impl Fn(&Path)) {
    tidy_to(base, MOST_REMAINS, remove);
}

fn tidy_to(base: &Path, (most, most_bytes): (usize, u64), remove: impl Fn(&Path)) {
    let mut remains = Vec::new();
    for image in images(base).into_iter().flatten() {
        // A socket may be silent for a moment where the program closed its descriptors.
        if image.remove_if_empty() || !image.is_gone() || image.name.is_running() {
            continue;
        }
        for session in image.sessions().into_iter().map(|session| image.path.join(session)) {
            let Ok(stat) = rustix::fs::stat(session.join("rings")) else { continue };
            let written = std::fs::metadata(session.join("journal")).and_then(|m| m.modified()).ok();
            // st_blocks counts units of 512 bytes, stat(3type).
            remains.push((written, session, stat.st_blocks as u64 * 512, image.clone()));
        }
    }
    remains.sort_by_key(|(written, ..)| std::cmp::Reverse(*written)); // the newest first
    let mut total = 0;
    for (place, (_, session, bytes, image)) in remains.into_iter().enumerate() {
        total += bytes;
        if place >= most || total > most_bytes {
            remove(&session);
            image.remove_if_empty();
        }
    }
}

/// The directory of a process image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its name.
    pub name: ImageName,
    /// Where it lies.
    pub path: PathBuf,
}

/// Returns the process images below a directory of this user, by name.
///
/// # Errors
///
/// `NotFound` where there is no such directory; otherwise as for [`private_directory`].
pub fn images(base: &Path) -> io::Result<Vec<Image>> {
    images_of(base, rustix::process::geteuid().as_raw())
}

/// Returns the process images below a directory of whatever user, which the caller chose and may read.
///
/// # Errors
///
/// As for [`images`].
pub fn images_of_owner(base: &Path) -> io::Result<Vec<Image>> {
    images_of(base, rustix::fs::stat(base)?.st_uid)
}

fn images_of(base: &Path, owner: u32) -> io::Result<Vec<Image>> {
    check_private(base, owner)?;
    let mut found: Vec<Image> = std::fs::read_dir(base)?
        .flatten()
        .filter_map(|entry| Some(Image { name: entry.file_name().to_str()?.parse().ok()?, path: entry.path() }))
        .filter(|image| check_private(&image.path, owner).is_ok())
        .collect();
    found.sort_by_key(|image| image.name);
    Ok(found)
}

impl Image {
    /// Returns the image that a session's directory belongs to. `None`: its parent's name is not that of one.
    pub fn of_session(directory: &Path) -> Option<Image> {
        let path = std::path::absolute(directory).ok()?.parent()?.to_owned();
        let name = path.file_name()?.to_str()?.parse().ok()?;
        Some(Image { name, path })
    }

    /// Connects to the agent.
    ///
    /// # Errors
    ///
    /// `NotFound`: the process has no agent. `ConnectionRefused`: it has ended (PL-2).
    pub fn connect(&self) -> io::Result<UnixStream> {
        let stream = by_short_path(&self.path, |directory| connect(&directory.join(SOCKET)))?;
        if is_orphaned(&stream) { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(stream) }
    }

    /// Whether it has an agent's socket whose process has ended.
    pub fn is_dead(&self) -> bool {
        self.connect().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Whether its process has ended, as far as this PID namespace shows: its agent does not listen any more, or it has none and
    /// no such process runs. Of one elsewhere that has no agent, only its rings tell.
    pub fn is_gone(&self) -> bool {
        match self.connect().map_err(|error| error.kind()) {
            Err(io::ErrorKind::ConnectionRefused) => true,
            Err(io::ErrorKind::NotFound) => !self.name.is_running(),
            _ => false,
        }
    }

    /// Names of the sessions whose rings lie here.
    pub fn sessions(&self) -> Vec<String> {
        let has_rings = |path: &Path| path.join("rings").is_file();
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter(|e| has_rings(&e.path())).filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Removes what a process left that has ended, where there is nothing to recover. Returns whether the directory is gone.
    ///
    /// One that is only about to make its socket, in another PID namespace, makes its directory again.
    pub fn remove_if_empty(&self) -> bool {
        self.is_gone() && self.remove_gone()
    }

    /// The same, of a process that is known to have ended: it may have ended before its agent made a socket.
    pub fn remove_gone(&self) -> bool {
        if self.sessions().is_empty() {
            let _ = std::fs::remove_file(self.path.join(SOCKET));
            let _ = std::fs::remove_file(self.path.join(UNFINISHED));
            // Fails where there is anything else.
            return std::fs::remove_dir(&self.path).is_ok();
        }
        false
    }
}

/// Makes `socket` listen in `directory`, which is [private](private_directory), under [`SOCKET`]; in place of an earlier one.
///
/// # Errors
///
/// The socket cannot be made a listening one there.
pub fn listen(directory: &Path, socket: impl AsFd) -> io::Result<()> {
    by_short_path(directory, |short| {
        let unfinished = short.join(UNFINISHED);
        match std::fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        rustix::net::bind(&socket, &SocketAddrUnix::new(&unfinished)?)?;
        let finish = || {
            std::fs::set_permissions(&unfinished, std::fs::Permissions::from_mode(0o600))?;
            rustix::net::listen(&socket, WAITING)?;
            std::fs::rename(&unfinished, short.join(SOCKET)) // PL-2
        };
        finish().inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
    })
}

/// Connections that may wait for being accepted.
const WAITING: i32 = 128;

/// Whether `path` is a socket.
pub fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
}

/// How long a process may take to have room for another connection: one that is stopped has none at some time.
const ROOM: Duration = Duration::from_millis(500);

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::sockopt::set_socket_timeout(&stream, Timeout::Send, Some(ROOM))?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    Ok(stream.into())
}

/// Runs `work` with a path of `directory` that is short enough for a socket's name, which unix(7) limits to 108 bytes.
fn by_short_path<T>(directory: &Path, work: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if directory.as_os_str().len() + 1 + UNFINISHED.len() < 108 {
        return work(directory);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = File::from(rustix::fs::open(directory, flags, Mode::empty())?);
    work(&PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;
    use std::os::fd::OwnedFd;

    fn listening(directory: &Path) -> OwnedFd {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        listen(directory, &socket).expect("it listens");
        socket
    }

    /// The directory of an image of no process, below a base.
    fn image_below(base: &Path, number: u32) -> PathBuf {
        base.join(ImageName { pid: 1, start_time: u64::MAX, id: number }.to_string())
    }

    /// Makes what an image left: a session whose journal is so many seconds younger than the first one's. Returns its rings.
    fn leave(image: &Path, number: u32) -> File {
        private_directory(image).expect("it is made");
        let session = image.join("session");
        std::fs::create_dir(&session).expect("a directory");
        let journal = File::create(session.join("journal")).expect("a file");
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(u64::from(number));
        journal.set_modified(time).expect("its time");
        File::create(session.join("rings")).expect("a file")
    }

    fn private_base() -> tempfile::TempDir {
        let base = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o700)).expect("its mode");
        base
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
    fn what_ended_processes_left_is_bounded_and_the_newest_stays() {
        let base = private_base();
        let most = MOST_REMAINS.0 as u32;
        let image = |number| image_below(base.path(), number);
        for number in 0..most + 3 {
            leave(&image(number), number).write_all(b"rings").expect("its content");
            // The first, and oldest, still listens. Every other one has no agent, as where rings lie on disk.
            if number % 2 == 0 {
                let listener = listening(&image(number));
                if number == 0 {
                    std::mem::forget(listener);
                }
            }
        }
        tidy(base.path(), |session| std::fs::remove_dir_all(session).expect("it goes"));
        let left: Vec<u32> = (0..most + 3).filter(|number| image(*number).exists()).collect();
        assert!(left.iter().copied().eq(std::iter::once(0).chain(3..most + 3)), "{left:?}");
    }

    #[test]
    fn what_ended_processes_left_is_bounded_in_bytes() {
        let base = private_base();
        let image = |number| image_below(base.path(), number);
        for number in 0..5 {
            let mut rings = leave(&image(number), number);
            match number {
                // It has the size of the others, and nothing in it.
                1 => rings.set_len(1 << 20),
                _ => rings.write_all(&[1; 1 << 20]),
            }
            .expect("its content");
        }
        // Room for two, and what the file system takes besides.
        tidy_to(base.path(), (4, 5 << 19), |session| std::fs::remove_dir_all(session).expect("it goes"));
        let left: Vec<u32> = (0..5).filter(|number| image(*number).exists()).collect();
        assert_eq!(left, [3, 4]);
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
            drop(listener);
            std::fs::create_dir(image.path.join("session")).expect("a directory");
            std::fs::write(image.path.join("session/rings"), "").expect("a file");
            assert!(image.is_dead() && !image.remove_if_empty(), "there are rings to recover");
            std::fs::remove_dir_all(image.path.join("session")).expect("it goes");
            assert!(image.remove_if_empty() && !image.path.exists());
        }
    }
}
