//! Where packets go: a trace directory in CTF 1.8, or readable lines on stderr.

use crate::error::{Error, Kind, Result};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, IoSlice, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use trace_ctf::index;
use trace_ctf::metadata;
use trace_ctf::packet::{self, PacketHeader};
use trace_ctf::schema as ctf;

/// One stream of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId {
    /// Number of its stream class.
    pub(crate) class: u32,
    /// Number within the stream class: the CPU, or the index of the ring.
    pub(crate) instance: u32,
}

/// A packet without its header.
pub(crate) struct Packet<'a> {
    pub(crate) stream: StreamId,
    pub(crate) cpu: u32,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// Events of the stream that were lost since it began.
    pub(crate) discarded: u64,
    pub(crate) content: &'a [u8],
}

/// Takes event classes and packets.
pub(crate) trait Sink: Send {
    /// Takes the description of a class, before any packet that holds an event of it.
    fn describe(&mut self, class: &ctf::EventClass) -> Result<()>;
    /// Takes a packet.
    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()>;
    /// Ends a round of deliveries.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
    /// Bytes written so far.
    fn written(&self) -> u64;
    /// Makes everything delivered readable by others, and gives back what was allocated ahead.
    fn flush(&mut self) -> Result<()>;
}

/// Disk blocks are allocated ahead in steps of this size, invisibly to readers.
const ALLOCATION: u64 = 16 << 20;

/// A trace directory: `metadata`, one file for each stream, `index/`.
pub(crate) struct Directory {
    path: PathBuf,
    uuid: [u8; 16],
    /// When the recording began: the time of each stream's opening packet.
    origin_ns: u64,
    metadata: File,
    streams: HashMap<StreamId, StreamFile>,
}

impl Directory {
    pub(crate) fn create(path: &Path, trace: &ctf::Trace, origin_ns: u64) -> Result<Directory> {
        fs::create_dir_all(path).map_err(|e| Error::io("cannot create the trace directory", path, e))?;
        let index = path.join("index");
        fs::create_dir_all(&index).map_err(|e| Error::io("cannot create the index directory", &index, e))?;
        let file = path.join("metadata");
        let mut metadata = File::options()
            .write(true)
            .create_new(true)
            .open(&file)
            .map_err(|e| Error::io("cannot create the metadata of the trace", &file, e))?;
        metadata
            .write_all(metadata::head(trace).as_bytes())
            .map_err(|e| Error::io("cannot write the metadata of the trace", &file, e))?;
        Ok(Directory { path: path.to_owned(), uuid: trace.uuid, origin_ns, metadata, streams: HashMap::new() })
    }
}

impl Sink for Directory {
    fn describe(&mut self, class: &ctf::EventClass) -> Result<()> {
        self.metadata
            .write_all(metadata::event(class).as_bytes())
            .map_err(|source| Kind::Output { path: self.path.join("metadata"), source }.into())
    }

    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()> {
        let stream = match self.streams.entry(packet.stream) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(StreamFile::create(&self.path, packet, self.uuid, self.origin_ns)?)
            }
        };
        stream.append(packet, self.uuid)
    }

    fn written(&self) -> u64 {
        self.streams.values().map(|s| s.len).sum()
    }

    fn flush(&mut self) -> Result<()> {
        for stream in self.streams.values_mut() {
            stream.trim().map_err(|source| Kind::Output { path: stream.path.clone(), source })?;
        }
        Ok(())
    }
}

struct StreamFile {
    path: PathBuf,
    file: File,
    index: File,
    /// Bytes of whole packets.
    len: u64,
    /// Bytes for which the file system has set blocks aside.
    allocated: u64,
    packets: u64,
}

