//! Going on with the trace directory of a process that has ended, wherever that was.
//!
//! Its metadata are written anew from the journal. Stream files keep their whole packets; what follows those is the part of one
//! that the process was writing. Indexes are made anew. Nothing in it is a link, or another user's (RC-3 of [`crate::recovery`]).

use super::blocks::Blocks;
use super::{Directory, INDEX, StreamFile, StreamId, create_file};
use crate::error::{Error, Kind, Result};
use crate::storage::{Appended, OwnFile};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use trace_control::directory::Directory as Opened;
use trace_ctf::index;
use trace_ctf::metadata::Format;
use trace_ctf::packet::{self, PacketHeader};
use trace_ctf::schema as ctf;

/// Name of new metadata until they are complete.
const UNFINISHED: &str = "metadata.new";

impl Directory {
    /// Goes on with the trace at `path`, or creates it where nothing is there. Returns with it the bytes of partial packets
    /// that were cut off.
    ///
    /// # Errors
    ///
    /// Something else lies at `path`; a file cannot be read or written.
    pub(crate) fn resume(path: &Path, schema: &ctf::Schema, origin_ns: u64) -> Result<(Directory, u64)> {
        use super::Sink as _;
        let cannot = |e: io::Error| Error::io("cannot continue the trace", path, e);
        let opened = match own_directory(path) {
            Ok(opened) => Some(opened).filter(|opened| !opened.names().is_ok_and(|names| names.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(cannot(error)),
        };
        let Some(opened) = opened else {
            let mut directory = Directory::create(path, &schema.trace, Format::default(), Some(origin_ns))?;
            directory.describe(schema.events())?;
            return Ok((directory, 0));
        };
        let path = std::path::absolute(path).map_err(cannot)?;
        let user = opened.owner;
        let format = format_of(&opened, schema).map_err(cannot)?;
        let here = opened.descriptor().map_err(cannot)?;
        match rustix::fs::mkdirat(here, INDEX, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(cannot(error.into())),
        }
        let indexes = opened.at(INDEX).and_then(check_owner).map_err(cannot)?;
        let own = |directory: &Opened| OwnFile::open(directory.descriptor()?, ".", DIRECTORY, Mode::empty());
        let (directory, index) = (own(&opened).map_err(cannot)?, own(&indexes).map_err(cannot)?);
        let metadata = rewrite_metadata(&directory, schema, format).map_err(cannot)?;
        let mut streams = HashMap::new();
        let mut cut = 0;
        for name in opened.names().map_err(cannot)? {
            let Some((stream, name)) = name.to_str().and_then(|name| Some((StreamId::of_file(name)?, name))) else { continue };
            let at = path.join(name);
            let failed = |cause| Error::from(Kind::Output { path: at.clone(), cause });
            let file = opened.file(name, OFlags::RDWR, &[user]).and_then(OwnFile::of).map_err(failed)?;
            let (file, bytes) = StreamFile::resume(file, &directory, &index, name, stream, schema.trace.uuid).map_err(failed)?;
            cut += bytes;
            if let Some(mut file) = file {
                file.path = at;
                streams.insert(stream, file);
            }
        }
        let (uuid, origin_ns) = (schema.trace.uuid, Some(origin_ns));
        Ok((
            Directory { path, directory, index, uuid, origin_ns, format, metadata, streams, has_packets: true, grows: true },
            cut,
        ))
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Says what to do about a trace that is not continued where it lies.
fn elsewhere(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{error}; name another directory for the recovered trace (`--output`)"))
}

/// Opens the directory of a trace that is to be continued: no link, and this user's.
pub(super) fn own_directory(path: &Path) -> io::Result<Opened> {
    Opened::open(path).and_then(check_owner).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => error,
        _ => elsewhere(error),
    })
}

/// Whoever owns a directory may exchange everything in it.
fn check_owner(directory: Opened) -> io::Result<Opened> {
    if directory.owner == rustix::process::geteuid().as_raw() {
        return Ok(directory);
    }
    let problem = format!("it belongs to another user (user ID {})", directory.owner);
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

impl StreamId {
    /// The stream whose file has that name.
    fn of_file(name: &str) -> Option<StreamId> {
        let (kind, instance) = name.rsplit_once('_')?;
        let class = [crate::metadata::RINGS, crate::metadata::FALLBACK, crate::metadata::CONSUMER];
        let class = class.into_iter().find(|class| super::kind(*class) == kind)?;
        Some(StreamId { class, instance: instance.parse().ok()? })
    }
}

/// The form of the metadata in a directory. A trace directory that is not of this schema is not touched.
fn format_of(directory: &Opened, schema: &ctf::Schema) -> io::Result<Format> {
    let heads = [Format::Ctf18, Format::Ctf2].map(|format| (format, format.head(&schema.trace)));
    let longest = heads.iter().map(|(_, head)| head.len()).max().unwrap_or(0);
    let found = match directory.file("metadata", OFlags::RDONLY, &[directory.owner]) {
        Ok(metadata) => {
            let mut found = Vec::new();
            metadata.take(longest as u64).read_to_end(&mut found)?;
            found
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    for (format, head) in heads {
        // The process may have ended while it wrote this file, its first.
        if found.starts_with(head.as_bytes()) || head.as_bytes().starts_with(&found) && !has_streams(directory) {
            return Ok(format);
        }
    }
    let problem = "something else lies there now; choose another place for the recovered trace";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, problem))
}

fn has_streams(directory: &Opened) -> bool {
    let is_stream = |name: OsString| name.to_str().is_some_and(|name| StreamId::of_file(name).is_some());
    directory.names().unwrap_or_default().into_iter().any(is_stream)
}

fn rewrite_metadata(directory: &File, schema: &ctf::Schema, format: Format) -> io::Result<Appended> {
    // Left by a recovery that was ended itself.
    let _ = rustix::fs::unlinkat(directory, UNFINISHED, AtFlags::empty());
    let mut metadata = Appended::new(create_file(directory, UNFINISHED)?);
    metadata.append(format.write(schema).as_bytes())?;
    rustix::fs::renameat(directory, UNFINISHED, directory, "metadata")?;
    Ok(metadata)
}

/// Packets of a stream file, as they lie in it.
pub(super) type Packets = Vec<index::Entry>;

impl StreamFile {
    /// Cuts a stream file behind its last whole packet. `None`: it has none, and is removed. Returns with it the
    /// bytes that were cut off.
    fn resume(
        mut file: OwnFile,
        directory: &File,
        indexes: &File,
        name: &str,
        stream: StreamId,
        uuid: [u8; 16],
    ) -> io::Result<(Option<StreamFile>, u64)> {
        let packets = whole_packets(&file, stream, uuid)?;
        let whole = packets.last().map_or(0, |last| last.offset + last.packet.packet_bits / 8);
        let is_kept = trace_registry::is_mutated!(recovery_partial_kept) && whole > 0;
        let len = if is_kept { file.metadata()?.len() } else { whole };
        let cut = file.metadata()?.len() - len;
        file.write(|file| file.set_len(len))?; // also gives back what was allocated ahead
        let index_name = format!("{name}.idx");
        let _ = rustix::fs::unlinkat(indexes, &*index_name, AtFlags::empty());
        if packets.is_empty() {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            return Ok((None, cut));
        }
        let mut index = Appended::new(create_file(indexes, &index_name)?);
        let mut bytes = index::header().to_vec();
        packets.iter().for_each(|entry| bytes.extend_from_slice(&entry.encode()));
        index.append(&bytes)?;
        let (path, count) = (name.into(), packets.len() as u64);
        let blocks = Blocks::behind(len);
        Ok((Some(StreamFile { path, file, index, len, blocks, packets: count, earlier: packets }), cut))
    }

    /// Bytes at the beginning of a packet's content that the file has already: a process ended between writing a packet and
    /// giving its memory back, so the ring has it too. Asked once, for the first packet.
    ///
    /// The last packets of the file are those if the first of them begins when this one does, and together they are the
    /// beginning of its content: records that were written once lie in both.
    pub(super) fn had(&mut self, begin_ns: u64, content: &[u8]) -> usize {
        let earlier = std::mem::take(&mut self.earlier);
        if trace_registry::is_mutated!(recovery_written_again) {
            return 0;
        }
        let (mut total, mut found) = (0, 0);
        for (place, entry) in earlier.iter().enumerate().rev() {
            total += entry.packet.content_bits as usize / 8 - packet::HEADER_LEN;
            if total > content.len() {
                break;
            }
            // As it was raised when the packet was written.
            let before = place.checked_sub(1).map_or(0, |place| earlier[place].packet.timestamp_end);
            if total > found && entry.packet.timestamp_begin == begin_ns.max(before) {
                let same = self.content_from(&earlier[place..]).is_ok_and(|bytes| content.starts_with(&bytes));
                found = if same { total } else { found };
            }
        }
        found
    }

    fn content_from(&self, packets: &[index::Entry]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for entry in packets {
            let at = bytes.len();
            bytes.resize(at + entry.packet.content_bits as usize / 8 - packet::HEADER_LEN, 0);
            self.file.read_exact_at(&mut bytes[at..], entry.offset + packet::HEADER_LEN as u64)?;
        }
        Ok(bytes)
    }
}

fn whole_packets(file: &File, stream: StreamId, uuid: [u8; 16]) -> io::Result<Packets> {
    let len = file.metadata()?.len();
    let mut packets = Packets::new();
    let mut offset = 0;
    while offset + packet::HEADER_LEN as u64 <= len {
        let mut header = [0; packet::HEADER_LEN];
        file.read_exact_at(&mut header, offset)?;
        let Ok((header, found)) = PacketHeader::decode(&header) else { break };
        let is_own = found == uuid
            && (header.stream_class_id, header.stream_instance_id) == (stream.class, u64::from(stream.instance))
            && header.sequence == packets.len() as u64;
        let size = header.packet_bits / 8;
        if !is_own || size > len - offset {
            break;
        }
        packets.push(index::Entry { offset, packet: header });
        offset += size;
    }
    Ok(packets)
}
