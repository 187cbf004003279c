//! Mappings of files, zeroed ones, and a word that a forked child finds wiped.
//!
//! # Invariants
//!
//! - MEM-1: `base..base + len` is mapped from construction to drop, with at least read access.
//! - MEM-2: References into a mapping are to atomics only, at offsets that were checked against its length and alignment.
#![expect(unsafe_code, reason = "maps memory")]

use core::ptr::NonNull;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use trace_registry::sync::AtomicU64;

/// A shared mapping of the beginning of a file, or zeroed memory of this process.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: MEM-1: the memory stays where it is whichever thread looks; MEM-2.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file`.
    pub(crate) fn new(file: &File, len: u64, writable: bool) -> io::Result<Mapping> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, access, MapFlags::SHARED, file.as_fd(), 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    /// Maps the first `len` bytes of `file`, a multiple of the page size, and `behind` zeroed bytes of no file behind them.
    pub(crate) fn with_room_behind(file: &File, len: u64, behind: u64) -> io::Result<Mapping> {
        let to_len = |len: u64| usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory);
        let (file_len, len) = (to_len(len)?, to_len(len.saturating_add(behind))?);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), len, access, MapFlags::PRIVATE | MapFlags::NORESERVE)? };
        let mapping = Mapping { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len };
        // SAFETY: over the beginning of the mapping that was just made, of which nothing is used yet.
        unsafe { rustix::mm::mmap(base, file_len, access, MapFlags::SHARED | MapFlags::FIXED, file.as_fd(), 0)? };
        Ok(mapping)
    }

    /// Maps `len` zeroed bytes of no file, which a forked child sees as zeroes again. What is not used takes no memory.
    pub(crate) fn zeroed(len: usize) -> io::Result<Mapping> {
        Ok(Mapping { base: map_wiped_on_fork(len)?, len })
    }

    /// Puts zeroed memory of this process alone in its place. Where the kernel has none left, it stays as it is.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe; one system call, which leaves `errno` as it was.
    pub(crate) fn replace(&self) {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: MEM-1: over the mapping, which stays one with read access.
        let _ =
            unsafe { rustix::mm::mmap_anonymous(self.base.as_ptr().cast(), self.len, ProtFlags::READ | ProtFlags::WRITE, flags) };
    }

    /// Makes the page-aligned range at `at` writable.
    pub(crate) fn make_writable(&self, at: u64, len: usize) -> io::Result<()> {
        let start = self.range(at, len).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range is ours (MEM-1) and keeps its read access.
        unsafe {
            rustix::mm::mprotect(start.as_ptr().cast(), len, rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE)?;
        };
        Ok(())
    }

    /// Makes the pages of the range at `at` present and writable, so that the first store to each does not fault.
    pub(crate) fn populate(&self, at: u64, len: usize) {
        let Some(_start) = self.range(at, len) else { return };
        #[cfg(target_os = "linux")]
        // SAFETY: the range is ours (MEM-1); the advice leaves its content as it is.
        if unsafe { rustix::mm::madvise(_start.as_ptr().cast(), len, rustix::mm::Advice::LinuxPopulateWrite) }.is_ok() {
            return;
        }
        // Before Linux 5.14: a locked addition of 0 writes to the page and changes nothing in it.
        for page in (0..len).step_by(4096) {
            if let Some(word) = self.word(at + page as u64) {
                word.fetch_add(0, trace_registry::sync::Ordering::Relaxed);
            }
        }
    }

    /// Leaves the mapping out of children that are forked from now on.
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        // SAFETY: MEM-1 is about this process.
        unsafe {
            rustix::mm::madvise(self.base.as_ptr().cast(), self.len, rustix::mm::Advice::LinuxDontFork)?;
        }
        Ok(())
    }

    /// Makes the pages of the range at `at` present, and room for them in the file, or fails where there is none: a store there would
    /// end the process (SIGBUS).
    ///
    /// # Errors
    ///
    /// `INVAL`: not with this kernel (before Linux 5.14). Others: there is no room.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe; one system call, which leaves `errno` as it was.
    pub(crate) fn reserve(&self, at: u64, len: usize) -> rustix::io::Result<()> {
        let Some(_start) = self.range(at, len) else { return Err(rustix::io::Errno::INVAL) };
        #[cfg(target_os = "linux")]
        // SAFETY: the range is ours (MEM-1); the advice leaves its content as it is.
        return unsafe { rustix::mm::madvise(_start.as_ptr().cast(), len, rustix::mm::Advice::LinuxPopulateWrite) };
        #[cfg(not(target_os = "linux"))]
        Err(rustix::io::Errno::INVAL)
    }

    /// Returns the address of `len` bytes at `at`, where they are inside.
    #[inline]
    pub(crate) fn range(&self, at: u64, len: usize) -> Option<NonNull<u8>> {
        let at = usize::try_from(at).ok()?;
        if at.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: MEM-1: inside the mapping, or one past its end.
        Some(unsafe { self.base.add(at) })
    }

    /// Returns the word at `at`, where it is inside and aligned.
    #[inline]
    pub(crate) fn word(&self, at: u64) -> Option<&AtomicU64> {
        self.view(at)
    }

    /// Returns a `T`, which consists of atomic words only, at `at`, where it is inside and aligned.
    #[inline]
    pub(crate) fn view<T: Words>(&self, at: u64) -> Option<&T> {
        let start = self.range(at, size_of::<T>())?.cast::<T>();
        if !start.is_aligned() {
            return None;
        }
        // SAFETY: MEM-1, MEM-2: `T` is made of atomics (`Words`), for which any bytes are valid.
        Some(unsafe { start.as_ref() })
    }

    /// Returns all of it as `T`, one behind the other.
    #[inline]
    pub(crate) fn all<T: Words>(&self) -> &[T] {
        // SAFETY: MEM-1, MEM-2: as above; a mapping begins with a page, which is aligned for words.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len / size_of::<T>()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: MEM-1 ends here; whoever uses the mapping holds it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A type that consists of `AtomicU64` only, without padding.
///
/// # Safety
///
/// It is that.
pub(crate) unsafe trait Words {}

// SAFETY: it is one.
unsafe impl Words for AtomicU64 {}
// SAFETY: an array has no padding.
unsafe impl<const N: usize> Words for [AtomicU64; N] {}

/// Maps `len` zeroed bytes that a forked child sees as zeroes again, where the system can do that (Linux 4.14).
pub(crate) fn map_wiped_on_fork(len: usize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), len, access, MapFlags::PRIVATE)? };
    #[cfg(target_os = "linux")]
    // SAFETY: the advice is for the mapping just made, and so is its end.
    unsafe {
        if let Err(error) = rustix::mm::madvise(start, len, rustix::mm::Advice::LinuxWipeOnFork) {
            let _ = rustix::mm::munmap(start, len);
            return Err(error.into());
        }
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Maps `len` zeroed bytes that forked children share with this process, and theirs with them.
pub(crate) fn map_shared_with_children(len: usize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), len, access, MapFlags::SHARED)? };
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// A word of this process image: a child after fork(2) reads 0.
#[derive(Debug)]
pub(crate) struct WipedWord {
    word: NonNull<AtomicU64>,
    /// Other systems cannot wipe a page on fork; there the process is compared.
    #[cfg(not(target_os = "linux"))]
    creator: u32,
}

