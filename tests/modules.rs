//! Probe modules and shared libraries: loaded into a running program and unloaded, under load; and every way to be refused.
//!
//! `examples/probe-module` and `tests/modules` are built together, as one workspace, in a copy that may be edited.
//! `RINGTRACE_RELOADS` sets how often modules are loaded (1 000 by default).
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(unused_crate_dependencies, reason = "the crates that are tested are built apart")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What the tests add to the example's library: types that say nothing of their layout.
const ROWS: &str = "
pub struct Row { pub key: u32, pub length: u32 }

/// A row was read.
#[ringtrace::tracepoint]
pub fn row_read(row: &Row);

pub fn read(key: u32) {
    row_read(&Row { key, length: 4 });
}

#[derive(ringtrace::Abi)]
#[repr(u8)]
pub enum Cell<'a> { Number(u64) = 0, Text(&'a str) = 1 }

/// A cell was read.
#[ringtrace::tracepoint]
pub fn cell_read(cell: &Cell<'_>);

#[derive(ringtrace::Abi)]
pub struct Label<'a> { pub name: &'a str, pub of: &'a str }

/// A label was read.
#[ringtrace::tracepoint]
pub fn label_read(label: &Label<'_>);

/// A page was sealed.
#[ringtrace::tracepoint]
pub fn sealed(id: u64);
";

/// What the hash of a layout covers, as a refusal says it.
const WHAT_OF_LAYOUT: &str = "(names, offsets, types or lifetimes of fields, `repr`, or numbers of variants)";

/// A workspace, and what was built in it before anything was edited.
struct Workspace {
    root: PathBuf,
    target: PathBuf,
    built: PathBuf,
    edited: Mutex<()>,
    /// One process at a time: what cargo builds goes by one name.
    _alone: fs::File,
}

/// As cargo says, not as the compiler saw it: two checkouts may build in one target directory.
fn checkout() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests").into()
}

fn workspace() -> &'static Workspace {
    static WORKSPACE: OnceLock<Workspace> = OnceLock::new();
    WORKSPACE.get_or_init(|| {
        let (checkout, scratch) = (checkout(), Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules"));
        let alone = lock(&scratch);
        let root = scratch.join("workspace");
        let _ = fs::remove_dir_all(&root);
        copy(&checkout.join("examples/probe-module"), &root);
        copy(&checkout.join("tests/modules"), &root);
        fs::copy(checkout.join("Cargo.lock"), root.join("Cargo.lock")).expect("a copy of Cargo.lock");
        let workspace = Workspace {
            target: common::nested_target(),
            built: scratch.join("built"),
            root,
            edited: Mutex::new(()),
            _alone: alone,
        };
        let ringtrace = format!("path = \"{}\"", checkout.display());
        workspace.replace("Cargo.toml", "path = \"../..\"", &ringtrace);
        workspace.replace("Cargo.toml", "members = [", "members = [\"checks\", \"plugin\", \"provider\", \"rows\", \"stuck\", ");
        let library = workspace.root.join("storage/src/lib.rs");
        fs::write(&library, fs::read_to_string(&library).expect("it is there") + ROWS).expect("it is written");
        fs::create_dir_all(&workspace.built).expect("a directory");
        // Apart from each other, as users build them.
        workspace.build(&["-p", "application"], &["application", "reload"]);
        workspace.build(&["-p", "eviction-probes"], &["libeviction_probes.so"]);
        fs::rename(workspace.built("libeviction_probes.so"), workspace.built("first.so")).expect("it was built");
        workspace.build(&["-p", "eviction-probes", "--features", "second"], &["libeviction_probes.so"]);
        fs::rename(workspace.built("libeviction_probes.so"), workspace.built("second.so")).expect("it was built");
        // Together: the types of `row_read` have no `Abi`.
        workspace.build(
            &["-p", "checks", "-p", "rows", "-p", "plugin", "-p", "provider", "-p", "stuck"],
            &["try_load", "late", "held", "wait", "librows.so", "libplugin.so", "libprovider.so", "libstuck.so"],
        );
        workspace
    })
}

impl Workspace {
    /// Builds, and keeps copies of some results.
    fn build(&self, arguments: &[&str], results: &[&str]) {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet"]).args(arguments).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        output(cargo.env_remove("RUSTFLAGS"));
        for result in results {
            // A new file: the old one may be in use.
            let _ = fs::remove_file(self.built(result));
            fs::copy(self.target.join("debug").join(result), self.built(result)).expect("it was built");
        }
    }

    fn built(&self, name: &str) -> PathBuf {
        self.built.join(name)
    }

    fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.root.join(file);
        let text = fs::read_to_string(&path).expect("a file of the workspace");
        assert!(text.contains(from), "{file} has no {from:?}");
        fs::write(&path, text.replace(from, to)).expect("it is written");
    }

    /// Builds a package with one file edited, into a module of another name.
    fn build_edited(&self, packages: &[&str], edits: &[(&str, &str, &str)], result: &str, name: &str) -> PathBuf {
        let _alone: MutexGuard<'_, ()> = self.edited.lock().unwrap_or_else(PoisonError::into_inner);
        let before: Vec<_> = edits.iter().map(|(file, ..)| fs::read(self.root.join(file)).expect("a file")).collect();
        edits.iter().for_each(|(file, from, to)| self.replace(file, from, to));
        let arguments: Vec<&str> = packages.iter().flat_map(|p| ["-p", p]).collect();
        self.build(&arguments, &[]);
        fs::copy(self.target.join("debug").join(result), self.built(name)).expect("it was built");
        for ((file, ..), before) in edits.iter().zip(before).rev() {
            fs::write(self.root.join(file), before).expect("it is written");
        }
        self.built(name)
    }

    /// A copy of a built file with some bytes replaced.
    fn patched(&self, of: &str, name: &str, patch: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
        let mut bytes = fs::read(self.built(of)).expect("it was built");
        patch(&mut bytes);
        fs::write(self.built(name), bytes).expect("it is written");
        self.built(name)
    }

    fn try_load(&self, modules: &[&Path]) -> String {
        // What is refused has run nothing before: the plugin's constructor would say so.
        output(Command::new(self.built("try_load")).args(modules).env("PLUGIN_SAYS_SO", "1"))
    }
}

fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            if entry.file_name() != "target" {
                copy(&source, &target);
            }
        } else {
            fs::copy(source, target).expect("a copy");
        }
    }
}

/// Keeps other processes out of a directory for as long as the file is open.
fn lock(directory: &Path) -> fs::File {
    use std::os::fd::AsRawFd as _;
    fs::create_dir_all(directory).expect("a directory");
    let file = fs::File::create(directory.join("lock")).expect("a file");
    // SAFETY: the descriptor is open.
    #[expect(unsafe_code, reason = "flock(2), which Rust 1.88 does not offer")]
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
    assert_eq!(result, 0);
    file
}

fn reloads() -> String {
    std::env::var("RINGTRACE_RELOADS").unwrap_or_else(|_| "1000".to_owned())
}

#[test]
fn two_versions_of_a_module_come_and_go_while_their_tracepoint_fires() {
    let workspace = workspace();
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("t");
    let mut reload = Command::new(workspace.built("reload"));
    reload.arg(workspace.built("first.so")).arg(workspace.built("second.so")).arg(reloads()).arg(&trace);
    println!("{}", output(&mut reload));
    let contents = common::read(&trace);
    let (mut first, mut second) = (0, 0);
    for (name, fields) in &contents.payloads {
        let number = |field: &str| fields.iter().find(|(n, _)| n == field).and_then(|(_, v)| v.parse::<u64>().ok());
        let id = number("id").expect("both have it");
        if name == "storage:page_evicted" {
            first += 1;
            assert_eq!(fields.len(), 1, "{fields:?}");
        } else {
            second += 1;
            assert_eq!((name.as_str(), id % 2), ("storage:dirty_page_evicted", 1));
            let bytes = (id as u32).rotate_left(7) ^ 0x5a5a; // as `storage::bytes_of`
            let capacity = fields.iter().find(|(n, _)| n == "capacity").map(|(_, v)| v == "true");
            assert_eq!((number("bytes"), capacity), (Some(bytes.into()), Some(id % 3 == 0)), "{fields:?}");
        }
    }
    println!("{first} events of the first version, {second} of the second");
    let rounds: u64 = reloads().parse().expect("a number");
    assert!(first >= rounds / 2 * 10 && second >= rounds / 2 * 10);
}

