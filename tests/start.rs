//! The first five minutes of a new user: `cargo new`, `cargo add`, five lines, `RINGTRACE=print cargo run`.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MAIN: &str = r#"#[ringtrace::tracepoint(record)]
fn request(id: u64, path: &str);
fn main() { ringtrace::init(); for i in 0..3 { request(i, "/"); } }
"#;

/// Like the five lines, without calling `init`.
const AUTO: &str = r#"#[ringtrace::tracepoint(record)]
fn request(id: u64, path: &str);
fn main() { for i in 0..3 { request(i, "/"); } }
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cargo(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    // What this test is built with (portable, instrumented…) is not what the new program is built with.
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RINGTRACE"] {
        command.env_remove(variable);
    }
    command.current_dir(directory).env("CARGO_TARGET_DIR", common::nested_target());
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Makes a program as a user would.
fn new_program(parent: &Path, name: &str, features: &[&str], main: &str) -> PathBuf {
    succeed(cargo(parent).args(["new", "--quiet", "--vcs", "none", name]));
    let directory = parent.join(name);
    let mut add = cargo(&directory);
    add.args(["add", "--quiet", "--path"]).arg(root());
    succeed(add.args(features.iter().flat_map(|f| ["--features", f])));
    // The versions that this workspace is tested with; and nothing is downloaded twice.
    std::fs::copy(root().join("Cargo.lock"), directory.join("Cargo.lock")).expect("the lock file is copied");
    std::fs::write(directory.join("src/main.rs"), main).expect("main.rs is written");
    directory
}

#[test]
fn five_lines_and_a_variable_print_the_events() {
    let parent = tempfile::tempdir().expect("a directory");
    let program = new_program(parent.path(), "first", &[], MAIN);
    let output = succeed(cargo(&program).args(["run", "--quiet"]).env("RINGTRACE", "print"));
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    for id in 0..3 {
        let is_it = |l: &str| l.contains("first:request") && l.contains(&format!("id={id}")) && l.contains("path=\"/\"");
        assert!(lines.lines().any(is_it), "{lines}");
    }
    assert_eq!(lines.lines().count(), 3, "{lines}");

    // Without the variable it is silent, and leaves nothing behind.
    let output = succeed(cargo(&program).args(["run", "--quiet"]));
    assert!(output.stderr.is_empty() && output.stdout.is_empty());

    // With 1, a trace is written, and its place is told once.
    let output = succeed(cargo(&program).args(["run", "--quiet"]).env("RINGTRACE", "1"));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let place = message.trim().rsplit(' ').next().map(|p| program.join(p)).expect("the place is told");
    assert!(message.lines().count() == 1 && message.contains("3 events"), "{message}");
    assert_eq!(common::read_by_both(&place).numbers("first:request", "id"), [0, 1, 2]);
}

#[test]
fn the_feature_auto_needs_no_call() {
    let parent = tempfile::tempdir().expect("a directory");
    let program = new_program(parent.path(), "unchanged", &["auto"], AUTO);
    let output = succeed(cargo(&program).args(["run", "--quiet"]).env("RINGTRACE", "print"));
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(lines.matches("unchanged:request").count(), 3, "{lines}");
}
