//! `ringtrace record`: a recording that ends with the command.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use trace_control::Error;
use trace_control::protocol::{RefusalKind, Request, SessionName, SessionPlan, SessionState, Status};
use trace_control::terminal::printable;
use trace_registry::units;

use super::external::External;
use super::family::Family;
use super::process::Process;
use super::session::Options;
use super::status::{Count, saved};
use super::target::{self, Purpose, Target};
use super::text::{self, Bytes, Rate, age};
use super::written::Written;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Records events of running processes into a trace, until it is interrupted.
///
/// Recording ends with Ctrl-C, after --for or --size, when every process has ended, and when this command is killed. The trace
/// is complete then, unless a process was killed: its last events lie in its rings, from where `ringtrace recover` adds them.
/// With --external it is complete even so, unless this command is killed. A process that is stopped is not waited for: its session
/// ends when it goes on. Interrupted again, the recording still ends; a third interrupt abandons what is not written yet.
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

/// How often the recording's progress is polled.
const LOOK: Duration = Duration::from_millis(100);

const ENDING: &str = "the recording is ending, and its trace is being completed; a third interrupt abandons that, and \
                      `ringtrace ps --dead` shows what is left then";

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
    /// Whether it did not answer when it was asked last: it may be stopped for a while, by a debugger for instance.
    is_silent: bool,
    /// Where the rings lie that have what could not be written here.
    unwritten: Option<PathBuf>,
    /// Events that were recovered, after it had ended, before this command did.
    pub(super) recovered: Option<u64>,
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
    let interrupted = interruption(ENDING).map_err(Failure::Output)?;
    let processes = target::share(arguments.target.chosen()?, &arguments.rules.join("; "), Purpose::Create);
    let outputs = arguments.options.outputs(arguments.session.as_deref().unwrap_or_default(), &processes)?;
    let (mut recorded, mut failed) = (Vec::new(), Vec::new());
    for (process, output) in processes.into_iter().zip(outputs) {
        let pid = process.is.pid;
        if failed.last().is_some_and(|(of, _)| *of != pid) {
            break;
        }
        match begin(arguments, process, output) {
            Ok(begun) => recorded.push(begun),
            // Each copy of ringtrace in the process says why, since only one of them may have what is meant.
            Err(failure) => failed.push((pid, failure)),
        }
    }
    if let Some((_, last)) = failed.pop() {
        failed.iter().for_each(|(_, failure)| failure::error(format_args!("{failure}")));
        // What was begun ends with this command.
        return Err(last);
    }
    let own = Target::clone(&arguments.target);
    let rings = super::session::absolute(&arguments.options.rings)?;
    let mut family = arguments.options.follow.then(|| Family::of(own, rings, &recorded, arguments.external));
    let begun = Instant::now();
    let progress = progress(common);
    while !interrupted.load(Ordering::Relaxed) && recorded.iter().any(Recorded::goes_on) {
        let left = arguments.time.map_or(LOOK, |time| time.saturating_sub(begun.elapsed()).min(LOOK));
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left);
        recorded.iter_mut().for_each(Recorded::look);
        if let Some(family) = &mut family {
            // After the look at those that are known: a child of one that ended just now is still found.
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
    let outcome = end(&mut recorded);
    // Before anything is said of a child: its trace is whole then.
    let children = family.map_or(Ok(()), |family| family.end(&mut recorded));
    let outcome = tell(recorded, outcome, common)?;
    children.map(|()| outcome)
}

/// Set by the first SIGINT, SIGTERM or SIGHUP, when the command is to end what it does. The second one is told what is still done, and
/// the third abandons that.
pub(super) fn interruption(ending: &'static str) -> io::Result<Arc<AtomicBool>> {
    let is_set = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let flag = is_set.clone();
    std::thread::spawn(move || {
        for (before, signal) in signals.forever().enumerate() {
            match before {
                0 => flag.store(true, Ordering::Relaxed),
                1 => failure::note(format_args!("{ending}")),
                // It ends the process; if that fails, the next one tries again.
                _ => _ = emulate_default_handler(signal),
            }
        }
    });
    Ok(is_set)
}

fn begin(arguments: &Arguments, mut process: Process, output: PathBuf) -> Result<Recorded, Failure> {
    let own = format!("record-{}", std::process::id());
    let name = arguments.session.clone().unwrap_or(own);
    let rules = process.rules(&arguments.rules.join("; ")).to_owned();
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
    Recorded::new(process, output, state, arguments.external)
}

impl Recorded {
    /// A process that has the session of this state. `is_external`: this command was asked to consume its rings, and begins to.
    pub(super) fn new(process: Process, output: PathBuf, state: SessionState, is_external: bool) -> Result<Recorded, Failure> {
        let external = is_external.then(|| External::begin(&process, &state, &output)).transpose()?;
        let told = state.warnings.len();
        let (is_silent, unwritten, recovered) = (false, None, None);
        Ok(Recorded { process, output, state, end: None, external, is_external, is_silent, unwritten, recovered, told })
    }

    /// Where its rings lie, if they were left.
    fn left(&self) -> Option<PathBuf> {
        self.process.directory(&self.state).filter(|directory| directory.join("rings").exists())
    }

    /// Whether there is something to record or to write still.
    fn goes_on(&self) -> bool {
        self.end.is_none() && !self.external.as_ref().is_some_and(External::has_failed)
    }

