//! `ringtrace config`: sessions as a file.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use trace_control::protocol::{Request, SessionName, SessionPlan, SessionState, Status};

use super::process::Process;
use super::session::{DEFAULT, absolute, new_trace};
use super::status::probes;
use super::target::{self, Purpose, Target};
use super::text;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Saves the sessions of a process to a file, and makes them again in another.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Writes the sessions of a process, with rules and options, to a TOML file.
    Save(File),
    /// Makes the sessions of a TOML file in a process, and starts them.
    Load(File),
}

#[derive(Debug, clap::Args)]
struct File {
    /// The file; `-` is standard output, or standard input.
    file: PathBuf,

    #[command(flatten)]
    target: Target,
}

/// What the file holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    /// The sessions.
    #[serde(default)]
    session: Vec<Session>,
}

/// A session as people write it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    name: String,
    #[serde(default)]
    rules: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    triggers: Vec<String>,
    #[serde(default)]
    overwrite: bool,
    memory: Option<Size>,
    sub_buffer: Option<Size>,
    /// Directory below which the rings are kept, on disk.
    rings: Option<PathBuf>,
    context: Option<Vec<String>>,
    clock: Option<String>,
    /// `ctf1.8` or `ctf2`.
    format: Option<String>,
    #[serde(default)]
    sensitive: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    follow: bool,
    /// `panic`, or names of signals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    snapshot_on: Vec<String>,
    rotate: Option<Size>,
    /// In milliseconds.
    rotate_ms: Option<u64>,
    quota: Option<Size>,
    /// Where the trace goes; `None`: NAME-TIME.ringtrace where `config load` is called.
    output: Option<PathBuf>,
}

/// Bytes, or a text such as `64M`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    fn bytes(&self) -> Result<u64, String> {
        match self {
            Self::Bytes(bytes) => Ok(*bytes),
            Self::Text(text) => trace_registry::units::size(text),
        }
    }

    fn of(bytes: u64) -> Size {
        match bytes.trailing_zeros() {
            30.. if bytes > 0 => Self::Text(format!("{}G", bytes >> 30)),
            20.. if bytes > 0 => Self::Text(format!("{}M", bytes >> 20)),
            10.. if bytes > 0 => Self::Text(format!("{}K", bytes >> 10)),
            _ => Self::Bytes(bytes),
        }
    }
}

impl Session {
    fn of(plan: SessionPlan) -> Session {
        Session {
            name: plan.session,
            rules: plan.rules,
            triggers: plan.triggers,
            overwrite: plan.overwrite,
            memory: plan.memory.map(Size::of),
            sub_buffer: plan.sub_buffer.map(u64::from).map(Size::of),
            rings: plan.rings,
            context: plan.context,
            clock: plan.clock,
            format: plan.format,
            sensitive: plan.sensitive,
            follow: plan.follow,
            snapshot_on: plan.snapshot_on,
            rotate: plan.rotate.map(Size::of),
            rotate_ms: plan.rotate_ms,
            quota: plan.quota.map(Size::of),
            output: plan.output,
        }
    }

