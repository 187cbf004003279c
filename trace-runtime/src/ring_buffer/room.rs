//! Room in the file of a channel (RB-11).

use super::layout::Layout;
use crate::sys;
use std::fs::File;
use std::io;

/// Gives an empty file its length, and checks that there is room for all of it.
pub(super) fn extend(file: &File, len: u64) -> io::Result<()> {
    overwrite_in_place(file)?;
    let free = rustix::fs::fstatvfs(file).ok().filter(|fs| fs.f_blocks > 0).map(|fs| fs.f_bavail * fs.f_frsize);
    if free.is_some_and(|free| len > free) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    sys::without_signals(|| file.set_len(len))
}

/// Has the file system write again where a page was written before. Some take new room each time, however much was reserved, and may
/// find none when a page is touched that they have written out (SIGBUS).
fn overwrite_in_place(file: &File) -> io::Result<()> {
    // Magic numbers of statfs(2); that of ZFS is its own.
    const BTRFS: u32 = 0x9123_683e;
    const OTHERS: [u32; 2] = [0xca45_1a4e, 0x2fc1_2fc1]; // bcachefs, ZFS
    let kind = rustix::fs::fstatfs(file)?.f_type as u32;
    let done = match kind {
        // Only while it is empty; ioctl_iflags(2).
        BTRFS => rustix::fs::ioctl_getflags(file)
            .and_then(|flags| rustix::fs::ioctl_setflags(file, flags | rustix::fs::IFlags::NOCOW))
            .map_err(io::Error::from),
        _ if OTHERS.contains(&kind) => Err(io::ErrorKind::Unsupported.into()),
        _ => return Ok(()),
    };
    done.map_err(|error| {
        let why = "a full disk could end the program, since this file system never writes in place; name a directory in memory, on ext4 or XFS";
        io::Error::new(error.kind(), format!("{why} ({error})"))
    })
}

/// Reserves room in the file: a later store to the mapping must not find the file system full (SIGBUS).
fn allocate(file: &File, from: u64, len: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    loop {
        let flags = rustix::fs::FallocateFlags::empty();
        match sys::without_signals(|| Ok(rustix::fs::fallocate(file, flags, from, len)?)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::Unsupported => break, // EOPNOTSUPP, ENOSYS
            result => return result,
        }
    }
    let zeroes = vec![0; 1 << 20];
    let mut at = from;
    while at < from + len {
        let n = zeroes.len().min(usize::try_from(from + len - at).unwrap_or(usize::MAX));
        at += sys::without_signals(|| Ok(rustix::io::pwrite(file, &zeroes[..n], at)?))? as u64;
    }
    Ok(())
}

/// Bytes of rings that are allocated before anything is recorded, which takes some 10 ms. The rest comes while it is, at a rate
/// that writers do not reach.
pub(crate) const AHEAD: u64 = 64 << 20;

/// Bytes of each ring that are allocated at once.
pub(super) const CHUNK: u32 = 8 << 20;

/// Allocates the sub-buffers below `to` of all buffers: from the beginning of the file's parts, or from sub-buffer `from`.
pub(super) fn allocate_buffers(file: &File, layout: &Layout, from: Option<u32>, to: u32) -> io::Result<()> {
    let geometry = &layout.geometry;
    if from.is_none() && to >= geometry.sub_buffers {
        return allocate(file, 0, layout.file_size());
    }
    let bytes = |sub_buffers: u32| layout.data + u64::from(sub_buffers) * u64::from(geometry.sub_buffer);
    for index in 0..geometry.buffers {
        let (buffer, begin) = (layout.buffer(index), from.map_or(0, bytes));
        allocate(file, buffer + begin, bytes(to) - begin)?;
    }
    if from.is_none() {
        allocate(file, 0, layout.buffer(0))?;
        if geometry.fallback > 0 {
            let len = if to == 0 { Layout::FALLBACK_DATA } else { layout.file_size() - layout.fallback() };
            allocate(file, layout.fallback(), len)?;
        }
    }
    Ok(())
}
