//! What is said over the control socket: one JSON object per line, a request and then its answer.
//!
//! ```text
//! → {"v":1,"id":7,"do":"enable","with":{"session":"default","rules":"storage:*"}}
//! ← {"v":1,"id":7,"ok":{"session":"default","probes":12,"warnings":[]}}
//! ← {"v":1,"id":7,"error":{"kind":"rule","message":"…"}}
//! ```
//!
//! Requests of one connection are answered in their order. `id` is any JSON value, and returned. An answer may have members
//! that this version does not know; a request may not: what it asks for would silently not be done.
//!
//! One file, because it is what docs/control-protocol.md describes, and is read beside it.

mod aggregates;
mod triggers;

pub use aggregates::{
    Aggregate, AggregateBucket, AggregateGroup, AggregateLosses, AggregateNumber, Aggregates, Aggregating, Steps,
};
pub use triggers::{After, Firing, Firings, Saved, TriggerState, Triggered, Triggers, Untrigger};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use std::path::PathBuf;

/// Version of the protocol. A change that an older peer would misunderstand changes it.
pub const VERSION: u32 = 1;
/// Most bytes of a request, its line end included.
pub const LONGEST_REQUEST: usize = 64 << 10;
/// Most bytes of an answer, its line end included. `list` of 10 000 tracepoints has some 6 MiB.
pub const LONGEST_ANSWER: usize = 64 << 20;
/// Most bytes of the answer to `hello`, so that many processes can be asked at once.
pub const LONGEST_GREETING: usize = 1 << 20;

/// A request's line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// [`VERSION`].
    pub v: u32,
    /// Returned with the answer.
    #[serde(default)]
    pub id: Value,
    /// What to do: a name of [`Request::NAMES`].
    #[serde(rename = "do")]
    pub verb: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub with: Value,
}

/// What a process can be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", content = "with", rename_all = "kebab-case")]
pub enum Request {
    /// Who are you? → [`Process`].
    Hello,
    /// The kernel lets me look into you. → nothing.
    Prove(Proof),
    /// What can be traced? → [`Listing`].
    List,
    /// What is recorded and lost? → [`Status`].
    Status,
    /// Make a session and start it. → [`SessionState`].
    Create(Box<SessionPlan>),
    /// Let a session end with this connection, as one that was followed into a child and has lost its own. → [`SessionState`].
    Bind(SessionName),
    /// Record what rules match. → [`Changed`].
    Enable(Rules),
    /// Record it no longer. → [`Changed`].
    Disable(Rules),
    /// Record again after `stop`. → [`SessionState`].
    Start(SessionName),
    /// Stop recording and deliver. → [`SessionState`].
    Stop(SessionName),
    /// Stop, deliver, and forget the session. → [`SessionState`].
    Destroy(SessionName),
    /// Count events for a while. → [`Hits`].
    Watch(Watch),
    /// Why is an event recorded, or not? → [`Diagnosis`].
    Why(Why),
    /// Is anything wrong with tracing here? → [`Diagnosis`].
    Doctor,
    /// Write what a session in overwrite mode holds as a trace of its own. → [`Receipt`].
    Snapshot(Snapshot),
    /// Add triggers to a session. → [`Triggered`].
    Trigger(Triggers),
    /// Remove a trigger. → [`Triggered`].
    Untrigger(Untrigger),
    /// Wait for firings that a trigger notifies of. → [`Firings`].
    Firings(After),
    /// Which rules name something here? → [`Named`].
    Named(RuleText),
    /// Which probe modules are loaded? → [`Modules`].
    Modules,
    /// Load a probe module. → [`Module`].
    LoadModule(LoadModule),
    /// Unload a probe module. → [`Module`].
    UnloadModule(UnloadModule),
    /// Begin an aggregation, which ends with this connection. → [`Aggregating`].
    Aggregate(Aggregate),
    /// Figures of an aggregation of this connection. → [`Aggregates`].
    Aggregates(AggregateNumber),
}

impl Request {
    /// The names of all requests.
    pub const NAMES: [&str; 24] = [
        "hello",
        "prove",
        "list",
        "status",
        "create",
        "bind",
        "enable",
        "disable",
        "start",
        "stop",
        "destroy",
        "watch",
        "why",
        "doctor",
        "snapshot",
        "trigger",
        "untrigger",
        "firings",
        "named",
        "modules",
        "load-module",
        "unload-module",
        "aggregate",
        "aggregates",
    ];

