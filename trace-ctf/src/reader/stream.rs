//! Streams packet by packet.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::declared::{Declarations, Role};
use crate::error::{Kind, Place};
use crate::packet::MAGIC;
use crate::reader::packet::{Bytes, Cut, Opening, Part};
use crate::reader::seek::Index;
use crate::reader::{Packet, PacketInfo};
use crate::{Error, Result};

/// Bytes within which the header and context of a packet must end.
const HEADER_MAX: u64 = 4096;

/// Packets of more bytes come in pieces, so that memory does not grow with them.
const PIECES_FROM: u64 = 16 << 20;

/// Bytes of a piece, unless a single event has more.
const PIECE: u64 = 4 << 20;

/// Bytes within which an event of a packet in pieces must end.
const EVENT_MAX: u64 = 64 << 20;

/// What pieces begin with a multiple of, in bytes: the greatest alignment that there is.
const PIECE_ALIGN: u64 = 8 << 10;

/// Events or packets that are not in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What is missing.
    pub kind: LossKind,
    /// How many; `None` where a stream begins with a count that may be older than the trace.
    pub count: Option<u64>,
    /// Nanoseconds from the Unix epoch to the end of the packet before, where there is one.
    pub begin: Option<i64>,
    /// Nanoseconds from the Unix epoch to where records go on.
    pub end: Option<i64>,
    /// Stream class.
    pub stream_class_id: u64,
    /// Stream, within its class.
    pub stream_instance_id: Option<u64>,
    /// File in which records go on.
    pub file: Option<Arc<Path>>,
}

/// What a loss is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossKind {
    /// Events the tracer had no room for.
    DiscardedEvents,
    /// Packets that were overwritten or never written.
    LostPackets,
}

/// A packet without its events, see [`Packets::next_header`].
#[derive(Clone, Debug)]
pub struct Header {
    /// What the packet says about itself.
    pub info: PacketInfo,
    /// Nanoseconds from the Unix epoch to the packet's begin.
    pub begin: Option<i64>,
    /// Nanoseconds from the Unix epoch to the packet's end.
    pub end: Option<i64>,
    /// What was lost since the packet before it.
    pub losses: Vec<Loss>,
    /// Whether the file ends inside of the packet, so that some of its events are missing.
    pub is_cut: bool,
}

/// The packets of a stream, in order, each with what was lost since the one before it.
///
/// Its errors are [`Error::is_io`], [`Error::is_corrupt`], and [`Error::is_truncated`] where not even a header is whole; it ends
/// with the first. A packet that is cut behind its header is given, and its [`events`](Packet::events) end with the error; where
/// nothing but padding is missing, all its events are there, and the error comes after it.
#[derive(Debug)]
pub struct Packets {
    trace: Arc<Declarations>,
    files: VecDeque<StreamFile>,
    current: Option<OpenFile>,
    previous: Option<(PacketInfo, Option<i64>)>,
    /// The last packet of the files before the current one, which may hold it too.
    before: Option<PacketInfo>,
    from: Option<i64>,
    to: Option<i64>,
    /// Where the headers of packets are read to.
    head: Bytes,
    /// Memory for the next packet.
    free: Bytes,
}

/// A stream file, or its bytes.
#[derive(Clone, Debug)]
pub(super) struct StreamFile {
    pub(super) path: Arc<Path>,
    /// What it holds, where it is no file.
    pub(super) bytes: Option<Arc<[u8]>>,
    pub(super) index: Index,
    /// The time stamp that it begins with.
    pub(super) begin: Option<u64>,
}

