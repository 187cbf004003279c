//! `cargo xtask tidy`: rules that no compiler checks.

mod layers;
mod manifests;
mod sources;
mod texts;

use crate::process::Tally;
use crate::workspace::{Metadata, SourceFile, files};
use anyhow::Result;

/// What a rule looks at.
struct Context {
    files: Vec<SourceFile>,
    metadata: Metadata,
}

impl Context {
    /// Rust files of the library crates, without their tests, benches and examples.
    fn library_sources(&self) -> impl Iterator<Item = &SourceFile> {
        let of = |f: &&SourceFile| LIBRARIES.iter().any(|dir| f.path.starts_with(dir)) && f.path.ends_with(".rs");
        self.files.iter().filter(of)
    }

    fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|f| f.path == path)
    }
}

/// Where the sources of the library crates lie: those that compile with the oldest Rust we support.
const LIBRARIES: [&str; 6] =
    ["src/", "trace-macros/src/", "trace-registry/src/", "trace-runtime/src/", "trace-ctf/src/", "trace-control/src/"];

/// A broken rule: where, and what to do.
struct Finding {
    path: String,
    /// From 1; 0: the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    fn at(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_string(), line, message: message.into() }
    }
}

type Rule = fn(&Context) -> Result<Vec<Finding>>;

const RULES: [(&str, Rule); 12] = [
    ("versions stand in [workspace.dependencies], each with its reason", manifests::versions),
    ("dependencies work with the Rust version of the crate that uses them", manifests::rust_versions),
    ("packages inherit what the workspace says once", manifests::inherited),
    ("no let chains in library crates (Rust 1.88, they support 1.85)", sources::let_chains),
    ("assembly only where the table says", sources::assembly),
    ("the C library only where the table says", sources::c_library),
    ("raw atomics only where the table says", sources::atomics),
    ("names of linker sections end in the workspace's version", layers::section_names),
    ("crates depend downwards only", layers::dependencies),
    ("files of at most 700 lines, or a reason in their module docs", texts::sizes),
    ("no notes to self", texts::banned_words),
    ("documents name commands and files that exist", texts::references),
];

pub(crate) fn run() -> Result<Tally> {
    let context = Context { files: files()?, metadata: Metadata::with_dependencies()? };
    let mut tally = Tally::default();
    for (name, rule) in RULES {
        let findings = rule(&context)?;
        println!("{} {name}", if findings.is_empty() { "ok    " } else { "BROKEN" });
        for Finding { path, line, message } in &findings {
            match line {
                0 => println!("       {path}: {message}"),
                _ => println!("       {path}:{line}: {message}"),
            }
        }
        tally += Tally::of(findings.is_empty());
    }
    Ok(tally)
}