// SAFETY: an atomic at a fixed address.
unsafe impl Send for WipedWord {}
// SAFETY: as above.
unsafe impl Sync for WipedWord {}

const WIPED_PAGE: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 65536 };

impl WipedWord {
    /// Maps a page of its own for it.
    pub(crate) fn new(value: u64) -> io::Result<WipedWord> {
        let word = WipedWord {
            word: map_wiped_on_fork(WIPED_PAGE)?.cast(),
            #[cfg(not(target_os = "linux"))]
            creator: std::process::id(),
        };
        word.get().store(value, trace_registry::sync::Ordering::Relaxed);
        Ok(word)
    }

    /// Returns the value; 0 in a forked child.
    #[inline(always)]
    pub(crate) fn load(&self) -> u64 {
        // Relaxed: what it guards is checked again by whoever acts on it, or protected by a grace period.
        let value = self.get().load(trace_registry::sync::Ordering::Relaxed);
        #[cfg(not(target_os = "linux"))]
        if self.creator != std::process::id() {
            return 0;
        }
        value
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &AtomicU64 {
        // SAFETY: MEM-1 for the page, which `self` keeps.
        unsafe { self.word.as_ref() }
    }

    pub(crate) fn as_ptr(&self) -> *const AtomicU64 {
        self.word.as_ptr()
    }
}

impl Drop for WipedWord {
    fn drop(&mut self) {
        // SAFETY: the page mapped by `new`.
        let _ = unsafe { rustix::mm::munmap(self.word.as_ptr().cast(), WIPED_PAGE) };
    }
}
