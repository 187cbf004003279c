//! The metadata journal: a file beside the rings from which they can be read without the process.
//!
//! A journal is a sequence of frames, appended and never changed:
//!
//! ```text
//!  offset  size  field, little-endian
//!       0     4  magic "RTJ1"
//!       4     4  kind: 1 trace (the first), 2 event class
//!       8     4  length of the payload in bytes
//!      12     4  CRC-32 (IEEE 802.3) of kind, length and payload
//!      16     n  payload: JSON of `trace_ctf::schema::Trace` or `EventClass`
//! ```
//!
//! # Invariants
//!
//! - JR-1: The frame of an event class is complete before the first list is published in which its event ID stands.
//! - JR-2: A reader takes frames up to the first that is short or whose checksum differs: a process that was killed in the
//!   middle of one had not published what it describes.

use crate::error::{Error, Kind, Result};
use crate::storage::{Appended, OwnFile};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use trace_ctf::schema as ctf;

const MAGIC: [u8; 4] = *b"RTJ1";
const TRACE: u32 = 1;
const EVENT: u32 = 2;
const HEADER: usize = 16;

/// Writes a journal.
pub(crate) struct Journal {
    file: Appended,
    path: PathBuf,
}

impl Journal {
    pub(crate) fn new(file: File, path: &Path, trace: &ctf::Trace) -> Result<Journal> {
        let file = OwnFile::new(file).map_err(|e| Error::io("cannot use", path, e))?;
        let mut journal = Journal { file: Appended::new(file), path: path.to_owned() };
        journal.append(TRACE, std::iter::once(serde_json::to_vec(trace)))?;
        Ok(journal)
    }

    pub(crate) fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        self.append(EVENT, classes.iter().map(serde_json::to_vec))
    }

    fn append(&mut self, kind: u32, payloads: impl Iterator<Item = serde_json::Result<Vec<u8>>>) -> Result<()> {
        let frames: serde_json::Result<Vec<Vec<u8>>> = payloads.map(|p| Ok(frame(kind, &p?))).collect();
        let result = frames.map_err(io::Error::from).and_then(|frames| self.file.append(&frames.concat()));
        result.map_err(|source| Kind::Output { path: self.path.clone(), source }.into())
    }
}

/// Frames are written together, so that a kill leaves at most one partial frame at the end.
fn frame(kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER + payload.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&kind.to_le_bytes());
    frame.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&frame[4..]);
    checksum.update(payload);
    frame.extend_from_slice(&checksum.finalize().to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Reads a journal: the schema of the trace, and how many bytes at the end are no whole frame.
///
/// # Errors
///
/// [`Error::is_io`] where the first frame is no trace, or a class contradicts another.
pub fn read(bytes: &[u8], path: &Path) -> Result<(ctf::Schema, usize)> {
    let malformed = |what: &str| Error::io("cannot use the metadata journal", path, io::Error::other(what.to_owned()));
    let mut frames = Frames { rest: bytes };
    let Some((TRACE, payload)) = frames.next() else { return Err(malformed("its first frame describes no trace")) };
    let trace = serde_json::from_slice(payload).map_err(|e| malformed(&e.to_string()))?;
    let mut schema = ctf::Schema::new(trace).map_err(|e| malformed(&e.to_string()))?;
    for (kind, payload) in frames.by_ref() {
        // Kinds of later versions are for their readers.
        if kind == EVENT {
            let class = serde_json::from_slice(payload).map_err(|e| malformed(&e.to_string()))?;
            schema.add(class).map_err(|e| malformed(&e.to_string()))?;
        }
    }
    Ok((schema, frames.rest.len()))
}

struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Frames<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<(u32, &'a [u8])> {
        let (header, rest) = self.rest.split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let payload = rest.get(..word(8) as usize)?;
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&header[4..12]);
        checksum.update(payload);
        if header[..4] != MAGIC || checksum.finalize() != word(12) {
            return None;
        }
        self.rest = &rest[payload.len()..];
        Some((word(4), payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_end_at_the_first_that_is_not_whole() {
        let (a, b) = (frame(1, b"first"), frame(2, b"second"));
        let whole = [a.clone(), b.clone()].concat();
        let kinds = |bytes: &[u8]| Frames { rest: bytes }.map(|(k, p)| (k, p.to_vec())).collect::<Vec<_>>();
        assert_eq!(kinds(&whole), [(1, b"first".to_vec()), (2, b"second".to_vec())]);
        for cut in a.len()..whole.len() {
            assert_eq!(kinds(&whole[..cut]).len(), 1);
        }
        for at in 0..a.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(kinds(&damaged).is_empty(), "a flipped bit at {at} went unseen");
        }
    }
}
