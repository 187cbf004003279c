//! docs/modules.md is run as it stands, against the real programs.

mod common;
mod page;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Place, eventually};
use page::{follow, root, steps};

/// `examples/probe-module` in a directory of its own, since a workspace is not built inside another one's checkout by two at a time.
fn workspace(place: &Place) -> PathBuf {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("a directory");
        for entry in std::fs::read_dir(from).expect("a directory").flatten().filter(|e| e.file_name() != "target") {
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            if source.is_dir() {
                copy(&source, &target);
            } else {
                std::fs::copy(source, target).expect("a copy");
            }
        }
    }
    let example = place.here().join("probe-module");
    copy(&root().join("examples/probe-module"), &example);
    std::fs::copy(root().join("Cargo.lock"), example.join("Cargo.lock")).expect("a copy");
    let manifest = std::fs::read_to_string(example.join("Cargo.toml")).expect("it is there");
    let ringtrace = format!("path = \"{}\"", root().canonicalize().expect("a path").display());
    std::fs::write(example.join("Cargo.toml"), manifest.replace("path = \"../..\"", &ringtrace)).expect("it is written");
    example
}

/// What `doctor` and `why` say of a module's probe that panicked is what helps.
fn a_panic_is_mended_without_the_program(place: &Place, example: &Path, build: impl Fn()) {
    let (source, library) = (example.join("eviction-probes/src/lib.rs"), example.join("target/debug/libeviction_probes.so"));
    let good = std::fs::read_to_string(&source).expect("it is there");
    let bad = good.replace("Evicted { id: page.id }", "panic!(\"as the test wants it, at {}\", page.id)");
    std::fs::write(&source, &bad).expect("it is written");
    build();
    std::fs::copy(&library, place.here().join("bad.so")).expect("a copy");
    place.succeed(&["session", "create", "mended", "--rule", "storage:*", "--output", "mended"]);
    place.succeed(&["module", "load", "bad.so"]);
    let advice = "`ringtrace module unload eviction-probes` and `ringtrace module load ";
    for verb in [&["doctor"][..], &["why", "page_evicted", "--for", "1ms"]] {
        eventually("it says what helps", || common::text(&place.run(verb).stdout).contains(advice));
    }
    std::fs::write(&source, good).expect("it is written");
    build();
    std::fs::copy(&library, place.here().join("good.so")).expect("a copy");
    place.succeed(&["module", "unload", "eviction-probes", "--wait", "10s"]);
    place.succeed(&["module", "load", "good.so"]);
    eventually("it records again", || {
        place.json(&["status"])[0]["session"]["events"].as_u64().is_some_and(|events| events > 100)
    });
    place.succeed(&["session", "destroy", "mended"]);
    place.succeed(&["module", "unload", "eviction-probes", "--wait", "10s"]);
}

#[test]
fn the_page_about_modules_is_true() {
    let place = Place::new();
    let example = workspace(&place);
    let target = traces::nested_target();
    let build = |package: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", package]).current_dir(&example).env("CARGO_TARGET_DIR", &target);
        assert!(cargo.env_remove("RUSTFLAGS").status().expect("cargo runs").success());
    };
    build("application");
    build("eviction-probes");
    std::os::unix::fs::symlink(&target, example.join("target")).expect("a link");

    // In another terminal.
    let mut running = place.command(target.join("debug/application"));
    let mut running = running.env("RINGTRACE", "modules").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    eventually("the agent listens", || place.json(&["ps"]).len() == 1);

    let page = std::fs::read_to_string(root().join("docs/modules.md")).expect("the page");
    let steps = steps(&page);
    assert!(steps.len() >= 12, "{} commands", steps.len());
    follow("docs/modules.md", &steps, &place, &target.join("debug/application"), running.id());
    a_panic_is_mended_without_the_program(&place, &example, || build("eviction-probes"));
    drop(running.stdin.take());
    assert!(running.wait().expect("it ends").success());

    let contents = |name: &str| traces::read_by_both(&place.here().join(name));
    let (first, both) = (contents("first"), contents("both"));
    assert!(first.counts.keys().eq(["storage:page_evicted"]), "{:?}", first.counts);
    assert!(both.counts.keys().eq(["storage:dirty_page_evicted", "storage:page_evicted"]), "{:?}", both.counts);
}
