//! Who is at the other end of a socket.
//!
//! Not by rustix, which wants the peer's number: that is 0 where the peer is outside of this process's PID namespace.
#![expect(unsafe_code, reason = "calls the C library")]

use std::os::fd::AsRawFd;

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

/// Asks the kernel.
#[cfg(not(target_os = "linux"))]
pub fn peer(socket: &impl AsRawFd) -> Option<Peer> {
    let (mut uid, mut gid) = (u32::MAX, u32::MAX);
    // SAFETY: both are written.
    (unsafe { libc::getpeereid(socket.as_raw_fd(), &raw mut uid, &raw mut gid) } == 0).then_some(Peer { pid: None, uid, gid })
}
