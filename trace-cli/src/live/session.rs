//! `ringtrace session`: recordings that outlive a command.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Zoned;
use serde_json::json;
use trace_control::protocol::{Request, SessionName, SessionPlan, SessionState, Status};
use trace_ctf::metadata::Format;
use trace_registry::units;

use super::process::Process;
use super::status;
use super::target::{self, Purpose, Target};
use super::text;
use crate::Outcome;
use crate::common::{Common, format_parser};
use crate::failure::{self, Failure};

/// The session that is meant where no other is named.
pub(super) const DEFAULT: &str = "default";

/// Creates, starts, stops, destroys and shows sessions: recordings that go on when the command has ended.
///
/// Any number of sessions record side by side, each with its own rules, rings, output and lifetime.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Creates a session and starts it.
    Create(Box<Create>),
    /// Records again after `stop`, into the same trace.
    Start(Named),
    /// Stops recording. The trace is complete then; the rules and the rings stay.
    Stop(Named),
    /// Stops recording and removes the session. The trace stays.
    Destroy(Named),
    /// Shows sessions with their rules.
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Name of the session.
    #[arg(default_value = DEFAULT)]
    name: String,

    #[command(flatten)]
    options: Options,

    /// Rules of what to record; none yet if left out.
    #[arg(short, long = "rule", value_name = "RULE")]
    rules: Vec<String>,

    #[command(flatten)]
    target: Target,
}

/// Options of a recording.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Options {
    /// Directory of the trace. Without it, NAME-TIME.ringtrace here. With several processes, or several copies of ringtrace
    /// in one, each has a directory in it.
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,

    /// Trigger, such as 'when request if us > 5000 then snapshot before 10s'. May be repeated.
    #[arg(short, long = "trigger", value_name = "TRIGGER")]
    pub(super) triggers: Vec<String>,

    /// Keep the newest events when the rings are full (flight recorder), not the oldest.
    #[arg(long)]
    pub(super) overwrite: bool,

    /// Memory for the rings, a ceiling. 16M without it.
    #[arg(short, long, value_name = "SIZE", value_parser = units::size)]
    pub(super) memory: Option<u64>,

    /// Size of the sub-buffers, a power of two from 4K to 4M. Without it between a sixteenth and an eighth of a ring.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(super) sub_buffer: Option<u64>,

    /// Keep the rings below this directory, on disk, where they outlive a restart of the container. In memory without it.
    #[arg(long, value_name = "DIR")]
    pub(super) rings: Option<PathBuf>,

    /// Context fields of each record, separated by commas: vtid, vpid, cpu, nesting, procname, thread_name, what the program
    /// provides, threads (names of threads beside the records), none. Without it vtid.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(super) context: Option<Vec<String>>,

    /// Where time stamps come from: fast, ordered (causal between CPUs; slower), os (slowest), none (no stamps; fastest).
    #[arg(long, value_name = "CLOCK", value_parser = ["fast", "ordered", "os", "none"], hide_possible_values = true)]
    pub(super) clock: Option<String>,

    /// Form of the trace's metadata: ctf1.8, which every reader understands, or ctf2. The streams are the same.
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    pub(super) format: Option<Format>,

    /// Record sensitive fields as they are.
    #[arg(long)]
    pub(super) sensitive: bool,

    /// Record child processes too, each into a directory of its own, DIR-PID.
    #[arg(long)]
    pub(super) follow: bool,

    /// With --overwrite, take a snapshot whenever this happens: panic, or a signal such as SIGUSR2.
    #[arg(long, value_name = "WHEN", value_delimiter = ',')]
    pub(super) snapshot_on: Vec<String>,

    /// Cut the recording into traces of this size (256M) or time (10min), numbered, each readable on its own.
    #[arg(long, value_name = "SIZE|TIME", value_parser = rotate)]
    pub(super) rotate: Option<Rotate>,

    /// Remove the oldest of these traces when all have more bytes.
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "rotate")]
    pub(super) quota: Option<u64>,
}

/// A path as processes with other working directories understand it.
pub(super) fn absolute(path: &Option<PathBuf>) -> Result<Option<PathBuf>, Failure> {
    path.as_ref().map(|path| std::path::absolute(path).map_err(|error| Failure::file(path, error))).transpose()
}

/// When a recording is cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rotate {
    Size(u64),
    Time(Duration),
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn rotate(text: &str) -> Result<Rotate, String> {
    let or_time = |problem| format!("{problem}; or a time, such as 10min");
    units::duration(text).map(Rotate::Time).or_else(|_| units::size(text).map(Rotate::Size).map_err(or_time))
}

#[derive(Debug, clap::Args)]
struct Named {
    /// Name of the session.
    #[arg(default_value = DEFAULT)]
    name: String,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Name of the session; all without it.
    name: Option<String>,

    #[command(flatten)]
    target: Target,
}

