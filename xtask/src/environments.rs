//! `cargo xtask environments`: the event path where threads have no restartable sequences of ours, or somebody watches memory.
//!
//! What takes a build of its own, with tools that Debian does not have. The others are part of `cargo xtask test`: the C library
//! without its areas (`GLIBC_TUNABLES`), valgrind, a debugger, system calls that are refused (`tests/host_safety.rs`).
//!
//! Not ThreadSanitizer: it knows nothing of what assembly stores, so it could only be wrong about a ring.

use crate::bench::Form;
use crate::process::{Cmd, Tally};
use crate::workspace::{Metadata, has_target, host, root};
use anyhow::Result;

const MUSL: &str = "x86_64-unknown-linux-musl";
/// Everything that was fired is found by both readers; lists come and go under load; events in signal handlers, destructors and
/// children.
const TESTS: [&str; 3] = ["agreement", "toggle", "places"];

pub(crate) fn run(form: Form) -> Result<Tally> {
    let mut tally = Tally::default();
    if has_target(MUSL)? {
        tally += tests(Cmd::cargo(), MUSL, form).tests()?;
    } else {
        println!("musl: left out; `rustup target add {MUSL}` makes it possible");
    }
    if Cmd::new("rustc").args(["+nightly", "--version"]).read().is_ok() {
        tally += tests(Cmd::new("cargo").arg("+nightly"), &host()?, form)
            .env("RUSTFLAGS", "-Zsanitizer=address")
            // What panics carried is leaked on purpose: its destructor may panic too.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("CARGO_TARGET_DIR", Metadata::of_workspace()?.target("sanitizer"))
            .tests()?;
    } else {
        println!("AddressSanitizer: left out; `rustup toolchain install nightly` makes it possible");
    }
    Ok(tally)
}

fn tests(cargo: Cmd, target: &str, form: Form) -> Cmd {
    let cargo = cargo.args(["test", "--package", "ringtrace", "--no-fail-fast", "--target", target]).dir(root());
    let tests = if form == Form::Short { &TESTS[..1] } else { &TESTS };
    tests.iter().fold(cargo, |cargo, test| cargo.args(["--test", test]))
}
