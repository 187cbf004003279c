//! The agent's directory and its socket.

use crate::follow;
use crate::per_image::PerImage;
use crate::process;
use crate::rcu::lock;
use crate::storage::OwnFile;
use crate::sys;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use trace_control::Peer;
use trace_control::place::{self, Image, SOCKET};
use trace_registry::sync::{AtomicBool, Ordering};

/// What the end of the process has to remove.
enum Left {
    /// Nothing yet.
    Nothing,
    /// This directory, made by this process.
    Directory(PathBuf, u32),
    /// The process ends: nothing is to be made any more.
    Ended,
}

static LEFT: PerImage<Mutex<Left>> = PerImage::new(|| Mutex::new(Left::Nothing));

/// Leaves the parent's directory behind; for a forked child.
pub(crate) fn renew() {
    LEFT.renew();
}

/// Whether the process ends, so that nobody wants an agent any more.
pub(super) fn has_ended() -> bool {
    matches!(*lock(LEFT.get()), Left::Ended)
}

/// The directory of the process image, with a socket in it.
pub(super) struct Place {
    directory: PathBuf,
    /// `None`: it could not be made again after the program closed it.
    listener: Option<OwnFile>,
}

impl Place {
    /// Makes the directory in the first base where that is possible, and listens there.
    pub(super) fn take() -> io::Result<Place> {
        let mut first = None;
        for base in place::bases() {
            match Self::take_in(&base) {
                Ok(place) => {
                    // What ended processes left that had no rings. Those with rings go when others are made.
                    for base in place::bases() {
                        for image in place::images(&base).unwrap_or_default() {
                            image.remove_if_empty();
                        }
                    }
                    return Ok(place);
                }
                Err(error) => {
                    let told = io::Error::new(error.kind(), format!("{}: {error}", base.display()));
                    // What somebody planted is worth more than a missing directory.
                    if first.is_none() || error.kind() == io::ErrorKind::PermissionDenied {
                        first = Some(told);
                    }
                }
            }
        }
        Err(first.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn take_in(base: &Path) -> io::Result<Place> {
        let directory = base.join(process::image_name().to_string());
        let mut left = lock(LEFT.get());
        if matches!(*left, Left::Ended) {
            return Err(io::Error::other("the process ends"));
        }
        // A session that ends removes the directory when it finds nothing there.
        let mut attempts = 0;
        let listener = loop {
            match listen(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < 16 => attempts += 1,
                other => break other?,
            }
        };
        static IS_SET: AtomicBool = AtomicBool::new(false);
        // Relaxed: it decides only who calls. A forked child has its parent's handlers, and may find the lock of atexit(3) locked.
        if !IS_SET.swap(true, Ordering::Relaxed) {
            sys::at_exit(remove);
        }
        *left = Left::Directory(directory.clone(), std::process::id());
        Ok(Place { directory, listener: Some(listener) })
    }

    /// Listens anew where the program closed the socket, or somebody removed it.
    pub(super) fn keep(&mut self) {
        let is_open = self.listener.as_mut().is_some_and(|l| l.file().is_ok());
        if is_open && place::is_socket(&self.directory.join(SOCKET)) {
            return;
        }
        let left = lock(LEFT.get());
        if matches!(*left, Left::Directory(..)) {
            // Where that fails, again in a second.
            self.listener = listen(&self.directory).ok();
        }
    }

    pub(super) fn listener(&self) -> Option<&File> {
        self.listener.as_deref()
    }

    /// Returns the next connection of this user's, or of the superuser's (AG-1), and who it is from.
    pub(super) fn accept(&mut self) -> Option<(OwnFile, Peer)> {
        let listener = self.listener.as_mut()?.file().ok()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let socket = match rustix::net::accept_with(listener, flags) {
                Ok(socket) => OwnFile::socket(socket).ok()?,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => continue,
                // Nobody waits; or there are no descriptors, until some connection ends.
                Err(_) => return None,
            };
            let user = rustix::process::geteuid().as_raw();
            if let Some(peer) = trace_control::peer(&*socket).filter(|peer| peer.uid == user || peer.uid == 0) {
                return Some((socket, peer));
            }
        }
    }
}

fn listen(directory: &Path) -> io::Result<OwnFile> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let socket = OwnFile::socket(socket)?;
    let (base, name) = directory.parent().zip(directory.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
    let opened = place::make_base(base)?.make_private(name)?;
    place::listen(&opened, directory, &*socket)?;
    Ok(socket)
}

/// At the end of the process: nobody is to wait for an agent that is gone.
extern "C" fn remove() {
    // The agent may have held the lock when this child was forked. A child that is being made has no directory.
    if follow::is_child() || follow::is_being_made() {
        return;
    }
    let left = std::mem::replace(&mut *lock(LEFT.get()), Left::Ended);
    match left {
        Left::Directory(directory, creator) if creator == std::process::id() => {
            if let Some(image) = Image::at(directory) {
                image.remove_socket();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The agent holds it while it makes its socket.
    #[test]
    #[expect(unsafe_code, reason = "fork(2)")]
    fn a_forked_child_that_ends_waits_for_no_lock_of_its_parent() {
        follow::own();
        let held = lock(LEFT.get());
        // SAFETY: the child makes async-signal-safe calls only, and one of ours that has to be so in a child.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(20);
                remove();
                libc::_exit(0);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFEXITED(status), "it waited until {status:x}");
        }
        drop(held);
    }
}
