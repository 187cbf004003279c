//! Where things are: the repository, its files, its packages.

use crate::process::Cmd;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    // As `cargo run` says, not as the compiler saw it: two checkouts may build in one target directory.
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        package.parent().unwrap_or(&package).to_path_buf()
    });
    &ROOT
}

/// What `cargo metadata` says.
pub(crate) struct Metadata(Value);

impl Metadata {
    /// Of the workspace alone.
    pub(crate) fn of_workspace() -> Result<Metadata> {
        Metadata::read(&["--no-deps"])
    }

    /// With all dependencies.
    pub(crate) fn with_dependencies() -> Result<Metadata> {
        Metadata::read(&[])
    }

    fn read(args: &[&str]) -> Result<Metadata> {
        let text = Cmd::cargo().args(["metadata", "--format-version=1"]).args(args).dir(root()).read()?;
        Ok(Metadata(serde_json::from_str(&text).context("cargo metadata")?))
    }

    /// Where cargo builds; each extra build has a directory of its own below it.
    pub(crate) fn target(&self, below: &str) -> PathBuf {
        Path::new(self.0["target_directory"].as_str().unwrap_or("target")).join(below)
    }

    pub(crate) fn packages(&self) -> &[Value] {
        array(&self.0["packages"])
    }

    /// Nodes of the dependency graph.
    pub(crate) fn nodes(&self) -> &[Value] {
        array(&self.0["resolve"]["nodes"])
    }

    /// Package and name of each target of a kind (`lib`, `example`, `bench`).
    pub(crate) fn targets(&self, kind: &str) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        for package in self.packages() {
            for target in array(&package["targets"]) {
                if array(&target["kind"]).iter().any(|k| k == kind) {
                    found.push((text(&package["name"]), text(&target["name"])));
                }
            }
        }
        found.sort_unstable();
        found
    }
}

/// Directory below `target` in which workspaces of their own are built, so that what they share is built once. Tests have it too.
pub(crate) const NESTED: &str = "nested";

/// Whether the standard library for a target is installed.
pub(crate) fn has_target(target: &str) -> Result<bool> {
    let libraries = Cmd::new("rustc").args(["--print", "target-libdir", "--target", target]).read()?;
    Ok(Path::new(libraries.trim()).exists())
}

/// The elements of a JSON array; none, where it is something else.
pub(crate) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A JSON string; empty, where it is something else.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// The triple of this machine's toolchain. Naming it as `--target` keeps flags in `RUSTFLAGS` away from proc macros.
pub(crate) fn host() -> Result<String> {
    let version = Cmd::new("rustc").arg("-vV").read()?;
    version.lines().find_map(|l| l.strip_prefix("host: ")).map(str::to_string).context("rustc -vV names no host")
}

/// A file of the repository.
pub(crate) struct SourceFile {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Returns every text file of the repository, sorted: all that is neither built nor hidden, and what lies in `.ci`.
///
/// It does not ask git, so that it works in an unpacked archive.
pub(crate) fn files() -> Result<Vec<SourceFile>> {
    let mut found = Vec::new();
    for path in paths(root())? {
        if let Ok(text) = fs::read_to_string(root().join(&path)) {
            found.push(SourceFile { path, text });
        }
    }
    Ok(found)
}

/// Copies the repository, without what is built, to `to`.
pub(crate) fn copy(to: &Path) -> Result<()> {
    for path in paths(root())? {
        let target = to.join(&path);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(root().join(&path), &target).with_context(|| format!("cannot copy {path}"))?;
    }
    Ok(())
}

fn paths(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(root.join(&dir))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = dir.join(&*name);
            let hidden = name.starts_with('.') && !matches!(&*name, ".ci" | ".cargo" | ".gitignore");
            if hidden || name == "target" || name.ends_with(".ringtrace") {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_file() {
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found.sort();
    Ok(found)
}
