//! docs/control.md is run as it stands, against the real program.

mod common;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Place, eventually};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// `examples/service.rs`, built where this test was built.
fn service() -> PathBuf {
    let build = Command::new(env!("CARGO")).args(["build", "--quiet", "--example", "service"]).current_dir(root()).status();
    assert!(build.expect("cargo runs").success());
    let target = Path::new(env!("CARGO_BIN_EXE_ringtrace")).parent().expect("the directory of the command");
    target.join("examples/service")
}

/// A command of the page, and the lines it is said to print.
struct Step {
    command: String,
    expected: Vec<String>,
    line: usize,
}

fn steps(page: &str) -> Vec<Step> {
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
fn follow(page: &str, steps: &[Step], place: &Place, service: &Path, pid: u32) -> Vec<String> {
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

#[test]
fn the_page_about_the_flight_recorder_is_true() {
    let page = std::fs::read_to_string(root().join("docs/flight-recorder.md")).expect("the page");
    let steps = steps(&page);
    let start =
        page.lines().find_map(|line| line.strip_prefix("RINGTRACE='")?.strip_suffix("' cargo run --release --example service"));
    // And that.
    assert_eq!(steps.len(), 4);
    let place = Place::new();
    let service = service();
    let mut running = place.command(&service);
    running.env("RINGTRACE", start.expect("the command that starts it")).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut running = running.spawn().expect("it starts");
    eventually("the agent listens", || place.json(&["ps"]).len() == 1);
    eventually("something was recorded", || {
        let shown = place.json(&["status", "--over", "1ms"]);
        shown.iter().any(|line| line["session"]["events"].as_u64() > Some(10_000))
    });
    follow("docs/flight-recorder.md", &steps, &place, &service, running.id());
    assert!(!running.wait().expect("it is dead").success());
    // Both are whole, and the one that was recovered has what the other one has.
    let found = std::fs::read_dir(place.here()).expect("it is there").flatten().map(|e| e.path());
    let (saved, recovered): (Vec<PathBuf>, Vec<PathBuf>) = found.partition(|path| path.ends_with("service.snapshots"));
    let saved: Vec<PathBuf> = std::fs::read_dir(&saved[0]).expect("a snapshot").flatten().map(|e| e.path()).collect();
    let [saved, recovered] = [&saved, &recovered].map(|found| traces::read_by_both(&found[0]));
    let last = |contents: &traces::Contents| contents.numbers("service:accepted", "id").into_iter().max();
    assert!(last(&saved) > Some(0) && last(&saved) < last(&recovered));
    assert!(saved.counts.contains_key("ringtrace:thread_name"), "{:?}", saved.counts);
}

#[test]
fn the_page_about_control_is_true() {
    let page = std::fs::read_to_string(root().join("docs/control.md")).expect("the page");
    let steps = steps(&page);
    assert!(steps.len() > 15, "{} commands", steps.len());
    let place = Place::new();
    let service = service();

    // In another terminal.
    let mut running = place.command(&service).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    eventually("the agent listens", || place.json(&["ps"]).len() == 1);

    let printed = follow("docs/control.md", &steps, &place, &service, running.id());
    // How many requests failed, as the program counts them, each time that it is run.
    let counted = |line: &String| line.split_once(" requests, ")?.1.split(' ').next()?.parse::<u64>().ok();
    let own: Vec<u64> = printed.iter().filter_map(counted).collect();
    drop(running.stdin.take());
    let mut said = String::new();
    running.stdout.take().expect("its output").read_to_string(&mut said).expect("text");
    assert!(running.wait().expect("it ends").success());

    // The traces hold exactly what the rules select.
    let contents = |name: &str| traces::read_by_both(&place.here().join(name));
    let warnings = contents("warnings");
    assert!(warnings.events() > 0 && warnings.counts.keys().eq(["service:failed"]), "{:?}", warnings.counts);
    let everything = contents("everything");
    let ids = |contents: &traces::Contents, event: &str| contents.numbers(event, "id").into_iter().collect::<BTreeSet<u64>>();
    let (answered, failed) = (ids(&everything, "service:answered"), ids(&everything, "service:failed"));
    let (first, last) = (answered.first().expect("events"), answered.last().expect("events"));
    // Of each request between the first and the last, and of those that failed by the program's own rule.
    assert!(answered.len() as u64 + 100 >= last - first, "{} of {}", answered.len(), last - first);
    let fails = |id: &&u64| ((id.wrapping_mul(0x9E37_79B9) >> 7) as u32 % 10_000) < 100;
    let expected: BTreeSet<u64> = answered.iter().filter(fails).copied().collect();
    assert!(expected.symmetric_difference(&failed).count() <= 1, "{expected:?} {failed:?}");
    // Recorded by another session at the same time.
    let recent = ids(&contents("recent"), "service:failed");
    let within: BTreeSet<u64> = failed.range(recent.first().expect("events")..=recent.last().expect("events")).copied().collect();
    assert_eq!(recent, within);
    // A filter lets through exactly what the program's own arithmetic says, of all requests between the first and the last.
    let size = |id: u64| (id.wrapping_mul(0x9E37_79B9) >> 7) as u32 % 10_000;
    let small = ids(&contents("small"), "service:answered");
    let (first, last) = (*small.first().expect("events"), *small.last().expect("events"));
    let expected: BTreeSet<u64> = (first..=last).filter(|id| size(*id) < 500).collect();
    // Each worker may have been inside of a request when the session began, and when it ended.
    assert!(small.is_subset(&expected) && expected.len() - small.len() <= 4, "{expected:?} {small:?}");
    // From the first event to the last: what the program counted itself.
    assert_eq!(own, [contents("failures").events(), contents("filtered").events()]);
}
