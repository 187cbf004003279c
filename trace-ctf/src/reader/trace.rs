//! Trace directories, and packets in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::declared::Declarations;
use crate::error::{Kind, Place};
use crate::metadata::Format;
use crate::packet::{HEADER_LEN, PacketHeader};
use crate::reader::file::Metadata;
use crate::reader::packet::Bytes;
use crate::reader::stream::StreamFile;
use crate::reader::{Merge, Packet, Packets};
use crate::schema::{EventClass, Schema};
use crate::tsdl::Parser;
use crate::{Error, Result, metadata};

/// A trace: a directory with a metadata file and stream files.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    declarations: Arc<Declarations>,
    format: Format,
    streams: Vec<Stream>,
    damage: Vec<Error>,
}

/// A stream of a trace: one file, or several one after the other.
#[derive(Clone, Debug)]
pub struct Stream {
    class_id: u64,
    instance_id: Option<u64>,
    files: Vec<StreamFile>,
    is_of_another_trace: bool,
}

/// Finds the directories at or below `path` that hold a trace, down to `depth` levels, in the order of their names.
///
/// # Errors
///
/// [`Error::is_io`] where `path` cannot be read, [`Error::is_no_trace`] where nothing is found.
pub fn discover(path: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    search(path, depth, &mut found)?;
    if found.is_empty() {
        return Err(Kind::NoTrace { path: path.to_owned(), what: "no metadata file in it or below it" }.into());
    }
    Ok(found)
}

fn search(path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    if path.join("metadata").is_file() {
        found.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|error| Error::io(path, error))?;
    if depth == 0 {
        return Ok(());
    }
    // Links are not followed: they may lead back here.
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut directories: Vec<_> = directories.map(|entry| entry.path()).collect();
    directories.sort();
    for directory in directories {
        // One that is not ours to read hides nothing that the others do not show.
        let _ = search(&directory, depth - 1, found);
    }
    Ok(())
}

