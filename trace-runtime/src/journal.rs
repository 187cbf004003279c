//! The metadata journal: a file beside the rings from which they can be read without the process.
//!
//! A journal is a sequence of frames, appended and, once what they describe is published, never changed:
//!
//! ```text
//!  offset  size  field, little-endian
//!       0     4  magic "RTJ1"
//!       4     4  kind: 1 trace (the first), 2 event class, 3 origin (the second), 4 the event class before, in another stream class
//!       8     4  length of the payload in bytes
//!      12     4  CRC-32 (IEEE 802.3) of kind, length and payload
//!      16     n  payload: JSON of `trace_ctf::schema::Trace`, `EventClass`, `Origin`, or the stream class's number
//! ```
//!
//! # Invariants
//!
//! - JR-1: The frame of an event class is complete before the first list is published in which its event ID stands.
//! - JR-2: A reader takes frames up to the first that is short or whose checksum differs: a process that was killed in the
//!   middle of one had not published what it describes.
//! - JR-3: The first two frames are written together, before any event: a journal that lacks one of them has no events.
//! - JR-4: The trace has an event class before it has a packet that holds an event of it, and may have it later than the journal: an ID
//!   that the journal has is never given to another class, whatever becomes of the output, and recovery writes what the trace lacks.

use crate::error::{Error, Kind, Result};
use crate::storage::{Appended, OwnFile};
use crate::sys::memory::Mapping;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use trace_ctf::schema as ctf;

/// First bytes of each frame.
pub const MAGIC: [u8; 4] = *b"RTJ1";
const TRACE: u32 = 1;
const EVENT: u32 = 2;
const ORIGIN: u32 = 3;
const TWIN: u32 = 4;
const HEADER: usize = 16;

/// What is known of a session besides its trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// When it began, by the clock of its trace.
    pub begun_ns: u64,
    /// Bytes of the absolute path of its trace directory; `None`: it prints.
    output: Option<Vec<u8>>,
    /// The same of the directory of its snapshots; `None`: it takes none.
    #[serde(default)]
    snapshots: Option<Vec<u8>>,
}

impl Origin {
    pub(crate) fn new(begun_ns: u64, output: Option<&Path>, snapshots: Option<&Path>) -> Origin {
        // Of a directory that is not there any more, relative paths mean nothing: the path is told as it is.
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let bytes = |path: &Path| absolute(path).as_os_str().as_bytes().to_vec();
        Origin { begun_ns, output: output.map(bytes), snapshots: snapshots.map(bytes) }
    }

    /// The trace directory; `None`: the session prints.
    pub fn output(&self) -> Option<PathBuf> {
        self.output.as_ref().map(|bytes| OsString::from_vec(bytes.clone()).into())
    }

    /// The directory of its snapshots; `None`: it takes none.
    pub fn snapshots(&self) -> Option<PathBuf> {
        self.snapshots.as_ref().map(|bytes| OsString::from_vec(bytes.clone()).into())
    }
}

/// What a journal says.
#[derive(Clone, Debug)]
pub struct Contents {
    /// What the event IDs in the rings stand for.
    pub schema: ctf::Schema,
    /// What else is known of the session.
    pub origin: Origin,
    /// Bytes at the end that are no whole frame.
    pub rest: usize,
}

/// Writes a journal.
pub(crate) struct Journal {
    file: Appended,
    path: PathBuf,
    /// Of the file, so that core dumps have it with the rings; nobody reads it there.
    mapping: Option<Mapping>,
    is_mapped: bool,
}

impl Journal {
    /// `is_mapped`: it is in core dumps.
    pub(crate) fn new(file: OwnFile, path: &Path, trace: &ctf::Trace, origin: &Origin, is_mapped: bool) -> Result<Journal> {
        let mut journal = Journal { file: Appended::new(file), path: path.to_owned(), mapping: None, is_mapped };
        journal.append(|frames| frame(frames, TRACE, json(trace)).and_then(|()| frame(frames, ORIGIN, json(origin))))?; // JR-3
        Ok(journal)
    }

    /// Adds descriptions; where that fails, none.
    pub(crate) fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        self.append(|frames| event_classes(frames, classes))
    }

    /// Frames are written together, so that a kill leaves at most one partial frame at the end.
    fn append(&mut self, make: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) -> Result<()> {
        let mut frames = Vec::new();
        let result = make(&mut frames).map_err(io::Error::from).and_then(|()| self.file.append(&frames));
        if self.is_mapped {
            // Where that fails, core dumps lack it.
            self.mapping = self.file.map().ok();
        }
        result.map_err(|cause| Kind::Output { path: self.path.clone(), cause }.into())
    }
}

/// Adds the frames of event classes. Whoever enables thousands waits for them.
fn event_classes(frames: &mut Vec<u8>, classes: &[ctf::EventClass]) -> serde_json::Result<()> {
    let mut before: Option<&ctf::EventClass> = None;
    for class in classes {
        match before.is_some_and(|before| before.is_twin(class)) {
            true => frame(frames, TWIN, json(&class.stream_id))?,
            false => frame(frames, EVENT, json(class))?,
        }
        before = Some(class);
    }
    Ok(())
}

/// As a payload.
fn json(value: &impl Serialize) -> impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()> {
    move |frames| serde_json::to_writer(frames, value)
}