    /// Reads the request of an envelope.
    ///
    /// # Errors
    ///
    /// Another version, an unknown request, or arguments that do not belong to it.
    pub fn of(envelope: Envelope) -> Result<Request, Refusal> {
        let Envelope { v, verb, with, .. } = envelope;
        if v != VERSION {
            let message =
                format!("this program speaks version {VERSION} of the control protocol, and the request is of version {v}");
            return Err(Refusal::new(RefusalKind::Version, message));
        }
        if !Self::NAMES.contains(&verb.as_str()) {
            let message = format!("unknown request `{verb}`; this program knows {}", Self::NAMES.join(", "));
            return Err(Refusal::new(RefusalKind::UnknownRequest, message));
        }
        let mut object = serde_json::Map::from_iter([("do".to_owned(), Value::from(verb.as_str()))]);
        if !with.is_null() && with != Value::Object(serde_json::Map::new()) {
            object.insert("with".to_owned(), with);
        }
        serde_json::from_value(Value::Object(object))
            .map_err(|error| Refusal::new(RefusalKind::BadRequest, format!("`{verb}`: {error}")))
    }

    /// Returns the request as a line.
    pub fn to_line(&self, id: u64) -> String {
        // The types hold nothing that JSON cannot say.
        let mut object = serde_json::to_value(self).unwrap_or_default();
        object["v"] = VERSION.into();
        object["id"] = id.into();
        format!("{object}\n")
    }
}

/// An answer's line, as it is written.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// [`VERSION`] of the program.
    v: u32,
    /// The request's.
    id: Value,
    /// What was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<Value>,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
}

impl Answer {
    /// Makes the line of an answer. What is longer than an answer may be becomes a refusal.
    pub fn line(id: Value, result: Result<Value, Refusal>) -> String {
        let (ok, error) = match result {
            Ok(value) => (Some(value), None),
            Err(refusal) => (None, Some(refusal)),
        };
        let answer = Answer { v: VERSION, id, ok, error };
        let line = format!("{}\n", serde_json::to_string(&answer).unwrap_or_default());
        if line.len() <= LONGEST_ANSWER {
            return line;
        }
        let message = format!("the answer would have {} bytes, and at most {LONGEST_ANSWER} are sent; ask for less", line.len());
        Answer::line(answer.id, Err(Refusal::new(RefusalKind::TooLong, message)))
    }
}

/// The version that an answer's line is of: all versions have it.
#[derive(Deserialize)]
pub(crate) struct VersionOnly {
    pub(crate) v: u32,
}

/// An answer's line, as it is read: of what is asked for, nothing is made before its type is known, so that it takes no more
/// memory than that.
#[derive(Deserialize)]
pub(crate) struct Received<'a> {
    #[serde(default, borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    ok: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) error: Option<Refusal>,
}

impl Received<'_> {
    /// Returns what was asked for as its type.
    ///
    /// # Errors
    ///
    /// The refusal; or the answer is not of that form, which is one too.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, Refusal> {
        match self {
            Received { error: Some(refusal), .. } => Err(refusal),
            Received { ok, .. } => serde_json::from_str(ok.map_or("null", RawValue::get))
                .map_err(|error| Refusal::new(RefusalKind::Version, format!("the answer is not understood: {error}"))),
        }
    }
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For programs.
    pub kind: RefusalKind,
    /// For people; may have several lines, the last of which points into a rule.
    pub message: String,
}

impl Refusal {
    /// Makes one.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into() }
    }
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RefusalKind {
    /// Peer and program speak different versions.
    Version,
    /// No such request.
    UnknownRequest,
    /// A line that is no request, or has wrong arguments.
    BadRequest,
    /// A line longer than [`LONGEST_REQUEST`].
    TooLong,
    /// Too many connections.
    TooMany,
    /// A rule is wrong.
    Rule,
    /// An exact name is that of nothing in the process.
    UnknownName,
    /// No session has the name.
    NoSession,
    /// Another session has the name.
    SessionExists,
    /// The process is guarded by the kernel, and the peer has not given the [proof](crate::proof) that it may look into it.
    Unproven,
    /// The program, or whoever started it, has not allowed it.
    Forbidden,
    /// A memory ceiling is too small.
    Memory,
    /// A file or directory could not be used.
    Io,
    /// Tracing is off.
    Off,
    /// May succeed a little later.
    Busy,
    /// Anything else.
    #[serde(other)]
    Other,
}

/// That the kernel lets a peer look into the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// What was found in it: see [`proof`](crate::proof).
    pub secret: String,
}

