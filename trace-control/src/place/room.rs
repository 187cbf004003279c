//! Room for new rings: what ended processes left gives way, the oldest first, and is counted.

use super::{Image, JOURNAL, RINGS, SOCKET, images_in, open_base};
use crate::directory::{Descriptor, Directory};
use rustix::fs::{Mode, OFlags, RenameFlags, Stat};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// How much ended processes may leave in a base directory, together with the rings that are about to be made.
#[derive(Clone, Copy, Debug)]
struct Bound {
    sessions: usize,
    bytes: u64,
}

const BOUND: Bound = Bound { sessions: 64, bytes: 1 << 30 };

/// Sessions that were removed without being recovered, to make room, and the bytes that their files took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removed {
    /// Number of sessions.
    pub sessions: u64,
    /// Bytes of memory, or on the disk.
    pub bytes: u64,
}

/// What a session has in its files.
struct Session {
    image: Image,
    path: PathBuf,
    bytes: u64,
    /// When its journal was last written to, or else its rings: seconds and nanoseconds.
    written: (i64, u64),
}

/// Makes room in `base`, which lies at `path`, for rings of `needed` bytes: the oldest sessions of ended processes go, each by
/// `remove`, which makes sure that nobody uses it and says whether it did, while they are together with the new one more than 64,
/// or take more than 1 GiB, or half of the file system, or leave less than `free` bytes free. Counts and returns what went.
///
/// It waits for nobody. While there is room for everything that lies there, no process is asked whether it lives.
///
/// # Errors
///
/// The directory cannot be read, or the program closed it.
pub fn make_room(base: &Directory, path: &Path, needed: u64, free: u64, remove: impl Fn(&Path) -> bool) -> io::Result<Removed> {
    let fs = rustix::fs::fstatfs(base.descriptor()?)?;
    let bytes = |blocks: u64| blocks.saturating_mul(fs.f_bsize.unsigned_abs());
    let half = if fs.f_blocks == 0 { u64::MAX } else { bytes(fs.f_blocks) / 2 };
    let bound = Bound { bytes: BOUND.bytes.min(half), ..BOUND };
    let removed = make_room_within(base, path, bound, needed, (free, bytes(fs.f_bavail)), remove)?;
    if removed.sessions > 0 {
        count(base, removed);
    }
    Ok(removed)
}

fn make_room_within(
    base: &Directory,
    path: &Path,
    bound: Bound,
    needed: u64,
    (wanted, free): (u64, u64),
    remove: impl Fn(&Path) -> bool,
) -> io::Result<Removed> {
    let mut all = Vec::new();
    for image in images_in(base, path, base.owner)? {
        let Ok(directory) = base.private(image.name.to_string(), base.owner) else { continue };
        let names = image.sessions_in(&directory);
        if names.is_empty() && directory.stat(SOCKET).is_err() {
            // It ended before it had anything. One that has a socket is looked after by the next agent.
            image.remove_if_empty();
        }
        all.extend(names.into_iter().filter_map(|name| Session::of(&image, &directory, name)));
    }
    let mut removed = Removed::default();
    let bytes = |all: &[Session]| all.iter().map(|session| session.bytes).sum::<u64>();
    let is_enough = |sessions: usize, bytes: u64, removed: Removed| {
        let (sessions, bytes) = (sessions - removed.sessions as usize, bytes - removed.bytes);
        sessions < bound.sessions && bytes.saturating_add(needed) <= bound.bytes && free + removed.bytes >= wanted
    };
    if is_enough(all.len(), bytes(&all), removed) {
        return Ok(removed);
    }
    all.retain(|session| {
        let image = &session.image;
        match image.holds(&session.path) {
            // By a process that uses it, or by a forked child: then its memory would not become free.
            Some(true) => false,
            // Its process may run on, as another program (execve(2)).
            Some(false) => !image.listens(),
            // A socket may be silent for a moment where the program closed its descriptors.
            None => !image.name.is_running() && image.is_gone(),
        }
    });
    all.sort_by_key(|session| std::cmp::Reverse(session.written)); // the oldest last
    let (sessions, bytes) = (all.len(), bytes(&all));
    if bytes + free < wanted {
        return Ok(removed); // they find no room here in any case
    }
    while !is_enough(sessions, bytes, removed) {
        let Some(oldest) = all.pop() else { break };
        if remove(&oldest.path) {
            removed.sessions += 1;
            removed.bytes += oldest.bytes;
            oldest.image.remove_if_empty();
        }
    }
    Ok(removed)
}

