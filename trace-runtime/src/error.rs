use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use trace_registry::registry::some_of;

/// What went wrong with a session, a rule or a file, and what to do about it.
///
/// The message is for people, and has the causes; so [`source`](std::error::Error::source) does not repeat them. Programs ask the `is_*`
/// predicates.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Kind>);

/// The message, so that `main` may return the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error("{0}")]
    Rule(trace_filter::Error),
    #[error("no probe is called `{name}`{}", hint(.near, .unprobed))]
    UnknownName { name: String, near: Vec<String>, unprobed: Option<String> },
    #[error("`{name}` stands for more than one probe: {}; give the whole name", some_of(.candidates))]
    Ambiguous { name: String, candidates: Vec<String> },
    #[error(
        "`{0}` cannot name a context field: use letters, digits and `_`, and none of vpid, vtid, cpu, nesting, procname, thread_name, threads, none"
    )]
    ContextName(&'static str),
    #[error("another function provides the context field `{0}` already; give this one another name")]
    ContextTaken(&'static str),
    #[error("a program has at most {0} context fields of its own")]
    TooManyContexts(usize),
    #[error("a session called `{0}` exists already; give this one another name, or stop that one first")]
    SessionExists(String),
    #[error("`{0}` cannot name a session: use letters, digits, `-`, `_` and `.`, at most 64 characters, not beginning with `.`")]
    SessionName(String),
    #[error("{0}")]
    Memory(String),
    #[error("{action} {}: {}", .path.display(), Chain(.cause))]
    Io { action: &'static str, path: PathBuf, cause: io::Error },
    #[error(
        "recording ended: {} cannot be written: {}; what was written before is a complete trace; fix the cause, or choose another \
         output, then start a new session", .path.display(), Chain(.cause)
    )]
    Output { path: PathBuf, cause: io::Error },
    #[error(
        "recording ended: {} was removed, and what had been written there is gone; choose another output, then start a new session",
        .0.display()
    )]
    Removed(PathBuf),
    #[error(
        "{} cannot be written: {}; what the trace lacks is not lost, it stays in {place}: make room and run `ringtrace recover \
         {place}`, or give it --output DIR to have the trace built elsewhere", .path.display(), Chain(.cause), place = .rings.display()
    )]
    Unrecovered { path: PathBuf, rings: PathBuf, cause: io::Error },
    #[error("tracing is off in this process: {0}")]
    Off(&'static str),
    #[error("an event of class `{class}` takes at least {least} bytes; the largest record of this session is {limit}")]
    ClassTooLarge { class: &'static str, least: usize, limit: usize },
    #[error("{retired} replaced probe lists wait for their grace period (limit {limit}); try again in a few milliseconds")]
    TooManyRetired { retired: usize, limit: usize },
    #[error("the session `{0}` is being stopped by another thread; try again when that is done")]
    Stopping(String),
    #[error(
        "a probe that was running when the session `{0}` was stopped has not returned within {1} s; the trace holds what was \
         committed, and the rings stay mapped"
    )]
    Stuck(String, u64),
    #[error(
        "the session `{0}` is no flight recorder: it is in discard mode, and its trace is written while it records; make it with \
         `overwrite()`, or `--overwrite`, to take snapshots"
    )]
    NoFlightRecorder(String),
    #[error("the session `{0}` does not record; what it recorded is in its trace")]
    Delivered(String),
    #[error("the session `{1}` has a trigger called `{0}` already; give this one another name, or remove that one")]
    TriggerExists(String, String),
    #[error("the session `{0}` has {1} triggers, which is the most that a session has; remove one")]
    TooManyTriggers(String, usize),
    #[error("the session `{session}` has no trigger called `{name}`; {}", there_are(.names))]
    NoTrigger { name: String, session: String, names: Vec<String> },
    #[error("cannot recover {}: {why}", .path.display())]
    InUse { path: PathBuf, why: &'static str },
    #[error("no module is called `{name}`; {}", if .loaded.is_empty() { "none is loaded".to_owned() } else { format!("loaded: {}", .loaded.join(", ")) })]
    NoModule { name: String, loaded: Vec<String> },
    #[error("cannot load the module {}: {why}", .path.display())]
    Module { path: PathBuf, why: String },
    #[error(
        "the module {name} is detached, but not unloaded: a probe or state dump of it ({}) has not returned within {limit:?}; it is \
         unloaded when that returns", .probes.join(", ")
    )]
    ModuleStuck { name: String, probes: Vec<String>, limit: std::time::Duration },
    #[error("{0} cannot be called from inside a probe: it would wait for that probe to end")]
    InsideProbe(&'static str),
}

