//! Verbs about programs that run.

mod change;
mod list;
mod process;
mod ps;
mod record;
mod session;
mod status;
mod target;
mod text;

use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Ps(ps::Arguments),
    List(list::Arguments),
    Record(record::Arguments),
    Enable(change::Enable),
    Disable(change::Disable),
    Status(status::Arguments),
    Session(session::Arguments),
}

impl Verb {
    pub(crate) fn run(&self, common: &Common) -> Result<Outcome, Failure> {
        match self {
            Self::Ps(arguments) => ps::run(arguments, common),
            Self::List(arguments) => list::run(arguments, common),
            Self::Record(arguments) => record::run(arguments, common),
            Self::Enable(arguments) => change::enable(arguments, common),
            Self::Disable(arguments) => change::disable(arguments, common),
            Self::Status(arguments) => status::run(arguments, common),
            Self::Session(arguments) => session::run(arguments, common),
        }
    }
}
