//! The source stamp: a hash of what a crate's types are made from.
//!
//! It covers the sources of the package that is compiled and of its path dependencies, and name, version and checksum of the
//! others, as `Cargo.lock` has them. Two builds with equal stamps saw the same text of every type that a tracepoint can take; what
//! of it was compiled depends on features and profile, which the compiler's type identities tell apart.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the stamp of the package that is being compiled; 0: it is not known.
pub(crate) fn of_package() -> u64 {
    static STAMP: OnceLock<u64> = OnceLock::new();
    *STAMP.get_or_init(|| {
        let Some(root) = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from) else { return 0 };
        let mut stamp = Stamp { hash: 0xcbf2_9ce4_8422_2325, seen: BTreeSet::new() };
        if stamp.package(&root).is_none() {
            return 0;
        }
        if let Some(generated) = std::env::var_os("OUT_DIR") {
            stamp.sources(Path::new(&generated));
        }
        if let (Some(lock), Ok(name)) = (locked(&root), std::env::var("CARGO_PKG_NAME")) {
            stamp.locked(&lock, &name);
        }
        stamp.hash.max(1)
    })
}

/// The text of the `Cargo.lock` of a package's workspace.
fn locked(root: &Path) -> Option<String> {
    root.ancestors().find_map(|directory| fs::read_to_string(directory.join("Cargo.lock")).ok())
}

struct Stamp {
    /// FNV-1a, 64 bits.
    hash: u64,
    seen: BTreeSet<PathBuf>,
}

impl Stamp {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds the package in `root` and, behind it, its path dependencies, each once.
    fn package(&mut self, root: &Path) -> Option<()> {
        let root = root.canonicalize().ok()?;
        if !self.seen.insert(root.clone()) {
            return Some(());
        }
        let manifest = fs::read_to_string(root.join("Cargo.toml")).ok()?;
        self.add(manifest.as_bytes());
        self.add(&fs::read(root.join("build.rs")).unwrap_or_default());
        self.sources(&root.join("src"));
        for path in dependencies(&manifest, &root) {
            // One that is not there, or is no package, is none.
            let _ = self.package(&path);
        }
        Some(())
    }

    /// Adds the Rust files below a directory, in the order of their names.
    fn sources(&mut self, directory: &Path) {
        let mut entries: Vec<PathBuf> = fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                self.sources(&path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                self.add(path.file_name().unwrap_or_default().as_encoded_bytes());
                self.add(&fs::read(&path).unwrap_or_default());
            }
        }
    }

    /// Adds what `lock` says of all that the package `name` depends on.
    fn locked(&mut self, lock: &str, name: &str) {
        // [[package]], then `key = "value"` lines, and `dependencies = [` with one `"name"` or `"name version"` a line.
        let blocks: Vec<&str> = lock.split("[[package]]").skip(1).collect();
        let value = |block: &str, key: &str| {
            let line = block.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(" = "));
            line.map(|v| v.trim_matches('"').to_owned()).unwrap_or_default()
        };
        let (mut wanted, mut done) = (vec![name.to_owned()], BTreeSet::new());
        while let Some(next) = wanted.pop() {
            let mut words = next.split(' ');
            let (name, version) = (words.next().unwrap_or_default(), words.next());
            for block in &blocks {
                if value(block, "name") != name || version.is_some_and(|v| value(block, "version") != v) {
                    continue;
                }
                let id = ["name", "version", "source", "checksum"].map(|key| value(block, key)).join(" ");
                if done.insert(id) {
                    let list = block.split_once("dependencies = [").map_or("", |(_, rest)| rest.split(']').next().unwrap_or(""));
                    wanted.extend(list.lines().map(|l| l.trim().trim_matches([',', '"']).to_owned()).filter(|l| !l.is_empty()));
                }
            }
        }
        // A set has one order.
        done.iter().for_each(|id| self.add(id.as_bytes()));
    }
}

