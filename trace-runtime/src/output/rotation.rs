//! A recording that is cut into traces, by size or time; the oldest go by a quota.
//!
//! ```text
//! OUTPUT/000001/   a trace directory
//! OUTPUT/000002/   the next
//! ```
//!
//! Each is complete: it describes all classes, names all threads, and has a UUID of its own, the recording's with its number.
//! A packet lies in one of them, so no event is in none or in two. Losses are told in that whose packets follow them: each
//! trace counts from its beginning. What the ones before told is in its `index/earlier`, for recovery.

use super::resume::own_directory;
use super::{Claim, Directory, INDEX, Packet, Sink, StreamId, TAKEN};
use crate::error::{Error, Result};
use crate::metadata;
use crate::transfer::Told;
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace_ctf::metadata::Format;
use trace_ctf::schema as ctf;

/// When a recording is cut, and what stays. By default it is one trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// Bytes of one trace, roughly: it is cut before a packet that would make it larger.
    pub(crate) size: Option<u64>,
    /// Time of one trace.
    pub(crate) time: Option<Duration>,
    /// Bytes of all traces; the oldest are removed beyond it.
    pub(crate) quota: Option<u64>,
}

impl Rotation {
    pub(crate) fn is_wanted(self) -> bool {
        self.size.is_some() || self.time.is_some()
    }
}

/// Most bytes of the consumer's own events that are repeated in each trace.
const REPEATED: usize = 1 << 20;

/// The traces of one recording.
pub(crate) struct Rotated {
    root: PathBuf,
    rotation: Rotation,
    /// Of the recording; a trace's is made of it.
    trace: ctf::Trace,
    format: Format,
    classes: Vec<ctf::EventClass>,
    number: u32,
    current: Directory,
    begun: Instant,
    /// Those before the current one that are still there, with their bytes.
    earlier: Vec<(PathBuf, u64)>,
    /// Bytes of all before the current one.
    written: u64,
    /// What the streams told, in all traces.
    told: HashMap<StreamId, Told>,
    /// What they had lost when the present trace began.
    bases: HashMap<StreamId, u64>,
    /// Events of the consumer, such as names of threads: begin, end, content.
    own: Vec<(u64, u64, Vec<u8>)>,
}

/// What the traces before told, in the index directory of each but the first: a line for each stream, its class, number and losses.
const EARLIER: &str = "earlier";

fn told_of(line: &str) -> Option<(StreamId, u64)> {
    let mut words = line.split(' ');
    let id = StreamId { class: words.next()?.parse().ok()?, instance: words.next()?.parse().ok()? };
    Some((id, words.next()?.parse().ok()?))
}

/// UUID of the trace of that number.
fn uuid(mut recording: [u8; 16], number: u32) -> [u8; 16] {
    for (byte, number) in recording[12..].iter_mut().zip(number.to_be_bytes()) {
        *byte ^= number;
    }
    recording
}

fn place(root: &Path, number: u32) -> PathBuf {
    root.join(format!("{number:06}"))
}

/// The numbers of the traces of a recording that was cut, in order; none where it was not.
pub(crate) fn numbers(root: &Path) -> Vec<u32> {
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str().filter(|name| name.len() >= 6)?.parse().ok();
    let mut found: Vec<u32> = std::fs::read_dir(root).into_iter().flatten().flatten().filter_map(number).collect();
    found.sort_unstable();
    found
}

/// The schema of one trace of a recording.
fn numbered(trace: &ctf::Trace, number: u32) -> ctf::Trace {
    ctf::Trace { uuid: uuid(trace.uuid, number), ..trace.clone() }
}

