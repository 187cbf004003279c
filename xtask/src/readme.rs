//! `cargo xtask readme`: README.md is executed, so that it stays true.

use crate::process::{Cmd, Tally};
use crate::workspace::{Metadata, copy, root, text};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// What the test command of README.md must be, so that `.ci/run` and a reader run the same.
const TEST_COMMAND: &str = "cargo xtask ci";

/// A fenced block whose comment says what it is for.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    kind: Kind,
    text: String,
    /// Line of the fence, from 1.
    line: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Commands that are run.
    Run,
    /// What the run before it prints.
    Output,
    /// A file, written where the commands are by then.
    File(String),
    /// The test command: run by `.ci/run`, not here, where it would run itself.
    Test,
}

pub(crate) fn run() -> Result<Tally> {
    let path = root().join("README.md");
    if !path.exists() {
        println!("there is no README.md");
        return Ok(Tally::default());
    }
    let blocks = blocks(&fs::read_to_string(path)?)?;
    let mut tally = Tally::default();

    let tests: Vec<&str> = blocks.iter().filter(|b| b.kind == Kind::Test).map(|b| b.text.trim()).collect();
    if tests != [TEST_COMMAND] {
        println!("README.md must give the test command `{TEST_COMMAND}` in one block marked <!-- test -->; it has {tests:?}");
    }
    tally += Tally::of(tests == [TEST_COMMAND]);

    let outputs = execute(&blocks)?;
    for (block, output) in blocks.iter().zip(&outputs) {
        if block.kind != Kind::Run {
            continue;
        }
        match output {
            Some(output) if output.succeeded => tally += Tally::of(true),
            _ => {
                println!("README.md:{}: the commands failed, or were not reached", block.line);
                tally += Tally::of(false);
            }
        }
    }
    for (i, block) in blocks.iter().enumerate().filter(|(_, b)| b.kind == Kind::Output) {
        let printed = (0..i).rev().find(|r| blocks[*r].kind == Kind::Run).and_then(|r| outputs[r].as_ref());
        let printed = printed.map_or("", |o| o.text.as_str());
        let missing = first_missing(&block.text, printed);
        if let Some(line) = missing {
            println!("README.md:{}: not printed, or not in this order: {line}", block.line);
        }
        tally += Tally::of(missing.is_none());
    }
    Ok(tally)
}

/// Finds the marked blocks.
fn blocks(markdown: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(mark) = line.trim().strip_prefix("<!--").and_then(|l| l.strip_suffix("-->")).map(str::trim) else {
            continue;
        };
        let kind = match mark.split_once(": ") {
            Some(("file", path)) => Kind::File(path.trim().to_string()),
            _ => match mark {
                "run" => Kind::Run,
                "output" => Kind::Output,
                "test" => Kind::Test,
                _ => continue,
            },
        };
        let fence = lines.by_ref().find(|(_, l)| !l.trim().is_empty());
        let Some((number, "```")) = fence.map(|(n, l)| (n, l.get(..3).unwrap_or(l))) else {
            bail!("README.md:{}: no fenced block follows `{}`", number + 1, line.trim());
        };
        let mut text = String::new();
        for (_, line) in lines.by_ref().take_while(|(_, l)| !l.starts_with("```")) {
            text.push_str(line);
            text.push('\n');
        }
        found.push(Block { kind, text, line: number + 1 });
    }
    Ok(found)
}

struct Output {
    text: String,
    succeeded: bool,
}

const MARK: &str = "@@readme block ";