/// Directories of the path dependencies that a manifest names, itself or by way of its workspace. More than there are do no harm.
fn dependencies(manifest: &str, root: &Path) -> Vec<PathBuf> {
    let path_of = |line: &str| Some(line.split_once("path")?.1.trim_start().strip_prefix('=')?.split('"').nth(1)?.to_owned());
    let mut found: Vec<PathBuf> = manifest.lines().filter_map(path_of).map(|path| root.join(path)).collect();
    let workspace = root.ancestors().find_map(|directory| {
        let text = fs::read_to_string(directory.join("Cargo.toml")).ok()?;
        text.lines().any(|l| l.trim() == "[workspace]").then(|| (directory.to_owned(), text))
    });
    let Some((directory, text)) = workspace else { return found };
    let inherited = manifest.lines().filter(|l| l.contains("workspace") && l.contains("true"));
    for name in inherited.filter_map(|line| Some(line.split(['.', '=']).next()?.trim())) {
        let is_of_name = |line: &&str| line.split(['.', '=']).next().is_some_and(|key| key.trim() == name);
        found.extend(text.lines().filter(is_of_name).filter_map(path_of).map(|path| directory.join(path)));
    }
    found.retain(|path| path.is_dir());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn stamp(root: &Path, name: &str) -> u64 {
        let mut stamp = Stamp { hash: 0, seen: BTreeSet::new() };
        stamp.package(&root.join(name)).expect("a package");
        stamp.locked(&locked(&root.join(name)).expect("a lock"), name);
        stamp.hash
    }

    #[test]
    fn it_changes_with_each_source_that_a_type_can_come_from() {
        let root = std::env::temp_dir().join(format!("ringtrace-stamp-{}", std::process::id()));
        write(&root, "Cargo.toml", "[workspace]\nmembers = []\n[workspace.dependencies]\nshared = { path = \"shared\" }\n");
        write(&root, "app/Cargo.toml", "[dependencies]\nshared.workspace = true\nnear = { path = \"../near\" }\n");
        write(&root, "app/src/lib.rs", "pub mod inner;");
        write(&root, "app/src/inner/mod.rs", "");
        write(&root, "shared/Cargo.toml", "[dependencies]\nfar = { path = \"../far\" }\n");
        for name in ["shared", "near", "far"] {
            write(&root, &format!("{name}/src/lib.rs"), "pub struct A(u32);");
        }
        for name in ["near", "far"] {
            write(&root, &format!("{name}/Cargo.toml"), "");
        }
        let package = |name: &str, version: &str, dependencies: &str| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nchecksum = \"{version}\"\ndependencies = [\n{dependencies}]\n\n"
            )
        };
        let lock = |serde: &str, other: &str| {
            package("app", "0.1.0", " \"serde\",\n") + &package("serde", serde, "") + &package("other", other, "")
        };
        write(&root, "Cargo.lock", &lock("1.0.0", "1.0.0"));
        let first = stamp(&root, "app");
        assert_eq!(stamp(&root, "app"), first);
        write(&root, "Cargo.lock", &lock("1.0.0", "2.0.0"));
        assert_eq!(stamp(&root, "app"), first, "a package that it does not depend on");
        write(&root, "Cargo.lock", &lock("1.0.1", "1.0.0"));
        assert_ne!(stamp(&root, "app"), first);
        write(&root, "Cargo.lock", &lock("1.0.0", "1.0.0"));
        for path in ["app/src/inner/mod.rs", "near/src/lib.rs", "shared/src/lib.rs", "far/src/lib.rs", "app/Cargo.toml"] {
            let before = fs::read_to_string(root.join(path)).expect("a file");
            write(&root, path, &format!("{before}\n# changed"));
            assert_ne!(stamp(&root, "app"), first, "{path}");
            write(&root, path, &before);
            assert_eq!(stamp(&root, "app"), first, "{path}");
        }
        fs::remove_dir_all(root).expect("it is removed");
    }
}
