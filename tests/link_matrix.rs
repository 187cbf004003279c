//! Every tracepoint and probe arrives in the registry, whatever linked the program: the crates of `tests/link-matrix`, built with
//! each linker, with and without section garbage collection, in each profile. `RINGTRACE_LINK_MATRIX=full` builds all
//! combinations (`cargo xtask link-matrix --full`); without it, one of each kind.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(unused_crate_dependencies, reason = "the crates that are tested are built apart")]

#[path = "common/versions.rs"]
mod versions;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex, Once, PoisonError};

mod common;

/// Who builds `application`, and runs it: it goes by one name.
static APPLICATIONS: Mutex<()> = Mutex::new(());

#[derive(Clone, Copy, Debug)]
enum Linker {
    Gnu,
    Lld,
    Mold,
}

impl Linker {
    fn flag(self) -> &'static str {
        match self {
            Linker::Gnu => "-Clink-arg=-fuse-ld=bfd",
            Linker::Lld => "-Clink-arg=-fuse-ld=lld",
            Linker::Mold => "-Clink-arg=-fuse-ld=mold",
        }
    }

    fn is_installed(self) -> bool {
        let program = match self {
            Linker::Gnu => "ld.bfd",
            Linker::Lld => "ld.lld",
            Linker::Mold => "mold",
        };
        Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
    }

    /// Whether it was this one that linked `file`: linkers but GNU's leave their names.
    fn has_linked(self, file: &Path) -> bool {
        let bytes = fs::read(file).expect("the file that was linked");
        let contains = |mark: &[u8]| bytes.windows(mark.len()).any(|w| w == mark);
        let (lld, mold) = (contains(b"Linker: LLD"), contains(b"\0mold ") || contains(b"GNU\0mold"));
        match self {
            Linker::Gnu => !lld && !mold,
            Linker::Lld => lld,
            Linker::Mold => mold,
        }
    }
}

/// A profile of `tests/link-matrix/Cargo.toml`, and the directory cargo builds it in.
type Profile = (&'static str, &'static str);

const DEBUG: Profile = ("dev", "debug");
const RELEASE: Profile = ("release", "release");
const THIN: Profile = ("thin", "thin");
const FAT: Profile = ("fat", "fat");

fn is_full() -> bool {
    std::env::var_os("RINGTRACE_LINK_MATRIX").is_some_and(|v| v == "full")
}

fn combinations() -> Vec<(Linker, bool, Profile)> {
    if !is_full() {
        return vec![
            (Linker::Gnu, true, RELEASE),
            (Linker::Lld, true, FAT),
            (Linker::Lld, false, DEBUG),
            (Linker::Mold, true, RELEASE),
        ];
    }
    let mut all = Vec::new();
    for profile in [DEBUG, RELEASE, THIN, FAT] {
        for linker in [Linker::Gnu, Linker::Lld, Linker::Mold] {
            all.extend([true, false].map(|gc| (linker, gc, profile)));
        }
    }
    all
}

/// Sorted as the test sorts: the linker's order is its own.
const APPLICATION: [&str; 7] = [
    "probe application:started",
    "probe library:opened",
    "probe library:quiet::never_named",
    "tracepoint application:started",
    "tracepoint library:inner::generic_called",
    "tracepoint library:opened",
    "tracepoint library:quiet::never_named",
];

const PLUGIN: [&str; 3] = ["probe plugin:quiet::in_plugin", "tracepoint plugin:loaded", "tracepoint plugin:quiet::in_plugin"];

#[test]
fn every_declaration_arrives() {
    let _alone = APPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let workspace = matrix();
    let target = common::nested_target();
    let mut missing = Vec::new();
    for (linker, gc, profile) in combinations() {
        let case = format!("{linker:?}, {}, profile {}", if gc { "gc-sections" } else { "no-gc-sections" }, profile.0);
        if !linker.is_installed() {
            println!("left out, not installed: {case}");
            missing.push(case);
            continue;
        }
        println!("{case}");
        for package in ["application", "plugin"] {
            let gc = if gc { "-Clink-arg=-Wl,--gc-sections" } else { "-Clink-arg=-Wl,--no-gc-sections" };
            // `cargo rustc` gives the flags to the last step only, so that dependencies are built once for each profile.
            let args = ["rustc", "--quiet", "--profile", profile.0, "--package", package, "--", linker.flag(), gc];
            cargo(&workspace, &target, "", &args);
        }
        let built = target.join(profile.1);
        let (application, plugin) = (built.join("application"), built.join("libplugin.so"));
        assert!(linker.has_linked(&application) && linker.has_linked(&plugin), "{case}: another linker ran");

        let printed = output(Command::new(&application).arg(&plugin));
        assert_eq!(of(&printed, "application"), APPLICATION, "{case}");
        assert_eq!(of(&printed, "plugin"), PLUGIN, "{case}");
        // The program's registry is not that of what it loads.
        assert_eq!(of(&printed, "application after dlopen"), APPLICATION, "{case}");
        assert_eq!(of(&printed, "application after dlclose"), APPLICATION, "{case}");
        assert_eq!(of(&printed, "gate closed"), ["false, open: true, closed: false"], "{case}");
    }
    assert!(missing.len() <= 1 || std::env::var_os("CI").is_none(), "linkers are missing: {missing:?}");
}

