//! Tells the crate which compiler compiles it: what is linked from two builds must come from one.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("-V").output();
    let version =
        output.map(|o| String::from_utf8_lossy(&o.stdout).trim().replace(['"', '\\', '{', '}'], "_")).unwrap_or_default();
    // Without what is special in assembly, where it becomes part of a note.
    println!("cargo::rustc-env=RINGTRACE_COMPILER={version}");
}