impl Session {
    fn of(image: &Image, directory: &Directory, name: String) -> Option<Session> {
        let files = directory.at(&name).ok()?;
        let rings = files.stat(RINGS).ok()?;
        let journal = files.stat(JOURNAL).ok();
        // st_blocks counts units of 512 bytes, stat(3type).
        let bytes = |stat: &Stat| stat.st_blocks.unsigned_abs() * 512;
        let newest = journal.as_ref().unwrap_or(&rings);
        #[allow(clippy::useless_conversion, reason = "32 bits on some systems")]
        let written = (newest.st_mtime.into(), newest.st_mtime_nsec.into());
        let bytes = bytes(&rings) + journal.as_ref().map_or(0, bytes);
        Some(Session { image: image.clone(), path: image.path.join(name), bytes, written })
    }
}

/// What the names of the files begin with whose names say what was removed.
const COUNT: &str = "removed-";

fn counted(name: &OsStr) -> Option<Removed> {
    let (sessions, bytes) = name.to_str()?.strip_prefix(COUNT)?.split_once('-')?;
    Some(Removed { sessions: sessions.parse().ok()?, bytes: bytes.parse().ok()? })
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{COUNT}{}-{}", self.sessions, self.bytes)
    }
}

/// Adds to what the name of a file in `base` says. Renaming it is one step, which needs no room and no lock: of several processes
/// each adds to what another one left, or makes a file of its own.
fn count(base: &Directory, removed: Removed) {
    for _ in 0..100 {
        let Ok(here) = base.descriptor() else { return };
        // The largest, so that none has the name that it gets.
        let before = base.names().unwrap_or_default().iter().filter_map(|name| counted(name)).max();
        let done = match before {
            None => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(here, removed.to_string(), flags, Mode::RUSR)
                    .map_err(io::Error::from)
                    .and_then(|file| Descriptor::new(file).map(drop))
            }
            Some(before) => {
                let sum = Removed {
                    sessions: before.sessions.saturating_add(removed.sessions),
                    bytes: before.bytes.saturating_add(removed.bytes),
                };
                let (from, to) = (before.to_string(), sum.to_string());
                rustix::fs::renameat_with(here, from, here, to, RenameFlags::NOREPLACE).map_err(io::Error::from)
            }
        };
        match done.map_err(|error| error.kind()) {
            // Another process was faster.
            Err(io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {}
            _ => return,
        }
    }
}

/// What was ever removed from a base directory to [make room](make_room), up to when that was [forgotten](forget_removed).
pub fn removed(base: &Path) -> Removed {
    let names = open_base(base, None).and_then(|base| base.names()).unwrap_or_default();
    names.iter().filter_map(|name| counted(name)).fold(Removed::default(), |sum, one| Removed {
        sessions: sum.sessions.saturating_add(one.sessions),
        bytes: sum.bytes.saturating_add(one.bytes),
    })
}

