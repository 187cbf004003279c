use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Any failure of this crate; what it is about is told by the predicates.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Kind>);

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        // In a box: what is returned for each event is to be small.
        Self(Box::new(kind))
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: no trace here: {what}", path.display())]
    NoTrace { path: PathBuf, what: &'static str },
    #[error("{}: no stream of this trace: it begins with no packet", path.display())]
    NoStream { path: Arc<Path> },
    #[error("{file}line {line}: {what}", file = Prefix(path))]
    Metadata { path: Option<PathBuf>, line: u32, what: Cow<'static, str> },
    #[error("{file}line {line}: {what} is not supported", file = Prefix(path))]
    Unsupported { path: Option<PathBuf>, line: u32, what: Cow<'static, str> },
    #[error("{0}")]
    NoWord(Cow<'static, str>),
    #[error("invalid event class: {0}")]
    Schema(Cow<'static, str>),
    #[error("{place}: {what}")]
    Corrupt { place: Place, what: Cow<'static, str> },
    #[error("{place}: truncated: {needed} bytes needed, {available} available")]
    Truncated { place: Place, needed: u64, available: u64 },
}

/// Where in a trace's data an error lies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) stream: Option<Arc<Path>>,
    pub(crate) packet: u64,
    pub(crate) offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stream {
            Some(path) => write!(f, "{}: packet {}, byte {}", path.display(), self.packet, self.offset),
            None => write!(f, "packet {}, byte {}", self.packet, self.offset),
        }
    }
}

struct Prefix<'a>(&'a Option<PathBuf>);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(path) => write!(f, "{}: ", path.display()),
            None => f.write_str("metadata "),
        }
    }
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Kind::Io { path: path.to_owned(), source }.into()
    }

    pub(crate) fn schema(what: impl Into<Cow<'static, str>>) -> Self {
        Kind::Schema(what.into()).into()
    }

    pub(crate) fn metadata(line: u32, what: impl Into<Cow<'static, str>>) -> Self {
        Kind::Metadata { path: None, line, what: what.into() }.into()
    }

    pub(crate) fn unsupported(line: u32, what: impl Into<Cow<'static, str>>) -> Self {
        Kind::Unsupported { path: None, line, what: what.into() }.into()
    }

    pub(crate) fn corrupt(place: Place, what: impl Into<Cow<'static, str>>) -> Self {
        Kind::Corrupt { place, what: what.into() }.into()
    }

    /// Names what an error in metadata was found in.
    pub(crate) fn within(mut self, whole: impl fmt::Display) -> Self {
        if let Kind::Metadata { what, .. } | Kind::Unsupported { what, .. } = &mut *self.0 {
            *what = format!("{whole}: {what}").into();
        }
        self
    }

    /// Names the file of an error that was found in text.
    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        if let Kind::Metadata { path, .. } | Kind::Unsupported { path, .. } = &mut *self.0 {
            *path = Some(file.to_owned());
        }
        self
    }

    /// Whether a file or directory could not be read.
    pub fn is_io(&self) -> bool {
        matches!(*self.0, Kind::Io { .. })
    }

    /// Whether the directory holds no trace.
    pub fn is_no_trace(&self) -> bool {
        matches!(*self.0, Kind::NoTrace { .. })
    }

    /// Whether a file beside the streams is none: nothing of a packet is at its beginning, as in notes and copies of an editor.
    pub fn is_no_stream(&self) -> bool {
        matches!(*self.0, Kind::NoStream { .. })
    }

    /// Whether the metadata text is malformed.
    pub fn is_metadata(&self) -> bool {
        matches!(*self.0, Kind::Metadata { .. })
    }

    /// Whether the metadata is well-formed but uses a construct that this reader does not know, or that a form of metadata has no
    /// word for.
    pub fn is_unsupported(&self) -> bool {
        matches!(*self.0, Kind::Unsupported { .. } | Kind::NoWord(_))
    }

    /// Whether an event class given by the caller cannot be expressed.
    pub fn is_schema(&self) -> bool {
        matches!(*self.0, Kind::Schema(_))
    }

    /// Whether a data stream contradicts its metadata or itself.
    pub fn is_corrupt(&self) -> bool {
        matches!(*self.0, Kind::Corrupt { .. })
    }

    /// Whether a data stream ends inside a packet, as after a crash of its writer; what precedes it was whole.
    pub fn is_truncated(&self) -> bool {
        matches!(*self.0, Kind::Truncated { .. })
    }

    /// The stream file the error lies in, where it lies in one, or the file that is none.
    pub fn stream(&self) -> Option<&Path> {
        match &*self.0 {
            Kind::NoStream { path } => Some(path),
            _ => self.place()?.stream.as_deref(),
        }
    }

    /// Number of the packet in its stream file, from 0.
    pub fn packet(&self) -> Option<u64> {
        Some(self.place()?.packet)
    }

    /// Offset in the stream file, in bytes.
    pub fn byte_offset(&self) -> Option<u64> {
        Some(self.place()?.offset)
    }

    fn place(&self) -> Option<&Place> {
        match &*self.0 {
            Kind::Corrupt { place, .. } | Kind::Truncated { place, .. } => Some(place),
            _ => None,
        }
    }
}
