//! `cargo xtask golden`: what the compiler must emit.
//!
//! The crates below `tests/golden` call one tracepoint in one function, `golden_site`. Its machine code is compared with
//! `tests/golden/*.s`, after addresses are replaced by names ([`listing`]), and the stack that its emitter takes is added up
//! and measured ([`stack`]).

mod listing;
mod stack;

use crate::process::{Cmd, Tally};
use crate::workspace::{Metadata, NESTED, root};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// One way of building the traced function.
struct Case {
    /// Name of the expected file.
    name: &'static str,
    package: &'static str,
    /// The file that is built, below the profile's directory.
    artifact: &'static str,
    profile: &'static str,
    flags: &'static str,
}

const CASES: [Case; 4] = [
    Case { name: "executable", package: "golden-executable", artifact: "golden-executable", profile: "release", flags: "" },
    Case { name: "executable-lto", package: "golden-executable", artifact: "golden-executable", profile: "fat", flags: "" },
    Case { name: "shared-object", package: "golden-shared", artifact: "libgolden_shared.so", profile: "release", flags: "" },
    Case {
        name: "off",
        package: "golden-executable",
        artifact: "golden-executable",
        profile: "release",
        flags: "--cfg ringtrace_off",
    },
];

/// The functions that are compared: a tracepoint called as a function, one fired with arguments that cost something, and a function
/// that is traced itself.
const SITES: [&str; 3] = ["golden_call", "golden_fire", "golden_traced"];

/// Most bytes of stack that an emitter takes, and what it calls directly.
const EMITTER_STACK: u64 = 1024;

/// Most bytes of stack that an event takes with its probe and the append, whatever its size: it may happen in a signal handler.
const EVENT_STACK: u64 = 2048;

pub(crate) fn run(bless: bool) -> Result<Tally> {
    let mut tally = Tally::default();
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!("golden files are x86-64 Linux code: nothing is compared on this machine");
        return Ok(tally);
    }
    for case in &CASES {
        let Some(artifact) = build(case)? else {
            tally += Tally::of(false);
            continue;
        };
        let mut code = String::new();
        for site in SITES {
            code.push_str(&listing::of(&artifact, site)?);
        }
        tally += compare(case.name, &code, bless)?;
        if case.flags.is_empty() {
            tally += sequences(&artifact)?;
            tally += stack::check(&artifact, EMITTER_STACK)?;
            if case.package == "golden-executable" {
                tally += stack::measure(&artifact, EVENT_STACK)?;
            }
        }
    }
    Ok(tally)
}

fn build(case: &Case) -> Result<Option<PathBuf>> {
    let target = Metadata::of_workspace()?.target(NESTED);
    let manifest = root().join("tests/golden/Cargo.toml");
    // The versions of this workspace's dependencies.
    fs::copy(root().join("Cargo.lock"), manifest.with_file_name("Cargo.lock"))?;
    let built = Cmd::cargo()
        .args(["build", "--quiet", "--profile", case.profile, "--package", case.package])
        .arg("--manifest-path")
        .arg(&manifest)
        .env("RUSTFLAGS", case.flags)
        .env("CARGO_TARGET_DIR", &target)
        .passes()?;
    Ok(built.then(|| target.join(case.profile).join(case.artifact)))
}

/// That tools find the restartable sequences: the addresses of as many descriptors and exits as there are descriptors.
fn sequences(artifact: &Path) -> Result<Tally> {
    let headers = Cmd::new("objdump").arg("--section-headers").arg(artifact).read()?;
    let size = |section: &str| {
        let line = headers.lines().find(|line| line.split_whitespace().nth(1) == Some(section))?;
        u64::from_str_radix(line.split_whitespace().nth(2)?, 16).ok()
    };
    let counts = [("__rseq_cs", 32), ("__rseq_cs_ptr_array", 8), ("__rseq_exit_point_array", 16)]
        .map(|(section, each)| size(section).map_or(0, |size| size / each));
    let passed = counts[0] > 0 && counts == [counts[0]; 3];
    let [all, descriptors, exits] = counts;
    let verdict = if passed { "ok    " } else { "failed" };
    println!("{verdict} {all} restartable sequences; of them, tools find {descriptors} descriptors and {exits} exits");
    Ok(Tally::of(passed))
}

fn compare(name: &str, code: &str, bless: bool) -> Result<Tally> {
    let path = root().join("tests/golden").join(format!("{name}.s"));
    let shown = path.strip_prefix(root()).unwrap_or(Path::new(name)).display();
    if bless {
        fs::write(&path, code).with_context(|| format!("cannot write {shown}"))?;
        println!("wrote {shown}");
        return Ok(Tally::of(true));
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let passed = expected == code;
    match passed {
        true => println!("ok     {shown}"),
        false => {
            println!("DIFFERS from {shown} (- expected, + built; `cargo xtask golden --bless` accepts what was built)");
            print!("{}", difference(&expected, code));
        }
    }
    Ok(Tally::of(passed))
}

/// The lines of both, in order, marked where only one has them.
fn difference(expected: &str, built: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), built.lines().collect());
    // Length of the longest common subsequence of each pair of tails.
    let mut common = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = if a[i] == b[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, String::new());
    while i < a.len() || j < b.len() {
        let (mark, line) = if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            (' ', a[i - 1])
        } else if j == b.len() || (i < a.len() && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', a[i - 1])
        } else {
            j += 1;
            ('+', b[j - 1])
        };
        out.push_str(&format!("  {mark} {line}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_marked() {
        assert_eq!(difference("a\nb\nc\n", "a\nx\nc\n"), "    a\n  - b\n  + x\n    c\n");
    }
}
