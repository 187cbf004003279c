//! `cargo xtask ui`.

use crate::process::{Cmd, Tally};
use crate::workspace::root;
use anyhow::Result;

pub(crate) fn run(bless: bool) -> Result<Tally> {
    let tests = Cmd::cargo().args(["test", "--package", "ui-tests"]).dir(root());
    if bless { tests.env("TRYBUILD", "overwrite") } else { tests }.tests()
}