    /// `share`: the rules that concern the process, if that is not all of them.
    fn plan(&self, process: &Process, share: Option<&str>) -> Result<SessionPlan, Failure> {
        let size = |size: &Option<Size>| {
            let wrong = |problem: String| Failure::Wrong(format!("session {}: {problem}", self.name));
            size.as_ref().map(Size::bytes).transpose().map_err(wrong)
        };
        let output = match absolute(&self.output)? {
            Some(path) => path,
            None if self.name == DEFAULT => new_trace(&process.file_name())?,
            None => new_trace(&self.name)?,
        };
        Ok(SessionPlan {
            session: self.name.clone(),
            rules: share.map_or_else(|| self.rules.clone(), |share| vec![share.to_owned()]),
            triggers: self.triggers.clone(),
            overwrite: self.overwrite,
            memory: size(&self.memory)?,
            sub_buffer: size(&self.sub_buffer)?.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
            rings: absolute(&self.rings)?,
            context: self.context.clone(),
            clock: self.clock.clone(),
            format: self.format.clone(),
            sensitive: self.sensitive,
            follow: self.follow,
            snapshot_on: self.snapshot_on.clone(),
            rotate: size(&self.rotate)?,
            rotate_ms: self.rotate_ms,
            quota: size(&self.quota)?,
            output: Some(output),
            bound: false,
            external: false,
        })
    }
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    match &arguments.verb {
        Verb::Save(File { file, target }) => save(file, target, common),
        Verb::Load(File { file, target }) => load(file, target, common),
    }
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

fn save(file: &Path, target: &Target, common: &Common) -> Result<Outcome, Failure> {
    let mut process = target.only()?;
    let status: Status = process.demand(&Request::Status)?;
    let of = |state: SessionState| Session::of(state.plan);
    let configuration = Configuration { session: status.sessions.into_iter().filter(|s| !s.bound).map(of).collect() };
    if configuration.session.is_empty() {
        let name = process.name();
        return Err(Failure::Wrong(format!("{name}: no session to save: `ringtrace session create` and `enable` make one")));
    }
    let text = toml::to_string_pretty(&configuration).map_err(|error| Failure::Wrong(error.to_string()))?;
    let mut out = text::out(common.json);
    if is_standard(file) {
        out.write_all(text.as_bytes())?;
        return Ok(Outcome::Complete);
    }
    fs::write(file, text).map_err(|error| Failure::file(file, error))?;
    let sessions = configuration.session.len();
    if common.json {
        writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, "saved": sessions, "file": file })))?;
    } else {
        let noun = if sessions == 1 { "session" } else { "sessions" };
        writeln!(out, "{}: {sessions} {noun} saved in {}", process.name(), file.display())?;
    }
    Ok(Outcome::Complete)
}

fn load(file: &Path, target: &Target, common: &Common) -> Result<Outcome, Failure> {
    let text = if is_standard(file) { io::read_to_string(io::stdin()) } else { fs::read_to_string(file) };
    let text = text.map_err(|error| Failure::file(file, error))?;
    // The error shows the line and points into it.
    let configuration: Configuration =
        toml::from_str(&text).map_err(|error| Failure::Wrong(format!("{}: {}", file.display(), error.to_string().trim_end())))?;
    if configuration.session.is_empty() {
        return Err(Failure::Wrong(format!("{}: no [[session]] in it", file.display())));
    }
    let mut processes = target.chosen()?;
    let share = |session: &Session| target::shares(&mut processes, &session.rules.join("; "), Purpose::Create);
    let shares: Vec<_> = configuration.session.iter().map(share).collect();
    let mut numbers = 0..;
    target::each(&mut processes, |process| {
        let number = numbers.next().unwrap_or_default();
        let plan = |(session, shares): (&Session, &Vec<Option<String>>)| {
            let share = shares[number].as_deref();
            (share != Some("")).then(|| session.plan(process, share))
        };
        let plans = configuration.session.iter().zip(&shares).filter_map(plan);
        let mut made: Vec<SessionState> = Vec::new();
        // All or none: what can be refused here is, before anything is begun.
        for plan in plans.collect::<Result<Vec<_>, _>>()? {
            match process.demand(&Request::Create(Box::new(plan))) {
                Ok(state) => made.push(state),
                Err(failure) => {
                    made.iter().for_each(|state| take_back(process, state));
                    return Err(failure);
                }
            }
        }
        let mut out = text::out(common.json);
        for state in made {
            if common.json {
                writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, "created": state })))?;
            } else {
                let matched = probes(state.probes, state.state_dumps, "matched");
                writeln!(out, "{}: session {} created, {matched}, in {}", process.name(), state.name, place(&state))?;
            }
            failure::warnings(&state.warnings);
        }
        Ok(())
    })
}

fn place(state: &SessionState) -> std::path::Display<'_> {
    state.output.as_deref().unwrap_or(Path::new("")).display()
}

/// Ends a session that was made for nothing.
fn take_back(process: &mut Process, state: &SessionState) {
    let name = SessionName { session: state.name.clone() };
    match process.demand::<SessionState>(&Request::Destroy(name)) {
        Ok(_) => failure::note(format_args!(
            "{}: session {} was begun and is ended again: {}",
            process.name(),
            state.name,
            place(state)
        )),
        Err(failure) => failure::error(format_args!("{failure}")),
    }
}