impl Options {
    /// What a process is to make of them.
    pub(super) fn plan(&self, session: &str, rules: &[String]) -> Result<SessionPlan, Failure> {
        let sub_buffer = self.sub_buffer.map(u32::try_from).transpose();
        Ok(SessionPlan {
            session: session.to_owned(),
            rules: rules.to_vec(),
            triggers: self.triggers.clone(),
            overwrite: self.overwrite,
            memory: self.memory,
            sub_buffer: sub_buffer.map_err(|_| Failure::Wrong("a sub-buffer has at most 4M".to_owned()))?,
            rings: absolute(&self.rings)?,
            context: self.context.clone(),
            clock: self.clock.clone(),
            format: self.format.map(|format| format.name().to_owned()),
            sensitive: self.sensitive,
            follow: self.follow,
            snapshot_on: self.snapshot_on.clone(),
            rotate: self.rotate.and_then(|rotate| if let Rotate::Size(bytes) = rotate { Some(bytes) } else { None }),
            rotate_ms: self.rotate.and_then(|rotate| if let Rotate::Time(time) = rotate { Some(time) } else { None }).map(millis),
            quota: self.quota,
            output: None,
            bound: false,
            external: false,
        })
    }

    /// Where each of the processes is to write its trace: absolute paths. Without a name, by the program's.
    pub(super) fn outputs(&self, name: &str, processes: &[Process]) -> Result<Vec<PathBuf>, Failure> {
        match (absolute(&self.output)?, processes) {
            (Some(output), [_]) => Ok(vec![output]),
            (None, [process]) if name.is_empty() || name == DEFAULT => Ok(vec![new_trace(&process.file_name())?]),
            (None, [_]) => Ok(vec![new_trace(name)?]),
            (output, _) => {
                let parent = output.map_or_else(|| new_trace(if name.is_empty() { "record" } else { name }), Ok)?;
                Ok(processes.iter().map(|p| parent.join(directory(p))).collect())
            }
        }
    }
}

/// What the trace of one of several is called.
fn directory(process: &Process) -> String {
    let copy = process.copy.as_ref().map_or_else(String::new, |copy| format!("-{copy}"));
    format!("{}-{}{copy}", process.file_name(), process.is.pid)
}

/// `NAME-TIME.ringtrace` here, with a number where that exists.
pub(super) fn new_trace(name: &str) -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().map_err(|error| Failure::file(".".as_ref(), error))?;
    let stamp = Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    let path =
        |n: u32| here.join(if n == 0 { format!("{name}-{stamp}.ringtrace") } else { format!("{name}-{stamp}-{n}.ringtrace") });
    Ok((0..1000).map(path).find(|p| !p.exists()).unwrap_or_else(|| path(1000)))
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    match &arguments.verb {
        Verb::Create(create) => create_in_all(create, common),
        Verb::Start(named) => each(named, "started", common, Request::Start),
        Verb::Stop(named) => each(named, "stopped", common, Request::Stop),
        Verb::Destroy(named) => each(named, "destroyed", common, Request::Destroy),
        Verb::Show(show) => show.target.each(|process| {
            let Status { mut sessions, .. } = process.demand(&Request::Status)?;
            if let Some(name) = &show.name {
                let names: Vec<String> = sessions.iter().map(|s| s.name.clone()).collect();
                sessions.retain(|s| s.name == *name);
                if sessions.is_empty() {
                    let others =
                        if names.is_empty() { "there is none".to_owned() } else { format!("there are: {}", names.join(", ")) };
                    return Err(Failure::Wrong(format!("{}: no session is called `{name}`; {others}", process.name())));
                }
            }
            status::show_sessions(process, &sessions, common)
        }),
    }
}

fn create_in_all(create: &Create, common: &Common) -> Result<Outcome, Failure> {
    let mut plan = create.options.plan(&create.name, &create.rules)?;
    let mut processes = target::share(create.target.chosen()?, &create.rules.join("; "), Purpose::Create);
    let mut outputs = create.options.outputs(&create.name, &processes)?.into_iter();
    target::each(&mut processes, |process| {
        plan.output = outputs.next();
        if let Some(share) = &process.share {
            plan.rules = vec![share.clone()];
        }
        let state: SessionState = process.demand(&Request::Create(Box::new(plan.clone())))?;
        report(process, &state, "created", common)
    })
}

fn each(named: &Named, done: &str, common: &Common, request: fn(SessionName) -> Request) -> Result<Outcome, Failure> {
    named.target.each(|process| {
        let state: SessionState = process.demand(&request(SessionName { session: named.name.clone() }))?;
        report(process, &state, done, common)
    })
}

fn report(process: &Process, state: &SessionState, done: &str, common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if common.json {
        writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, done: state })))?;
        return Ok(());
    }
    write!(out, "{}: session {} {done}", process.name(), state.name)?;
    if done == "created" {
        write!(out, ", {}", status::probes(state.probes, state.state_dumps, "matched"))?;
    } else {
        write!(out, ", {}", status::Count(state))?;
    }
    match &state.output {
        Some(output) => writeln!(out, ", in {}{}", output.display(), status::saved(state))?,
        None => writeln!(out, "{}", status::saved(state))?,
    }
    if done == "created" {
        failure::warnings(&state.warnings);
    }
    Ok(())
}
