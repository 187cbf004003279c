//! `cargo xtask tools`, and `--install`: what the checks need beside cargo.
//!
//! The one list of it. `.ci/run` installs from it, and each verb that needs something looks for it before it compiles anything.

use crate::process::Cmd;
use anyhow::{Result, bail, ensure};

/// A program, the Debian packages that bring it, and the verbs that need it.
struct Tool {
    name: &'static str,
    packages: &'static [&'static str],
    verbs: &'static [&'static str],
}

/// The verbs that need everything.
const ALL: [&str; 2] = ["ci", "tools"];

const TOOLS: [Tool; 12] = [
    // rustc links with it: without it this program is not there either, but for a `target` directory from elsewhere.
    Tool { name: "cc", packages: &["gcc", "libc6-dev"], verbs: &["test", "link-matrix"] },
    Tool { name: "clang", packages: &["clang"], verbs: &["test", "link-matrix"] },
    Tool { name: "ld.lld", packages: &["lld"], verbs: &["test", "link-matrix"] },
    Tool { name: "mold", packages: &["mold"], verbs: &["test", "link-matrix"] },
    Tool { name: "objdump", packages: &["binutils"], verbs: &["golden"] },
    // The reference reader.
    Tool { name: "babeltrace2", packages: &["babeltrace2"], verbs: &["test", "crash", "environments"] },
    // Traces of another tracer.
    Tool { name: "lttng", packages: &["lttng-tools"], verbs: &["test"] },
    // Its headers go with it.
    Tool { name: "lttng-gen-tp", packages: &["liblttng-ust-dev"], verbs: &["test"] },
    Tool { name: "valgrind", packages: &["valgrind"], verbs: &["test", "instructions"] },
    Tool { name: "gdb", packages: &["gdb"], verbs: &["test"] },
    // A newer reference reader, for CTF 2; `ctf2` is left out without it.
    Tool { name: "debootstrap", packages: &["debootstrap"], verbs: &[] },
    Tool { name: "chromium", packages: &["chromium"], verbs: &["browser"] },
];
/// What CI does without: 240 MB.
const NOT_IN_CI: &str = "chromium";

/// Components of the Rust toolchain, which `check` needs.
const COMPONENTS: [&str; 2] = ["clippy", "fmt"];

impl Tool {
    fn is_of(&self, verb: &str) -> bool {
        self.verbs.contains(&verb) || ALL.contains(&verb) && self.name != NOT_IN_CI
    }
}

/// Whether a program is in one of the directories of `PATH`, or of the system's programs, which users do not have in it.
pub(crate) fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories.any(|directory| directory.join(name).is_file())
}

/// Names and packages of what a verb needs and this machine lacks.
fn missing(verb: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let tools = TOOLS.iter().filter(|tool| tool.is_of(verb) && !is_there(tool.name));
    tools.fold(Default::default(), |(mut names, mut packages): (Vec<_>, Vec<_>), tool| {
        names.push(tool.name);
        packages.extend(tool.packages);
        (names, packages)
    })
}

/// Components of the toolchain that a verb needs and that are not installed.
fn missing_components(verb: &str) -> Vec<&'static str> {
    let is_needed = verb == "check" || ALL.contains(&verb);
    let is_missing = |component: &&str| Cmd::cargo().args([component, "--version"]).read().is_err();
    COMPONENTS.into_iter().filter(|_| is_needed).filter(is_missing).map(|c| if c == "fmt" { "rustfmt" } else { c }).collect()
}

/// Looks for what a verb needs. With `install`, installs it first.
///
/// # Errors
///
/// Something is missing: one line that names it, and the command that installs it.
pub(crate) fn ready(verb: &str, install: bool) -> Result<()> {
    let (_, packages) = missing(verb);
    if install && !packages.is_empty() {
        apt_get(&packages)?;
    }
    if install {
        toolchain(verb)?;
    }
    let ((names, packages), components) = (missing(verb), missing_components(verb));
    if names.is_empty() && components.is_empty() {
        return Ok(());
    }
    let mut by_hand = Vec::new();
    if !packages.is_empty() {
        by_hand.push(format!("apt-get install {}", packages.join(" ")));
    }
    if !components.is_empty() {
        by_hand.push(format!("rustup component add {}", components.join(" ")));
    }
    let names = [names, components].concat().join(", ");
    let by_hand = by_hand.join(" && ");
    bail!("`cargo xtask {verb}` needs what is missing here: {names}; `cargo xtask {verb} --install` installs it ({by_hand})")
}

fn apt_get(packages: &[&str]) -> Result<()> {
    ensure!(is_there("apt-get"), "there is no apt-get here: install by other means what Debian has in {}", packages.join(", "));
    // Nothing is asked, and the environment is what sudo keeps.
    let is_root = rustix::process::geteuid().is_root();
    ensure!(is_root || is_there("sudo"), "neither root nor sudo is here; as root: apt-get install {}", packages.join(" "));
    let apt_get = || Cmd::new(if is_root { "env" } else { "sudo" }).args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]);
    ensure!(apt_get().arg("update").passes()?, "apt-get has no lists of packages");
    let install = apt_get().args(["install", "-y", "--no-install-recommends"]).args(packages);
    ensure!(install.passes()?, "apt-get installs not all of {}", packages.join(", "));
    Ok(())
}

/// The components, and what only makes more checks possible: `check` says so where it is missing.
fn toolchain(verb: &str) -> Result<()> {
    let components = missing_components(verb);
    if !is_there("rustup") {
        return Ok(());
    }
    if !components.is_empty() {
        Cmd::new("rustup").args(["component", "add"]).args(components).passes()?;
    }
    if ALL.contains(&verb) || verb == "check" {
        crate::check::install()?;
    }
    Ok(())
}

/// Prints what there is, as `cargo xtask tools`.
pub(crate) fn list() {
    for tool in &TOOLS {
        let state = if is_there(tool.name) { "there" } else { "missing" };
        let optional = if tool.name == NOT_IN_CI { ", not in `ci`" } else { "" };
        println!("{state:8} {} (Debian: {}{optional})", tool.name, tool.packages.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for() {
        assert!(is_there("sh"));
        assert!(!is_there("no-program-has-this-name"));
    }

    #[test]
    fn ci_needs_what_its_verbs_need() {
        for tool in TOOLS.iter().filter(|tool| tool.name != NOT_IN_CI) {
            assert!(tool.is_of("ci") && tool.is_of("tools"), "{}", tool.name);
            assert!(!tool.is_of("tidy"), "{}", tool.name);
        }
    }
}
