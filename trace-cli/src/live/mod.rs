//! Verbs about programs that run.

pub(crate) mod aggregate;
mod change;
mod config;
mod core_dump;
mod diagnose;
mod external;
mod family;
mod list;
mod module;
mod process;
mod ps;
mod record;
mod recover;
mod run;
mod session;
mod snapshot;
mod status;
mod target;
pub(crate) mod text;
mod trigger;
mod watch;
mod written;

use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Ps(ps::Arguments),
    Recover(recover::Recover),
    Clean(recover::Clean),
    Core(core_dump::Arguments),
    List(list::Arguments),
    Run(run::Arguments),
    Record(record::Arguments),
    Enable(change::Enable),
    Disable(change::Disable),
    Status(status::Arguments),
    Why(diagnose::Why),
    Doctor(diagnose::Doctor),
    Session(session::Arguments),
    Config(config::Arguments),
    Snapshot(snapshot::Arguments),
    Trigger(trigger::Arguments),
    Watch(watch::Arguments),
    Count(aggregate::Arguments),
    Module(module::Arguments),
}

impl Verb {
    pub(crate) fn run(&self, common: &Common) -> Result<Outcome, Failure> {
        match self {
            Self::Ps(arguments) => ps::run(arguments, common),
            Self::Recover(arguments) => recover::recover(arguments, common),
            Self::Clean(arguments) => recover::clean(arguments, common),
            Self::Core(arguments) => core_dump::run(arguments, common),
            Self::List(arguments) => list::run(arguments, common),
            Self::Run(arguments) => run::run(arguments, common),
            Self::Record(arguments) => record::run(arguments, common),
            Self::Enable(arguments) => change::enable(arguments, common),
            Self::Disable(arguments) => change::disable(arguments, common),
            Self::Status(arguments) => status::run(arguments, common),
            Self::Why(arguments) => diagnose::why(arguments, common),
            Self::Doctor(arguments) => diagnose::doctor(arguments, common),
            Self::Config(arguments) => config::run(arguments, common),
            Self::Snapshot(arguments) => snapshot::run(arguments, common),
            Self::Trigger(arguments) => trigger::run(arguments, common),
            Self::Watch(arguments) => watch::run(arguments, common),
            Self::Count(arguments) => aggregate::count(arguments, common),
            Self::Module(arguments) => module::run(arguments, common),
            Self::Session(arguments) => session::run(arguments, common),
        }
    }
}
