//! Where packets go: a trace directory in CTF 1.8, or readable lines on stderr.

mod blocks;
pub(crate) mod deferred;
mod resume;
pub(crate) mod rotation;

use self::blocks::Blocks;
use crate::error::{Error, Kind, Result};
use crate::storage::{Appended, OwnFile};
use crate::transfer::Told;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use trace_ctf::index;
use trace_ctf::metadata::Format;
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

impl Packet<'_> {
    /// Returns its header, but for sizes, number and losses, which are an output's.
    pub(crate) fn header(&self) -> PacketHeader {
        PacketHeader {
            stream_class_id: self.stream.class,
            stream_instance_id: u64::from(self.stream.instance),
            timestamp_begin: self.begin_ns,
            timestamp_end: self.end_ns,
            cpu_id: self.cpu,
            ..PacketHeader::default()
        }
    }
}

/// Takes event classes and packets.
pub(crate) trait Sink: Send {
    /// Takes the descriptions of classes, before any packet that holds an event of theirs. All of them, or none.
    fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()>;
    /// What the streams that are there already told, where this output continues earlier ones.
    fn told(&self) -> Vec<(StreamId, Told)> {
        Vec::new()
    }
    /// Bytes at the beginning of the packet's content that the output has already, where it continues an earlier one. Asked
    /// once for each packet, before [`deliver`](Self::deliver).
    fn had(&mut self, _packet: &Packet<'_>) -> usize {
        0
    }
    /// Takes a packet.
    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()>;
    /// Ends a round of deliveries.
    fn settle(&mut self) -> Result<()>;
    /// Bytes written so far.
    fn written(&self) -> u64;
    /// Makes everything delivered readable by others, and gives back what was allocated ahead.
    fn flush(&mut self) -> Result<()>;
}

/// Takes nothing: another process consumes the rings, or the trace is complete.
#[derive(Default)]
pub(crate) struct Elsewhere {
    /// Bytes that its predecessor wrote.
    pub(crate) written: u64,
}

impl Sink for Elsewhere {
    fn describe(&mut self, _: &[ctf::EventClass]) -> Result<()> {
        Ok(())
    }