/// Forgets what was [removed].
pub fn forget_removed(base: &Path) {
    if let Ok(base) = open_base(base, None) {
        let names = base.names().unwrap_or_default();
        names.iter().filter(|name| counted(name).is_some()).for_each(|name| drop(base.remove_file(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::listening;
    use super::super::{ImageName, OpenedSession, UNHELD, images, make_base, private_directory, start_time};
    use super::*;
    use std::fs::File;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    /// The directory of an image of no process, below a base.
    fn image_below(base: &Path, number: u32) -> PathBuf {
        base.join(ImageName { pid: 1, start_time: u64::MAX, id: number }.to_string())
    }

    /// Makes what an image left: a session whose journal is so many seconds younger than the first one's. Returns its rings.
    fn leave(image: &Path, number: u32) -> File {
        private_directory(image).expect("it is made");
        let session = image.join("session");
        std::fs::create_dir(&session).expect("a directory");
        let journal = File::create(session.join(JOURNAL)).expect("a file");
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(u64::from(number));
        journal.set_modified(time).expect("its time");
        File::options().read(true).write(true).create(true).truncate(true).open(session.join(RINGS)).expect("a file")
    }

    /// The same, with a MiB in the rings.
    fn leave_mib(image: &Path, number: u32) -> File {
        let mut rings = leave(image, number);
        rings.write_all(&[1; 1 << 20]).expect("its content");
        rings
    }

    fn private_base() -> tempfile::TempDir {
        let base = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o700)).expect("its mode");
        base
    }

    /// Makes room as for rings of so many bytes, where so many are free.
    fn room(base: &Path, bound: Bound, needed: u64, free: u64) -> Removed {
        let remove = |session: &Path| std::fs::remove_dir_all(session).map(|()| true).expect("it goes");
        make_room_within(&make_base(base).expect("it opens"), base, bound, needed, (needed, free), remove).expect("it is read")
    }

    /// The numbers of those whose directories are there.
    fn there(base: &Path, numbers: u32) -> Vec<u32> {
        (0..numbers).filter(|number| image_below(base, *number).exists()).collect()
    }

    #[test]
    fn what_ended_processes_left_is_bounded_and_the_newest_stays() {
        let base = private_base();
        let most = BOUND.sessions as u32;
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
        // The new one is one of them.
        assert_eq!(room(base.path(), BOUND, 0, u64::MAX / 2).sessions, 3);
        assert!(there(base.path(), most + 3).into_iter().eq(std::iter::once(0).chain(4..most + 3)));
    }

    #[test]
    fn what_ended_processes_left_is_bounded_in_bytes_together_with_what_is_made() {
        let base = private_base();
        let (bound, plenty) = (Bound { sessions: 9, bytes: 5 << 19 }, u64::MAX / 2);
        for number in 0..5 {
            // The second has the size of the others, and nothing in it.
            match number {
                1 => leave(&image_below(base.path(), number), number).set_len(1 << 20).expect("its length"),
                _ => drop(leave_mib(&image_below(base.path(), number), number)),
            }
        }
        // Room for two, and what the file system takes besides.
        let removed = room(base.path(), bound, 0, plenty);
        assert!(removed.sessions == 3 && removed.bytes >= 2 << 20, "{removed:?}");
        assert_eq!(there(base.path(), 5), [3, 4]);
        assert_eq!(room(base.path(), bound, 1 << 10, plenty), Removed::default());
        assert_eq!(room(base.path(), bound, 1 << 20, plenty).sessions, 1, "for what is about to be made");
        assert_eq!(there(base.path(), 5), [4]);
    }

    #[test]
    fn what_ended_processes_left_gives_way_where_nothing_is_free() {
        let base = private_base();
        let image = |number| image_below(base.path(), number);
        (0..3).for_each(|number| drop(leave_mib(&image(number), number)));
        assert_eq!(room(base.path(), BOUND, 64 << 20, 1 << 20), Removed::default(), "it finds no room in any case");
        assert_eq!(room(base.path(), BOUND, 3 << 19, 1 << 20).sessions, 1);
        assert_eq!(there(base.path(), 3), [1, 2]);
    }

    #[test]
    fn rings_that_are_held_are_not_those_of_an_ended_process() {
        let base = private_base();
        let none = Bound { sessions: 0, bytes: 0 };
        let living = leave_mib(&image_below(base.path(), 0), 0);
        assert!(crate::hold(&living));
        drop(leave_mib(&image_below(base.path(), 1), 1));
        assert_eq!(room(base.path(), none, 0, u64::MAX / 2).sessions, 1);
        assert_eq!(there(base.path(), 2), [0]);
        drop(living);
        assert_eq!(room(base.path(), none, 0, u64::MAX / 2).sessions, 1);
        assert_eq!(there(base.path(), 2), [0; 0]);
    }

    #[test]
    fn what_ended_before_it_had_rings_leaves_nothing() {
        let base = private_base();
        let image = image_below(base.path(), 0);
        private_directory(&image).expect("a directory");
        std::fs::create_dir(image.join("session")).expect("a directory");
        std::fs::write(image.join("session").join(UNHELD), "").expect("a file");
        // This process has no rings yet, either.
        let own = ImageName { pid: std::process::id(), start_time: start_time(std::process::id()).expect("it runs"), id: 1 };
        private_directory(&base.path().join(own.to_string())).expect("a directory");
        room(base.path(), BOUND, 0, u64::MAX / 2);
        assert!(!image.exists() && base.path().join(own.to_string()).exists());
    }

    /// A FIFO in place of each file, and a link in place of each directory.
    #[test]
    fn nothing_that_somebody_puts_there_is_waited_for_or_followed() {
        let (base, elsewhere) = (private_base(), private_base());
        let fifo = |path: PathBuf| rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RWXU).expect("a FIFO");
        let image = image_below(base.path(), 0);
        drop(leave(&image, 0));
        for name in [RINGS, JOURNAL] {
            std::fs::remove_file(image.join("session").join(name)).expect("it goes");
            fifo(image.join("session").join(name));
        }
        drop(leave(&elsewhere.path().join("image"), 0));
        std::os::unix::fs::symlink(elsewhere.path().join("image"), image_below(base.path(), 1)).expect("a link");
        private_directory(&image_below(base.path(), 2)).expect("a directory");
        std::os::unix::fs::symlink(elsewhere.path().join("image/session"), image_below(base.path(), 2).join("session"))
            .expect("a link");
        assert_eq!(room(base.path(), Bound { sessions: 0, bytes: 0 }, 0, u64::MAX / 2), Removed::default());
        assert!(images(base.path()).expect("a base").iter().all(|image| image.sessions().is_empty()));
        assert!(elsewhere.path().join("image/session/rings").exists());
        let session = OpenedSession::open(&image.join("session")).expect("a directory");
        for name in [RINGS, JOURNAL] {
            let error = session.directory.file(name, OFlags::RDWR, &[session.directory.owner]).expect_err("a FIFO");
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
        let error = OpenedSession::open(&image_below(base.path(), 2).join("session")).expect_err("a link");
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }

    /// As its owner may do it while somebody is about to remove it.
    #[test]
    fn what_is_removed_is_what_was_opened() {
        let base = private_base();
        let (image, at) = (image_below(base.path(), 0), |name: &str| base.path().join(name));
        drop(leave(&image, 0));
        std::fs::create_dir_all(at("victim/session")).expect("directories");
        let session = OpenedSession::open(&image.join("session")).expect("it is there");
        std::fs::rename(&image, at("aside")).expect("it is renamed");
        std::os::unix::fs::symlink(at("victim"), &image).expect("a link");
        session.remove();
        assert!(at("victim/session").exists() && image.is_symlink());
        assert!(at("aside").exists() && !at("aside/session").exists());
        let error = OpenedSession::open(&image.join("session")).expect_err("a link");
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }

    #[test]
    fn what_was_removed_is_counted_by_all_together() {
        let base = private_base();
        let one = Removed { sessions: 1, bytes: 10 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..25).for_each(|_| count(&make_base(base.path()).expect("a base"), one)));
            }
        });
        assert_eq!(removed(base.path()), Removed { sessions: 100, bytes: 1000 });
        assert!(std::fs::read_dir(base.path()).expect("it").count() <= 4);
        forget_removed(base.path());
        assert_eq!(removed(base.path()), Removed::default());
        assert_eq!(std::fs::read_dir(base.path()).expect("it").count(), 0);
    }
}
