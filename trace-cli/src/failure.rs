//! What goes wrong, what to do about it, and what the shell is told.

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use trace_control::terminal::{escaped, printable};

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  everything was done; also when the reader of the output went away
  1  nothing could be done
  2  wrong usage
  3  a part could not be read or done, the rest was: a trace is cut or damaged, or one of several processes refused
  4  no such process: none can be traced, or not the one that was named
  5  why, doctor, check: something is not as it should be
`run` ends with the exit code of its program, 128 and the number of the signal that killed it, 126 or 127 where it
cannot be started; 2, without starting it, where its rules or options cannot be read.";

/// A part could not be done.
pub(crate) const PARTLY: u8 = 3;
/// Something is not as it should be.
pub(crate) const UNWELL: u8 = 5;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A trace could not be read.
    Trace(trace_ctf::Error),
    /// No trace was named and none lies here.
    NothingHere { directory: String, error: Option<io::Error> },
    /// The output could not be written.
    Output(io::Error),
    /// No process is meant.
    NoProcess(String),
    /// A process refused, or cannot be reached.
    Process { name: String, error: trace_control::Error },
    /// What a process left cannot be recovered.
    Runtime(Box<trace_runtime::Error>),
    /// The command line asks for something that is not there.
    Wrong(String),
    /// The command line cannot be read.
    Usage(String),
    /// A file or directory that the command line names.
    File { path: PathBuf, error: io::Error },
}

impl Failure {
    pub(crate) fn file(path: &Path, error: io::Error) -> Failure {
        Self::File { path: path.to_owned(), error }
    }

    /// Whether whoever read the output went away, which is no failure.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether standard output is gone, so that nothing more can be told.
    pub(crate) fn is_output(&self) -> bool {
        matches!(self, Self::Output(_))
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoProcess(_) => 4,
            Self::Usage(_) => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => write!(f, "{error}\n  {}", remedy(error)),
            Self::NothingHere { directory, error: Some(error) } => {
                write!(f, "{directory}: {error}\n  name the directory of a trace, or one above it")
            }
            Self::NothingHere { directory, error: None } => {
                write!(f, "{directory}: no directory *.ringtrace in it\n  name the directory of a trace, or one above it")
            }
            Self::NoProcess(text) | Self::Wrong(text) | Self::Usage(text) => f.write_str(text),
            Self::Process { name, error } => write!(f, "{name}: {error}"),
            Self::Runtime(error) => write!(f, "{error}"),
            Self::File { path, error } => {
                write!(f, "{}: {error}", path.display())?;
                match error.kind() {
                    io::ErrorKind::AlreadyExists => {
                        f.write_str("\n  nothing is overwritten: name a place where there is nothing yet")
                    }
                    io::ErrorKind::NotFound => f.write_str("\n  check that it exists, and the directory above it"),
                    io::ErrorKind::PermissionDenied => f.write_str("\n  check that you may use it, or name another place"),
                    io::ErrorKind::StorageFull => f.write_str("\n  make room, or name another place"),
                    _ => Ok(()),
                }
            }
            Self::Output(error) => write!(f, "standard output: {error}\n  is the disk full?"),
        }
    }
}

impl From<trace_ctf::Error> for Failure {
    fn from(error: trace_ctf::Error) -> Self {
        Self::Trace(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Whether a file was named in place of a directory.
fn is_file(error: &trace_ctf::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::NotADirectory)
}

/// What to do about an error.
pub(crate) fn remedy(error: &trace_ctf::Error) -> &'static str {
    if error.is_no_trace() {
        "name the directory that holds the file `metadata`, or one above it"
    } else if error.is_no_stream() {
        "it is passed over; keep it elsewhere: babeltrace2 refuses a trace that has such a file"
    } else if is_file(error) {
        "name the directory of the trace, not a file in it"
    } else if error.is_io() {
        "check that it exists and that you may read it"
    } else if error.is_unsupported() {
        "CTF 1.8 and 2 are read, with integers of up to 128 bits (labels, lengths and time stamps: 64), floats of up to 64, and one \
         clock for each stream class; a newer babeltrace2 may read more"
    } else if error.is_truncated() {
        "its writer ended inside this packet; every event that is whole was read"
    } else if error.is_corrupt() {
        "what follows in this stream was left out; the other streams were read"
    } else {
        "the metadata is damaged; the streams cannot be read without it"
    }
}

/// Whether what is told is JSON.
static JSON: AtomicBool = AtomicBool::new(false);

/// From now on what is told on the standard error stream is JSON, too.
pub(crate) fn tell_in_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Tells of something that was not done.
pub(crate) fn error(what: fmt::Arguments<'_>) {
    tell("error", "error: ", what);
}

/// Tells of something that was done, and is not as it may be expected.
pub(crate) fn warning(what: fmt::Arguments<'_>) {
    tell("warning", "warning: ", what);
}

/// Tells of what a process finds questionable.
pub(crate) fn warnings(all: &[String]) {
    all.iter().for_each(|one| warning(format_args!("{one}")));
}

/// Tells of something that is worth knowing.
pub(crate) fn note(what: fmt::Arguments<'_>) {
    tell("note", "", what);
}

/// As well as that is possible.
fn tell(kind: &str, word: &str, what: fmt::Arguments<'_>) {
    let line = match JSON.load(Ordering::Relaxed) {
        true => escaped(&format!("{}\n", json!({ kind: what.to_string() }))).into_owned(),
        false => printable(&format!("ringtrace: {word}{what}\n")).into_owned(),
    };
    // One write, so that what others write to the same place stands before or behind it.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}
