//! What the macros accept and refuse. `TRYBUILD=overwrite` blesses messages, but only those that hold the case's key phrase.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEY: &str = "//~ KEY: ";

#[test]
fn messages_and_expansions() -> Result<(), Box<dyn Error>> {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*/*.rs");
    cases.compile_fail("fail/*/*.rs");
    drop(cases);
    key_phrases()
}

/// The crates below `renamed`: each edition, a renamed dependency, a framework that hands ringtrace on.
#[test]
fn editions_and_names_of_the_dependency() -> Result<(), Box<dyn Error>> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("nested");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut check = Command::new(cargo);
    check.args(["check", "--workspace", "--quiet", "--target-dir"]).arg(target);
    let output = check.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("renamed")).output()?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
}

/// Each failing case names, in its first line, what its message must say.
fn key_phrases() -> Result<(), Box<dyn Error>> {
    for case in sources(Path::new("fail"))? {
        let source = fs::read_to_string(&case)?;
        let key =
            source.lines().next().and_then(|line| line.strip_prefix(KEY)).ok_or_else(|| format!("{}: no key", case.display()))?;
        let messages = fs::read_to_string(case.with_extension("stderr"))?;
        if !messages.contains(key) {
            return Err(format!("{}: no message says {key:?}", case.display()).into());
        }
    }
    Ok(())
}

fn sources(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}
