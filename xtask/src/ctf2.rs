//! `cargo xtask ctf2`: traces in CTF 2 as the other reader sees them.
//!
//! Debian 12 has babeltrace2 2.0.4, which does not know CTF 2; Debian 13 has 2.1. So that is installed into a directory.

use crate::process::{Cmd, Tally};
use crate::workspace::{Metadata, root};
use anyhow::Result;

const RELEASE: &str = "trixie";

pub(crate) fn run() -> Result<Tally> {
    let system = Metadata::of_workspace()?.target("debian-13");
    // Its last step.
    let done = system.join("installed");
    if !done.exists() {
        let _ = std::fs::remove_dir_all(&system);
        let install = Cmd::new("debootstrap").args(["--variant=minbase", "--include=babeltrace2", RELEASE]).arg(&system);
        if let Err(error) = install.read() {
            println!("left out; it needs root, debootstrap (Debian: debootstrap) and a network: {error:#}");
            return Ok(Tally::default());
        }
        std::fs::write(&done, "")?;
    }
    let test = Cmd::cargo().args(["test", "--package", "trace-ctf", "--test", "ctf2", "--no-fail-fast"]).dir(root());
    test.env("BABELTRACE2_CHROOT", system).tests()
}
