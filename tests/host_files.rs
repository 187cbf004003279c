//! What the program does to its own directory and descriptors, and what a start that fails leaves: files of the program are
//! never touched, and nothing stays behind.

mod common;

use common::{child, is_child, read, read_by_both};
use ringtrace::{Session, tracepoint};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[tracepoint(record)]
fn counted(number: u64);

#[derive(Debug, ringtrace::Event)]
struct Later {
    number: u64,
}

/// Runs the test again as a child in `directory`, which is its run-time directory too, and returns what it says on stderr.
fn run(name: &str, directory: &Path) -> String {
    let mut command = child(name);
    // The rings' directory must be in memory; a name of our own keeps other tests out.
    let output = in_directory(&mut command, directory).output().expect("the child starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {}{said}", output.status, String::from_utf8_lossy(&output.stdout));
    said
}

fn in_directory<'a>(command: &'a mut Command, directory: &Path) -> &'a mut Command {
    command.current_dir(directory).env("XDG_RUNTIME_DIR", directory)
}

/// A directory in memory, so that rings can be in it.
fn memory_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in memory")
}

fn names(directory: impl AsRef<Path>) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).map(|d| d.flatten().map(|e| e.path()).collect());
    let mut names: Vec<PathBuf> = entries.unwrap_or_default();
    names.sort();
    names
}

/// Each file and directory below `directory`.
fn all_below(directory: &Path) -> Vec<PathBuf> {
    names(directory)
        .into_iter()
        .flat_map(|p| if p.is_dir() { [vec![p.clone()], all_below(&p)].concat() } else { vec![p] })
        .collect()
}

#[test]
fn recording_goes_on_after_chdir() {
    const NAME: &str = "recording_goes_on_after_chdir";
    if is_child(NAME) {
        // The streams' files are made when the first packets come, which is after this.
        let session = Session::builder("moved").enable("host_files:counted").output("made/here/trace").start();
        let session = session.expect("a session");
        let flight = Session::builder("flight").enable("host_files:counted").overwrite().output("made/here/flight").start();
        let flight = flight.expect("a session");
        let begun = std::env::current_dir().expect("a directory");
        std::env::set_current_dir("/").expect("the root can be entered");
        (0..1000).for_each(counted);
        let snapshot = flight.snapshot("moved").expect("a snapshot").path;
        assert_eq!(snapshot.parent(), Some(&*begun.join("made/here/flight.snapshots")));
        drop(flight);
        let statistics = session.stop().expect("the recording is complete");
        assert_eq!(statistics.events, 1000);
        return;
    }
    let directory = memory_directory();
    run(NAME, directory.path());
    let trace = directory.path().join("made/here/trace");
    assert_eq!(read_by_both(&trace).events(), 1000);
    for path in [vec![trace.clone()], all_below(&trace)].concat() {
        let (mode, is_dir) = fs::metadata(&path).map(|m| (m.permissions().mode() & 0o777, m.is_dir())).expect("it is there");
        assert_eq!(mode, if is_dir { 0o700 } else { 0o600 }, "{}", path.display());
    }
    assert!(names(directory.path().join("ringtrace")).is_empty(), "rings were left");
}

#[test]
fn a_trace_that_is_removed_while_it_is_recorded_is_told() {
    const NAME: &str = "a_trace_that_is_removed_while_it_is_recorded_is_told";
    if is_child(NAME) {
        let session = Session::builder("removed").enable("host_files:counted").output("trace").start().expect("a session");
        counted(1);
        fs::remove_dir_all("trace").expect("it was made");
        // Files that have no name any more would take all of it.
        (0..1000).for_each(counted);
        let error = session.stop().expect_err("the trace is gone");
        let place = std::env::current_dir().expect("a directory").join("trace");
        let told = format!("recording ended: {} was removed, and what had been written there is gone", place.display());
        assert!(error.is_io() && error.to_string().starts_with(&told), "{error}");
        return;
    }
    let directory = memory_directory();
    let said = run(NAME, directory.path());
    assert!(said.contains("was removed") && said.contains("is kept in"), "{said}");
}

/// Enough to be given each number that the tracer had.
const FILES: usize = 300;

fn own_content(number: usize) -> Vec<u8> {
    format!("file {number} of the program\n").repeat(10).into_bytes()
}

#[test]
fn files_of_a_program_that_closes_all_descriptors_are_not_touched() {
    const NAME: &str = "files_of_a_program_that_closes_all_descriptors_are_not_touched";
    if is_child(NAME) {
        // One with streams whose files are open, and one whose are not yet; the third is dropped without `stop`.
        let session = |name: &str| Session::builder(name).enable("host_files:counted").output(name).start().expect("a session");
        let sessions = [session("open"), session("stopped"), session("dropped")];
        (0..1000).for_each(counted);
        let [open, stopped, dropped] = &sessions;
        stopped.stop().expect("all is well so far");
        open.stop().and_then(|_| open.start()).expect("all is well so far");

        close_all_descriptors();
        let files: Vec<File> = (0..FILES).map(own_file).collect();
        (0..1000).for_each(counted);

        for session in [open, dropped] {
            let error = session.stop().expect_err("the output is gone");
            assert!(error.is_io(), "{error}");
        }
        let error = stopped.recorder::<Later>().expect_err("the metadata cannot be written any more");
        assert!(error.is_io(), "{error}");
        drop(sessions);
        check_own_files(&files);
        return;
    }
    let directory = memory_directory();
    let said = run(NAME, directory.path());
    assert!(said.contains("the program closed the tracer's descriptors"), "{said}");
    for number in 0..FILES {
        let content = fs::read(directory.path().join(number.to_string())).expect("the program's file");
        assert_eq!(content, own_content(number), "file {number}");
    }
    // Rings that could not be delivered are kept for `ringtrace recover`.
    let image = names(directory.path().join("ringtrace")).pop().expect("the process's directory");
    assert_eq!(names(&image), [image.join("dropped"), image.join("open")]);
    assert_eq!(read_by_both(&directory.path().join("stopped")).events(), 1000);
    assert_eq!(read_by_both(&directory.path().join("open")).events(), 1000, "what was written before is a complete trace");
}