impl StreamFile {
    pub(super) fn new(path: &Path, bytes: Option<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.map(Arc::from), index: Index::default(), begin: None }
    }

    fn open(&self) -> io::Result<(u64, Source)> {
        match &self.bytes {
            Some(bytes) => Ok((bytes.len() as u64, Source::Memory(bytes.clone()))),
            None => File::open(&self.path).and_then(|file| Ok((file.metadata()?.len(), Source::File(file)))),
        }
    }

    /// Whether it begins with no byte of a packet's magic number, where the trace has those. One that damage has zeroed is a stream.
    pub(super) fn is_foreign(&self, trace: &Declarations) -> bool {
        let first = trace.packet_header.as_ref().and_then(|root| root.structure.members.first()?.class.integer());
        let Some(magic) = first.filter(|first| first.role == Some(Role::Magic)) else { return false };
        let expected = if magic.big_endian { MAGIC.to_be_bytes() } else { MAGIC.to_le_bytes() };
        let mut begin = [0; 4];
        let read = self.open().and_then(|(_, source)| source.read_at(&mut begin, 0)).unwrap_or_default();
        let begin = &begin[..read];
        begin.iter().any(|byte| *byte != 0) && begin.iter().zip(expected).all(|(byte, expected)| *byte != expected)
    }
}

#[derive(Debug)]
enum Source {
    File(File),
    Memory(Arc<[u8]>),
}

#[derive(Debug)]
struct OpenFile {
    source: Source,
    place: Place,
    length: u64,
    index: Index,
    /// What is left of a packet that comes in pieces.
    rest: Option<Rest>,
    /// The last packet, which is longer than what is left of the file, and its length.
    cut: Option<(Place, u64)>,
}

/// A packet whose header was read.
struct Found {
    opening: Opening,
    place: Place,
    /// Bytes of its content that are in the file.
    length: u64,
    is_cut: bool,
}

/// A packet of which a part was given.
#[derive(Debug)]
struct Rest {
    opening: Opening,
    place: Place,
    /// Bytes of it that are in the file.
    length: u64,
    /// How far it was given, in bits.
    at: u64,
    clock: u64,
}

impl Rest {
    fn new(opening: Opening, place: Place, length: u64) -> Self {
        let clock = opening.info.timestamp_begin.unwrap_or_default();
        Self { opening, place, length, at: 0, clock }
    }
}

impl Packets {
    pub(super) fn new(trace: Arc<Declarations>, files: impl IntoIterator<Item = StreamFile>) -> Self {
        let files = files.into_iter().collect();
        let (head, free) = Default::default();
        Self { trace, files, current: None, previous: None, before: None, from: None, to: None, head, free }
    }

    /// No packets of the trace that one belongs to.
    pub(super) fn none(packet: &Packet) -> Self {
        Self::new(packet.shared_trace().clone(), [])
    }

    /// Leaves out packets that end before a time or begin at another or later, in nanoseconds from the Unix epoch.
    ///
    /// Only their headers are read. What was lost is told with the packet that counts it, if that is given: some of it may have
    /// come before `from`.
    #[must_use]
    pub fn between(self, from: Option<i64>, to: Option<i64>) -> Self {
        Self { from, to, ..self }
    }

    /// The times of [`Packets::between`].
    pub(super) fn limits(&self) -> (Option<i64>, Option<i64>) {
        (self.from, self.to)
    }

    /// Takes back a packet that is not needed any more: its memory serves the next one.
    pub fn recycle(&mut self, packet: Packet) {
        self.free = packet.into_bytes();
    }

    /// Ends the stream.
    pub(super) fn stop(&mut self) {
        self.current = None;
        self.files.clear();
    }

    fn open(&mut self) -> Option<Result<()>> {
        let file = self.files.pop_front()?;
        self.before = self.previous.as_ref().map(|(info, _)| info.clone());
        let opened = file.open();
        let StreamFile { path, index, .. } = file;
        Some(match opened {
            Ok((length, source)) => {
                let place = Place { stream: Some(path), ..Place::default() };
                self.current = Some(OpenFile { source, place, length, index, rest: None, cut: None });
                self.seek();
                Ok(())
            }
            Err(error) => {
                self.files.clear();
                Err(Error::io(&path, error))
            }
        })
    }

