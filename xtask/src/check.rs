//! `cargo xtask check`.

use crate::process::{Cmd, Tally};
use crate::workspace::{Metadata, has_target, host, root, text};
use anyhow::{Context, Result};

/// What a no-default-features library or probe crate compiles.
const NO_FEATURES: [&str; 4] = ["--package", "ringtrace", "--package", "trace-registry"];

/// Other processors, which have the fallback region only; the second knows events without a declaration from their first hit.
const OTHERS: [&str; 2] = ["aarch64-unknown-linux-gnu", "riscv64gc-unknown-linux-gnu"];

pub(crate) fn run() -> Result<Tally> {
    let mut tally = Tally::default();
    tally += cargo(["fmt", "--all", "--check"]).check()?;
    tally += cargo(["clippy", "--workspace", "--all-targets"]).args(DENY_WARNINGS).check()?;
    tally += cargo(["clippy", "--no-default-features", "--lib"]).args(NO_FEATURES).args(DENY_WARNINGS).check()?;
    tally += cargo(["clippy", "--all-features", "--lib", "--package", "ringtrace"]).args(DENY_WARNINGS).check()?;
    let host = host()?;
    for cfg in ["ringtrace_portable", "ringtrace_off"] {
        tally += cargo(["clippy", "--lib", "--package", "ringtrace", "--target", &host])
            .env("RUSTFLAGS", format!("--cfg {cfg}"))
            .args(DENY_WARNINGS)
            .check()?;
    }
    // As a library without `std` is on other systems.
    tally += cargo(["clippy", "--lib", "--package", "trace-registry", "--target", &host])
        .env("RUSTFLAGS", "--cfg ringtrace_portable")
        .args(DENY_WARNINGS)
        .check()?;
    for target in OTHERS {
        if has_target(target)? {
            tally += cargo(["clippy", "--lib", "--package", "ringtrace", "--target", target]).args(DENY_WARNINGS).check()?;
        } else {
            println!("{target}: left out; `rustup target add {target}` makes it possible");
        }
    }
    // The command has the facade's name, and documentation of one would overwrite the other's.
    // Private items too, and links to them: module docs are the design documents.
    tally += cargo(["doc", "--no-deps", "--document-private-items", "--workspace"])
        .args(["trace-cli", "xtask", "ui-tests"].iter().flat_map(|p| ["--exclude", p]))
        .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")
        .check()?;
    tally += oldest_rust()?;
    Ok(tally)
}

const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];

fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Cmd {
    Cmd::cargo().args(args).dir(root())
}

/// Installs by rustup what only makes more checks possible. What cannot be installed is left out of the checks.
pub(crate) fn install() -> Result<()> {
    for target in OTHERS {
        if !has_target(target)? {
            Cmd::new("rustup").args(["target", "add", target]).passes()?;
        }
    }
    let version = oldest_version()?;
    let installed = Cmd::new("rustup").args(["toolchain", "list"]).read()?;
    if !installed.split_whitespace().any(|toolchain| toolchain.starts_with(&version)) {
        let toolchain = format!("{version}.0");
        Cmd::new("rustup").args(["toolchain", "install", &toolchain, "--profile", "minimal"]).passes()?;
    }
    Ok(())
}

/// The oldest Rust that the libraries support: `1.85`.
fn oldest_version() -> Result<String> {
    let metadata = Metadata::of_workspace()?;
    let facade = metadata.packages().iter().find(|p| p["name"] == "ringtrace").context("no package ringtrace")?;
    Ok(text(&facade["rust_version"]).to_owned())
}

/// Compiles the libraries with the oldest Rust they support, where it is installed. Where it is not, clippy's
/// `incompatible_msrv` and `tidy` still hold the known differences.
fn oldest_rust() -> Result<Tally> {
    let version = oldest_version()?;
    let installed = Cmd::new("rustup").args(["toolchain", "list"]).read().unwrap_or_default();
    let Some(toolchain) = installed.split_whitespace().find(|t| t.starts_with(&version)) else {
        println!("Rust {version} is not installed: the libraries are not compiled with it here");
        return Ok(Tally::default());
    };
    Cmd::new("rustup")
        .args(["run", toolchain, "cargo", "check", "--package", "ringtrace", "--target-dir"])
        .arg(Metadata::of_workspace()?.target("oldest-rust"))
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .dir(root())
        .check()
}
