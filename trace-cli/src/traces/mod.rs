//! Verbs about traces: directories on disk.

mod formats;
mod json;
mod open;
mod view;

use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    View(view::Arguments),
    Formats(formats::Arguments),
}

impl Verb {
    pub(crate) fn run(&self, common: &Common) -> Result<Outcome, Failure> {
        match self {
            Self::View(arguments) => view::run(arguments, common),
            Self::Formats(arguments) => formats::run(arguments, common),
        }
    }
}
