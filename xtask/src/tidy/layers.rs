//! Rules for how the crates stand to each other.

use super::{Context, Finding};
use crate::workspace::{array, text};
use anyhow::{Context as _, Result};
use std::collections::{HashMap, HashSet};

/// A crate, and what must not be found below it, directly or indirectly.
const NEVER_BELOW: [(&str, &[&str]); 6] = [
    // A trace is read without the tracer.
    ("trace-ctf", &["ringtrace", "trace-runtime", "trace-registry", "trace-macros"]),
    // What a library links for its tracepoints: no buffers, no files.
    ("trace-registry", &["ringtrace", "trace-runtime", "trace-ctf", "trace-macros"]),
    // The command line filters traces without the tracer.
    ("trace-filter", &["ringtrace", "trace-runtime", "trace-ctf", "trace-macros"]),
    // Expansions name the facade; the macros themselves know only syntax.
    ("trace-macros", &["ringtrace", "trace-runtime", "trace-registry", "trace-ctf"]),
    ("trace-runtime", &["ringtrace", "trace-macros"]),
    // The command and the program share the words, and not each other.
    ("trace-control", &["ringtrace", "trace-runtime", "trace-registry", "trace-macros", "trace-ctf"]),
];

/// Holds [`NEVER_BELOW`], development dependencies aside.
pub(super) fn dependencies(context: &Context) -> Result<Vec<Finding>> {
    let metadata = &context.metadata;
    let names: HashMap<&str, &str> = metadata.packages().iter().map(|p| (text(&p["id"]), text(&p["name"]))).collect();
    let mut below: HashMap<&str, Vec<&str>> = HashMap::new();
    for node in metadata.nodes() {
        let built = array(&node["deps"]).iter().filter(|d| array(&d["dep_kinds"]).iter().any(|k| k["kind"] != "dev"));
        below.insert(names[text(&node["id"])], built.map(|d| names[text(&d["pkg"])]).collect());
    }
    let mut findings = Vec::new();
    for (package, forbidden) in NEVER_BELOW {
        let mut seen = HashSet::new();
        let mut left = vec![package];
        while let Some(name) = left.pop() {
            for dependency in below.get(name).into_iter().flatten() {
                if seen.insert(*dependency) {
                    left.push(dependency);
                }
                if forbidden.contains(dependency) {
                    let message = format!("{package} must not depend on {dependency} (by way of {name})");
                    findings.push(Finding::at(&format!("{package}/Cargo.toml"), 0, message));
                }
            }
        }
    }
    Ok(findings)
}

const REGISTRY: &str = "trace-registry/src/registry.rs";

/// Two versions of ringtrace in one program have sections of their own, because the names carry the version.
pub(super) fn section_names(context: &Context) -> Result<Vec<Finding>> {
    let registry = context.metadata.packages().iter().find(|p| p["name"] == "trace-registry").context("no trace-registry")?;
    let suffix = format!("_{}", text(&registry["version"]).replace(['.', '-', '+'], "_"));
    let file = context.file(REGISTRY).context("trace-registry/src/registry.rs is gone")?;
    let mut findings = Vec::new();
    let mut found = 0;
    let mut lines = file.text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if !line.trim_start().starts_with("#[linkme::distributed_slice]") {
            continue;
        }
        found += 1;
        let declaration = lines.next().map_or("", |(_, l)| l);
        let name = declaration.split_once("static ").and_then(|(_, l)| l.split_once(':')).map_or("", |(name, _)| name.trim());
        if !name.ends_with(&suffix) {
            findings.push(Finding::at(REGISTRY, number + 2, format!("`{name}` must end in `{suffix}`, the crate's version")));
        }
    }
    if found == 0 {
        findings.push(Finding::at(REGISTRY, 0, "no distributed slice found: this rule must look elsewhere"));
    }
    Ok(findings)
}
