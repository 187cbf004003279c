//! `ringtrace run`: a program recorded from its start.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::session::{DEFAULT, Options, Rotate, new_trace};
use super::target::Target;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Runs a program and records it from its start, by setting RINGTRACE in its environment, and waits for it.
///
/// The program must call `ringtrace::init()`, or have ringtrace's feature `auto`. So must programs that it starts; each of
/// those has a trace of its own. With --json, a line behind all that the program printed says how it ended.
///
///     ringtrace run 'storage:* level info' --memory 64M -- target/release/server --port 80
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Rules of what to record, such as 'storage:* level info'; several are separated by `;` or given as several arguments.
    /// `@FILE` reads rules and options from a file. Everything without it.
    #[arg(value_name = "RULE")]
    rules: Vec<String>,

    /// Print the events on standard error, and write no trace.
    #[arg(long, conflicts_with = "output")]
    print: bool,

    #[command(flatten)]
    options: Options,

    /// The program and its arguments, behind `--`.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let [program, rest @ ..] = &arguments.program[..] else { return Ok(Outcome::Complete) };
    let name = Path::new(program).file_name().map_or_else(|| "program".into(), |name| name.to_string_lossy().into_owned());
    let output = match &arguments.options.output {
        Some(path) => std::path::absolute(path).map_err(|error| Failure::file(path, error))?,
        None => new_trace(&name)?,
    };
    let environment = environment(arguments, &output)?;
    trace_runtime::check_environment(&environment).map_err(Failure::Usage)?;
    let signals = Signals::take().map_err(Failure::Output)?;
    let child = match Command::new(program).args(rest).env("RINGTRACE", environment).spawn() {
        Ok(child) => child,
        Err(error) => {
            failure::error(format_args!("{}: {error}", Path::new(program).display()));
            return Ok(Outcome::Ended(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    let pid = child.id();
    let code = signals.wait(child).map_err(|error| Failure::file(Path::new(program), error))?;
    if arguments.options.follow {
        let rings = super::session::absolute(&arguments.options.rings)?;
        super::family::recover(&Target::default(), rings.as_deref(), DEFAULT, std::slice::from_ref(&output))?;
    }
    if common.json {
        let trace = (!arguments.print && output.exists()).then_some(&output);
        writeln!(io::stdout(), "{}", json!({ "pid": pid, "program": name, "code": code, "trace": trace }))?;
    }
    if !arguments.print && !output.exists() {
        failure::note(format_args!(
            "{name} recorded nothing: it does not call ringtrace::init() (or have ringtrace's feature `auto`), or it said above \
             what is wrong"
        ));
    }
    Ok(Outcome::Ended(code))
}

/// The value of RINGTRACE.
fn environment(arguments: &Arguments, output: &Path) -> Result<String, Failure> {
    let options = &arguments.options;
    for trigger in &options.triggers {
        // It would be a rule.
        if !matches!(trigger.split_whitespace().next(), Some("when" | "keep")) {
            return Err(Failure::Wrong(format!("`{trigger}` is no trigger: write `when EVENT if CONDITION then ACTION`")));
        }
    }
    let mut parts = vec![if arguments.print { "print".to_owned() } else { format!("output {}", quoted(output)?) }];
    parts.extend(options.overwrite.then(|| "overwrite".to_owned()));
    parts.extend(options.follow.then(|| "follow".to_owned()));
    parts.extend(options.sensitive.then(|| "sensitive".to_owned()));
    parts.extend(options.memory.map(|bytes| format!("memory {bytes}")));
    parts.extend(options.sub_buffer.map(|bytes| format!("sub-buffer {bytes}")));
    if let Some(rings) = super::session::absolute(&options.rings)? {
        parts.push(format!("rings {}", quoted(&rings)?));
    }
    parts.extend(options.clock.as_ref().map(|clock| format!("clock {clock}")));
    parts.extend(options.format.map(|format| format!("format {}", format.name())));
    parts.extend(options.context.as_ref().map(|fields| format!("context {}", fields.join(","))));
    parts.extend(options.snapshot_on.iter().map(|occasion| format!("snapshot on {occasion}")));
    parts.extend(options.rotate.map(|rotate| match rotate {
        Rotate::Size(bytes) => format!("rotate {bytes}"),
        Rotate::Time(time) => format!("rotate {}ms", time.as_millis()),
    }));
    parts.extend(options.quota.map(|bytes| format!("quota {bytes}")));
    // Behind the options, so that an open parenthesis ends where the user's text does.
    parts.extend(arguments.rules.iter().chain(&options.triggers).cloned());
    // Lines, so that a mistake is shown with its line alone.
    Ok(parts.join("\n"))
}

fn quoted(path: &Path) -> Result<String, Failure> {
    let wrong = |what: &str| Failure::Wrong(format!("{}: {what}", path.display()));
    let text = path.to_str().ok_or_else(|| wrong("this name is no UTF-8, so it cannot stand in RINGTRACE"))?;
    match ['"', '\''].into_iter().find(|quote| !text.contains(*quote)) {
        Some(quote) if !text.contains('\n') => Ok(format!("{quote}{text}{quote}")),
        _ => Err(wrong("a name with both kinds of quotes, or a line end, cannot stand in RINGTRACE")),
    }
}

/// What arrives here is for the program. A terminal sends its keys to both.
struct Signals {
    terminate: Arc<AtomicBool>,
    hang_up: Arc<AtomicBool>,
}

/// So often it is looked whether a signal is to be passed on.
const LOOK: Duration = Duration::from_millis(20);

impl Signals {
    fn take() -> io::Result<Signals> {
        let flag = || Arc::new(AtomicBool::new(false));
        let (signals, ignored) = (Signals { terminate: flag(), hang_up: flag() }, flag());
        signal_hook::flag::register(SIGTERM, signals.terminate.clone())?;
        signal_hook::flag::register(SIGHUP, signals.hang_up.clone())?;
        signal_hook::flag::register(SIGINT, ignored.clone())?;
        signal_hook::flag::register(SIGQUIT, ignored)?;
        Ok(signals)
    }

    /// Waits for the program, and returns its exit code as a shell would.
    fn wait(&self, mut child: Child) -> io::Result<u8> {
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait()));
        loop {
            match ended.recv_timeout(LOOK) {
                Ok(status) => {
                    let status = status?;
                    let code = status.code().or(status.signal().map(|signal| 128 + signal));
                    return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX));
                }
                Err(_) => {
                    for (flag, signal) in [(&self.terminate, Signal::TERM), (&self.hang_up, Signal::HUP)] {
                        if let Some(pid) = pid.filter(|_| flag.swap(false, Ordering::Relaxed)) {
                            // It may have ended just now.
                            let _ = rustix::process::kill_process(pid, signal);
                        }
                    }
                }
            }
        }
    }
}
