//! `cargo xtask crash`, and `cargo xtask soak`, which is another mode of the same program.

use crate::process::{Cmd, Tally};
use crate::stress;
use crate::workspace::{Metadata, root};
use anyhow::{Result, ensure};
use std::path::PathBuf;
use std::time::Duration;

/// Endings of the short form, and of a mutation that is not noticed.
const SHORT: u64 = 130;
const MUTATED: u64 = 260;
const LIMIT: Duration = Duration::from_secs(8 * 60 * 60);
/// Deaths of the soak's short form.
const FEW: u64 = 160;
/// Deaths of the soak.
pub(crate) const MANY: u64 = 1000;
/// Names of mutations of recovery begin so.
pub(crate) const PREFIX: &str = "recovery_";

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// So many endings; without it, the short form.
    #[arg(long, value_name = "N", default_value_t = SHORT)]
    endings: u64,
    /// By this means only, such as `SIGKILL in a write`.
    #[arg(long, value_name = "MEANS")]
    means: Option<String>,
    /// Another seed gives other moments and other programs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Break this step of recovery; the names are those in `trace-registry/src/mutation.rs` that begin with `recovery_`.
    #[arg(long, value_name = "NAME")]
    mutate: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let mut command = laboratory(arguments.endings, arguments.mutate.is_some())?;
    command = command.args(["--seed", &arguments.seed.to_string()]);
    if let Some(name) = &arguments.mutate {
        command = mutated(command, name);
    }
    if let Some(means) = &arguments.means {
        command = command.args(["--means", means]);
    }
    command.limit(LIMIT).passes()
}

/// The short form, and every mutation of recovery.
pub(crate) fn ci() -> Result<Tally> {
    let mut tally = Tally::default();
    for name in stress::names()?.iter().filter(|name| name.starts_with(PREFIX)) {
        // 1: something was wrong.
        let is_noticed = mutated(laboratory(MUTATED, true)?, name).limit(LIMIT).status()? == Some(1);
        if !is_noticed {
            println!("failed: the mutation {name} was not noticed");
        }
        tally += Tally::of(is_noticed);
    }
    tally += laboratory(SHORT, false)?.limit(LIMIT).check()?;
    Ok(tally)
}

/// Breaks a step of recovery. What concerns packets that were being written is met in one of 20 endings in a write, and hardly
/// in others.
fn mutated(laboratory: Cmd, name: &str) -> Cmd {
    let laboratory = laboratory.args(["--mutate", name]);
    match name {
        "recovery_written_again" | "recovery_partial_kept" => laboratory.args(["--means", "SIGKILL in a write"]),
        _ => laboratory,
    }
}

/// Programs that start and die in a loop.
pub(crate) fn soak(deaths: u64, seed: u64) -> Result<Cmd> {
    let program = stress::build("crash", false)?;
    Ok(Cmd::new(program).args(["soak", &deaths.to_string(), "--seed", &seed.to_string()]).limit(LIMIT))
}

/// The soak's short form.
pub(crate) fn soak_ci() -> Result<Tally> {
    soak(FEW, 1)?.check()
}

fn laboratory(endings: u64, with_mutations: bool) -> Result<Cmd> {
    let program = stress::build("crash", with_mutations)?;
    Ok(Cmd::new(program).arg(endings.to_string()).arg("--command").arg(command()?))
}

/// The `ringtrace` command, as the tests have it.
pub(crate) fn command() -> Result<PathBuf> {
    let build = ["build", "--quiet", "--package", "trace-cli", "--bin", "ringtrace", "--features", "trace-runtime/tokio"];
    let built = Cmd::cargo().args(build).dir(root());
    ensure!(built.passes_unshown()?, "the command does not build");
    Ok(Metadata::of_workspace()?.target("").join("debug/ringtrace"))
}