impl StreamFile {
    fn create(trace: &Path, first: &Packet<'_>, uuid: [u8; 16], origin_ns: u64) -> Result<StreamFile> {
        let kind = match first.stream.class {
            crate::metadata::RINGS => "events",
            crate::metadata::FALLBACK => "fallback",
            _ => "consumer",
        };
        let name = format!("{kind}_{}", first.stream.instance);
        let create = |path: &Path| {
            let file = File::options().write(true).create_new(true).open(path);
            file.map_err(|source| Error::from(Kind::Output { path: path.to_owned(), source }))
        };
        let (path, index_path) = (trace.join(&name), trace.join("index").join(format!("{name}.idx")));
        let mut stream = StreamFile { file: create(&path)?, index: create(&index_path)?, path, len: 0, allocated: 0, packets: 0 };
        let written = stream.index.write_all(&index::header());
        written.map_err(|source| Kind::Output { path: index_path, source })?;
        // Readers report the events discarded in a packet as the difference to the packet before it, so a stream begins with
        // an empty one that has lost nothing.
        let opening = Packet { begin_ns: origin_ns, end_ns: origin_ns, discarded: 0, content: &[], ..*first };
        stream.append_sized(&opening, uuid, packet::OPENING_LEN)?;
        Ok(stream)
    }

    fn append(&mut self, packet: &Packet<'_>, uuid: [u8; 16]) -> Result<()> {
        self.append_sized(packet, uuid, packet::HEADER_LEN + packet.content.len())
    }

    /// Appends a packet of at least `size` bytes, a multiple of 8.
    fn append_sized(&mut self, packet: &Packet<'_>, uuid: [u8; 16], size: usize) -> Result<()> {
        let content = packet::HEADER_LEN + packet.content.len();
        let size = size.next_multiple_of(8);
        let header = PacketHeader {
            stream_class_id: packet.stream.class,
            stream_instance_id: u64::from(packet.stream.instance),
            timestamp_begin: packet.begin_ns,
            timestamp_end: packet.end_ns,
            content_bits: content as u64 * 8,
            packet_bits: size as u64 * 8,
            sequence: self.packets,
            events_discarded: packet.discarded,
            cpu_id: packet.cpu,
        };
        const PADDING: [u8; packet::OPENING_LEN] = [0; packet::OPENING_LEN];
        let encoded = header.encode(&uuid);
        let parts = [&encoded[..], packet.content, &PADDING[..size - content]];
        let entry = index::Entry { offset: self.len, packet: header };
        let result = self.write(&parts, size as u64).and_then(|()| self.index.write_all(&entry.encode()));
        if let Err(source) = result {
            // A reader must find whole packets only. If even this fails, the index says where they end.
            let _ = self.file.set_len(self.len);
            return Err(Kind::Output { path: self.path.clone(), source }.into());
        }
        self.len += size as u64;
        self.packets += 1;
        Ok(())
    }

    fn write(&mut self, parts: &[&[u8]; 3], size: u64) -> io::Result<()> {
        self.allocate(self.len + size);
        let mut at = self.len;
        let written = rustix::io::pwritev(&self.file, &parts.map(IoSlice::new), at)? as u64;
        if written == size {
            return Ok(());
        }
        // A short write, for instance at the end of a disk's space: the rest piece by piece, until it is in or an error.
        let mut skip = written as usize;
        at += written;
        for part in parts {
            let rest = part.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(part.len());
            self.file.write_all_at(rest, at)?;
            at += rest.len() as u64;
        }
        Ok(())
    }

    /// Sets blocks aside so that writing need not find them. A file system that cannot is written all the same.
    fn allocate(&mut self, end: u64) {
        #[cfg(target_os = "linux")]
        if end > self.allocated {
            // Small traces are not worth it.
            let step = if self.allocated == 0 && end < ALLOCATION / 16 { ALLOCATION / 16 } else { ALLOCATION };
            let _ = rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::KEEP_SIZE, self.allocated, step);
            self.allocated += step;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = end;
    }

    fn trim(&mut self) -> io::Result<()> {
        if self.allocated > self.len {
            self.file.set_len(self.len)?; // also gives back blocks beyond the end
            self.allocated = self.len;
        }
        Ok(())
    }
}
