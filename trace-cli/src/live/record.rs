//! `ringtrace record`: a recording that ends with the command.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use trace_control::Error;
use trace_control::place::Image;
use trace_control::protocol::{RefusalKind, Request, SessionName, SessionPlan, SessionState, Status};
use trace_control::terminal::printable;
use trace_registry::units;

use super::external::External;
use super::family::Family;
use super::process::Process;
use super::session::Options;
use super::status::Count;
use super::target::Target;
use super::text::{self, Bytes, Rate, age};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Records events of running processes into a trace, until it is interrupted.
///
/// Recording ends with Ctrl-C, after --for or --size, when every process has ended, and when this command is killed. The trace
/// is complete then, unless a process was killed: its last events lie in its rings, from where `ringtrace recover` adds them.
/// With --external it is complete even so, unless this command is killed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rules of what to record, such as 'storage:* level info'; several are separated by `;` or given as several arguments.
    /// Everything without it.
    #[arg(value_name = "RULE", default_value = "*", hide_default_value = true)]
    rules: Vec<String>,

    /// End after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    time: Option<Duration>,

    /// End when this much of the traces is written, looked at ten times a second. What the rings still hold then comes on top.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    size: Option<u64>,

    /// Name of the session. Without it record-PID, of this command.
    #[arg(short, long, value_name = "NAME")]
    session: Option<String>,

    /// Consume the rings and write the trace in this process, not in the recorded one: it spends no time on that, and what it
    /// committed is written even if it dies.
    #[arg(long)]
    external: bool,

    #[command(flatten)]
    options: Options,

    #[command(flatten)]
    target: Target,
}

/// So often it is looked how far the recording is.
const LOOK: Duration = Duration::from_millis(100);

/// A process that is recorded.
pub(super) struct Recorded {
    pub(super) process: Process,
    pub(super) output: PathBuf,
    pub(super) state: SessionState,
    /// What ended it before this command did.
    end: Option<End>,
    /// Consumes its rings here.
    external: Option<External>,
    is_external: bool,
    /// How many of its warnings were told when it began.
    told: usize,
}

/// What ends a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The process has ended.
    Process,
    /// Somebody destroyed the session.
    Session,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let interrupted = interruption().map_err(Failure::Output)?;
    let processes = arguments.target.chosen()?;
    let outputs = arguments.options.outputs(arguments.session.as_deref().unwrap_or_default(), &processes)?;
    let mut recorded = Vec::new();
    for (process, output) in processes.into_iter().zip(outputs) {
        // If this fails, what was begun ends with this command.
        recorded.push(begin(arguments, process, output)?);
    }
    let own = Target::clone(&arguments.target);
    let mut family = arguments.options.follow.then(|| Family::of(own, &recorded));
    let begun = Instant::now();
    let progress = progress(common);
    while !interrupted.load(Ordering::Relaxed) && recorded.iter().any(|r| r.end.is_none()) {
        let left = arguments.time.map_or(LOOK, |time| time.saturating_sub(begun.elapsed()).min(LOOK));
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left);
        recorded.iter_mut().for_each(Recorded::look);
        if let Some(family) = &mut family {
            // Who looks for children first misses those of whom it finds ended then.
            family.look(&mut recorded, |process, output| begin(arguments, process, output))?;
        }
        if let Some(progress) = &progress {
            progress.set_message(printable(&summary(&recorded, begun.elapsed())).into_owned());
            progress.tick();
        }
        let written: u64 = recorded.iter().map(|r| r.state.written).sum();
        if arguments.size.is_some_and(|size| written >= size) {
            break;
        }
    }
    if let Some(progress) = &progress {
        progress.finish_and_clear();
    }
    let outcome = end(recorded, common)?;
    match family {
        Some(family) => family.end().map(|()| outcome),
        None => Ok(outcome),
    }
}

/// Set when the command is to end. A second signal ends it at once.
pub(super) fn interruption() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, flag.clone())?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(flag)
}

fn begin(arguments: &Arguments, mut process: Process, output: PathBuf) -> Result<Recorded, Failure> {
    let own = format!("record-{}", std::process::id());
    let name = arguments.session.clone().unwrap_or(own);
    let rules = arguments.rules.join("; ");
    let plan = SessionPlan {
        output: Some(output.clone()),
        bound: true,
        external: arguments.external,
        ..arguments.options.plan(&name, std::slice::from_ref(&rules))?
    };
    let state: SessionState = process.ask(&Request::Create(Box::new(plan))).map_err(|error| match error {
        error if Process::has_ended(&error) && process.image.path.join(&name).exists() => Failure::Wrong(format!(
            "{}: it has ended when the recording had just begun; `ringtrace recover {}` builds a trace of what it left",
            process.name(),
            process.is.pid
        )),
        error => process.failure(error),
    })?;
    if state.probes + state.state_dumps == 0 && state.warnings.is_empty() {
        failure::warning(format_args!("{}: `{rules}` takes no probe, so nothing is recorded", process.name()));
    }
    state.warnings.iter().for_each(|warning| failure::warning(format_args!("{}: {warning}", process.name())));
    Recorded::new(process, output, state)
}

impl Recorded {
    /// A process that has the session of this state. If its rings are to be consumed here, that begins.
    pub(super) fn new(process: Process, output: PathBuf, state: SessionState) -> Result<Recorded, Failure> {
        let is_external = state.external;
        let external = is_external.then(|| External::begin(&process, &state, &output)).transpose()?;
        let told = state.warnings.len();
        Ok(Recorded { process, output, state, end: None, external, is_external, told })
    }