/// A process that can be traced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Process ID, in its own namespace.
    pub pid: u32,
    /// Clock ticks from boot to its start.
    pub start_time: u64,
    /// File name of the program.
    pub program: String,
    /// Its command line.
    pub command: Vec<String>,
    /// Version of ringtrace in it.
    pub ringtrace: String,
    /// Its working directory.
    pub directory: PathBuf,
    /// Number of tracepoints.
    pub tracepoints: usize,
    /// Names of its sessions.
    pub sessions: Vec<String>,
    /// Bytes that the rings of all sessions map.
    pub memory: u64,
    /// Most bytes that they may map.
    pub memory_ceiling: u64,
}

/// What can be traced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// The tracepoints, by name.
    pub tracepoints: Vec<Tracepoint>,
    /// The state dumps, by name.
    #[serde(default)]
    pub state_dumps: Vec<StateDump>,
}

/// A function that records the program's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateDump {
    /// The name that rules match.
    pub name: String,
    /// Source file and line.
    pub location: String,
    /// The sessions whose rules take it.
    pub sessions: Vec<String>,
}

/// The probe modules of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modules {
    /// In the order in which they were loaded.
    pub modules: Vec<Module>,
}

/// A probe module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its file.
    pub path: PathBuf,
    /// Names of its probes.
    pub probes: Vec<String>,
}

/// Which module to load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadModule {
    /// Its file: absolute, or from the process's working directory.
    pub path: PathBuf,
}

/// Which module to unload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnloadModule {
    /// Its name.
    pub name: String,
    /// How long to wait for probes that run, in ms.
    pub ms: u64,
}

/// A tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tracepoint {
    /// `crate:module::function`.
    pub name: String,
    /// As declared.
    pub signature: String,
    /// Source file and line of its declaration.
    pub location: String,
    /// Whether any probe of it runs.
    pub on: bool,
    /// Whether it may fire in signal handlers and allocators.
    pub reentrant: bool,
    /// Whether what it records becomes known when it is hit first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unhit: bool,
    /// Its probes. None: nothing can be recorded, unless it is `unhit`.
    pub probes: Vec<Probe>,
}

/// A probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The name that rules match and events have.
    pub name: String,
    /// Severity of its events.
    pub level: String,
    /// Source file and line.
    pub location: String,
    /// Whether it makes events; otherwise it only acts.
    pub records: bool,
    /// Fields of its events.
    pub fields: Vec<Field>,
    /// Names of values of a traced function that the events lack, because their types are no fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Sessions that record it now.
    pub sessions: Vec<String>,
    /// How often it panicked. After the first time it is detached.
    pub panics: u64,
}

/// A field of an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type, as `ringtrace formats` says it.
    #[serde(rename = "type")]
    pub class: String,
    /// Its unit; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Whether it is left out unless a session asks for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// What is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// When, in ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// The process.
    pub process: Process,
    /// Its sessions.
    pub sessions: Vec<SessionState>,
}

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// Its name.
    pub name: String,
    /// Whether it records now.
    pub recording: bool,
    /// Whether it ends with the connection that made it.
    pub bound: bool,
    /// Whether another process consumes its rings and writes the trace.
    #[serde(default)]
    pub external: bool,
    /// Whether children after fork(2) are recorded too.
    #[serde(default)]
    pub follow: bool,
    /// Its rules, in their order.
    pub rules: Vec<String>,
    /// Number of probes that its rules match.
    pub probes: usize,
    /// Number of state dumps that they match.
    #[serde(default)]
    pub state_dumps: usize,
    /// `discard` or `overwrite`.
    pub mode: String,
    /// Context fields of each record.
    pub context: Vec<String>,
    /// `compact` or `large`.
    pub header: String,
    /// Where the trace is written; `None`: it is printed.
    pub output: Option<PathBuf>,
    /// Where the rings lie; `None`: in memory without a name.
    pub rings: Option<PathBuf>,
    /// For how long it has existed, in ns.
    pub age_ns: u64,
    /// Events recorded.
    pub events: u64,
    /// Bytes of those delivered.
    pub bytes: u64,
    /// Bytes written to the output.
    pub written: u64,
    /// Bytes that its rings map.
    pub memory: u64,
    /// Bytes of memory that these take at the moment.
    pub resident: u64,
    /// Number of ring buffers.
    pub buffers: u32,
    /// Events lost, by cause.
    pub lost: Losses,
    /// Recorded events of which a value was cut to fit.
    pub cut: u64,
    /// Events that filters of its rules rejected.
    #[serde(default)]
    pub filtered: u64,
    /// Events that limits of its rules did not let through.
    #[serde(default)]
    pub limited: u64,
    /// Recorded events that its trace did not get, since their keys were not kept.
    #[serde(default, skip_serializing_if = "NotKept::is_none")]
    pub not_kept: NotKept,
    /// Its snapshots, if any was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<Snapshots>,
    /// Its triggers.
    #[serde(default)]
    pub triggers: Vec<TriggerState>,
    /// What it found questionable.
    pub warnings: Vec<String>,
    /// Why it can record no more.
    pub failure: Option<String>,
    /// What would make a session like this one, without a place for its trace.
    pub plan: SessionPlan,
}

