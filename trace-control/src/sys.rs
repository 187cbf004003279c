//! Who is at the other end of a socket.
//!
//! Not by rustix, which wants the peer's number: that is 0 where the peer is outside of this process's PID namespace.
#![expect(unsafe_code, reason = "calls the C library")]

use std::os::fd::AsRawFd;
#[cfg(target_os = "linux")]
use std::os::fd::{FromRawFd as _, OwnedFd};

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
        return matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ESRCH | libc::EINVAL)).then_some(true);
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
