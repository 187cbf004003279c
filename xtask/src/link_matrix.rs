//! `cargo xtask link-matrix`.

use crate::process::{Cmd, Tally};
use crate::workspace::root;
use anyhow::Result;

pub(crate) fn run(full: bool) -> Result<Tally> {
    let tests = Cmd::cargo().args(["test", "--package", "ringtrace", "--test", "link_matrix", "--", "--nocapture"]).dir(root());
    if full { tests.env("RINGTRACE_LINK_MATRIX", "full") } else { tests }.tests()
}