    /// Passes packets that are known to be too early, but for the last: that one says what was counted until then.
    fn seek(&mut self) {
        let Some((open, from)) = self.current.as_mut().zip(self.from) else { return };
        let path = open.place.stream.clone();
        let found = path.and_then(|path| open.index.before(&self.trace, &path, open.length, from));
        let Some((number, span)) = found else { return };
        (open.place.packet, open.place.offset) = (number, span.offset);
        let is_it = |opening: Opening| opening.span().1 == Some(span.end);
        if !Self::opening(&self.trace, open, &mut self.head).is_ok_and(is_it) {
            open.index.refuse();
            (open.place.packet, open.place.offset) = (0, 0);
        }
    }

    fn read(&mut self) -> Result<Option<Packet>> {
        if let Some(open) = &mut self.current {
            if let Some(rest) = open.rest.take() {
                let bytes = core::mem::take(&mut self.free);
                return open.piece(&self.trace, rest, bytes).map(Some);
            }
        }
        let Some(Found { opening, place, length, .. }) = self.find()? else { return Ok(None) };
        let Some(open) = &mut self.current else { return Ok(None) };
        let mut bytes = core::mem::take(&mut self.free);
        if length > PIECES_FROM {
            return open.piece(&self.trace, Rest::new(opening, place, length), bytes).map(Some);
        }
        open.read(&place, 0, length, &mut bytes, 0)?;
        Ok(Some(Packet::new(&self.trace, bytes, place, opening)))
    }

    /// Finds the next packet of the current file, by its header.
    fn find(&mut self) -> Result<Option<Found>> {
        loop {
            let Some(open) = &mut self.current else { return Ok(None) };
            let left = open.length.saturating_sub(open.place.offset);
            if left == 0 {
                let cut = open.cut.take().map(|(place, needed)| {
                    let available = open.length - place.offset;
                    Kind::Truncated { place, needed, available }.into()
                });
                self.current = None;
                return cut.map_or(Ok(None), Err);
            }
            let opening = Self::opening(&self.trace, open, &mut self.head)?;
            // Without sizes the packet is the whole file.
            let info = &opening.info;
            let content = info.content_bits.or(info.packet_bits).map_or(left, |bits| bits.div_ceil(8));
            let size = info.packet_bits.or(info.content_bits).map_or(left, |bits| bits / 8);
            let place = open.place.clone();
            let (begin, end) = opening.span();
            let is_early = self.from.is_some_and(|from| end.is_some_and(|end| end < from));
            let is_late = self.to.is_some_and(|to| begin.is_some_and(|begin| begin >= to));
            open.index.add(place.packet, place.offset, end);
            open.place.packet += 1;
            // A packet whose padding alone is cut has all its events; nothing can follow it.
            open.cut = (size > left).then(|| (place.clone(), size));
            open.place.offset = open.place.offset.saturating_add(size).min(open.length);
            let is_repeated = self.before.as_ref().is_some_and(|last| is_repeated(&opening.info, last));
            if is_repeated {
                continue;
            } else if is_late {
                // The packets of a stream follow each other in time.
                self.stop();
            } else if is_early {
                self.previous = Some((opening.info, end));
            } else {
                return Ok(Some(Found { opening, place, length: content.min(left), is_cut: content > left }));
            }
        }
    }

    /// The next packet without its events, of which none is read: for what is to be known of a stream before it is read.
    ///
    /// Not to be mixed with the iterator: of a packet that it gave in part, the rest would be left out.
    pub fn next_header(&mut self) -> Option<Result<Header>> {
        self.step(|packets| {
            let Some(Found { opening, place, is_cut, .. }) = packets.find()? else { return Ok(None) };
            let (begin, end) = opening.span();
            let losses = packets.losses(&opening.info, (begin, end), place.stream.as_ref());
            Ok(Some(Header { info: opening.info, begin, end, losses, is_cut }))
        })
    }