#[test]
fn a_library_of_the_program_is_listed_and_recorded_while_it_is_loaded() {
    let workspace = workspace();
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("t");
    output(Command::new(workspace.built("late")).arg(workspace.built("libplugin.so")).arg("200").arg(&trace));
    let contents = common::read_by_both(&trace);
    assert_eq!(contents.numbers("plugin:called", "id"), (0..200).collect::<Vec<u64>>());
    assert_eq!(contents.events(), 200);
}

#[test]
fn modules_load_side_by_side_with_tracepoints_of_their_own() {
    let workspace = workspace();
    let said = workspace.try_load(&[&workspace.built("second.so"), &workspace.built("librows.so"), &workspace.built("first.so")]);
    // Ten pages, of which five are dirty; one row, and what the probe for it fires.
    let expected = format!(
        "loaded eviction-probes 2.0.0: storage:dirty_page_evicted\n\
         loaded rows 1.0.0: PROBES\n\
         refused: cannot load the module {}: a module called eviction-probes is loaded already: version 2.0.0, from {}; unload it first\n\
         attached: true true\n\
         after: false false\n\
         events: 17\n",
        workspace.built("first.so").display(),
        workspace.built("second.so").display()
    );
    let probes = said.split_once("rows 1.0.0: ").and_then(|(_, rest)| rest.lines().next()).expect("it is loaded");
    let mut sorted: Vec<&str> = probes.split(", ").collect();
    sorted.sort_unstable();
    assert_eq!(sorted, ["rows:evicted", "rows:looked", "storage:row_read"]);
    assert_eq!(said.replace(probes, "PROBES"), expected);
}

#[test]
fn unloading_names_the_probe_that_does_not_return() {
    let workspace = workspace();
    let mut wait = Command::new(workspace.built("wait"));
    let directory = tempfile::tempdir().expect("a directory");
    wait.arg(workspace.built("libstuck.so")).env("RUST_BACKTRACE", "0").env("STUCK_WHILE", directory.path().join("waits"));
    let mut child = wait.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(child.stdout.take().expect("its output"));
    let mut text = String::new();
    while !text.ends_with("now\n") {
        assert!(said.read_line(&mut text).expect("text") > 0, "{text}");
    }
    let name = "the module stuck is detached, but not unloaded: a probe or state dump of it (stuck:waits) has not returned within \
                20ms; it is unloaded when that returns";
    assert_eq!(text, format!("inside\n{name}\nnow\n"));
    drop(child.stdin.take());
    said.read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("it ends").success(), "{text}");
    assert!(text.trim_end().ends_with("panicked; it is detached"), "{text}");
}

