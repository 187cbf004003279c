//! Each command of docs/cli.md prints what stands there. `RINGTRACE_BLESS=1` writes it anew.

mod sample;

use std::fs;
use std::path::Path;
use std::process::Command;

use sample::Variation;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");

/// What a line of the document prints on a terminal.
fn printed(line: &str, here: &Path) -> String {
    let command = Path::new(env!("CARGO_BIN_EXE_ringtrace"));
    let path = format!("{}:{}", command.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let shell = ["-c", &format!("exec 2>&1; {line}")];
    let output = Command::new("sh").args(shell).env("PATH", path).env("TZ", "UTC").current_dir(here).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn commands_print_what_the_document_shows() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    // Each is the newest one here when it is written.
    for (name, variation) in [
        ("yesterday", Variation { slower: 2, ..Variation::default() }),
        ("damaged", Variation::default()),
        ("shop.ringtrace", Variation { discarded: 3, ..Variation::default() }),
    ] {
        sample::write(&here.join(name), variation);
    }
    let cut = here.join("damaged/stream_1");
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();

    let document = fs::read_to_string(DOCUMENT).unwrap();
    let (mut expected, mut is_console, mut commands) = (String::new(), false, 0);
    for line in document.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
        }
        match line.strip_prefix("$ ").filter(|_| is_console) {
            Some(command) => {
                commands += 1;
                expected += &format!("{line}\n{}", printed(command, here));
            }
            // What was printed before.
            None if is_console && line != "```console" => {}
            None => expected += &format!("{line}\n"),
        }
    }
    assert!(commands >= 15, "{commands} commands");
    if std::env::var_os("RINGTRACE_BLESS").is_some() {
        fs::write(DOCUMENT, &expected).unwrap();
        return;
    }
    for (shown, real) in document.lines().zip(expected.lines()) {
        assert_eq!(shown, real, "docs/cli.md: RINGTRACE_BLESS=1 cargo test -p trace-cli --test docs writes it anew");
    }
    assert_eq!(document, expected);
}
