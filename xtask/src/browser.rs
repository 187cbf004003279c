//! `cargo xtask browser`.

use crate::process::{Cmd, Tally};
use crate::workspace::root;
use anyhow::Result;

pub(crate) fn run() -> Result<Tally> {
    let tests = Cmd::cargo().args(["test", "--package", "trace-cli", "--test", "report", "--", "--ignored", "--nocapture"]);
    tests.dir(root()).tests()
}