impl Trace {
    /// Opens the trace in a directory.
    ///
    /// # Errors
    ///
    /// [`Error::is_no_trace`], [`Error::is_io`], [`Error::is_metadata`] or [`Error::is_unsupported`]. A stream file that cannot
    /// be read is no error here, see [`Trace::damage`].
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.join("metadata");
        let bytes = match fs::read(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Kind::NoTrace { path: path.to_owned(), what: "no metadata file" }.into());
            }
            other => other.map_err(|error| Error::io(&file, error))?,
        };
        let mut metadata = super::file::parse(&bytes).map_err(|error| error.in_file(&file))?;
        metadata.cut = metadata.cut.map(|error| error.in_file(&file));
        let mut trace = Self::new(path.to_owned(), metadata);
        let files = trace.find_files()?;
        trace.find_streams(files);
        Ok(trace)
    }

    /// Opens every trace at or below each of `paths`, down to `depth` levels, in the order of their names.
    ///
    /// Directories whose metadata has the same UUID are parts of one trace, such as LTTng's rotations and snapshots. They become one,
    /// with the metadata that declares most; a packet that several of them hold is read once.
    ///
    /// One that cannot be opened hides no other: why it was not is in the [damage](Trace::damage) of the first that was.
    ///
    /// # Errors
    ///
    /// As for [`discover`], and as for [`Trace::open`] where none can be opened.
    pub fn open_all(paths: impl IntoIterator<Item = impl AsRef<Path>>, depth: usize) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for path in paths {
            found.extend(discover(path.as_ref(), depth)?);
        }
        // What lies in two of them is one.
        let mut known = BTreeSet::new();
        found.retain(|path| known.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
        let (mut traces, mut damage): (Vec<Self>, Vec<Error>) = Default::default();
        for path in found {
            let trace = match Self::open(&path) {
                Ok(trace) => trace,
                Err(error) => {
                    damage.push(error);
                    continue;
                }
            };
            let uuid = trace.declarations.uuid;
            match traces.iter_mut().find(|known| uuid.is_some() && known.declarations.uuid == uuid) {
                Some(known) => known.join(trace),
                None => traces.push(trace),
            }
        }
        match traces.first_mut() {
            Some(first) => first.damage.append(&mut damage),
            None => damage.into_iter().next().map_or(Ok(()), Err)?,
        }
        Ok(traces)
    }

    /// Takes over another part of the same trace.
    fn join(&mut self, mut other: Self) {
        let declared = |trace: &Self| trace.declarations.streams().count() + trace.declarations.events().len();
        if declared(self) < declared(&other) {
            core::mem::swap(self, &mut other);
        }
        self.damage.append(&mut other.damage);
        for stream in other.streams {
            let key = (stream.class_id, stream.instance_id);
            let same = self.streams.iter_mut().find(|own| own.instance_id.is_some() && (own.class_id, own.instance_id) == key);
            match same {
                Some(own) => {
                    own.files.extend(stream.files);
                    own.is_of_another_trace |= stream.is_of_another_trace;
                }
                None => self.streams.push(stream),
            }
        }
        self.sort();
    }

    /// Opens a trace in memory: its metadata, and its streams with names for messages.
    ///
    /// # Errors
    ///
    /// [`Error::is_metadata`] or [`Error::is_unsupported`].
    pub fn in_memory(metadata: &[u8], streams: impl IntoIterator<Item = (impl AsRef<Path>, Vec<u8>)>) -> Result<Self> {
        let mut trace = Self::new(PathBuf::new(), super::file::parse(metadata)?);
        let file = |(name, bytes): (_, Vec<u8>)| StreamFile::new(AsRef::<Path>::as_ref(&name), Some(bytes));
        trace.find_streams(streams.into_iter().map(file).collect());
        Ok(trace)
    }

    fn new(path: PathBuf, metadata: Metadata) -> Self {
        let Metadata { declarations, format, cut } = metadata;
        Self { path, declarations: Arc::new(declarations), format, streams: Vec::new(), damage: cut.into_iter().collect() }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The form of its metadata.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What the metadata declares.
    pub fn declarations(&self) -> &Declarations {
        &self.declarations
    }

    /// The streams, by class and instance.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Stream files that could not be opened or begin with a damaged packet, files that are [no streams](Error::is_no_stream), a cut
    /// end of the metadata, and other traces of [`Trace::open_all`] that could not be opened.
    pub fn damage(&self) -> &[Error] {
        &self.damage
    }

    /// Takes the errors of [`Trace::damage`].
    pub fn take_damage(&mut self) -> Vec<Error> {
        core::mem::take(&mut self.damage)
    }

    /// Reads a stream.
    pub fn packets(&self, stream: &Stream) -> Packets {
        Packets::new(self.declarations.clone(), stream.files.iter().cloned())
    }

    /// When the last packet ends, in nanoseconds from the Unix epoch. Only headers are read, where they tell it.
    pub fn end(&self) -> Option<i64> {
        self.streams.iter().filter_map(|stream| self.packets(stream).end()).max()
    }

    /// Reads all events in the order of their time stamps.
    pub fn merge(&self) -> Merge {
        Merge::new([self])
    }

    fn find_files(&self) -> Result<Vec<StreamFile>> {
        let entries = fs::read_dir(&self.path).map_err(|error| Error::io(&self.path, error))?;
        let is_stream = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
            name != b"metadata" && !name.starts_with(b".") && path.is_file()
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_stream).collect();
        files.sort();
        Ok(files.into_iter().map(|path| StreamFile::new(&path, None)).collect())
    }

    /// Groups files by the stream that their first packets belong to.
    fn find_streams(&mut self, files: Vec<StreamFile>) {
        let mut grouped: BTreeMap<(u64, u64), Stream> = BTreeMap::new();
        for mut file in files {
            match Packets::new(self.declarations.clone(), [file.clone()]).first_info() {
                None => {}
                Some(Err(_)) if file.is_foreign(&self.declarations) => {
                    self.damage.push(Kind::NoStream { path: file.path.clone() }.into());
                }
                Some(Err(error)) => self.damage.push(error),
                Some(Ok(info)) => {
                    file.begin = info.timestamp_begin;
                    let (class_id, instance_id) = (info.stream_class_id, info.stream_instance_id);
                    let is_of_another_trace = info.is_of_another_trace;
                    let Some(instance) = instance_id else {
                        self.streams.push(Stream { class_id, instance_id, files: vec![file], is_of_another_trace });
                        continue;
                    };
                    let new = Stream { class_id, instance_id, files: Vec::new(), is_of_another_trace };
                    let stream = grouped.entry((class_id, instance)).or_insert(new);
                    stream.files.push(file);
                    stream.is_of_another_trace |= is_of_another_trace;
                }
            }
        }
        self.streams.extend(grouped.into_values());
        self.sort();
    }

    /// Sorts streams by their numbers, and the files of each by time.
    fn sort(&mut self) {
        self.streams.sort_by_key(|stream| (stream.class_id, stream.instance_id));
        self.streams.iter_mut().for_each(|stream| stream.files.sort_by_key(|file| file.begin));
    }
}

