//! `ringtrace enable` and `ringtrace disable`.

use std::io::Write as _;

use serde_json::json;
use trace_control::Error;
use trace_control::protocol::{Changed, RefusalKind, Request, Rules, SessionPlan, SessionState};

use super::process::Process;
use super::session::{DEFAULT, new_trace};
use super::status::probes;
use super::target::{self, Purpose, Target};
use super::text;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Records what a rule matches, from now on.
///
/// The session `default` is made if there is none, and records until `ringtrace session destroy default`, or until the
/// process ends. `ringtrace record` is for a recording that ends with the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Enable {
    #[command(flatten)]
    change: Change,
}

/// Records what a rule matches no longer.
#[derive(Debug, clap::Args)]
pub(crate) struct Disable {
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, clap::Args)]
struct Change {
    /// Rules, such as 'storage:* level info'; several are separated by `;` or given as several arguments.
    #[arg(required = true, value_name = "RULE")]
    rules: Vec<String>,

    /// Session.
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT)]
    session: String,

    #[command(flatten)]
    target: Target,
}

pub(crate) fn enable(arguments: &Enable, common: &Common) -> Result<Outcome, Failure> {
    let change = &arguments.change;
    change.each(|process| {
        let done = process.ask(&Request::Enable(change.rules(process)));
        match done {
            Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::NoSession && change.session == DEFAULT => {
                begin(process, change, common)
            }
            Err(error) => Err(process.failure(error)),
            Ok(done) => report(process, &done, "enabled", common),
        }
    })
}

pub(crate) fn disable(arguments: &Disable, common: &Common) -> Result<Outcome, Failure> {
    let change = &arguments.change;
    change.each(|process| {
        let done = process.demand(&Request::Disable(change.rules(process)))?;
        report(process, &done, "disabled", common)
    })
}

impl Change {
    fn each(&self, work: impl FnMut(&mut Process) -> Result<(), Failure>) -> Result<Outcome, Failure> {
        target::each(&mut target::share(self.target.chosen()?, &self.rules.join("; "), Purpose::Change), work)
    }

    fn rules(&self, process: &Process) -> Rules {
        Rules { session: self.session.clone(), rules: process.rules(&self.rules.join("; ")).to_owned() }
    }
}

/// Makes the default session.
fn begin(process: &mut Process, change: &Change, common: &Common) -> Result<(), Failure> {
    let output = new_trace(&process.file_name())?;
    let plan = SessionPlan {
        session: DEFAULT.to_owned(),
        rules: vec![change.rules(process).rules],
        output: Some(output),
        ..SessionPlan::default()
    };
    let state: SessionState = process.demand(&Request::Create(Box::new(plan)))?;
    let done = Changed {
        session: state.name.clone(),
        recording: true,
        probes: state.probes,
        state_dumps: state.state_dumps,
        warnings: state.warnings.clone(),
    };
    report(process, &done, "enabled", common)?;
    if let (Some(output), false) = (&state.output, common.json) {
        failure::note(format_args!("recording into {}, until `ringtrace session destroy {DEFAULT}`", output.display()));
    }
    Ok(())
}

fn report(process: &Process, done: &Changed, what: &str, common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if common.json {
        writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, what: done })))?;
    } else {
        let waits = if done.recording { "" } else { "; the session is stopped: `ringtrace session start` starts it" };
        let changed = probes(done.probes, done.state_dumps, what);
        writeln!(out, "{}: {changed} in session {}{waits}", process.name(), done.session)?;
    }
    failure::warnings(&done.warnings);
    Ok(())
}
