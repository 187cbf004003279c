//! The `ringtrace` command.
//!
//! A verb is a struct of arguments with a function `run`, in a file of its own, and a variant of its group's `Verb`: [`live`]
//! about processes that run, [`traces`] about directories on disk, [`shell`] about this command. All take the options of
//! [`Common`], and all end in one of the exit codes of [`failure`].

mod common;
mod failure;
mod help;
mod live;
mod shell;
mod traces;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use common::Common;

/// Records what Rust programs do while they run, and shows what was recorded.
///
/// A trace is a directory in the Common Trace Format, 1.8 or 2; those of other tracers, such as LTTng, are read too.
#[derive(Debug, Parser)]
#[command(name = "ringtrace", version, after_help = failure::EXIT_CODES)]
struct Arguments {
    #[command(flatten)]
    common: Common,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Live(live::Verb),
    #[command(flatten)]
    Traces(traces::Verb),
    #[command(flatten)]
    Shell(shell::Verb),
}

/// How far a verb came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Complete,
    /// Something could not be read or done, and was told; the rest was.
    Partial,
    /// What was examined is not as it should be.
    Unwell,
    /// A program that was run ended with this code.
    Ended(u8),
}

fn main() -> ExitCode {
    let arguments = help::arguments();
    let common = &arguments.common;
    if common.json {
        failure::tell_in_json();
    }
    let done = match &arguments.verb {
        Verb::Live(verb) => verb.run(common),
        Verb::Traces(verb) => verb.run(common),
        Verb::Shell(verb) => verb.run(),
    };
    match done {
        Ok(Outcome::Complete) => ExitCode::SUCCESS,
        Ok(Outcome::Partial) => ExitCode::from(failure::PARTLY),
        Ok(Outcome::Unwell) => ExitCode::from(failure::UNWELL),
        Ok(Outcome::Ended(code)) => ExitCode::from(code),
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            failure::error(format_args!("{failure}"));
            ExitCode::from(failure.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_consistent() {
        super::help::command().debug_assert();
    }
}
