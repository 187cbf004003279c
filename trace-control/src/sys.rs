//! What rustix lacks: who is at the other end of a socket, locks of open files, and closing what somebody else may have closed.
//!
//! rustix wants the peer's number, which is 0 where the peer is outside of this process's PID namespace.
#![expect(unsafe_code, reason = "calls the C library")]

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::FromRawFd as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The process at the other end of a unix socket: who connected, or who listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number, as this process's PID namespace has it. `None`: it has none here, or the system does not tell.
    pub pid: Option<u32>,
    /// Its effective user then.
    pub uid: u32,
    /// Its effective group then.
    pub gid: u32,
}

/// Asks the kernel (SO_PEERCRED, unix(7)).
#[cfg(target_os = "linux")]
pub fn peer(socket: &impl AsRawFd) -> Option<Peer> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `peer`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut len)
    };
    let pid = u32::try_from(peer.pid).ok().filter(|pid| *pid > 0);
    (result == 0 && len as usize == size_of::<libc::ucred>()).then_some(Peer { pid, uid: peer.uid, gid: peer.gid })
}

/// What [`receive`] asks for: the header, and what it stands for. Nothing more finds room, such as descriptors.
#[cfg(target_os = "linux")]
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    sender: libc::ucred,
}

/// Reads what is there, and says which process sent it (SCM_CREDENTIALS, unix(7)); what several sent is read one after the other.
/// `None`: it has no number here, or the kernel was not told before to say so.
#[cfg(target_os = "linux")]
pub(crate) fn receive(stream: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Option<u32>)> {
    // SAFETY: all of them consist of numbers and pointers, of which 0 is none.
    let (mut control, mut message): (Control, libc::msghdr) = unsafe { std::mem::zeroed() };
    let mut room = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut room, 1);
    (message.msg_control, message.msg_controllen) = ((&raw mut control).cast(), size_of::<Control>() as _);
    // SAFETY: the kernel writes to `into`, `control` and `message`, at most as much as they hold.
    let received = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let Ok(count) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
    let Control { header, sender } = control;
    let is_told = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS);
    Ok((count, u32::try_from(sender.pid).ok().filter(|pid| is_told && *pid > 0)))
}

/// Other systems do not tell.
#[cfg(not(target_os = "linux"))]
pub(crate) fn receive(mut stream: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Option<u32>)> {
    Ok((io::Read::read(&mut stream, into)?, None))
}

/// Whether the process at the other end has ended, whoever has its number by now (SO_PEERPIDFD, Linux 6.5). `None`: the kernel
/// does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn has_peer_ended(socket: &impl AsRawFd) -> Option<bool> {
    let (mut pidfd, mut len) = (-1, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `len` bytes to `pidfd`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERPIDFD, (&raw mut pidfd).cast(), &raw mut len)
    };
    if result != 0 {
        // It has been waited for.
        return matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ESRCH | libc::EINVAL)).then_some(true);
    }
    // SAFETY: the kernel has just made it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let mut polled = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor is polled, without waiting. It can be read when its process has ended.
    match unsafe { libc::poll(&raw mut polled, 1, 0) } {
        -1 => None,
        count => Some(count > 0),
    }
}

/// Asks the kernel.
#[cfg(not(target_os = "linux"))]
pub(crate) fn has_peer_ended(_: &impl AsRawFd) -> Option<bool> {
    None
}

/// Asks the kernel.
#[cfg(not(target_os = "linux"))]
pub fn peer(socket: &impl AsRawFd) -> Option<Peer> {
    let (mut uid, mut gid) = (u32::MAX, u32::MAX);
    // SAFETY: both are written.
    (unsafe { libc::getpeereid(socket.as_raw_fd(), &raw mut uid, &raw mut gid) } == 0).then_some(Peer { pid: None, uid, gid })
}

/// Closes a descriptor that nobody uses any more, without a word where somebody else closed it.
pub(crate) fn close(descriptor: &OwnedFd) {
    // SAFETY: DI-2: it is of what this library opened, which its owner, who never drops it, gives up now.
    unsafe { libc::close(descriptor.as_raw_fd()) };
}

/// Locks an open file for as long as anybody has it open or mapped who has it from this process: the lock is one of the open file
/// description, which mappings and forked children share, and ends with it. Returns whether the file system can do that, and the
/// file is open for reading.
///
/// # References
///
/// fcntl(2), "Open file description locks".
#[cfg(target_os = "linux")]
pub fn hold(file: &impl AsRawFd) -> bool {
    let mut whole = whole(libc::F_RDLCK);
    // SAFETY: the kernel reads `whole`.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut whole) == 0 }
}

/// Whether anybody [holds](hold) a file, in whatever PID namespace, by another description than this one. Nothing is locked for
/// that, and nobody notices. `None`: the file system does not tell.
#[cfg(target_os = "linux")]
pub fn is_held(file: &impl AsRawFd) -> Option<bool> {
    let mut whole = whole(libc::F_WRLCK);
    // SAFETY: the kernel reads `whole`, and writes to it which lock is in the way.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut whole) };
    (result == 0).then_some(libc::c_int::from(whole.l_type) != libc::F_UNLCK)
}

/// A lock of a whole file, however long it becomes.
#[cfg(target_os = "linux")]
fn whole(kind: libc::c_int) -> libc::flock {
    // SAFETY: `flock` consists of numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Other systems have no such locks.
#[cfg(not(target_os = "linux"))]
pub fn hold(_file: &impl AsRawFd) -> bool {
    false
}

/// As above.
#[cfg(not(target_os = "linux"))]
pub fn is_held(_file: &impl AsRawFd) -> Option<bool> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs::File;

    /// Ways in which what holds a file goes on, after the descriptor by which it was locked was closed.
    #[test]
    fn a_file_is_held_until_its_last_mapping_is_gone_and_only_by_its_holder() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, [0; 4096]).expect("a file");
        let open = || File::options().read(true).write(true).open(&path).expect("it opens");
        let looks = open();
        assert_eq!(is_held(&looks), Some(false), "whoever only opens it does not hold it");
        let holder = open();
        assert!(hold(&holder));
        assert_eq!(is_held(&looks), Some(true));
        assert_eq!(is_held(&looks), Some(true), "who looked does not hold it either");
        // SAFETY: a new mapping of a file that is long enough, which nobody touches.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, holder.as_raw_fd(), 0) };
        assert_ne!(mapping, libc::MAP_FAILED);
        drop(holder);
        assert_eq!(is_held(&looks), Some(true), "the program closed all descriptors");
        // Another one that opens and closes the file takes nothing away.
        drop(open());
        assert_eq!(is_held(&looks), Some(true));
        // SAFETY: the mapping made above.
        unsafe { libc::munmap(mapping, 4096) };
        assert_eq!(is_held(&looks), Some(false));
    }
}