    /// The end of the last packet that tells one, or the time of the last event of those that do not.
    pub(super) fn end(mut self) -> Option<i64> {
        let mut last = None;
        self.from = Some(i64::MAX);
        while let Some(Ok((packet, _))) = self.next() {
            let mut events = packet.events();
            while let Some(Ok(event)) = events.next_event() {
                last = last.max(event.timestamp());
            }
            self.recycle(packet);
        }
        last.max(self.previous.and_then(|(_, end)| end))
    }

    /// What the first packet says about itself; the packets cannot be read afterwards.
    pub(super) fn first_info(&mut self) -> Option<Result<PacketInfo>> {
        loop {
            let Some(open) = &mut self.current else {
                match self.open()? {
                    Ok(()) => continue,
                    Err(error) => return Some(Err(error)),
                }
            };
            if open.length == 0 {
                self.current = None;
                continue;
            }
            let opening = Self::opening(&self.trace, open, &mut self.head);
            return Some(opening.map(|opening| opening.info));
        }
    }

    /// Reads the beginning of the current packet.
    fn opening(trace: &Declarations, open: &OpenFile, head: &mut Bytes) -> Result<Opening> {
        let left = open.length.saturating_sub(open.place.offset);
        open.read(&open.place, 0, left.min(HEADER_MAX), head, 0)?;
        Packet::open(trace, head.get_mut(), &open.place).map_err(|error| {
            if error.is_truncated() && left > HEADER_MAX {
                Error::corrupt(open.place.clone(), format!("packet header of more than {HEADER_MAX} bytes"))
            } else {
                error
            }
        })
    }

    /// Gives what `read` finds in the current file, or in one behind it; the stream ends with an error.
    fn step<T>(&mut self, read: impl Fn(&mut Self) -> Result<Option<T>>) -> Option<Result<T>> {
        loop {
            match read(self) {
                Ok(Some(found)) => return Some(Ok(found)),
                Ok(None) => match self.open() {
                    Some(Ok(())) => {}
                    Some(Err(error)) => return Some(Err(error)),
                    None => return None,
                },
                Err(error) => {
                    self.stop();
                    return Some(Err(error));
                }
            }
        }
    }

    fn losses(
        &mut self,
        info: &PacketInfo,
        (begin_ns, end_ns): (Option<i64>, Option<i64>),
        file: Option<&Arc<Path>>,
    ) -> Vec<Loss> {
        let mut losses = Vec::new();
        let mut lose = |kind, count, begin, end| {
            let (stream_class_id, stream_instance_id) = (info.stream_class_id, info.stream_instance_id);
            let file = file.cloned();
            losses.push(Loss { kind, count, begin, end, stream_class_id, stream_instance_id, file });
        };
        let previous = self.previous.as_ref();
        let before = previous.and_then(|(_, end)| *end);
        match (previous.and_then(|(info, _)| info.events_discarded), info.events_discarded) {
            (Some(old), Some(new)) if new != old => {
                lose(LossKind::DiscardedEvents, new.checked_sub(old), before, end_ns);
            }
            (None, Some(new)) if new != 0 => lose(LossKind::DiscardedEvents, None, before, end_ns),
            _ => {}
        }
        if let (Some(old), Some(new)) = (previous.and_then(|(info, _)| info.sequence), info.sequence) {
            if let Some(count @ 1..) = new.checked_sub(old).and_then(|distance| distance.checked_sub(1)) {
                lose(LossKind::LostPackets, Some(count), before, begin_ns);
            }
        }
        self.previous = Some((info.clone(), end_ns));
        losses
    }
}