impl Stream {
    /// Its class.
    pub fn class_id(&self) -> u64 {
        self.class_id
    }

    /// Its number within the class.
    pub fn instance_id(&self) -> Option<u64> {
        self.instance_id
    }

    /// Whether one of its files begins with a packet that says that it is of a trace of another UUID than the metadata's. It is read
    /// all the same, as that metadata describes it.
    pub fn is_of_another_trace(&self) -> bool {
        self.is_of_another_trace
    }

    /// Its files, in the order of their time stamps.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| &*file.path)
    }
}

/// Decodes packets in memory by a schema that was not written.
#[derive(Debug)]
pub struct Decoder {
    uuid: [u8; 16],
    parser: Parser,
    declarations: Option<Arc<Declarations>>,
}

impl Decoder {
    /// Takes over a schema.
    ///
    /// # Errors
    ///
    /// [`Error::is_metadata`] where the schema makes no sense, as with two stream classes of one ID.
    pub fn new(schema: &Schema) -> Result<Self> {
        // By way of the text, so that what is shown here is what a reader of the written trace would show.
        let mut parser = Parser::new();
        parser.append(&metadata::write(schema))?;
        Ok(Self { uuid: schema.trace.uuid, parser, declarations: None })
    }

    /// Adds an event class.
    ///
    /// # Errors
    ///
    /// As for [`Decoder::new`].
    pub fn add(&mut self, class: &EventClass) -> Result<()> {
        self.declarations = None;
        self.parser.append(&metadata::event(class))
    }

    /// What has been taken over so far.
    pub fn declarations(&self) -> &Declarations {
        self.parser.declarations()
    }

    /// Makes a packet of event records as they lie in a ring; the header's sizes are not looked at.
    ///
    /// # Errors
    ///
    /// [`Error::is_corrupt`] where the header names a stream class that the schema lacks.
    pub fn packet(&mut self, header: &PacketHeader, content: &[u8]) -> Result<Packet> {
        let size = HEADER_LEN + content.len();
        let header = PacketHeader { content_bits: size as u64 * 8, packet_bits: size as u64 * 8, ..*header };
        let place = Place::default();
        let mut bytes = Bytes::default();
        bytes.resize(size).map_err(|_| Error::corrupt(place.clone(), format!("packet of {size} bytes: no memory for it")))?;
        let (head, rest) = bytes.get_mut().split_at_mut(HEADER_LEN);
        head.copy_from_slice(&header.encode(&self.uuid));
        rest.copy_from_slice(content);
        let parser = &self.parser;
        let declarations = self.declarations.get_or_insert_with(|| Arc::new(parser.declarations().clone()));
        let opening = Packet::open(declarations, bytes.get_mut(), &place)?;
        Ok(Packet::new(declarations, bytes, place, opening))
    }
}
