//! `ringtrace watch`: firings of triggers, as they come.

use std::io::Write as _;
use std::process::{Command, Stdio};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;
use trace_control::protocol::{After, Firing, Firings, Request};

use super::process::Process;
use super::target::Target;
use super::text;
use super::trigger::receipt;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Shows when triggers with the action `notify` fire, until the process ends or this command is interrupted.
///
/// Each firing is a line with its time, and lines with what was done.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Show those of this session only.
    #[arg(short, long, value_name = "NAME")]
    session: Option<String>,

    /// Begin with the firings that the process still knows of, the last 1000 at most.
    #[arg(long)]
    all: bool,

    /// End after so many firings.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Run a command in the shell for each firing, here and not in the watched process; one after the other. It reads the firing as a
    /// line of JSON, and has RINGTRACE_TRIGGER, RINGTRACE_SESSION, RINGTRACE_PID, and RINGTRACE_SNAPSHOT where one was taken.
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,

    #[command(flatten)]
    target: Target,
}

/// So long a process is asked at most before it is asked again.
const LONGEST_MS: u64 = 10_000;

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let process = &mut arguments.target.only()?;
    let mut after = Some(0).filter(|_| arguments.all);
    if after.is_none() {
        after = Some(process.demand::<Firings>(&Request::Firings(After { after, ms: 0 }))?.last);
    }
    if !common.json {
        failure::note(format_args!("watching {}", process.name()));
    }
    let mut left = arguments.count.unwrap_or(u64::MAX);
    loop {
        let found: Firings = match process.ask(&Request::Firings(After { after, ms: LONGEST_MS })) {
            Ok(found) => found,
            Err(error) if Process::has_ended(&error) => return Ok(Outcome::Complete),
            Err(error) => return Err(process.failure(error)),
        };
        if found.forgotten > 0 {
            failure::warning(format_args!("{} firings came too fast, and are not shown", found.forgotten));
        }
        for firing in found.firings.iter().filter(|f| arguments.session.as_ref().is_none_or(|name| *name == f.session)) {
            show(process, firing, common)?;
            if let Some(command) = &arguments.exec {
                execute(command, process, firing)?;
            }
            left -= 1;
            if left == 0 {
                return Ok(Outcome::Complete);
            }
        }
        after = Some(found.last);
    }
}

fn show(process: &Process, firing: &Firing, common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if common.json {
        writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, "firing": firing })))?;
        return Ok(out.flush()?);
    }
    let time = Timestamp::from_nanosecond(firing.time_ns.into()).unwrap_or_default().to_zoned(TimeZone::system());
    let mut lines = receipt(firing).into_iter();
    let first = lines.next().unwrap_or_default();
    writeln!(out, "{}  {}: {} fired: {first}", time.strftime("%H:%M:%S.%f"), process.name(), firing.trigger)?;
    lines.try_for_each(|line| writeln!(out, "  {line}"))?;
    Ok(out.flush()?)
}

fn execute(command: &str, process: &Process, firing: &Firing) -> Result<(), Failure> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::piped());
    shell.env("RINGTRACE_TRIGGER", &firing.trigger).env("RINGTRACE_SESSION", &firing.session);
    shell.env("RINGTRACE_PID", process.is.pid.to_string()).env_remove("RINGTRACE_SNAPSHOT");
    if let Some(saved) = &firing.saved {
        shell.env("RINGTRACE_SNAPSHOT", &saved.receipt.path);
    }
    let mut child = shell.spawn().map_err(|error| Failure::file("sh".as_ref(), error))?;
    if let Some(mut input) = child.stdin.take() {
        let line = process.line(json!({ "pid": process.is.pid, "firing": firing }));
        // It need not read it.
        let _ = writeln!(input, "{line}");
    }
    let status = child.wait().map_err(|error| Failure::file("sh".as_ref(), error))?;
    if !status.success() {
        failure::warning(format_args!("`{command}`: {status}"));
    }
    Ok(())
}