/// The snapshots of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshots {
    /// How many of them are kept.
    pub kept: u64,
    /// Where they lie.
    pub directory: PathBuf,
}

/// `2 snapshots in service.snapshots`.
impl fmt::Display for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kept, directory } = self;
        write!(f, "{kept} snapshot{} in {}", if *kept == 1 { "" } else { "s" }, directory.display())
    }
}

/// Events lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// All causes.
    pub total: u64,
    /// The rings were full.
    pub full: u64,
    /// Overwritten by later ones.
    pub overwritten: u64,
    /// Larger than a record may be.
    pub too_large: u64,
    /// Nested too deeply.
    pub nested: u64,
    /// No ring for their CPU.
    pub no_buffer: u64,
    /// Their probe panicked.
    pub panicked: u64,
    /// Never completed.
    pub uncommitted: u64,
}

/// `205247 lost: the rings were full`; with several causes, each with its number.
impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = [
            (self.full, "the rings were full"),
            (self.overwritten, "overwritten by newer events"),
            (self.too_large, "too large for a record"),
            (self.nested, "nested too deeply"),
            (self.no_buffer, "no ring for them"),
            (self.panicked, "their probe panicked or ended its thread"),
            (self.uncommitted, "their thread ended in the middle"),
        ];
        write!(f, "{} lost", self.total)?;
        let causes: Vec<_> = causes.into_iter().filter(|(count, _)| *count > 0).collect();
        match causes[..] {
            [] => Ok(()),
            [(_, cause)] => write!(f, ": {cause}"),
            _ => causes.iter().enumerate().try_for_each(|(at, (count, cause))| {
                let separator = if at == 0 { ": " } else { ", " };
                write!(f, "{separator}{cause} ({count})")
            }),
        }
    }
}

/// Events that were left out, where events are kept by keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotKept {
    /// Nothing had marked their keys in time.
    pub events: u64,
    /// Those of them that were decided early, since a ring was half full.
    pub hurried: u64,
    /// Keys that were marked after events of theirs had been left out.
    pub late_keys: u64,
    /// Marked keys that were forgotten, since there were too many.
    pub forgotten_keys: u64,
}

impl NotKept {
    /// Whether nothing was left out.
    pub fn is_none(&self) -> bool {
        *self == NotKept::default()
    }
}

/// What a session is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionPlan {
    /// Its name.
    pub session: String,
    /// Its rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Its triggers: `when CONDITION then ACTIONS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<String>,
    /// Keeps the newest events when the rings are full.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
    /// Memory ceiling in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Size of the sub-buffers in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_buffer: Option<u32>,
    /// Directory below which the rings are kept, on disk. None: in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings: Option<PathBuf>,
    /// Context fields of each record: `vtid`, `vpid`, `cpu`, `nesting`, `procname`, `thread_name`, `threads`, and the program's
    /// own. None given: the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<String>>,
    /// `fast`, `ordered` or `os`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// Form of the trace's metadata: `ctf1.8` or `ctf2`. None: `ctf1.8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Records sensitive fields as they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// Children after fork(2) are recorded too, each into a directory of its own, `OUTPUT-PID`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Occasions of snapshots: names of signals, `panic`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshot_on: Vec<String>,
    /// The recording is cut into traces of about so many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate: Option<u64>,
    /// The recording is cut into traces of so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate_ms: Option<u64>,
    /// The oldest of these traces are removed when all have more bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
    /// Directory of the trace: absolute, or from the process's working directory. None: `./NAME-TIME.ringtrace` there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// Another process consumes the rings, `SESSION/rings` in the directory of the process image, and writes the trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// The session ends with the connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
}

/// Rules for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Its name.
    pub session: String,
    /// Separated by `;`.
    pub rules: String,
}

/// Rules, for no session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    /// Separated by `;`.
    pub rules: String,
}