/// Whether a file begins again with a packet that the files before it have, of which this is the last.
fn is_repeated(info: &PacketInfo, last: &PacketInfo) -> bool {
    let is_past = |new: Option<u64>, last: Option<u64>| new.zip(last).map(|(new, last)| new <= last);
    is_past(info.timestamp_begin, last.timestamp_begin) == Some(true)
        && is_past(info.timestamp_end, last.timestamp_end) == Some(true)
        && is_past(info.sequence, last.sequence) != Some(false)
}

impl Iterator for Packets {
    type Item = Result<(Packet, Vec<Loss>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(|packets| {
            let Some(packet) = packets.read()? else { return Ok(None) };
            // Of a packet in pieces, the first has told them.
            let is_first = !packet.is_continued();
            let losses = if is_first { packets.losses(packet.info(), packet.span(), packet.file()) } else { Vec::new() };
            Ok(Some((packet, losses)))
        })
    }
}

impl Source {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read_at(into, at),
            Self::Memory(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let length = rest.len().min(into.len());
                into[..length].copy_from_slice(&rest[..length]);
                Ok(length)
            }
        }
    }
}

impl OpenFile {
    /// Reads the next piece of a packet: as many whole events as some memory holds.
    fn piece(&mut self, trace: &Arc<Declarations>, rest: Rest, mut bytes: Bytes) -> Result<Packet> {
        let mut window = PIECE;
        loop {
            let Rest { opening, place, length, at, clock } = &rest;
            // The first piece has its header where the others have a copy of it.
            let head = if *at == 0 { 0 } else { opening.header_bytes().next_multiple_of(PIECE_ALIGN) };
            let begin = at / 8 / PIECE_ALIGN * PIECE_ALIGN;
            let end = begin.saturating_add(window).min(*length);
            if head > 0 {
                self.read(place, 0, opening.header_bytes(), &mut bytes, 0)?;
            }
            self.read(place, begin, end - begin, &mut bytes, head)?;
            let part = Part { at: *at, clock: *clock, skipped: begin - head, is_last: end == *length };
            let mut packet = Packet::piece(trace, bytes, place.clone(), opening.clone(), part);
            if end == *length {
                return Ok(packet);
            }
            match packet.cut() {
                Cut::At { at, clock } => {
                    self.rest = Some(Rest { at, clock, ..rest });
                    return Ok(packet);
                }
                // What is wrong is found again by who reads its events.
                Cut::Wrong => return Ok(packet),
                Cut::Nowhere if window >= EVENT_MAX => {
                    let at = opening.header_bytes().max(at / 8);
                    let place = Place { offset: place.offset + at, ..place.clone() };
                    return Err(Error::corrupt(place, format!("an event of more than {} MiB", EVENT_MAX >> 20)));
                }
                Cut::Nowhere => {
                    window *= 2;
                    bytes = packet.into_bytes();
                }
            }
        }
    }

    /// Reads bytes of a packet behind the first `head` bytes of some memory; the file is as long as it was when it was opened.
    ///
    /// Read, not mapped: a file that becomes shorter meanwhile is an error and no signal, and memory that stays in the cache
    /// is filled as quickly as pages are mapped.
    fn read(&self, place: &Place, from: u64, length: u64, into: &mut Bytes, head: u64) -> Result<()> {
        let path = place.stream.as_deref().unwrap_or(Path::new(""));
        let size = usize::try_from(head.saturating_add(length)).unwrap_or(usize::MAX);
        if into.resize(size).is_err() {
            return Err(Error::corrupt(place.clone(), format!("{length} bytes of a packet: no memory for them")));
        }
        let (mut rest, mut at) = (&mut into.get_mut()[head as usize..], place.offset + from);
        while !rest.is_empty() {
            match self.source.read_at(rest, at) {
                Ok(0) => {
                    let available = at - place.offset;
                    return Err(Kind::Truncated { place: place.clone(), needed: from + length, available }.into());
                }
                Ok(read) => {
                    rest = &mut rest[read..];
                    at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(path, error)),
            }
        }
        Ok(())
    }
}
