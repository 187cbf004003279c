//! The blocks of a stream file: set aside ahead of use, written to the device soon, and then not kept in memory.
//!
//! Left alone, the kernel keeps what a recording wrote in its page cache until a share of all memory is dirty, and then lets the
//! writer wait for the device: a recording of some gigabytes would lose events there, and would have put the program's own files
//! out of memory. So each part is given to the device as soon as it is complete, and its pages are given back once they are on it:
//! from a stream, at most its last part and the [kept](KEPT) ones before it are in memory. What is shorter stays there whole.

use crate::sys;
use std::fs::File;
use std::time::{Duration, Instant};

/// Disk blocks are allocated ahead in steps of this size, invisibly to readers.
const ALLOCATION: u64 = 16 << 20;
/// So much is given to the device at once.
const PART: u64 = 8 << 20;
/// So much before it stays in memory.
const KEPT: u64 = 4 * PART;
/// A device that took so long to accept a part has more than it can take, or this thread did not run: the next parts are left to
/// the kernel, whose page cache may still hold what the device cannot. So many at first, then twice as many each time.
const SLOW: Duration = Duration::from_millis(20);
const REST: u64 = 8 * PART;
const LONGEST_REST: u64 = 128 * PART;

/// How far the file system is with one file. In bytes from its beginning.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Blocks are set aside up to here.
    allocated: u64,
    /// The device was given everything before.
    started: u64,
    /// Not kept in memory before.
    forgotten: u64,
    /// How much is left to the kernel when the device is slow.
    rest: u64,
}

impl Blocks {
    /// Of a file that has `len` bytes.
    pub(super) fn behind(len: u64) -> Blocks {
        Blocks { allocated: len, started: len, forgotten: len, rest: REST }
    }

    /// Of a file that is written in one go and read at once.
    pub(super) fn left_alone() -> Blocks {
        Blocks::behind(u64::MAX)
    }

    /// Sets blocks aside for what is written up to `end`, so that writing need not find them. A file system that cannot is written
    /// all the same.
    pub(super) fn allocate(&mut self, file: &File, end: u64) {
        #[cfg(target_os = "linux")]
        if end > self.allocated {
            // Small traces are not worth it.
            let step = if self.allocated == 0 && end < ALLOCATION / 16 { ALLOCATION / 16 } else { ALLOCATION };
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            let _ = sys::without_signals(|| Ok(rustix::fs::fallocate(file, flags, self.allocated, step)?));
            self.allocated += step;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (file, end);
    }

    /// Gives the device what was written up to `len`, and memory back. All of it is advice: what fails changes nothing.
    ///
    /// It takes as long as writing into the page cache itself, so it is for the end of a round, when the rings have room again.
    pub(super) fn settle(&mut self, file: &File, len: u64) {
        while len >= self.started.saturating_add(PART) {
            let begin = Instant::now();
            sys::start_writing(file, self.started, PART);
            self.started += PART;
            if let Some(old) =
                self.started.saturating_sub(PART + KEPT).checked_sub(self.forgotten).and_then(std::num::NonZero::new)
            {
                let _ = rustix::fs::fadvise(file, self.forgotten, Some(old), rustix::fs::Advice::DontNeed);
                self.forgotten += old.get();
            }
            if begin.elapsed() < SLOW {
                self.rest = REST;
            } else {
                (self.started, self.rest) = (len + self.rest, LONGEST_REST.min(2 * self.rest));
            }
        }
    }

    /// Whether blocks are set aside beyond the file's `len` bytes.
    pub(super) fn are_beyond(&self, len: u64) -> bool {
        self.allocated > len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn all_but_the_last_parts_are_given_back_and_nothing_is_lost() {
        let file = tempfile::tempfile().expect("a file");
        let (mut blocks, piece) = (Blocks::behind(0), vec![0xa5; 1 << 20]);
        for len in (0..64_u64 << 20).step_by(1 << 20) {
            blocks.allocate(&file, len + (1 << 20));
            file.write_all_at(&piece, len).expect("room");
            blocks.settle(&file, len + (1 << 20));
        }
        match blocks.started {
            started if started == 64 << 20 => assert_eq!(blocks.forgotten, (64 << 20) - PART - KEPT),
            started => assert!(started >= PART + REST, "{blocks:?}"), // the device was slow
        }
        let mut found = vec![0; 1 << 20];
        for at in (0..64_u64 << 20).step_by(1 << 20) {
            file.read_exact_at(&mut found, at).expect("it is there");
            assert_eq!(found, piece);
        }
    }
}