/// Which rules name something that a process has. Of one that is wrong, that is not asked: it is refused where it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Each rule by itself.
    pub rules: Vec<NamedRule>,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRule {
    /// As it was written.
    pub rule: String,
    /// Whether it names something.
    pub names: bool,
}

/// A session's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionName {
    /// Its name.
    pub session: String,
}

/// What a change did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The session.
    pub session: String,
    /// Whether it records now; otherwise the rules wait for its start.
    pub recording: bool,
    /// Number of probes that the rules match.
    pub probes: usize,
    /// Number of state dumps that they match.
    #[serde(default)]
    pub state_dumps: usize,
    /// What is questionable about the rules.
    pub warnings: Vec<String>,
}

/// What to count, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Which probes.
    pub rules: String,
    /// For how many milliseconds, at most [`LONGEST_WATCH`].
    pub ms: u64,
}

/// Most milliseconds that a watch takes.
pub const LONGEST_WATCH: u64 = 60_000;

/// How often probes made an event while they were watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hits {
    /// For how long they were watched, in ns.
    pub ns: u64,
    /// By name of the probe; those without a hit too.
    pub hits: Vec<Hit>,
}

/// How often a probe made an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// Name of the probe.
    pub name: String,
    /// How often.
    pub count: u64,
    /// How long ago the last was, in ns; `None`: there was none.
    pub last_ns: Option<u64>,
}

/// Which event to explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// Its name, or the unique end of it.
    pub event: String,
    /// For how many milliseconds to watch whether it fires.
    pub ms: u64,
}

/// What to write, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Name of the session.
    pub session: String,
    /// Becomes a part of the trace, and of its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Only what happened in so many milliseconds before now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ms: Option<u64>,
    /// How many of the newest snapshots stay, this one included. Without it, as many as the session says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
}

/// What a snapshot holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The session.
    pub session: String,
    /// The trace directory.
    pub path: PathBuf,
    /// Why it was made.
    pub reason: String,
    /// Events in it.
    pub events: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// What it covers of each ring that had events.
    pub rings: Vec<Covered>,
    /// Events that were overwritten before they were copied.
    pub overwritten: u64,
    /// Events that are missing between the first and the last.
    pub lost: u64,
    /// Events that were left out, since their keys were not kept.
    #[serde(default)]
    pub not_kept: u64,
    /// Keys that were kept and of which there was no event any more.
    #[serde(default)]
    pub keys_gone: u64,
    /// Events of state dumps, which were run for it.
    #[serde(default)]
    pub state_events: u64,
    /// Whether a state dump had not returned in time, so that its rest is missing.
    #[serde(default)]
    pub state_late: bool,
}

/// What a snapshot covers of one ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    /// CPU or concurrency ID of the ring; `None`: the fallback region.
    pub cpu: Option<u32>,
    /// From this time, in ns of the trace's clock.
    pub begin_ns: u64,
    /// To this time.
    pub end_ns: u64,
    /// Events.
    pub events: u64,
    /// Whether older ones had been overwritten before.
    #[serde(default)]
    pub lapped: bool,
}

/// What was examined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The whole names of the events that were examined: one, or those of a traced function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// In the order in which they decide.
    pub findings: Vec<Finding>,
}

