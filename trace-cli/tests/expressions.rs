//! `--if` on a trace whose events differ in their fields.

use std::path::Path;
use std::process::Command;

use ringtrace::{Session, tracepoint};

#[tracepoint(record)]
fn read(bytes: u64, path: &str);

#[tracepoint(record)]
fn write(written: u64, parts: &[u32]);

#[tracepoint(record)]
fn opened(path: u64);

/// The exit code, and what is printed on stdout and stderr.
fn view(directory: &Path, condition: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtrace"));
    let output = command.args(["view", "trace", "--if", condition]).current_dir(directory).output();
    let output = output.expect("the command starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("expressions:", "");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_event_is_chosen_by_the_fields_that_it_has() {
    let here = tempfile::tempdir().expect("a directory");
    let session = Session::builder("expressions").enable("expressions:*").output(here.path().join("trace")).start();
    let session = session.unwrap_or_else(|e| panic!("{e}"));
    for n in 0..3 {
        read(n, "a");
        write(n, &[1, 2]);
    }
    opened(9);
    session.stop().unwrap_or_else(|e| panic!("{e}"));
    let shown = |condition: &str| {
        let (code, out, err) = view(here.path(), condition);
        assert_eq!(code, Some(0), "{condition}: {err}");
        let event = |line: &str| {
            line.split_once("  ").map(|(_, event)| event.split_once("  [").map_or(event, |(event, _)| event).to_owned())
        };
        out.lines().filter_map(event).collect::<Vec<_>>()
    };
    assert_eq!(shown("bytes > 1 || written == 1"), ["write  written=1 parts=[1, 2]", "read  bytes=2 path=\"a\""]);
    assert_eq!(
        shown("written < 1 || bytes + 1 == 3 && path == \"a\""),
        ["write  written=0 parts=[1, 2]", "read  bytes=2 path=\"a\""]
    );
    // What is not there is neither so nor otherwise.
    assert_eq!(shown("!(bytes > 0)"), ["read  bytes=0 path=\"a\""]);
    assert_eq!(shown("!(bytes > 0 && written > 0)"), ["read  bytes=0 path=\"a\"", "write  written=0 parts=[1, 2]"]);
    assert_eq!(
        shown("$ctx.vtid > 0 && (bytes == 1 || written == 1)"),
        ["read  bytes=1 path=\"a\"", "write  written=1 parts=[1, 2]"]
    );

    let refused = |condition: &str, phrases: &[&str]| {
        let (code, _, err) = view(here.path(), condition);
        assert_eq!(code, Some(1), "{condition}: {err}");
        phrases.iter().for_each(|phrase| assert!(err.contains(phrase), "{phrase} in {err}"));
    };
    let fields = "did you mean `bytes`? the fields are: ";
    refused("written > 1 || byte > 1", &["no field is called `byte`", "\n                 ^^^^\n", fields]);
    refused("!(bytes > 0 || written > 0)", &["has all of these fields"]);
    refused("bytes > 1 && written > 1", &["has all of these fields", "joined with `||`"]);
    refused("parts > 1", &["write: `parts` is a sequence of values", "filters compare single ones"]);
}