    /// Where its rings lie, if they were left.
    fn left(&self) -> Option<PathBuf> {
        self.process.directory(&self.state).filter(|directory| directory.join("rings").exists())
    }

    /// Looks how far it is.
    fn look(&mut self) {
        if self.end.is_some() {
            return;
        }
        match self.process.ask::<Status>(&Request::Status) {
            Ok(status) => match status.sessions.into_iter().find(|s| s.name == self.state.name) {
                Some(state) => {
                    self.state = state;
                    if let Some(external) = &self.external {
                        external.tell(&mut self.state);
                    }
                }
                None => self.end = Some(End::Session),
            },
            // It may be stopped for a while, by a debugger for instance.
            Err(error) => self.end = Process::has_ended(&error).then_some(End::Process),
        }
    }
}

fn progress(common: &Common) -> Option<ProgressBar> {
    (io::stderr().is_terminal() && !common.json).then(|| {
        let style = ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        ProgressBar::new_spinner().with_style(style)
    })
}

fn summary(recorded: &[Recorded], time: Duration) -> String {
    let sum = |of: fn(&SessionState) -> u64| recorded.iter().map(|r| of(&r.state)).sum::<u64>();
    let (events, lost) = (sum(|s| s.events), sum(|s| s.lost.total));
    let rate = Rate(events as f64 / time.as_secs_f64().max(1e-3));
    format!("{}: {events} events ({rate}), {} written, {lost} lost; Ctrl-C ends it", age(time), Bytes(sum(|s| s.written)))
}

/// Ends a recording whose rings are consumed here.
fn end_external(one: &mut Recorded, external: External, outcome: Outcome) -> Outcome {
    let name = SessionName { session: one.state.name.clone() };
    if one.end.is_none() {
        match one.process.ask(&Request::Stop(name.clone())) {
            Ok(state) => one.state = state,
            Err(error) if is_no_session(&error) => one.end = Some(End::Session),
            Err(error) if Process::has_ended(&error) => one.end = Some(End::Process),
            Err(error) => failure::warning(format_args!("{}", one.process.failure(error))),
        }
    }
    let directory = external.directory.clone();
    match external.end(&mut one.state) {
        Ok(()) if one.end.is_none() => {
            // Everything is delivered: the rings go.
            let _ = one.process.ask::<SessionState>(&Request::Destroy(name));
            outcome
        }
        Ok(()) => {
            let _ = std::fs::remove_dir_all(&directory);
            // The second is another one where the rings lie apart from the socket.
            for image in [Some(one.process.image.clone()), Image::of_session(&directory)].into_iter().flatten() {
                if !image.remove_if_empty() {
                    let _ = std::fs::remove_dir(&image.path);
                }
            }
            outcome
        }
        Err(error) => {
            failure::error(format_args!("{}: {error}; its rings are kept in {}", one.process.name(), directory.display()));
            Outcome::Partial
        }
    }
}

fn is_no_session(error: &Error) -> bool {
    matches!(error, Error::Refused(refusal) if refusal.kind == RefusalKind::NoSession)
}

fn end(recorded: Vec<Recorded>, common: &Common) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::Complete;
    let mut out = text::out(common.json);
    for mut one in recorded {
        if let Some(external) = one.external.take() {
            outcome = end_external(&mut one, external, outcome);
        } else if one.end.is_none() {
            match one.process.ask(&Request::Destroy(SessionName { session: one.state.name.clone() })) {
                Ok(state) => one.state = state,
                Err(error) if is_no_session(&error) => one.end = Some(End::Session),
                Err(error) if Process::has_ended(&error) => one.end = Some(End::Process),
                Err(error) => {
                    failure::error(format_args!("{}", one.process.failure(error)));
                    if let Some(rings) = one.left() {
                        let rings = rings.display();
                        failure::note(format_args!(
                            "what could not be written is kept: `ringtrace recover {rings}` when there is room"
                        ));
                    }
                    outcome = Outcome::Partial;
                }
            }
        }
        let left = if one.end == Some(End::Process) && !one.is_external { one.left() } else { None };
        let note = match (one.end, one.is_external) {
            (None, _) => "",
            (Some(End::Process), true) => "; the process has ended, and this is all that it committed",
            (Some(End::Session), true) => "; another command ended the session, and this is all of it",
            (Some(End::Session), false) => "; another command ended the session, so there may be more in the trace",
            (Some(End::Process), false) if left.is_some() => "; the process has ended and left its last events in its rings",
            (Some(End::Process), false) if one.state.rings.is_none() => {
                "; the process has ended: if it was killed, its last events are lost, since its rings had no name"
            }
            (Some(End::Process), false) => "; the process has ended, so there may be more in the trace",
        };
        if common.json {
            let ended = one.end == Some(End::Process);
            writeln!(out, "{}", json!({ "pid": one.process.is.pid, "ended": ended, "left": left, "recorded": one.state }))?;
        } else {
            writeln!(out, "{}: {} in {}{note}", one.process.name(), Count(&one.state), one.output.display())?;
        }
        if let Some(left) = left {
            outcome = Outcome::Partial;
            let (name, left) = (one.process.name(), left.display());
            failure::warning(format_args!("{name}: the trace is not complete: `ringtrace recover {left}` adds the rest"));
        }
        for warning in one.state.warnings.iter().skip(one.told) {
            failure::warning(format_args!("{}: {warning}", one.process.name()));
        }
        if one.state.lost.total > 0 {
            let remedy = if one.state.lost.full > 0 { "; more memory (--memory) or fewer events would help" } else { "" };
            failure::warning(format_args!("{}: {}{remedy}", one.process.name(), one.state.lost));
        }
    }
    out.flush()?;
    Ok(outcome)
}