impl Rotated {
    /// Takes the place of a recording: that of its first trace.
    pub(crate) fn claim(root: &Path) -> Result<Claim> {
        let cannot = |e: io::Error| Error::io("cannot create the directory of the traces", root, e);
        if std::fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(cannot(io::Error::new(io::ErrorKind::AlreadyExists, TAKEN)));
        }
        Claim::new(&place(root, 1))
    }

    pub(crate) fn create(
        (root, claim): (&Path, Claim),
        trace: &ctf::Trace,
        format: Format,
        begun_ns: u64,
        rotation: Rotation,
    ) -> Result<Rotated> {
        let cannot = |e: io::Error| Error::io("cannot create the directory of the traces", root, e);
        let root = std::path::absolute(root).map_err(cannot)?;
        let current = Directory::within(claim, &numbered(trace, 1), format, Some(begun_ns))?;
        Ok(Rotated::new(root, trace, format, rotation, 1, current))
    }

    /// Goes on with the last trace of a process that has ended. Returns with it the bytes of partial packets.
    pub(crate) fn resume(root: &Path, schema: &ctf::Schema, begun_ns: u64) -> Result<(Rotated, u64)> {
        let numbers = numbers(root);
        let number = numbers.last().copied().unwrap_or(1);
        let trace = numbered(&schema.trace, number);
        let mut own = ctf::Schema::new(trace).map_err(|e| Error::io("cannot continue", root, io::Error::other(e.to_string())))?;
        for class in schema.events() {
            own.add(class.clone()).map_err(|e| Error::io("cannot continue", root, io::Error::other(e.to_string())))?;
        }
        let (mut current, cut) = Directory::resume(&place(root, number), &own, begun_ns)?;
        // Missing where the process ended before it wrote anything there.
        let mut text = String::new();
        let index = own_directory(root).and_then(|root| root.at(place(Path::new(""), number))?.at(INDEX));
        let index = index.map_err(|e| Error::io("cannot continue", root, e))?;
        if let Ok(mut earlier) = index.file(EARLIER, OFlags::RDONLY, &[index.owner]) {
            earlier
                .read_to_string(&mut text)
                .map_err(|e| Error::io("cannot read", place(root, number).join(INDEX).join(EARLIER), e))?;
        }
        let earlier: HashMap<StreamId, u64> = text.lines().filter_map(told_of).collect();
        let mut told: HashMap<StreamId, Told> = HashMap::new();
        for (stream, discarded) in &earlier {
            told.insert(*stream, Told { discarded: *discarded, ..Told::default() });
        }
        for (stream, one) in current.told() {
            let discarded = one.discarded + earlier.get(&stream).copied().unwrap_or(0);
            told.insert(stream, Told { discarded, ..one });
        }
        if number > 1 {
            current.origin_ns = None;
        }
        let mut rotated = Rotated::new(root.to_owned(), &schema.trace, current.format, Rotation::default(), number, current);
        (rotated.told, rotated.bases) = (told, earlier);
        Ok((rotated, cut))
    }

    fn new(root: PathBuf, trace: &ctf::Trace, format: Format, rotation: Rotation, number: u32, current: Directory) -> Rotated {
        Rotated {
            root,
            rotation,
            trace: trace.clone(),
            format,
            classes: Vec::new(),
            number,
            current,
            begun: Instant::now(),
            earlier: Vec::new(),
            written: 0,
            told: HashMap::new(),
            bases: HashMap::new(),
            own: Vec::new(),
        }
    }

    /// Whether the present trace ends before a packet of so many bytes.
    fn is_over(&self, bytes: u64) -> bool {
        let written = self.current.written();
        let is_full = self.rotation.size.is_some_and(|size| written + bytes > size);
        let is_late = self.rotation.time.is_some_and(|time| self.begun.elapsed() >= time);
        (is_full || is_late) && self.current.has_packets
    }

    /// Ends the trace and begins the next.
    fn rotate(&mut self) -> Result<()> {
        self.current.flush()?;
        let number = self.number + 1;
        let mut next = Directory::create(&place(&self.root, number), &numbered(&self.trace, number), self.format, None)?;
        let lines = self.told.iter().map(|(id, told)| format!("{} {} {}\n", id.class, id.instance, told.discarded));
        next.put(&format!("{INDEX}/{EARLIER}"), lines.collect::<String>().as_bytes())?;
        next.describe(&self.classes)?;
        let stream = StreamId { class: metadata::CONSUMER, instance: 0 };
        for (begin_ns, end_ns, content) in &self.own {
            let (begin_ns, end_ns) = (*begin_ns, *end_ns);
            next.deliver(&Packet { stream, cpu: 0, begin_ns, end_ns, discarded: 0, content })?;
        }
        next.has_packets = false;
        self.bases = self.told.iter().map(|(stream, told)| (*stream, told.discarded)).collect();
        let ended = std::mem::replace(&mut self.current, next);
        let bytes = ended.written();
        self.written += bytes;
        self.earlier.push((place(&self.root, self.number), bytes));
        (self.number, self.begun) = (number, Instant::now());
        self.keep_to_quota();
        Ok(())
    }

    /// Removes the oldest traces beyond the quota, with room for the present one.
    fn keep_to_quota(&mut self) {
        let Some(quota) = self.rotation.quota else { return };
        let ahead = self.rotation.size.unwrap_or(0);
        while self.earlier.iter().map(|(_, bytes)| bytes).sum::<u64>() + ahead > quota && !self.earlier.is_empty() {
            let (path, _) = self.earlier.remove(0);
            let _ = std::fs::remove_dir_all(path); // what cannot be removed stays
        }
    }
}

impl Sink for Rotated {
    fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        self.classes.extend_from_slice(classes);
        self.current.describe(classes)
    }

    fn told(&self) -> Vec<(StreamId, Told)> {
        self.told.iter().map(|(stream, told)| (*stream, *told)).collect()
    }

    fn had(&mut self, packet: &Packet<'_>) -> usize {
        self.current.had(packet)
    }

    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()> {
        if self.is_over(packet.content.len() as u64) && !packet.content.is_empty() {
            self.rotate()?;
        }
        let base = self.bases.get(&packet.stream).copied().unwrap_or(0);
        self.current.deliver(&Packet { discarded: packet.discarded.saturating_sub(base), ..*packet })?;
        self.current.has_packets |= packet.stream.class != metadata::CONSUMER;
        let told = self.told.entry(packet.stream).or_default();
        (told.end_ns, told.discarded) = (packet.end_ns, packet.discarded);
        let repeated: usize = self.own.iter().map(|(.., content)| content.len()).sum();
        if packet.stream.class == metadata::CONSUMER && repeated + packet.content.len() <= REPEATED {
            self.own.push((packet.begin_ns, packet.end_ns, packet.content.to_vec()));
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.current.settle()
    }

    fn written(&self) -> u64 {
        self.written + self.current.written()
    }

    fn flush(&mut self) -> Result<()> {
        self.current.flush()
    }
}