/// Where in a text the mistake is.
pub(crate) enum Place<'e> {
    /// Behind so many characters of this text; with what is wrong there, and what to do about it.
    At { problem: &'e str, remedy: &'e str, text: &'e str, at: usize },
    /// Where this name stands.
    Name(&'e str),
    /// Where this option of a session is given.
    Option(&'static str),
    /// Where this file or directory is named, or one above it.
    Path(&'e Path),
}

fn there_are(names: &[String]) -> String {
    if names.is_empty() { "it has none".to_owned() } else { format!("there are: {}", names.join(", ")) }
}

fn hint(near: &[String], unprobed: &Option<String>) -> String {
    match (unprobed, near) {
        (Some(text), _) => format!(": {text}"),
        (None, []) => "; `ringtrace list`, or `ringtrace::registry::probes()`, tells all there are".to_owned(),
        (None, near) => format!("; did you mean `{}`?", near.join("`, `")),
    }
}

impl Error {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, cause: impl Into<io::Error>) -> Error {
        Kind::Io { action, path: path.into(), cause: cause.into() }.into()
    }

    /// An error about the bytes `span` of the rules `text`.
    pub(crate) fn rule(text: &str, span: Range<usize>, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        Kind::Rule(trace_filter::Error::at(text, span, problem, remedy)).into()
    }

    /// An error about an expression or a key that begins at byte `offset` of the rules `text`.
    pub(crate) fn from_filter(error: trace_filter::Error, text: &str, offset: usize) -> Error {
        Kind::Rule(error.within(text, offset)).into()
    }

    /// The same error, where the rules begin at byte `offset` of `text`.
    pub(crate) fn shifted(self, text: &str, offset: usize) -> Error {
        match *self.0 {
            Kind::Rule(error) => Kind::Rule(error.within(text, offset)).into(),
            other => other.into(),
        }
    }

    /// Where in the text that asked for it the mistake is, if that is known.
    pub(crate) fn place(&self) -> Option<Place<'_>> {
        match &*self.0 {
            Kind::Rule(error) => {
                let at = error.text().get(..error.span().start).map_or(0, |head| head.chars().count());
                Some(Place::At { problem: error.problem(), remedy: error.remedy(), text: error.text(), at })
            }
            Kind::UnknownName { name, .. } | Kind::Ambiguous { name, .. } => Some(Place::Name(name)),
            Kind::Memory(_) => Some(Place::Option("memory")),
            Kind::SessionName(_) | Kind::SessionExists(_) => Some(Place::Option("session")),
            Kind::NoFlightRecorder(_) => Some(Place::Option("snapshot")),
            Kind::Io { path, .. } => Some(Place::Path(path)),
            _ => None,
        }
    }

    /// Whether a probe module does not fit the program, or has a probe that does not return.
    pub fn is_module(&self) -> bool {
        matches!(*self.0, Kind::Module { .. } | Kind::ModuleStuck { .. })
    }

    /// Whether a rule is wrong: its words, or an exact name that nothing has.
    pub fn is_rule(&self) -> bool {
        matches!(*self.0, Kind::Rule(_) | Kind::UnknownName { .. } | Kind::Ambiguous { .. })
    }

    /// Whether an exact name is that of nothing here, not even of a tracepoint without a probe.
    pub(crate) fn names_nothing(&self) -> bool {
        matches!(*self.0, Kind::UnknownName { unprobed: None, .. } | Kind::NoTrigger { .. } | Kind::NoModule { .. })
    }

    /// Whether a probe did not return while a session was stopped.
    pub(crate) fn is_stuck(&self) -> bool {
        matches!(*self.0, Kind::Stuck(..))
    }

    /// Whether a file or directory could not be used.
    pub fn is_io(&self) -> bool {
        matches!(*self.0, Kind::Io { .. } | Kind::Output { .. } | Kind::Removed(_) | Kind::Unrecovered { .. })
    }

    /// Whether something else lies where a file or directory was to be made.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(&*self.0, Kind::Io { cause, .. } if cause.kind() == io::ErrorKind::AlreadyExists)
    }

    /// Whether a memory ceiling is too small.
    pub fn is_memory(&self) -> bool {
        matches!(*self.0, Kind::Memory(_))
    }

    /// Whether another session has the name.
    pub fn is_session_exists(&self) -> bool {
        matches!(*self.0, Kind::SessionExists(_))
    }

    /// Whether tracing is off in this process, for instance after fork(2) or by `RINGTRACE=off`.
    pub fn is_off(&self) -> bool {
        matches!(*self.0, Kind::Off(_))
    }

    /// Whether the same call may succeed a little later.
    pub fn is_busy(&self) -> bool {
        matches!(*self.0, Kind::TooManyRetired { .. } | Kind::Stopping(_) | Kind::InUse { .. })
    }

    /// The same failure of an output, for another caller.
    pub(crate) fn again(&self) -> Error {
        let (path, kind, cause) = match &*self.0 {
            Kind::Removed(path) => return Kind::Removed(path.clone()).into(),
            Kind::Output { path, cause } => (path.clone(), cause.kind(), cause.to_string()),
            Kind::Io { path, cause, .. } => (path.clone(), cause.kind(), self.to_string()),
            _ => (PathBuf::new(), io::ErrorKind::Other, self.to_string()),
        };
        Kind::Output { path, cause: io::Error::new(kind, cause) }.into()
    }

    /// The same failure of an output that was to get what the rings of the session in `rings` hold: that stays there.
    pub(crate) fn unrecovered(self, rings: &Path) -> Error {
        let is_full = |cause: &io::Error| {
            matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
        };
        match *self.0 {
            Kind::Output { path, cause } => Kind::Unrecovered { path, rings: rings.to_owned(), cause }.into(),
            Kind::Io { path, cause, .. } if is_full(&cause) => Kind::Unrecovered { path, rings: rings.to_owned(), cause }.into(),
            other => other.into(),
        }
    }

    /// Returns the file or directory concerned.
    pub fn path(&self) -> Option<&Path> {
        match &*self.0 {
            Kind::Io { path, .. } | Kind::Output { path, .. } | Kind::Unrecovered { path, .. } | Kind::Removed(path) => {
                Some(path)
            }
            _ => None,
        }
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Error {
        Error(Box::new(kind))
    }
}

/// A cause with its own causes, in one line.
struct Chain<'a>(&'a io::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = std::error::Error::source(self.0);
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_told_again_says_the_same() {
        let source = io::Error::from_raw_os_error(28);
        let error = Error::from(Kind::Output { path: "trace/events_0".into(), cause: source });
        let told = error.to_string();
        assert_eq!(told.matches("No space left on device").count(), 1, "{told}");
        assert_eq!(error.again().to_string(), told);
        assert_eq!(error.again().again().to_string(), told);
    }

    #[test]
    fn an_error_says_its_cause_once_however_it_is_shown() {
        let cause = io::Error::other(Error::io("cannot read", "inner", io::Error::from_raw_os_error(13)));
        let error = Error::io("cannot open", "outer", cause);
        let told = "cannot open outer: cannot read inner: Permission denied (os error 13)";
        assert_eq!((error.to_string(), format!("{error:?}")), (told.to_owned(), told.to_owned()));
        // What prints a chain goes from here to the source.
        assert!(std::error::Error::source(&error).is_none());
    }
}
