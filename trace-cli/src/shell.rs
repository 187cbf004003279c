//! Verbs about the command itself: what a shell and a manual need of it.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap_complete::Shell;

use crate::failure::Failure;
use crate::{Outcome, help};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Completions(Completions),
    Man(Man),
}

/// Prints a script that completes verbs and options in a shell.
///
/// For bash: ringtrace completions bash > ~/.local/share/bash-completion/completions/ringtrace
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

/// Writes the manual pages into a directory.
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Where: a directory `man1` of a path in MANPATH.
    directory: PathBuf,
}

impl Verb {
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        match self {
            Self::Completions(Completions { shell }) => {
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut help::command(), "ringtrace", &mut script);
                io::Write::write_all(&mut io::stdout().lock(), &script)?;
            }
            Self::Man(Man { directory }) => {
                fs::create_dir_all(directory).map_err(|error| Failure::file(directory, error))?;
                clap_mangen::generate_to(help::command(), directory).map_err(|error| Failure::file(directory, error))?;
            }
        }
        Ok(Outcome::Complete)
    }
}
