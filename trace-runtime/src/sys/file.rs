//! What rustix does not have about files.
#![expect(unsafe_code, reason = "calls the C library")]

use std::fs::File;

/// Has the device begin to write `len` bytes at `from`, and does not wait for it, but for room in the device's queue; see
/// sync_file_range(2). Nothing is promised about when they are safe, and a file system that cannot does nothing.
pub(crate) fn start_writing(file: &File, from: u64, len: u64) {
    #[cfg(target_os = "linux")]
    if let (Ok(from), Ok(len)) = (libc::off64_t::try_from(from), libc::off64_t::try_from(len)) {
        use std::os::fd::AsRawFd as _;
        // SAFETY: sync_file_range(2) takes numbers only.
        unsafe { libc::sync_file_range(file.as_raw_fd(), from, len, libc::SYNC_FILE_RANGE_WRITE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, from, len);
}