    fn deliver(&mut self, _: &Packet<'_>) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A trace directory: `metadata`, one file for each stream, `index/`; all of them closed to other users.
pub(crate) struct Directory {
    /// Absolute, for messages: files are made by the descriptors, so that the program may call chdir(2) and chroot(2).
    path: PathBuf,
    directory: OwnFile,
    index: OwnFile,
    uuid: [u8; 16],
    /// When the recording began: the time of each stream's opening packet. `None`: a stream begins with its first packet.
    origin_ns: Option<u64>,
    format: Format,
    metadata: Appended,
    streams: HashMap<StreamId, StreamFile>,
    /// Whether there is something beside what the consumer writes itself.
    has_packets: bool,
    /// Whether the file system is told ahead what comes, and what is not needed any more.
    grows: bool,
}

impl Directory {
    pub(crate) fn create(path: &Path, trace: &ctf::Trace, format: Format, origin_ns: Option<u64>) -> Result<Directory> {
        Directory::within(Claim::new(path)?, trace, format, origin_ns)
    }

    pub(crate) fn within(claim: Claim, trace: &ctf::Trace, format: Format, origin_ns: Option<u64>) -> Result<Directory> {
        let Claim { path, directory, index, mut made } = claim;
        let file = path.join("metadata");
        let metadata =
            create_file(&directory, "metadata").map_err(|e| Error::io("cannot create the metadata of the trace", &file, e))?;
        made.0.push(file.clone());
        let mut metadata = Appended::new(metadata);
        metadata
            .append(format.head(trace).as_bytes())
            .map_err(|e| Error::io("cannot write the metadata of the trace", &file, e))?;
        made.0.clear();
        let (uuid, streams) = (trace.uuid, HashMap::new());
        Ok(Directory { path, directory, index, uuid, origin_ns, format, metadata, streams, has_packets: false, grows: true })
    }

    /// Puts a file among those of the trace that readers pass over, by its name.
    pub(crate) fn put(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let directory = self.directory.file();
        let written = directory.and_then(|d| create_file(d, name)).and_then(|mut f| f.write(|f| f.write_all_at(content, 0)));
        written.map_err(|cause| Kind::Output { path: self.path.join(name), cause }.into())
    }

    /// It is written in one go, so allocating ahead is of no use.
    pub(crate) fn at_once(self) -> Directory {
        Directory { grows: false, ..self }
    }
}

/// The place of a trace that is to be made, which nobody else can take: its directory, with that of the indexes as the sign. Until it is
/// [used](Directory::within), dropping it removes what was made.
pub(crate) struct Claim {
    path: PathBuf,
    directory: OwnFile,
    index: OwnFile,
    made: Made,
}

const TAKEN: &str = "it exists already and is not empty";

impl Claim {
    /// Makes the directory and its parents, or takes an existing one that is empty.
    pub(crate) fn new(path: &Path) -> Result<Claim> {
        let cannot = |e: io::Error| Error::io("cannot create the trace directory", path, e);
        let path = std::path::absolute(path).map_err(cannot)?;
        let mut made = Made(Vec::new());
        // One that was made is not followed to where a link leads that somebody put in its place. What the user has made may be one.
        let flags = if made.trace_directory(&path).map_err(cannot)? { OFlags::NOFOLLOW } else { OFlags::empty() };
        let directory = open_directory(CWD, &path, flags).map_err(cannot)?;
        let index_path = path.join(INDEX);
        match rustix::fs::mkdirat(&*directory, INDEX, Mode::RWXU) {
            Ok(()) => made.0.push(index_path.clone()),
            // Another process found it empty at the same moment, and was faster.
            Err(rustix::io::Errno::EXIST) => return Err(cannot(io::Error::new(io::ErrorKind::AlreadyExists, TAKEN))),
            Err(error) => return Err(Error::io("cannot create the index directory", &index_path, error)),
        }
        let index = open_directory(&*directory, INDEX, OFlags::NOFOLLOW)
            .map_err(|e| Error::io("cannot open the index directory", &index_path, e))?;
        Ok(Claim { path, directory, index, made })
    }

    /// Returns the error that [`new`](Self::new) would where something lies there.
    pub(crate) fn check_free(path: &Path) -> Result<()> {
        if path.exists() {
            return Err(Error::io(
                "cannot create the trace directory",
                path,
                io::Error::new(io::ErrorKind::AlreadyExists, TAKEN),
            ));
        }
        Ok(())
    }

    /// Takes the first of `paths` that is free: by making it, since others look for a place at the same moment.
    pub(crate) fn first<T>(paths: impl IntoIterator<Item = PathBuf>, claim: impl Fn(&Path) -> Result<T>) -> Result<(PathBuf, T)> {
        let mut paths = paths.into_iter().peekable();
        loop {
            let path = paths.next().unwrap_or_default();
            match claim(&path) {
                Err(error) if error.is_taken() && paths.peek().is_some() => {}
                claimed => return Ok((path, claimed?)),
            }
        }
    }
}

/// `path(0)`, `path(1)` and so on: names for [`Claim::first`].
pub(crate) fn numbered(path: impl Fn(u32) -> PathBuf) -> impl Iterator<Item = PathBuf> {
    (0..1000).map(path)
}

/// What was made so far. Dropping it removes that, the last first.
struct Made(Vec<PathBuf>);

impl Made {
    /// Makes the directory and its parents, or takes an existing one that is empty. Returns whether it made it.
    fn trace_directory(&mut self, path: &Path) -> io::Result<bool> {
        if let Some(parent) = path.parent() {
            let mut missing: Vec<PathBuf> = parent.ancestors().take_while(|p| !p.exists()).map(Path::to_owned).collect();
            missing.reverse();
            self.0.append(&mut missing);
            fs::create_dir_all(parent)?;
        }
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) => {
                self.0.push(path.to_owned());
                Ok(true)
            }
            Err(rustix::io::Errno::EXIST) if fs::read_dir(path)?.next().is_some() => {
                Err(io::Error::new(io::ErrorKind::AlreadyExists, TAKEN))
            }
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            // Only what is ours: a directory into which somebody else has put something stays.
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
    }
}

/// Name of the directory of the streams' indexes.
const INDEX: &str = "index";

fn open_directory(below: impl AsFd, path: impl AsRef<Path>, flags: OFlags) -> io::Result<OwnFile> {
    OwnFile::open(below, path, OFlags::RDONLY | OFlags::DIRECTORY | flags, Mode::empty())
}

fn create_file(directory: &File, name: &str) -> io::Result<OwnFile> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    OwnFile::open(directory, name, flags, Mode::RUSR | Mode::WUSR)
}

impl Sink for Directory {
    fn told(&self) -> Vec<(StreamId, Told)> {
        let last = |stream: &StreamFile| stream.earlier.last().map(|e| e.packet);
        let told = |p: PacketHeader| Told { end_ns: p.timestamp_end, discarded: p.events_discarded, ..Told::default() };
        self.streams.iter().filter_map(|(id, stream)| Some((*id, told(last(stream)?)))).collect()
    }

    fn had(&mut self, packet: &Packet<'_>) -> usize {
        let Some(stream) = self.streams.get_mut(&packet.stream).filter(|s| !s.earlier.is_empty()) else { return 0 };
        stream.had(packet.begin_ns, packet.content)
    }

    fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        self.metadata
            .append(self.format.events(classes).as_bytes())
            .map_err(|cause| Kind::Output { path: self.path.join("metadata"), cause }.into())
    }

    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()> {
        let stream = match self.streams.entry(packet.stream) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let place = Place { path: &self.path, directory: &mut self.directory, index: &mut self.index };
                let blocks = if self.grows { Blocks::behind(0) } else { Blocks::left_alone() };
                let made = StreamFile::create(place, packet, self.uuid, self.origin_ns, blocks);
                entry.insert(made.map_err(|error| if self.metadata.is_removed() { removed(&self.path) } else { error })?)
            }
        };
        stream.append(packet, self.uuid)
    }

    fn settle(&mut self) -> Result<()> {
        self.streams.values_mut().for_each(|stream| stream.blocks.settle(&stream.file, stream.len));
        if self.metadata.is_removed() { Err(removed(&self.path)) } else { Ok(()) }
    }

    fn written(&self) -> u64 {
        self.streams.values().map(|s| s.len).sum()
    }

    fn flush(&mut self) -> Result<()> {
        for stream in self.streams.values_mut() {
            stream.trim().map_err(|cause| Kind::Output { path: stream.path.clone(), cause })?;
        }
        Ok(())
    }
}

