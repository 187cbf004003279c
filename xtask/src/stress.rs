//! `cargo xtask stress`.

use crate::crash;
use crate::process::{Cmd, Tally};
use crate::workspace::{Metadata, files, host, root};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;

/// Events of the short form, without those of the processes that are killed, and the number of these.
const SHORT: [&str; 2] = ["100000000", "60"];
const LONG: [&str; 2] = ["1000000000", "600"];
/// Events after which a mutation was not noticed.
const MUTATED: [&str; 2] = ["400000000", "0"];
const LIMIT: Duration = Duration::from_secs(4 * 60 * 60);
const MUTATED_LIMIT: Duration = Duration::from_secs(600);
/// Where the mutations are listed.
const MUTATIONS: &str = "trace-registry/src/mutation.rs";

/// With features as the benches of the facade need them, so that what they share is built once.
pub(crate) const PACKAGES: [&str; 6] = ["--package", "stress", "--package", "crash", "--features", "trace-runtime/tokio"];

/// Builds the stress test and the kill laboratory, and returns the one of that name. Mutations are a build of their own.
pub(crate) fn build(program: &str, with_mutations: bool) -> Result<PathBuf> {
    let (host, target) = (host()?, Metadata::of_workspace()?.target(""));
    let cargo = Cmd::cargo().args(["build", "--quiet", "--release", "--target", &host]).args(PACKAGES).dir(root());
    let cargo = if with_mutations { cargo.cfg("ringtrace_mutate") } else { cargo };
    ensure!(cargo.passes()?, "{program} does not build");
    let directory = target.join(host).join("release");
    let built = directory.join(program);
    // The next build has the same name.
    let kept = directory.join(format!("{program}-{}", if with_mutations { "with-mutations" } else { "as-it-is" }));
    std::fs::copy(&built, &kept).with_context(|| built.display().to_string())?;
    Ok(kept)
}

/// Runs it; in the long form behind kills at every instruction of the append, of close and of open. Returns whether nothing was wrong.
pub(crate) fn run(is_long: bool) -> Result<bool> {
    let is_killed_well = !is_long || {
        let kills = Cmd::cargo().args(["test", "--quiet", "--package", "trace-runtime", "--test", "ring_kill"]).dir(root());
        kills.env("RING_KILL_ALL", "1").passes()?
    };
    let stress = Cmd::new(build("stress", false)?).args(if is_long { LONG } else { SHORT }).limit(LIMIT);
    Ok(stress.passes()? && is_killed_well)
}

/// Runs it with one step of a protocol broken. Returns whether nothing was wrong, which would be: the test is to fail.
pub(crate) fn mutated(name: &str) -> Result<bool> {
    let names = names()?;
    ensure!(names.iter().any(|n| n == name), "no mutation {name}; there are {}", names.join(", "));
    Cmd::new(build("stress", true)?).args(MUTATED).arg(name).limit(LIMIT).passes()
}

/// The short form, and every mutation.
pub(crate) fn ci() -> Result<Tally> {
    let mut tally = Tally::default();
    let with_mutations = build("stress", true)?;
    for name in names()?.into_iter().filter(|name| !name.starts_with(crash::PREFIX)) {
        let test = Cmd::new(&with_mutations).args(MUTATED).arg(&name).limit(MUTATED_LIMIT);
        println!("$ {test}");
        // 1: something was wrong.
        let is_noticed = test.status()? == Some(1);
        if !is_noticed {
            println!("failed: the mutation {name} was not noticed");
        }
        tally += Tally::of(is_noticed);
    }
    tally += Tally::of(run(false)?);
    Ok(tally)
}

/// The names in the list of mutations.
pub(crate) fn names() -> Result<Vec<String>> {
    let source = files()?.into_iter().find(|f| f.path == MUTATIONS).context(MUTATIONS)?.text;
    let table = source.split_once("\nmutations! {").and_then(|(_, rest)| rest.split_once("\n}")).context("the table")?.0;
    Ok(table.lines().filter_map(|line| Some(line.trim().split_once(": \"")?.0.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_mutations_are_found() {
        let names = super::names().expect("a table");
        assert!(names.len() >= 18 && names.iter().any(|n| n == "position_before_bytes"), "{names:?}");
    }
}
