//! Rules for `Cargo.toml` files.

use super::{Context, Finding};
use crate::workspace::{array, root, text};
use anyhow::Result;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Every version stands in the root's `[workspace.dependencies]`, under a comment that says what it is for.
pub(super) fn versions(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in manifests(context) {
        for entry in entries(&file.text) {
            let at = |message: String| Finding::at(&file.path, entry.line, message);
            if entry.section == "workspace.dependencies" {
                let local = entry.value.contains("path =");
                if !local && !entry.has_comment {
                    findings.push(at(format!("say in a comment above `{}` what it is needed for", entry.name)));
                }
            } else if entry.section.ends_with("dependencies") && !entry.value.contains("workspace = true") {
                let message = "put the version into [workspace.dependencies] of the root, and `.workspace = true` here";
                findings.push(at(format!("`{}`: {message}", entry.name)));
            }
        }
    }
    Ok(findings)
}

/// Version, edition, licence and lints come from the workspace.
pub(super) fn inherited(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in manifests(context) {
        for line in
            ["version.workspace = true", "edition.workspace = true", "license.workspace = true", "[lints]\nworkspace = true"]
        {
            if !file.text.contains(line) {
                findings.push(Finding::at(&file.path, 0, format!("`{}` is missing", line.replace('\n', " "))));
            }
        }
    }
    Ok(findings)
}

/// Manifests of the workspace's members. Workspaces of their own, below `tests/` and `ui-tests/`, belong to tests.
fn manifests(context: &Context) -> impl Iterator<Item = &crate::workspace::SourceFile> {
    let members: HashSet<String> = context
        .metadata
        .packages()
        .iter()
        .filter(|p| p["source"].is_null())
        .filter_map(|p| {
            let path = std::path::Path::new(text(&p["manifest_path"])).strip_prefix(root()).ok()?;
            Some(path.to_string_lossy().into_owned())
        })
        .collect();
    context.files.iter().filter(move |f| members.contains(&f.path))
}

struct Entry<'a> {
    section: &'a str,
    name: &'a str,
    value: &'a str,
    line: usize,
    /// Whether a comment stands above it in its paragraph.
    has_comment: bool,
}

/// The `key = value` lines of a manifest. `a.workspace = true` is the entry `a`.
fn entries(manifest: &str) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    let (mut section, mut has_comment) = ("", false);
    for (number, line) in manifest.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            has_comment = false;
        } else if trimmed.starts_with('#') {
            has_comment = true;
        } else if let Some(name) = trimmed.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            (section, has_comment) = (name, false);
        } else if let Some((name, _)) = trimmed.split_once([' ', '=', '.']) {
            found.push(Entry { section, name, value: trimmed, line: number + 1, has_comment });
        }
    }
    found
}

/// Rust version of the command line, the tests and this program.
const TESTS: &str = "1.88";

/// All that a crate is built from supports its `rust-version`; what only its tests use, that of the tests.
pub(super) fn rust_versions(context: &Context) -> Result<Vec<Finding>> {
    let packages: HashMap<&str, &Value> = context.metadata.packages().iter().map(|p| (text(&p["id"]), p)).collect();
    let nodes: HashMap<&str, &Value> = context.metadata.nodes().iter().map(|n| (text(&n["id"]), n)).collect();
    let mut findings = Vec::new();
    for package in context.metadata.packages().iter().filter(|p| p["source"].is_null()) {
        let own = text(&package["rust_version"]);
        let used = |dev: bool| closure(text(&package["id"]), dev, &nodes);
        let built = used(false);
        let tested: HashSet<&str> = used(true).difference(&built).copied().collect();
        for (ids, supported, what) in [(built, own, "it"), (tested, own.max(TESTS), "its tests")] {
            for id in ids {
                let dependency = packages[id];
                let needed = text(&dependency["rust_version"]);
                if parts(needed) > parts(supported) {
                    let name = format!("{} {}", text(&dependency["name"]), text(&dependency["version"]));
                    let path = format!("{}/Cargo.toml", text(&package["name"]));
                    findings.push(Finding::at(&path, 0, format!("{what} supports Rust {supported}, but {name} needs {needed}")));
                }
            }
        }
    }
    findings.sort_by(|a, b| (&a.path, &a.message).cmp(&(&b.path, &b.message)));
    Ok(findings)
}

/// Everything that `package` depends on; its development dependencies where `dev` says so, never those of others.
fn closure<'a>(package: &'a str, dev: bool, nodes: &HashMap<&'a str, &'a Value>) -> HashSet<&'a str> {
    let mut found = HashSet::new();
    let mut left = vec![(package, dev)];
    while let Some((id, dev)) = left.pop() {
        for dependency in array(&nodes[id]["deps"]) {
            let wanted = |kind: &Value| {
                // What is compiled for other systems is chosen by those who build there.
                let here = !text(&kind["target"]).contains("windows");
                here && (dev || kind["kind"] != "dev")
            };
            if array(&dependency["dep_kinds"]).iter().any(wanted) && found.insert(text(&dependency["pkg"])) {
                left.push((text(&dependency["pkg"]), false));
            }
        }
    }
    found
}

fn parts(version: &str) -> Vec<u32> {
    let mut parts: Vec<u32> = version.split('.').filter_map(|p| p.parse().ok()).collect();
    parts.resize(3, 0);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_know_their_section_and_comment() {
        let manifest = "[a]\n# why\nx = 1\ny.workspace = true\n\nz = { path = \"p\" }\n[b]\nw = 2\n";
        let found: Vec<_> = entries(manifest).iter().map(|e| (e.section, e.name, e.line, e.has_comment)).collect();
        assert_eq!(found, [("a", "x", 3, true), ("a", "y", 4, true), ("a", "z", 6, false), ("b", "w", 8, false)]);
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(parts("1.9") < parts("1.85.0"));
        assert!(parts("1.85") == parts("1.85.0"));
        assert!(parts("") < parts("1.0"));
    }
}