fn removed(path: &Path) -> Error {
    Kind::Removed(path.to_owned()).into()
}

/// Where streams are created.
struct Place<'a> {
    path: &'a Path,
    directory: &'a mut OwnFile,
    index: &'a mut OwnFile,
}

/// What the names of the files of a stream class begin with.
fn kind(class: u32) -> &'static str {
    match class {
        crate::metadata::RINGS => "events",
        crate::metadata::FALLBACK => "fallback",
        _ => "consumer",
    }
}

struct StreamFile {
    path: PathBuf,
    file: OwnFile,
    index: Appended,
    /// Bytes of whole packets.
    len: u64,
    blocks: Blocks,
    packets: u64,
    /// Packets of a process that has ended, until this one goes on behind them.
    earlier: resume::Packets,
}

impl StreamFile {
    fn create(
        place: Place<'_>,
        first: &Packet<'_>,
        uuid: [u8; 16],
        origin_ns: Option<u64>,
        blocks: Blocks,
    ) -> Result<StreamFile> {
        let name = format!("{}_{}", kind(first.stream.class), first.stream.instance);
        let index_name = format!("{name}.idx");
        let (path, index_path) = (place.path.join(&name), place.path.join("index").join(&index_name));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| Error::from(Kind::Output { path, cause })
        };
        let (directory, indexes) = (place.directory.file(), place.index.file());
        let (directory, indexes) = (directory.map_err(failed(&path))?, indexes.map_err(failed(&index_path))?);
        let file = create_file(directory, &name).map_err(failed(&path))?;
        // A stream without its opening packet is none, and is taken back.
        let undo = |directory: &File, name: &str| {
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        };
        let index = create_file(indexes, &index_name).inspect_err(|_| undo(directory, &name));
        let index = Appended::new(index.map_err(failed(&index_path))?);
        let mut stream = StreamFile { file, index, path, len: 0, blocks, packets: 0, earlier: Vec::new() };
        let header = stream.index.append(&index::header()).map_err(failed(&index_path));
        // Readers report the events discarded in a packet as the difference to the packet before it, so a stream begins with
        // an empty one that has lost nothing.
        let begin_ns = origin_ns.unwrap_or(first.begin_ns);
        let opening = Packet { begin_ns, end_ns: begin_ns, discarded: 0, content: &[], ..*first };
        let opened = header.and_then(|()| stream.append_sized(&opening, uuid, packet::OPENING_LEN));
        opened.inspect_err(|_| {
            undo(indexes, &index_name);
            undo(directory, &name);
        })?;
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
            content_bits: content as u64 * 8,
            packet_bits: size as u64 * 8,
            sequence: self.packets,
            events_discarded: packet.discarded,
            ..packet.header()
        };
        const PADDING: [u8; packet::OPENING_LEN] = [0; packet::OPENING_LEN];
        let encoded = header.encode(&uuid);
        let parts = [&encoded[..], packet.content, &PADDING[..size - content]];
        let entry = index::Entry { offset: self.len, packet: header };
        let result = self.write(&parts, size as u64).and_then(|()| self.index.append(&entry.encode()));
        if let Err(cause) = result {
            // A reader must find whole packets only. If even this fails, the index says where they end.
            let _ = self.file.write(|file| file.set_len(self.len));
            return Err(Kind::Output { path: self.path.clone(), cause }.into());
        }
        self.len += size as u64;
        self.packets += 1;
        Ok(())
    }

    fn write(&mut self, parts: &[&[u8]; 3], size: u64) -> io::Result<()> {
        let (blocks, mut at) = (&mut self.blocks, self.len);
        // By itself, since it may take a while (ST-1).
        self.file.write(|file| {
            blocks.allocate(file, at + size);
            Ok(())
        })?;
        self.file.write(|file| {
            let written = rustix::io::pwritev(file, &parts.map(IoSlice::new), at)? as u64;
            if written == size {
                return Ok(());
            }
            // A short write, for instance at the end of a disk's space: the rest piece by piece, until it is in or an error.
            let mut skip = written as usize;
            at += written;
            for part in parts {
                let rest = part.get(skip..).unwrap_or_default();
                skip = skip.saturating_sub(part.len());
                file.write_all_at(rest, at)?;
                at += rest.len() as u64;
            }
            Ok(())
        })
    }

    fn trim(&mut self) -> io::Result<()> {
        if self.blocks.are_beyond(self.len) {
            self.file.write(|file| file.set_len(self.len))?; // also gives back blocks beyond the end
            self.blocks = Blocks::behind(self.len);
        }
        Ok(())
    }
}