    /// Looks how far it is.
    fn look(&mut self) {
        if self.end.is_some() {
            return;
        }
        let status = self.process.ask_in_passing::<Status>(&Request::Status);
        self.is_silent = status.as_ref().is_err_and(Process::is_silent);
        match status {
            Ok(status) => match status.sessions.into_iter().find(|s| s.name == self.state.name) {
                Some(state) => {
                    self.state = state;
                    if let Some(external) = &self.external {
                        external.tell(&mut self.state);
                    }
                }
                None => self.end = Some(End::Session),
            },
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
fn end_external(one: &mut Recorded, external: External) {
    let name = SessionName { session: one.state.name.clone() };
    if one.end.is_none() && !one.is_silent {
        match one.process.ask(&Request::Stop(name.clone())) {
            Ok(state) => one.state = state,
            Err(error) if is_no_session(&error) => one.end = Some(End::Session),
            Err(error) if Process::has_ended(&error) => one.end = Some(End::Process),
            Err(error) => {
                one.is_silent = Process::is_silent(&error);
                failure::warning(format_args!("{}", one.process.failure(error)));
            }
        }
    }
    let directory = external.directory.clone();
    match external.end(&mut one.state, !one.is_silent) {
        // Its session ends with the connection.
        Ok(_) if one.is_silent => {}
        Ok(_) if one.end.is_none() => {
            // Everything is delivered: the rings go.
            let _ = one.process.ask::<SessionState>(&Request::Destroy(name));
        }
        Ok(consumer) => {
            consumer.remove();
            one.process.image.remove_if_empty();
        }
        Err(error) => {
            failure::error(format_args!("{}: {error}", one.process.name()));
            one.unwritten = Some(directory);
        }
    }
}

fn is_no_session(error: &Error) -> bool {
    matches!(error, Error::Refused(refusal) if refusal.kind == RefusalKind::NoSession)
}

/// Ends the sessions.
fn end(recorded: &mut [Recorded]) -> Outcome {
    let mut outcome = Outcome::Complete;
    for one in recorded {
        one.look();
        if let Some(external) = one.external.take() {
            end_external(one, external);
        } else if one.end.is_none() && !one.is_silent {
            match one.process.ask(&Request::Destroy(SessionName { session: one.state.name.clone() })) {
                Ok(state) => one.state = state,
                Err(error) if is_no_session(&error) => one.end = Some(End::Session),
                Err(error) if Process::has_ended(&error) => one.end = Some(End::Process),
                Err(error) if Process::is_silent(&error) => one.is_silent = true,
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
    }
    outcome
}

/// Says what was recorded, what is missing and why.
fn tell(recorded: Vec<Recorded>, mut outcome: Outcome, common: &Common) -> Result<Outcome, Failure> {
    let mut out = text::out(common.json);
    for mut one in recorded {
        let is_left = one.is_silent || one.end == Some(End::Process) && !one.is_external;
        let unwritten = one.unwritten.take();
        let (is_written, left) = (unwritten.is_none(), unwritten.or_else(|| if is_left { one.left() } else { None }));
        let recovered =
            one.recovered.map(|events| format!("; the process has ended, and its last {events} events were recovered"));
        let note = match (one.end, one.is_external) {
            _ if !is_written => "; the trace could not be written to its end, and the rest waits in the rings",
            _ if one.is_silent && one.is_external => "; the process does not answer, and this is what it had committed",
            _ if one.is_silent => "; the process does not answer: its session ends when it goes on",
            (None, _) => "",
            (Some(End::Process), true) => "; the process has ended, and this is all that it committed",
            (Some(End::Session), true) => "; another command ended the session, and this is all of it",
            (Some(End::Session), false) => "; another command ended the session, so there may be more in the trace",
            (Some(End::Process), false) if left.is_some() => "; the process has ended and left its last events in its rings",
            (Some(End::Process), false) if recovered.is_some() => recovered.as_deref().unwrap_or_default(),
            (Some(End::Process), false) if one.state.rings.is_none() => {
                "; the process has ended: if it was killed, its last events are lost, since its rings had no name"
            }
            (Some(End::Process), false) => "; the process has ended, so there may be more in the trace",
        };
        if common.json {
            let ended = one.end == Some(End::Process);
            writeln!(
                out,
                "{}",
                one.process.line(json!({ "pid": one.process.is.pid, "ended": ended, "left": left, "recorded": one.state }))
            )?;
        } else {
            let saved = saved(&one.state);
            writeln!(out, "{}: {} in {}{saved}{note}", one.process.name(), Count(&one.state), one.output.display())?;
        }
        let name = one.process.name();
        if !is_written {
            outcome = Outcome::Partial; // why, and what to do, was said
        } else if one.is_silent {
            outcome = Outcome::Partial;
            let rest = if one.is_external { "what it records until then waits for" } else { "if it is killed instead, there is" };
            let left = left.map_or_else(String::new, |left| format!("; {rest} `ringtrace recover {}`", left.display()));
            failure::warning(format_args!("{name}: it does not answer; is it stopped? Its session ends when it goes on{left}"));
        } else if let Some(left) = left {
            outcome = Outcome::Partial;
            let left = left.display();
            failure::warning(format_args!("{name}: the trace is not complete: `ringtrace recover {left}` adds the rest"));
        }
        for warning in one.state.warnings.iter().skip(one.told) {
            failure::warning(format_args!("{name}: {warning}"));
        }
        if one.state.lost.total > 0 {
            let heaviest = || Some(format!(": {}", Written::read(&one.output).ok()?.heaviest()?.1));
            let remedy = match one.state.lost.full {
                0 => String::new(),
                _ => format!("; more memory (--memory) or fewer events would help{}", heaviest().unwrap_or_default()),
            };
            failure::warning(format_args!("{name}: {}{remedy}", one.state.lost));
        }
    }
    out.flush()?;
    Ok(outcome)
}
