//! Pages of docs/ whose commands are run as they stand, against a real program.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::Place;

pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// An example, built where this test was built.
pub fn example(name: &str) -> PathBuf {
    let build = Command::new(env!("CARGO")).args(["build", "--quiet", "--example", name]).current_dir(root()).status();
    assert!(build.expect("cargo runs").success());
    let target = Path::new(env!("CARGO_BIN_EXE_ringtrace")).parent().expect("the directory of the command");
    target.join("examples").join(name)
}

/// A command of the page, and the lines it is said to print.
pub struct Step {
    pub command: String,
    pub expected: Vec<String>,
    pub line: usize,
}

pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if inside => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step { command: command.to_owned(), expected: Vec::new(), line: number + 1 }),
                (None, Some(step)) => step.expected.push(line.to_owned()),
                (None, None) => panic!("line {}: output before any command", number + 1),
            },
            _ => {}
        }
    }
    steps
}

/// A line without what differs from run to run: numbers, their units, the width of spaces.
fn loose(line: &str) -> String {
    let mut out = String::new();
    for word in line.split_whitespace() {
        let word: String = word.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
        let mut word = word;
        while word.contains("##") {
            word = word.replace("##", "#");
        }
        let word = word.replace("#.#", "#");
        let word = match word.as_str() {
            "KiB" | "MiB" | "KiB," | "MiB," | "B" | "B," => "bytes",
            "k/s" | "/s" | "M/s" => "/s",
            other => other,
        };
        out.push_str(word);
        out.push(' ');
    }
    out
}

/// Whether `…` in a pattern can be filled to give the line.
fn is_like(pattern: &str, line: &str) -> bool {
    let (pattern, line) = (loose(pattern), loose(line));
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last.trim_start())
}

/// Runs the commands of a page in one shell, as a reader would type them. Each must print the lines that it is said to. Returns
/// all that was printed.
pub fn follow(page: &str, steps: &[Step], place: &Place, service: &Path, pid: u32) -> Vec<String> {
    let commands = Path::new(env!("CARGO_BIN_EXE_ringtrace")).parent().expect("a directory");
    let examples = service.parent().expect("a directory");
    let path = format!("{}:{}:{}", commands.display(), examples.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = place.command("bash");
    shell.env("PATH", path).env("PID", pid.to_string()).env("TERM", "dumb").stdin(Stdio::piped()).stdout(Stdio::piped());
    // The order of the two outputs is that of the page.
    let mut shell = shell.args(["-c", "exec bash 2>&1"]).spawn().expect("bash");
    let mut input = shell.stdin.take().expect("its input");
    let mut output = BufReader::new(shell.stdout.take().expect("its output"));
    let mut all = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        writeln!(input, "{{ {}; }} </dev/null; printf '\\n@@ {number}\\n'", step.command).expect("bash reads");
        let mut printed = Vec::new();
        loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).expect("text") > 0, "bash ended at line {}", step.line);
            if line.trim_end() == format!("@@ {number}") {
                break;
            }
            printed.push(line.trim_end().to_owned());
        }
        let mut rest = printed.as_slice();
        for expected in &step.expected {
            let found = rest.iter().position(|line| is_like(expected, line));
            let found = found.unwrap_or_else(|| {
                panic!("{page}:{}: `{}` does not print `{expected}`:\n{}", step.line, step.command, printed.join("\n"))
            });
            rest = &rest[found + 1..];
        }
        all.append(&mut printed);
    }
    drop(input);
    assert!(shell.wait().expect("it ends").success());
    all
}