fn close_all_descriptors() {
    for descriptor in 3..1024 {
        // SAFETY: this is the mistake under test. Nothing in this process but the tracer has such descriptors.
        #[expect(unsafe_code, reason = "closes descriptors that it does not own")]
        unsafe {
            libc::close(descriptor)
        };
    }
}

fn own_file(number: usize) -> File {
    let mut file = File::options().read(true).write(true).create_new(true).open(number.to_string()).expect("a file");
    std::io::Write::write_all(&mut file, &own_content(number)).expect("it is written");
    file
}

/// Each descriptor is still open, and of the same file.
fn check_own_files(files: &[File]) {
    for (number, file) in files.iter().enumerate() {
        let mut content = vec![0; own_content(number).len()];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut content, 0).expect("the descriptor is open");
        assert_eq!(content, own_content(number), "file {number}");
    }
}

#[test]
fn a_directory_that_holds_something_is_refused() {
    const NAME: &str = "a_directory_that_holds_something_is_refused";
    if is_child(NAME) {
        let error = Session::builder("refused").output("taken").start().expect_err("it holds something");
        assert!(error.is_io(), "{error}");
        assert!(error.to_string().ends_with(": it exists already and is not empty"), "{error}");
        Session::builder("refused").output("empty").start().expect("an empty one is as good as a new one");
        return;
    }
    let directory = memory_directory();
    let (taken, empty) = (directory.path().join("taken"), directory.path().join("empty"));
    fs::create_dir(&taken).expect("a directory");
    fs::create_dir(&empty).expect("a directory");
    fs::write(taken.join("notes"), "precious").expect("a file");
    run(NAME, directory.path());
    assert_eq!(all_below(&taken), [taken.join("notes")]);
    assert!(empty.join("metadata").is_file());
    assert!(names(directory.path().join("ringtrace")).is_empty(), "rings were left");
}

#[test]
fn a_start_that_fails_leaves_nothing() {
    const NAME: &str = "a_start_that_fails_leaves_nothing";
    if is_child(NAME) {
        // One that succeeds first: what belongs to the process is made once and stays.
        drop(Session::builder("first").enable("host_files:counted").print().start().expect("a session"));
        // Each start comes a descriptor further than the one before.
        for limit in 0..200 {
            limit_descriptors(limit);
            let started = Session::builder("short").enable("host_files:counted").output("made/trace").start();
            limit_descriptors(1024);
            match started {
                Ok(session) => {
                    counted(1);
                    session.stop().expect("the recording is complete");
                    assert!(limit > 3, "no start failed");
                    return;
                }
                Err(error) => assert!(error.is_io(), "{error}"),
            }
            // The agent's directory, with its socket, stays as long as the process.
            let is_agents = |p: &PathBuf| p.ends_with("control") || p.join("control").exists();
            let left: Vec<PathBuf> = all_below(Path::new(".")).into_iter().filter(|p| !is_agents(p)).collect();
            assert_eq!(left, [Path::new("./ringtrace")], "left behind with a limit of {limit}");
        }
        panic!("no start succeeded");
    }
    let directory = memory_directory();
    run(NAME, directory.path());
    assert_eq!(read_by_both(&directory.path().join("made/trace")).events(), 1);
}

/// Programs that begin at the same moment, with the same environment and in the same directory.
const PROGRAMS: usize = 40;

#[test]
fn programs_that_start_at_one_moment_record_all() {
    const NAME: &str = "programs_that_start_at_one_moment_record_all";
    if is_child(NAME) {
        // Until nobody has the other end any more.
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut Vec::new()).expect("the end");
        ringtrace::init();
        counted(u64::from(std::process::id()));
        return;
    }
    for (wanted, is_empty_there) in
        [("1; memory 1M", false), ("1; memory 1M; output shared", false), ("1; memory 1M; output shared", true)]
    {
        let directory = memory_directory();
        let traces = directory.path().join("traces");
        fs::create_dir(&traces).expect("a directory");
        if is_empty_there {
            fs::create_dir(traces.join("shared")).expect("a directory");
        }
        let (waits, begin) = std::io::pipe().expect("a pipe");
        let start = |_| {
            let mut command = child(NAME);
            command.stdin(waits.try_clone().expect("the pipe")).env("RINGTRACE", wanted).env("XDG_RUNTIME_DIR", directory.path());
            command.current_dir(&traces).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the child starts")
        };
        let programs: Vec<_> = (0..PROGRAMS).map(start).collect();
        let mut numbers: Vec<u64> = programs.iter().map(|program| u64::from(program.id())).collect();
        drop((waits, begin));
        for program in programs {
            let output = program.wait_with_output().expect("it ends");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let mut found: Vec<u64> =
            names(&traces).iter().flat_map(|trace| read(trace).numbers("host_files:counted", "number")).collect();
        numbers.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, numbers, "{wanted}");
        assert!(!wanted.contains("shared") || traces.join("shared/metadata").exists());
    }
}

fn limit_descriptors(limit: u64) {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: 1024 };
    // SAFETY: the structure is complete.
    #[expect(unsafe_code, reason = "setrlimit")]
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(result, 0);
}