/// Runs `held`, whose stdin is open and whose stderr is not read, until it says that it got by what hangs.
fn held(arguments: &[&std::ffi::OsStr]) {
    let mut command = Command::new(workspace().built("held"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let (sender, said) = std::sync::mpsc::channel();
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    // A library that waits does so for 30 s at least, or for ever.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(25);
    while said.recv_timeout(limit.saturating_duration_since(std::time::Instant::now())).as_deref() != Ok("returned") {
        if std::time::Instant::now() >= limit {
            child.kill().expect("it is ended");
            panic!("{arguments:?}: dlopen or dlclose waits");
        }
    }
    let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
    assert!(status.success(), "{arguments:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
}

#[test]
fn libraries_come_and_go_while_an_output_hangs() {
    held(&["output".as_ref(), workspace().built("libplugin.so").as_ref()]);
}

#[test]
fn a_library_whose_probe_runs_stays_mapped() {
    held(&["probe".as_ref(), workspace().built("libprovider.so").as_ref()]);
}

#[test]
fn a_library_is_recorded_into_rings_on_a_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    held(&["rings".as_ref(), workspace().built("libplugin.so").as_ref(), directory.path().as_ref()]);
    assert!(common::read_by_both(&directory.path().join("trace")).events() > 0);
}

/// Tries a module, which must be refused with this message, and attach nothing.
fn refused(module: &Path, why: &str) {
    let said = workspace().try_load(&[module]);
    let path = module.display();
    assert!(said.starts_with(&format!("refused: cannot load the module {path}: {why}")), "{said}\nnot: {why}");
    assert!(said.ends_with("attached: false false\nafter: false false\nevents: 0\n"), "{said}");
}

#[test]
fn another_compiler_is_refused() {
    let ours = output(Command::new("rustc").arg("-V"));
    let (ours, theirs) = (ours.trim(), ours.trim().replacen("rustc 1.", "rustc 9.", 1));
    let module = workspace().patched("first.so", "compiler.so", |bytes| {
        let at = bytes.windows(ours.len()).position(|w| w == ours.as_bytes()).expect("it says what compiled it");
        bytes[at..at + ours.len()].copy_from_slice(theirs.as_bytes());
    });
    let why = "which may lay out every type otherwise; build the module with the program's compiler";
    refused(&module, &format!("it was compiled by `{theirs}`, and the program by `{ours}`, {why}\n"));
}

#[test]
fn another_signature_is_refused() {
    let edits = [
        (
            "storage/src/lib.rs",
            "page_evicted(page: &Page, reason: Reason);",
            "page_evicted(page: &Page, reason: Reason, pinned: bool);",
        ),
        ("storage/src/lib.rs", "Reason::Lru });", "Reason::Lru }, false);"),
        ("eviction-probes/src/lib.rs", "_reason: Reason)", "_reason: Reason, _pinned: bool)"),
    ];
    let module = workspace().build_edited(&["eviction-probes"], &edits, "libeviction_probes.so", "signature.so");
    refused(
        &module,
        "storage:page_evicted: its signature differs: `fn page_evicted(page: &Page, reason: Reason)` in the program, `fn \
         page_evicted(page: &Page, reason: Reason, pinned: bool)` in the module; build the module with the program's version of \
         the crate that declares it\n",
    );
}

#[test]
fn another_form_of_a_tracepoint_is_refused() {
    // The one's list holds functions that take its arguments, the other's such that take its events.
    let probe = (
        "eviction-probes/src/lib.rs",
        "/// Which pages go.",
        "#[ringtrace::probe(storage::sealed)]\nfn seen(_id: u64) {}\n\n/// Which pages go.",
    );
    let body = ("storage/src/lib.rs", "pub fn sealed(id: u64);", "pub fn sealed(id: u64) {\n    let _ = id;\n}");
    let declared = workspace().build_edited(&["eviction-probes"], &[probe], "libeviction_probes.so", "declared.so");
    assert!(workspace().try_load(&[&declared]).starts_with("loaded eviction-probes 1.0.0: "));
    let program = workspace().build_edited(&["checks"], &[body], "try_load", "try_load_body");
    let said = output(Command::new(program).arg(&declared));
    let why = "storage:sealed: it has a body in the program and none in the module; build the module with the program's version of \
               the crate that declares it\n";
    assert!(said.starts_with(&format!("refused: cannot load the module {}: {why}", declared.display())), "{said}");
    assert!(said.ends_with("attached: false false\nafter: false false\nevents: 0\n"), "{said}");
    // The other way round there is nothing to refuse: the module's copy records its own calls, as a tracepoint of its own.
    let with_body = workspace().build_edited(&["eviction-probes"], &[body], "libeviction_probes.so", "with-body.so");
    assert!(workspace().try_load(&[&with_body]).starts_with("loaded eviction-probes 1.0.0: "));
}

#[test]
fn another_size_of_an_argument_is_refused() {
    let edits = [("storage/src/lib.rs", "pub key: u32, pub length: u32", "pub key: u32, pub length: u64")];
    let module = workspace().build_edited(&["checks", "rows", "plugin", "stuck"], &edits, "librows.so", "size.so");
    refused(
        &module,
        "storage:row_read: the size of its argument `&Row` differs: 8 bytes in the program, 16 in the module; build both from the \
         same sources\n",
    );
}

#[test]
fn a_field_of_another_type_is_refused_though_the_size_is_the_same() {
    // The compiler's type identities say nothing of it.
    let edits = [
        ("storage/src/lib.rs", "pub key: u32, pub length: u32", "pub key: u32, pub length: f32"),
        ("storage/src/lib.rs", "length: 4 ", "length: 4.0 "),
    ];
    let module = workspace().build_edited(&["checks", "rows", "plugin", "stuck"], &edits, "librows.so", "field.so");
    refused(
        &module,
        "storage:row_read: the sources of the crate that declares it, or of a crate that this one depends on, have changed between \
         the builds; build both from the same sources\n",
    );
    // With `Abi`, what is edited elsewhere makes no difference, and a field does.
    let edits = [
        ("storage/src/lib.rs", "pub bytes: u32,", "pub bytes: f32,"),
        ("storage/src/lib.rs", "bytes: bytes_of(id),", "bytes: bytes_of(id) as f32,"),
    ];
    let module = workspace().build_edited(&["eviction-probes"], &edits, "libeviction_probes.so", "layout.so");
    refused(
        &module,
        &format!(
            "storage:page_evicted: the layout of its argument `&Page` differs {WHAT_OF_LAYOUT}; build both from the same \
             sources\n"
        ),
    );
    let edits = [("storage/src/lib.rs", "id % 3 == 0", "id % 5 == 0")];
    let module = workspace().build_edited(&["eviction-probes"], &edits, "libeviction_probes.so", "elsewhere.so");
    assert!(workspace().try_load(&[&module]).starts_with("loaded eviction-probes 1.0.0: storage:page_evicted\nattached: true "));
}

#[test]
fn renumbered_variants_and_references_that_live_longer_are_refused() {
    // As large as before, and with the same fields in the same places.
    let probe = |of: &str| {
        let (function, ty) = (format!("{of}_read"), format!("{}<'_>", if of == "cell" { "Cell" } else { "Label" }));
        format!("#[ringtrace::probe(storage::{function})]\nfn seen(_: &storage::{ty}) {{}}\n\n/// Which pages go.")
    };
    for (of, ty, from, to) in [
        ("cell", "Cell", "Number(u64) = 0, Text(&'a str) = 1", "Number(u64) = 1, Text(&'a str) = 0"),
        ("label", "Label", "pub of: &'a str", "pub of: &'static str"),
    ] {
        let probe = ("eviction-probes/src/lib.rs", "/// Which pages go.", &*probe(of));
        let name = format!("{of}.so");
        let fits = workspace().build_edited(&["eviction-probes"], &[probe], "libeviction_probes.so", &name);
        assert!(workspace().try_load(&[&fits]).starts_with("loaded eviction-probes 1.0.0: "));
        let edits = [probe, ("storage/src/lib.rs", from, to)];
        let module = workspace().build_edited(&["eviction-probes"], &edits, "libeviction_probes.so", &name);
        let why = format!("the layout of its argument `&{ty}<'_>` differs {WHAT_OF_LAYOUT}; build both from the same sources\n");
        refused(&module, &format!("storage:{of}_read: {why}"));
    }
}

#[test]
fn another_build_of_the_types_is_refused() {
    // By itself, and so with other features of ringtrace than the program has.
    let module = workspace().build_edited(&["rows"], &[], "librows.so", "apart.so");
    refused(
        &module,
        "storage:row_read: the compiler sees other types in its arguments: the crates were built with another profile, other \
         features or in another workspace; build program and module by one `cargo build` of one workspace, or derive \
         `ringtrace::Abi` for the arguments' types\n",
    );
}

#[test]
fn a_missing_tracepoint_is_refused() {
    let edits = [
        (
            "storage/src/lib.rs",
            "/// Evicts a page:",
            "#[ringtrace::tracepoint]\npub fn page_loaded(id: u64);\n\n/// Evicts a page:",
        ),
        (
            "eviction-probes/src/lib.rs",
            "/// Which pages go.",
            "#[ringtrace::probe(storage::page_loaded)]\nfn seen(_id: u64) {}\n\n/// Which pages go.",
        ),
    ];
    let module = workspace().build_edited(&["eviction-probes"], &edits, "libeviction_probes.so", "missing.so");
    refused(
        &module,
        "storage:page_loaded: the program has no such tracepoint; it has storage:page_evicted, storage:label_read, storage:sealed; the module's probe at eviction-probes/src/lib.rs:12 is for it, so \
         build the module with the program's version of the crate that declares it\n",
    );
}

#[test]
fn files_that_are_no_modules_are_refused() {
    let workspace = workspace();
    let text = workspace.built("text.so");
    fs::write(&text, "no module").expect("it is written");
    refused(&text, "it is no shared object (no ELF file); a probe module is what cargo builds of a `cdylib`: lib….so\n");
    refused(&workspace.built, "it is a directory; a probe module is what cargo builds");
    let pipe = workspace.built("pipe.so");
    let _ = fs::remove_file(&pipe);
    output(Command::new("mkfifo").arg(&pipe));
    refused(&pipe, "it is no regular file; a probe module is what cargo builds");
    let cut = workspace.patched("first.so", "cut.so", |bytes| bytes.truncate(4096));
    refused(&cut, "it is damaged: it ends before its contents do; build it again, or copy it again\n");
    let torn = workspace.patched("first.so", "torn.so", |bytes| bytes[64..].fill(0xa5));
    refused(&torn, "it is damaged: ");
    let arm = workspace.patched("first.so", "arm.so", |bytes| bytes[18..20].copy_from_slice(&183_u16.to_le_bytes()));
    refused(&arm, "it is for another machine (aarch64), and the program runs on x86_64; build it for the program's target\n");
    refused(
        &workspace.built("libplugin.so"),
        "it is no probe module: it has no `ringtrace::probe_module!`, so that its tracepoints and probes were its own\n",
    );
    let libc = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6"].into_iter().find(|p| Path::new(p).exists());
    let libc = fs::canonicalize(libc.expect("a shared object")).expect("a path");
    refused(&libc, "it has nothing of ringtrace in it; a probe module is a `cdylib` with `ringtrace::probe_module!`\n");
    let said = workspace.try_load(&[Path::new("/nonexistent.so")]);
    assert!(said.starts_with("refused: cannot load /nonexistent.so: No such file or directory"), "{said}");
}

#[test]
#[ignore = "a measurement: cargo xtask bench --only 'probe/*'"]
fn what_a_loaded_probe_costs() {
    let workspace = workspace();
    let profile = std::env::var("RINGTRACE_BENCH_PROFILE").unwrap_or_else(|_| "release".to_owned());
    workspace.build(&["--profile", &profile, "-p", "checks", "--bin", "cost"], &[]);
    workspace.build(&["--profile", &profile, "-p", "eviction-probes"], &[]);
    let built = workspace.target.join(if profile == "dev" { "debug" } else { &profile });
    let directory = tempfile::tempdir().expect("a directory");
    print!("{}", output(Command::new(built.join("cost")).arg(built.join("libeviction_probes.so")).arg(directory.path())));
}

/// The dynamic linker trusts all of these, and would end the program.
#[test]
fn damaged_tables_do_not_reach_the_dynamic_linker() {
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
    let workspace = workspace();
    let whole = fs::read(workspace.built("first.so")).expect("it was built");
    let word = |at: usize| u64::from_ne_bytes(whole[at..at + 8].try_into().expect("eight bytes"));
    let mut places = Vec::new();
    for header in (0..usize::from(whole[56])).map(|i| 64 + 56 * i) {
        match word(header) & 0xffff_ffff {
            LOAD => places.extend([8, 16, 32, 40].map(|field| header + field)),
            DYNAMIC => {
                places.push(header + 16);
                let entries = (word(header + 8) as usize..).step_by(16).take_while(|at| word(*at) != 0);
                // Needed, and tables of names, symbols, relocations, hashes, functions and versions.
                let trusted = [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 23, 25, 26, 27, 28, 0x6fff_fef5, 0x6fff_fff0, 0x6fff_fffe];
                places.extend(entries.filter(|at| trusted.contains(&word(*at))).map(|at| at + 8));
            }
            _ => {}
        }
    }
    assert!(places.len() > 20, "{places:?}");
    let damaged = |(number, at): (usize, &usize)| {
        workspace.patched("first.so", &format!("damaged-{number}.so"), |bytes| bytes[*at..at + 8].fill(0x71))
    };
    let files: Vec<PathBuf> = places.iter().enumerate().map(damaged).collect();
    let said = workspace.try_load(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>());
    for (file, place) in files.iter().zip(&places) {
        let why = format!("refused: cannot load the module {}: it is damaged: ", file.display());
        assert!(said.contains(&why), "byte {place}: no {why:?} in {said}");
        fs::remove_file(file).expect("it is there");
    }
    assert!(said.ends_with("attached: false false\nafter: false false\nevents: 0\n"), "{said}");
}