/// Adds a frame. Thousands are made at once, so none is a piece of memory of its own.
fn frame(
    frames: &mut Vec<u8>,
    kind: u32,
    payload: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>,
) -> serde_json::Result<()> {
    let begin = frames.len();
    frames.extend_from_slice(&MAGIC);
    frames.extend_from_slice(&kind.to_le_bytes());
    frames.extend_from_slice(&[0; HEADER - 8]);
    payload(frames)?;
    let length = u32::try_from(frames.len() - begin - HEADER).unwrap_or(u32::MAX);
    frames[begin + 8..begin + 12].copy_from_slice(&length.to_le_bytes());
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&frames[begin + 4..begin + 12]);
    checksum.update(&frames[begin + HEADER..]);
    frames[begin + 12..begin + HEADER].copy_from_slice(&checksum.finalize().to_le_bytes());
    Ok(())
}

/// A longer one is somebody's who wants to fill the memory of who reads it.
const LONGEST: u64 = 1 << 30;

/// Reads all bytes of a file, from its beginning.
pub(crate) fn bytes(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len().min(LONGEST)).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Reads a journal. `None`: its process ended before it recorded anything (JR-3).
///
/// # Errors
///
/// [`Error::is_io`] where it is none, or says what contradicts itself.
pub fn read(bytes: &[u8], path: &Path) -> Result<Option<Contents>> {
    let malformed = |what: &str| Error::io("cannot use the metadata journal", path, io::Error::other(what.to_owned()));
    let mut frames = Frames { rest: bytes };
    let head = (frames.next(), frames.next());
    let ((TRACE, trace), (ORIGIN, origin)) = (match head {
        (Some(trace), Some(origin)) => (trace, origin),
        _ if MAGIC.starts_with(&frames.rest[..frames.rest.len().min(MAGIC.len())]) => return Ok(None),
        _ => return Err(malformed("it is none")),
    }) else {
        return Err(malformed("its first frames describe no trace"));
    };
    let parsed = |e: serde_json::Error| malformed(&e.to_string());
    let origin = serde_json::from_slice(origin).map_err(parsed)?;
    let trace = serde_json::from_slice(trace).map_err(parsed)?;
    let mut schema = ctf::Schema::new(trace).map_err(|e| malformed(&e.to_string()))?;
    while let Some((kind, payload)) = frames.next() {
        let is_ignored = frames.rest.is_empty() && trace_registry::is_mutated!(recovery_last_class_ignored);
        let class = match kind {
            _ if is_ignored => continue,
            EVENT => serde_json::from_slice(payload).map_err(parsed)?,
            TWIN => {
                let twin = schema.events().last().ok_or_else(|| malformed("it repeats an event class that is not there"))?;
                ctf::EventClass { stream_id: serde_json::from_slice(payload).map_err(parsed)?, ..twin.clone() }
            }
            _ => continue, // kinds of later versions are for their readers
        };
        schema.add(class).map_err(|e| malformed(&e.to_string()))?;
    }
    Ok(Some(Contents { schema, origin, rest: frames.rest.len() }))
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
    use rustix::fs::{CWD, Mode, OFlags};

    fn class(stream_id: u32, id: u32, name: &str) -> ctf::EventClass {
        ctf::EventClass {
            stream_id,
            id,
            name: name.into(),
            level: Some(ctf::Level::Info),
            source: None,
            fields: vec![ctf::Field::new("a", ctf::FieldClass::unsigned(64))],
        }
    }

    /// A journal of a trace with two stream classes, and what it says once `write` has written.
    fn written(write: impl FnOnce(&mut Journal)) -> Contents {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let flags = OFlags::RDWR | OFlags::CREATE;
        let file = OwnFile::open(CWD, &path, flags, Mode::RUSR | Mode::WUSR).expect("a file");
        let clock = ctf::Clock { name: "c".into(), frequency_hz: 1, ..ctf::Clock::default() };
        let stream = |id| ctf::StreamClass { id, header: ctf::EventHeader::Full, context: Vec::new() };
        let trace = ctf::Trace { uuid: [0; 16], environment: Vec::new(), clock, streams: vec![stream(0), stream(17)] };
        write(&mut Journal::new(file, &path, &trace, &Origin::default(), false).expect("it is written"));
        read(&std::fs::read(&path).expect("a file"), &path).expect("a journal").expect("with a trace")
    }

    #[test]
    fn classes_are_read_as_they_were_written() {
        let classes =
            [class(0, 0, "a"), class(17, 0, "a"), class(0, 1, "b"), class(17, 1, "c"), class(0, 2, "c"), class(17, 2, "c")];
        let contents = written(|journal| journal.describe(&classes).expect("it is written"));
        assert_eq!((contents.schema.events(), contents.rest), (&classes[..], 0));
    }

    #[test]
    fn frames_end_at_the_first_that_is_not_whole() {
        let one = |kind, text: &str| {
            let mut bytes = Vec::new();
            frame(&mut bytes, kind, json(&text)).expect("JSON");
            bytes
        };
        let (a, b) = (one(1, "first"), one(2, "second"));
        let whole = [a.clone(), b.clone()].concat();
        let kinds = |bytes: &[u8]| Frames { rest: bytes }.map(|(k, p)| (k, p.to_vec())).collect::<Vec<_>>();
        assert_eq!(kinds(&whole), [(1, b"\"first\"".to_vec()), (2, b"\"second\"".to_vec())]);
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
