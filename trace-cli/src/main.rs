//! The `ringtrace` command.

mod failure;
mod formats;
mod json;
mod open;
mod view;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Shows what Ringtrace and other CTF 1.8 tracers recorded.
///
/// A trace is a directory with a file `metadata` and one file per stream. Give that directory, or one above it: all traces
/// found below are shown together, in the order of their time stamps.
#[derive(Debug, Parser)]
#[command(name = "ringtrace", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    View(view::Arguments),
    Formats(formats::Arguments),
}

const EXIT_CODES: &str = "\
Exit codes:
  0  everything was read; also when the reader of the output went away
  1  nothing could be read
  2  wrong usage
  3  a part could not be read, the rest was shown: the trace is cut or damaged";

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Complete,
    Partial,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        Command::View(arguments) => view::run(arguments),
        Command::Formats(arguments) => formats::run(arguments),
    };
    match done {
        Ok(Outcome::Complete) => ExitCode::SUCCESS,
        Ok(Outcome::Partial) => ExitCode::from(3),
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            failure::complain(format_args!("error: {failure}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_consistent() {
        <super::Arguments as clap::CommandFactory>::command().debug_assert();
    }
}