/// One thing that was examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is about, in a word.
    pub about: String,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found.
    pub says: String,
    /// What to do; empty: nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// This is why nothing is recorded, or something else is wrong.
    Bad,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str) -> Result<Request, Refusal> {
        let envelope = serde_json::from_str(line).map_err(|e| Refusal::new(RefusalKind::BadRequest, e.to_string()))?;
        Request::of(envelope)
    }

    #[test]
    fn losses_are_told_in_words() {
        let lost = |full, panicked| Losses { total: full + panicked, full, panicked, ..Losses::default() };
        assert_eq!(lost(0, 0).to_string(), "0 lost");
        assert_eq!(lost(205_247, 0).to_string(), "205247 lost: the rings were full");
        let both = "7 lost: the rings were full (5), their probe panicked or ended its thread (2)";
        assert_eq!(lost(5, 2).to_string(), both);
    }

    #[test]
    fn requests_round_trip_and_are_all_named() {
        let session = || "default".to_owned();
        let plan = SessionPlan { session: session(), rules: vec!["a:*".into()], memory: Some(1), ..SessionPlan::default() };
        let requests = [
            Request::Hello,
            Request::Prove(Proof { secret: "07".into() }),
            Request::List,
            Request::Status,
            Request::Create(Box::new(plan)),
            Request::Bind(SessionName { session: session() }),
            Request::Enable(Rules { session: session(), rules: "a:*; !a:b".into() }),
            Request::Disable(Rules { session: session(), rules: "a:b".into() }),
            Request::Start(SessionName { session: session() }),
            Request::Stop(SessionName { session: session() }),
            Request::Destroy(SessionName { session: session() }),
            Request::Watch(Watch { rules: "*".into(), ms: 100 }),
            Request::Why(Why { event: "b".into(), ms: 100 }),
            Request::Doctor,
            Request::Snapshot(Snapshot { session: session(), reason: "slow".into(), last_ms: Some(10), keep: None }),
            Request::Trigger(Triggers { session: session(), triggers: "when b then stop".into() }),
            Request::Untrigger(Untrigger { session: session(), name: "t".into() }),
            Request::Firings(After { after: None, ms: 0 }),
            Request::Named(RuleText { rules: "a:b; c".into() }),
        ];
        for (request, name) in requests.into_iter().zip(Request::NAMES) {
            let line = request.to_line(7);
            assert!(line.contains(&format!("\"do\":\"{name}\"")), "{line}");
            assert_eq!(read(&line), Ok(request));
        }
    }

    #[test]
    fn refusals_name_what_is_wrong() {
        for (line, kind, phrase) in [
            (
                r#"{"v":1,"do":"erase"}"#,
                RefusalKind::UnknownRequest,
                "unknown request `erase`; this program knows hello, prove, list",
            ),
            (
                r#"{"v":2,"do":"hello"}"#,
                RefusalKind::Version,
                "version 1 of the control protocol, and the request is of version 2",
            ),
            (r#"{"v":1,"do":"stop"}"#, RefusalKind::BadRequest, "`stop`: "),
            (r#"{"v":1,"do":"stop","with":{"sesion":"a"}}"#, RefusalKind::BadRequest, "unknown field `sesion`"),
            (r#"{"v":1,"do":"hello","wiht":{}}"#, RefusalKind::BadRequest, "unknown field `wiht`"),
            (r#"{"v":1}"#, RefusalKind::BadRequest, "missing field `do`"),
            ("nonsense", RefusalKind::BadRequest, ""),
        ] {
            let refusal = read(line).expect_err(line);
            assert!(refusal.kind == kind && refusal.message.contains(phrase), "{line}: {refusal:?}");
        }
        assert_eq!(read(r#"{"v":1,"do":"hello","with":{}}"#), Ok(Request::Hello));
    }

    #[test]
    fn an_answer_fits_or_is_refused() {
        let field = Field { name: "bytes_written".into(), class: "u64".into(), unit: "B".into(), ..Field::default() };
        let probe = Probe {
            name: "some_database:storage::pages::page_was_written_back".into(),
            level: "info".into(),
            location: "crates/some_database/src/storage/pages.rs:1234".into(),
            records: true,
            fields: vec![field; 5],
            ..Probe::default()
        };
        let tracepoint = Tracepoint {
            name: probe.name.clone(),
            signature: "fn page_was_written_back(page: &Page, reason: Reason, bytes: u64, took: Duration)".into(),
            location: probe.location.clone(),
            probes: vec![probe],
            ..Tracepoint::default()
        };
        let listing = Listing { tracepoints: vec![tracepoint; 10_000], ..Listing::default() };
        let line = Answer::line(1.into(), serde_json::to_value(listing).map_err(|e| panic!("{e}")));
        assert!((5 << 20..LONGEST_ANSWER / 4).contains(&line.len()), "{} bytes", line.len());
        let line = Answer::line(1.into(), Ok("x".repeat(LONGEST_ANSWER).into()));
        let answer: Received<'_> = serde_json::from_str(&line).expect("an answer");
        assert_eq!(answer.id.map(RawValue::get), Some("1"));
        assert_eq!(answer.error.map(|refusal| refusal.kind), Some(RefusalKind::TooLong));
    }

    proptest! {
        #[test]
        fn no_line_makes_reading_panic(line in ".{0,200}", verb in "[a-z]{0,8}", with in "[\\[\\]{}\",:0-9a-z]{0,60}") {
            let _ = read(&line);
            let _ = read(&format!(r#"{{"v":1,"do":"{verb}","with":{with}}}"#));
            for name in Request::NAMES {
                let _ = read(&format!(r#"{{"v":1,"do":"{name}","with":{with}}}"#));
            }
        }
    }
}