/// Runs all blocks in one shell, as a reader would type them, in a copy of the repository whose `target` lasts from run to run.
fn execute(blocks: &[Block]) -> Result<Vec<Option<Output>>> {
    let mut outputs: Vec<Option<Output>> = blocks.iter().map(|_| None).collect();
    if !blocks.iter().any(|b| b.kind == Kind::Run) {
        return Ok(outputs);
    }
    let dir = tempfile::tempdir()?;
    let clone = dir.path().join("ringtrace");
    copy(&clone)?;
    let metadata = Metadata::of_workspace()?;
    let target = metadata.target("readme");
    fs::create_dir_all(&target)?;
    std::os::unix::fs::symlink(&target, clone.join("target"))?;

    let mut script = String::from("set -euo pipefail\n");
    for (i, block) in blocks.iter().enumerate() {
        match &block.kind {
            Kind::Run => writeln!(script, "echo '{MARK}{i}'\n{}", block.text)?,
            Kind::File(path) => {
                writeln!(script, "mkdir -p \"$(dirname '{path}')\"\ncat >'{path}' <<'END_OF_BLOCK'\n{}END_OF_BLOCK", block.text)?;
            }
            Kind::Output | Kind::Test => {}
        }
    }
    writeln!(script, "echo '{MARK}end'")?;
    let script_path = dir.path().join("readme.sh");
    fs::write(&script_path, script)?;

    let mut child = Command::new("bash")
        .args(["-c", "exec bash \"$0\" 2>&1"])
        .arg(&script_path)
        .current_dir(&clone)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run bash")?;
    let stdout = child.stdout.take().context("the pipe that was asked for")?;
    let mut current: Option<usize> = None;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some(next) = line.strip_prefix(MARK) {
            if let Some(output) = current.and_then(|i| outputs[i].as_mut()) {
                output.succeeded = true;
            }
            current = next.parse().ok();
            if let Some(i) = current {
                println!("-- README.md:{}\n{}", blocks[i].line, blocks[i].text.trim_end());
                outputs[i] = Some(Output { text: String::new(), succeeded: false });
            }
            continue;
        }
        println!("{line}");
        if let Some(output) = current.and_then(|i| outputs[i].as_mut()) {
            output.text.push_str(&line);
            output.text.push('\n');
        }
    }
    child.wait()?;
    // What was built of the copy serves no later run, which has another place; its dependencies do.
    let members = metadata.packages().iter().flat_map(|p| ["--package", text(&p["name"])]);
    Cmd::cargo().args(["clean", "--quiet"]).args(members).env_remove("CARGO_TARGET_DIR").dir(&clone).read()?;
    Ok(outputs)
}

/// Returns the first line of `expected` that `printed` lacks. Lines may be missing from `expected`, but not change their order.
fn first_missing<'a>(expected: &'a str, printed: &str) -> Option<&'a str> {
    let printed: Vec<String> = printed.lines().map(loose).collect();
    let mut rest = printed.as_slice();
    for line in expected.lines() {
        let pattern = loose(line);
        if pattern.is_empty() || pattern == "…" {
            continue;
        }
        match rest.iter().position(|p| is_like(&pattern, p)) {
            Some(at) => rest = &rest[at + 1..],
            None => return Some(line),
        }
    }
    None
}

/// A line without what differs from run to run: digits and the width of spaces.
fn loose(line: &str) -> String {
    let mut out = String::new();
    for word in line.replace("...", "…").split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        for c in word.chars() {
            match c {
                '0'..='9' if out.ends_with('#') => {}
                '0'..='9' => out.push('#'),
                _ => out.push(c),
            }
        }
    }
    out
}

/// Whether `…` in `pattern` can be filled to give `line`.
fn is_like(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_blocks_are_found() {
        let text = "x\n<!-- run -->\n```sh\ncargo build\n```\n\n<!-- file: src/main.rs -->\n\n```rust\nfn main() {}\n```\n```sh\nno\n```\n";
        let found = blocks(text).expect("blocks");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], Block { kind: Kind::Run, text: "cargo build\n".into(), line: 3 });
        assert_eq!(found[1].kind, Kind::File("src/main.rs".into()));
        assert!(blocks("<!-- run -->\ntext\n").is_err());
    }

    #[test]
    fn outputs_are_compared_loosely() {
        let printed = "noise\n[12:00:01.5] app:request  id = 1\n[12:00:01.6] app:request id = 22\ndone\n";
        assert_eq!(first_missing("[09:13:00.1] app:request id = 7\n…\ndone", printed), None);
        assert_eq!(first_missing("[…] app:request id = 7", printed), None);
        assert_eq!(first_missing("done\n[…] app:request id = 1", printed), Some("[…] app:request id = 1"));
        assert!(!is_like("a…c", "ab"));
    }
}
