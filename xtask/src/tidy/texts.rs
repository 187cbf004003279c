//! Rules for every text of the repository.

use super::{Context, Finding};
use crate::workspace::{SourceFile, root};
use anyhow::Result;
use clap::CommandFactory;

const MOST_LINES: usize = 700;

/// How module docs say why a file is longer than the rest.
const REASON: &str = "//! One file, because ";

pub(super) fn sizes(context: &Context) -> Result<Vec<Finding>> {
    let long = |f: &&SourceFile| f.path.ends_with(".rs") && f.text.lines().count() > MOST_LINES;
    let unexplained = |f: &&SourceFile| !f.text.lines().any(|l| l.starts_with(REASON));
    let found = context.files.iter().filter(long).filter(unexplained).map(|f| {
        let lines = f.text.lines().count();
        Finding::at(&f.path, 0, format!("{lines} lines: split it, or say why not in a line of its docs that begins `{REASON}`"))
    });
    Ok(found.collect())
}

/// Marks of unfinished work. Spelled in parts, so that this file may stand.
const BANNED: [&str; 4] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];

pub(super) fn banned_words(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in &context.files {
        for (number, line) in file.text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in words.filter(|w| BANNED.contains(w)) {
                findings.push(Finding::at(&file.path, number + 1, format!("`{word}`: do it, or open an issue")));
            }
        }
    }
    Ok(findings)
}

/// What Markdown files name: `cargo xtask` verbs, packages and examples given to cargo, files linked to.
pub(super) fn references(context: &Context) -> Result<Vec<Finding>> {
    let command = crate::Cli::command();
    let verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).chain(["help"]).collect();
    let examples = context.metadata.targets("example");
    // Those of examples that are workspaces of their own go by the names of their directories.
    let nested = context.files.iter().filter(|f| f.path.starts_with("examples/") && f.path.ends_with("/Cargo.toml"));
    let nested = nested.filter_map(|f| f.path.rsplit('/').nth(1));
    let packages = context.metadata.packages();
    let packages: Vec<&str> = packages.iter().map(|p| crate::workspace::text(&p["name"])).chain(nested).collect();
    let mut findings = Vec::new();
    for file in context.files.iter().filter(|f| f.path.ends_with(".md")) {
        for (number, line) in file.text.lines().enumerate() {
            let mut find = |message: String| findings.push(Finding::at(&file.path, number + 1, message));
            for verb in words_after(line, "cargo xtask ") {
                if !verbs.contains(&verb) {
                    find(format!("there is no `cargo xtask {verb}`"));
                }
            }
            if line.contains("cargo ") {
                for name in words_after(line, "--example ").filter(|n| !examples.iter().any(|(_, e)| e == n)) {
                    find(format!("there is no example `{name}`"));
                }
                for name in words_after(line, "-p ").chain(words_after(line, "--package ")).filter(|n| !packages.contains(n)) {
                    find(format!("there is no package `{name}`"));
                }
            }
            for link in links(line) {
                let dir = root().join(&file.path);
                if !dir.parent().is_some_and(|d| d.join(link).exists()) {
                    find(format!("`{link}` is not there"));
                }
            }
        }
    }
    Ok(findings)
}

/// The lower-case words that follow `mark`.
fn words_after<'a>(line: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    let word =
        |rest: &'a str| rest.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-' && c != '_').next();
    line.match_indices(mark).filter_map(move |(at, _)| word(&line[at + mark.len()..])).filter(|w| !w.is_empty())
}

/// Targets of Markdown links that are files of the repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, mark)| {
        let (target, _) = line[at + mark.len()..].split_once(')')?;
        let file = target.split('#').next().unwrap_or(target);
        (!file.is_empty() && !file.contains("://") && !file.starts_with("mailto:")).then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_names() {
        let line = "Run `cargo xtask ci`, see [a](docs/a.md#b) and [b](https://b.example/c), then cargo run --example quick";
        assert_eq!(words_after(line, "cargo xtask ").collect::<Vec<_>>(), ["ci"]);
        assert_eq!(words_after(line, "--example ").collect::<Vec<_>>(), ["quick"]);
        assert_eq!(links(line).collect::<Vec<_>>(), ["docs/a.md"]);
    }
}