/// 1 000 times, with each way to leave a sequence as the last; and the same with the instructions taken out of the object that clear
/// `rseq_cs` there, which kills the thread.
#[test]
fn a_thread_outlives_the_shared_objects_that_appended_in_it() {
    let target = common::nested_target();
    cargo(&matrix(), &target, "", &["build", "--quiet", "--package", "unloaded"]);
    let built = target.join("debug");
    let (whole, patched) = (built.join("libunloaded.so"), built.join("libunloaded-patched.so"));
    let code = fs::read(&whole).expect("it was built");
    for (function, is_refusal) in [("ends_with_a_commit", false), ("ends_with_a_refusal", true)] {
        let unload = |object: &Path| {
            let mut command = Command::new(built.join("unload"));
            command.arg(object).arg(function);
            command
        };
        // Some are migrated in between.
        let rounds: u32 = of(&output(&mut unload(&whole)), "rounds")[0].parse().expect("a number");
        assert!(rounds > 500, "{function}: {rounds} of 1000 rounds were as they should be");

        let mut code = code.clone();
        for place in clearing(&code).into_iter().filter(|place| is_refused_there(&code, *place) == is_refusal).collect::<Vec<_>>()
        {
            code[place..place + CLEARS.len()].fill(NOP);
        }
        fs::write(&patched, code).expect("a patched object");
        let status = unload(&patched).output().expect("it is run").status;
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{function}: nobody notices that rseq_cs is not cleared: {status}");
    }
}

/// `mov qword ptr fs:[r11 + 8], 0`, as all sequences of the ring buffer have it.
const CLEARS: [u8; 9] = [0x64, 0x49, 0xc7, 0x43, 0x08, 0, 0, 0, 0];
const NOP: u8 = 0x90;

/// Where `rseq_cs` is cleared.
fn clearing(code: &[u8]) -> Vec<usize> {
    let places = code.windows(CLEARS.len()).enumerate().filter(|(_, bytes)| *bytes == CLEARS);
    places.map(|(place, _)| place).collect()
}

/// Whether that is behind the signature of an abort handler: where refused and aborted sequences go.
fn is_refused_there(code: &[u8], place: usize) -> bool {
    const SIGNATURE: [u8; 4] = 0x5305_3053_u32.to_le_bytes();
    code[place.saturating_sub(16)..place].windows(4).any(|bytes| bytes == SIGNATURE)
}

#[test]
fn two_versions_in_one_program() {
    let dir = scratch("versions");
    let both = versions::workspace(root(), &dir);
    let target = common::nested_target();
    let profiles: &[Profile] = if is_full() { &[DEBUG, RELEASE] } else { &[DEBUG] };
    for (profile, directory) in profiles {
        cargo(&both, &target, "", &["build", "--quiet", "--profile", profile]);
        let printed = output(&mut Command::new(target.join(directory).join("both")));
        assert_eq!(of(&printed, "older"), ["probe older:fired", "tracepoint older:fired"], "{profile}");
        assert_eq!(of(&printed, "newer"), ["probe newer:fired", "tracepoint newer:fired"], "{profile}");
    }
}

#[test]
fn a_library_links_the_run_time_only_when_the_application_asks() {
    let workspace = matrix();
    let target = common::nested_target();
    let tree = |package| {
        cargo(&workspace, &target, "", &["tree", "--quiet", "--edges", "normal", "--prefix", "none", "--package", package])
    };
    let has_run_time = |package| tree(package).lines().any(|l| l.starts_with("trace-runtime "));
    assert!(!has_run_time("library") && !has_run_time("probes") && !has_run_time("plugin"));
    assert!(has_run_time("application"));
    // In that state it compiles, alone and without the standard library; `every_declaration_arrives` compiles it in the other.
    cargo(&workspace, &target, "", &["build", "--quiet", "--package", "library", "--package", "probes"]);
}

#[test]
fn gates_can_be_removed_from_a_program() {
    let _alone = APPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let workspace = matrix();
    let target = common::nested_target();
    // As `cargo xtask golden` builds it.
    cargo(&workspace, &target, "--cfg ringtrace_off", &["build", "--quiet", "--release", "--package", "application"]);
    let printed = output(&mut Command::new(target.join("release/application")));
    assert_eq!(of(&printed, "gate closed"), ["false, open: false, closed: false"]);
}

/// As cargo says, not as the compiler saw it: two checkouts may build in one target directory.
fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> =
        LazyLock::new(|| std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests").into());
    &ROOT
}

/// The workspace that is built, with the versions of this one's dependencies.
fn matrix() -> PathBuf {
    static LOCKED: Once = Once::new();
    let workspace = root().join("tests/link-matrix");
    LOCKED.call_once(|| lock(&workspace));
    workspace
}

fn lock(workspace: &Path) {
    let lock = root().join("Cargo.lock");
    fs::copy(lock, workspace.join("Cargo.lock")).expect("a copy of Cargo.lock");
}

/// A directory that lasts from run to run: what was built there is built once.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("link-matrix").join(name);
    fs::create_dir_all(&dir).expect("a directory below cargo's target directory");
    dir
}

/// Runs cargo in a workspace and returns what it printed.
fn cargo(workspace: &Path, target: &Path, flags: &str, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(args).current_dir(workspace).env("CARGO_TARGET_DIR", target).env("RUSTFLAGS", flags);
    output(&mut command)
}

fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

/// The lines that `whose` begins, without that, sorted.
fn of<'a>(printed: &'a str, whose: &str) -> Vec<&'a str> {
    let mut lines: Vec<&str> =
        printed.lines().filter_map(|l| l.split_once(": ")).filter(|(w, _)| *w == whose).map(|(_, l)| l).collect();
    lines.sort_unstable();
    lines
}
