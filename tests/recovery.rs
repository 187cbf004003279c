//! What a process that was killed leaves becomes a trace with every committed event, which other readers read.

mod common;

use ringtrace::recovery::Remains;
use ringtrace::ring_buffer::{Holder, Purpose, Reader};
use ringtrace::{Context, Session, tracepoint};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use trace_ctf::reader::Trace;

#[tracepoint(record)]
fn counted(number: u64, text: &str);

/// Kills a child whatever happens.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this test's child, and kills it when it has recorded so many events. Returns how many it told of.
fn kill_after(name: &str, mode: &str, place: &Path, least: u64) -> (u64, u32) {
    let mut command = common::child(name);
    command.env("XDG_RUNTIME_DIR", place).env("MODE", mode).current_dir(place).stdout(Stdio::piped());
    let mut process = Kill(command.spawn().expect("the child starts"));
    let mut told = 0;
    // Open until it is dead: it must not end by itself.
    let mut output = BufReader::new(process.0.stdout.take().expect("its output"));
    for line in output.by_ref().lines() {
        if let Some(count) = line.expect("text").strip_prefix("recorded ") {
            told = count.parse().expect("a number");
        }
        if told >= least {
            break;
        }
    }
    let pid = process.0.id();
    let directory = session(place, pid);
    let refused = Remains::open(&directory).expect_err("it runs");
    assert!(refused.is_busy(), "{refused}");
    process.0.kill().expect("SIGKILL");
    process.0.wait().expect("it is dead");
    (told, pid)
}

/// The directory of the session's rings.
fn session(place: &Path, pid: u32) -> PathBuf {
    let images = std::fs::read_dir(place.join("ringtrace")).expect("the user's directory");
    let of_child = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{pid}-")));
    images.flatten().map(|e| e.path()).find(of_child).expect("the process's directory").join("killed")
}

fn child() -> ! {
    let mode = std::env::var("MODE").expect("how");
    let builder = Session::builder("killed").enable("recovery:*").memory(16 << 20).context(Context::THREADS);
    let builder = match mode.as_str() {
        "overwrite" => builder.overwrite().output("trace"),
        "print" => builder.overwrite().print(),
        _ => builder.output("trace"),
    };
    let _session = builder.start().expect("a session");
    let mut number = 0;
    loop {
        for _ in 0..100 {
            counted(number, "some text");
            number += 1;
        }
        println!("recorded {number}");
        // Slow enough that nothing is lost or overwritten before the kill.
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// All numbers, once each, from 0, and no fewer than were told of.
fn assert_complete(trace: &Path, told: u64) {
    let contents = common::read_by_both(trace);
    let mut numbers = contents.numbers("recovery:counted", "number");
    numbers.sort_unstable();
    assert!(numbers.len() as u64 >= told, "{} events of at least {told}", numbers.len());
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "events are missing, or there twice");
    assert_eq!(contents.discarded, 0);
}

#[tracepoint(record)]
fn undescribed(number: u64);

const AHEAD: &str = "what_the_output_could_not_take_is_described_by_recovery";

#[test]
#[expect(unsafe_code, reason = "setrlimit, abort")]
fn what_the_output_could_not_take_is_described_by_recovery() {
    if common::is_child(AHEAD) {
        let session = Session::builder("killed").enable("recovery:counted").output("trace").start().expect("a session");
        // The journal may still grow: it is shorter than the metadata, which may not.
        let limit = std::fs::metadata("trace/metadata").expect("it is there").len();
        // SAFETY: the structure is complete; a limit of this process.
        unsafe {
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
        }
        let error = session.enable("recovery:undescribed").expect_err("the metadata cannot grow");
        assert!(error.is_io() && error.to_string().contains("recording ended"), "{error}");
        undescribed(1);
        assert!(!undescribed::enabled(), "a rule of what was refused holds");
        // Nothing is delivered any more, and the rings keep it. The ID that the journal has is nobody else's.
        (0..100).for_each(|number| counted(number, "some text"));
        drop(session.recorder::<Late>().expect_err("as before"));
        std::process::abort();
    }
    let _alone = common::alone();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let mut command = common::child(AHEAD);
    let mut process = command.env("XDG_RUNTIME_DIR", place.path()).current_dir(place.path()).spawn().expect("the child starts");
    let pid = process.id();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&process.wait().expect("it ends")), Some(libc::SIGABRT));
    let metadata = || std::fs::read_to_string(place.path().join("trace/metadata")).expect("text");
    assert!(!metadata().contains("recovery:undescribed"));
    Remains::open(&session(place.path(), pid)).and_then(|remains| remains.recover(None)).expect("a trace");
    assert!(metadata().contains("recovery:undescribed") && metadata().contains("recovery:Late"));
    assert_complete(&place.path().join("trace"), 100);
}

#[derive(ringtrace::Event)]
struct Late {
    number: u64,
}

const CONTINUED: &str = "the_trace_of_a_killed_process_is_continued_from_its_rings";

#[test]
fn the_trace_of_a_killed_process_is_continued_from_its_rings() {
    if common::is_child(CONTINUED) {
        child();
    }
    // A process that another test forks has the lock of what is recovered here until it begins its program.
    let _alone = common::alone();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    for mode in ["discard", "overwrite"] {
        let (told, pid) = kill_after(CONTINUED, mode, place.path(), 20_000);
        let directory = session(place.path(), pid);
        let remains = Remains::open(&directory).expect("it is gone");
        assert!(Remains::open(&directory).expect_err("one at a time").is_busy());
        assert_eq!(remains.output().as_deref(), Some(&*place.path().join("trace")));
        let copy = place.path().join("copy");
        // A part of a packet at the end, as a kill inside pwrite(2) leaves it, and half a section of metadata.
        let stream = std::fs::read_dir(place.path().join("trace")).expect("a trace").flatten().map(|e| e.path());
        for file in stream.filter(|p| p.is_file()) {
            let bytes = std::fs::read(&file).expect("a file");
            let is_metadata = file.ends_with("metadata");
            let torn = if is_metadata { bytes[..bytes.len() - 10].to_vec() } else { [&bytes[..], &[0xC1; 100]].concat() };
            std::fs::write(&file, torn).expect("it is written");
        }
        let recovered = remains.recover((mode == "overwrite").then_some(&*copy)).expect("a trace");
        assert!(!directory.exists(), "the rings are removed");
        assert!(recovered.cut >= 100 && recovered.lost.total() == 0, "{recovered:?}");
        assert!(mode == "discard" || recovered.events >= told, "{recovered:?}");
        assert_complete(&recovered.path, told);
        for made in ["trace", "copy"] {
            let _ = std::fs::remove_dir_all(place.path().join(made));
        }
    }
}

const REPLACED: &str = "what_a_program_recorded_that_runs_on_as_another_is_recovered";

/// A process keeps its number, and when it began, where it begins another program.
#[test]
fn what_a_program_recorded_that_runs_on_as_another_is_recovered() {
    use std::os::unix::process::CommandExt as _;
    if common::is_child(REPLACED) {
        let _session = Session::builder("killed").enable("recovery:counted").output("trace").start().expect("a session");
        (0..1000).for_each(|number| counted(number, "some text"));
        let error = std::process::Command::new("sleep").arg("1000").exec();
        panic!("{error}");
    }
    let _alone = common::alone();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let mut command = common::child(REPLACED);
    command.env("XDG_RUNTIME_DIR", place.path()).current_dir(place.path()).stdout(Stdio::null());
    let process = Kill(command.spawn().expect("the child starts"));
    let pid = process.0.id();
    while std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs") != "sleep\n" {
        std::thread::yield_now();
    }
    // The kernel closes its files, and gives up their locks, shortly after it has the new name.
    let begun = Instant::now();
    let remains = loop {
        match Remains::open(&session(place.path(), pid)) {
            Err(error) if error.is_busy() && begun.elapsed() < Duration::from_secs(60) => std::thread::yield_now(),
            remains => break remains.expect("nobody uses it"),
        }
    };
    assert_complete(&remains.recover(None).expect("a trace").path, 1000);
}

/// Copies the directory of a session, with its process's, to another place.
fn copied(session: &Path, to: &Path) -> PathBuf {
    let image = to.join(session.parent().and_then(Path::file_name).expect("a process"));
    let copy = image.join("killed");
    std::fs::create_dir_all(&copy).expect("a directory");
    for file in ["rings", "journal"] {
        std::fs::copy(session.join(file), copy.join(file)).expect("a copy");
    }
    copy
}

const REBOOTED: &str = "rings_of_an_earlier_boot_are_recovered_whatever_the_disk_had_of_them";

#[test]
fn rings_of_an_earlier_boot_are_recovered_whatever_the_disk_had_of_them() {
    if common::is_child(REBOOTED) {
        child();
    }
    // A process that another test forks has the lock of what is recovered here until it begins its program.
    let _alone = common::alone();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let (told, pid) = kill_after(REBOOTED, "overwrite", place.path(), 20_000);
    let left = session(place.path(), pid);
    // A process has the same number and the same start time: this one. The words are those of docs/files.md.
    let stat = std::fs::read_to_string("/proc/self/stat").expect("it is read");
    let start_time: u64 = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok()).expect("it");
    let word = |path: &Path, at: u64, value: u64| {
        let file = std::fs::File::options().write(true).open(path.join("rings")).expect("the rings");
        file.write_all_at(&value.to_le_bytes(), 256 + 8 * at).expect("it is written");
    };
    let same = copied(&left, &place.path().join("same"));
    word(&same, 2, u64::from(std::process::id()));
    word(&same, 3, start_time);
    word(&same, 5, 1);
    let file = std::fs::File::options().read(true).write(true).open(same.join("rings")).expect("the rings");
    // Somebody consumed them, as the clock of that boot said, which was ahead.
    // SAFETY: a copy, which nobody else has.
    #[expect(unsafe_code, reason = "maps a file that others could cut")]
    let reader = unsafe { Reader::open(&file, Purpose::Consume) }.expect("rings");
    reader.claim(Holder::new(1, 1), u64::MAX / 2).expect("nobody has them");
    drop((reader, file));
    let trace = place.path().join("whole");
    let recovered = Remains::open(&same).expect("it is gone").recover(Some(&trace)).expect("a trace");
    assert!(recovered.is_of_earlier_boot && recovered.events >= told, "{recovered:?}");
    assert_complete(&trace, told);

    // After a power cut some pages are as they were first. What is made of them is a trace or an error, and nothing panics.
    let mut random = 1_u64;
    let pages = std::fs::metadata(left.join("rings")).expect("a file").len() / 4096;
    for round in 0..12 {
        let cut = copied(&left, &place.path().join(format!("cut-{round}")));
        word(&cut, 5, 1);
        let file = std::fs::File::options().write(true).open(cut.join("rings")).expect("the rings");
        for page in round % 2..pages {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            if random >> 60 < 4 {
                file.write_all_at(&[0; 4096], page * 4096).expect("it is written");
            }
        }
        let trace = place.path().join(format!("trace-{round}"));
        let Ok(remains) = Remains::open(&cut) else { continue };
        if remains.recover(Some(&trace)).is_ok() {
            let trace = Trace::open(&trace).expect("its metadata are whole");
            let mut merge = trace.merge();
            while let Some(entry) = merge.next_entry() {
                if entry.is_err() {
                    break;
                }
            }
        }
        std::fs::remove_dir_all(place.path().join(format!("cut-{round}"))).expect("it goes");
    }
}

const PRINTED: &str = "a_killed_process_that_printed_leaves_a_trace_all_the_same";

#[test]
fn a_killed_process_that_printed_leaves_a_trace_all_the_same() {
    if common::is_child(PRINTED) {
        child();
    }
    // A process that another test forks has the lock of what is recovered here until it begins its program.
    let _alone = common::alone();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let (told, pid) = kill_after(PRINTED, "print", place.path(), 5_000);
    let remains = Remains::open(&session(place.path(), pid)).expect("it is gone");
    assert_eq!(remains.output(), None);
    let trace = place.path().join("trace");
    assert_eq!(remains.recover(Some(&trace)).expect("a trace").path, trace);
    assert_complete(&trace, told);
}

const UNREAD: &str = "what_nobody_reads_of_a_program_that_prints_is_left_when_it_ends";

#[test]
#[expect(unsafe_code, reason = "poll(2)")]
fn what_nobody_reads_of_a_program_that_prints_is_left_when_it_ends() {
    const EVENTS: u64 = 50_000;
    if common::is_child(UNREAD) {
        let session = Session::builder("killed").enable("recovery:counted").memory(16 << 20).print().start().expect("a session");
        // Some are waiting to be printed when the program ends, the others have not been looked at.
        (0..EVENTS / 2).for_each(|number| counted(number, "some text"));
        let mut full = libc::pollfd { fd: 2, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one structure, which is complete.
        while unsafe { libc::poll(&raw mut full, 1, 0) } > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        (EVENTS / 2..EVENTS).for_each(|number| counted(number, "some text"));
        std::mem::forget(session);
        std::process::exit(0);
    }
    let _alone = common::alone();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let mut command = common::child(UNREAD);
    command.env("XDG_RUNTIME_DIR", place.path()).current_dir(place.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = Kill(command.spawn().expect("the child starts"));
    let begun = Instant::now();
    let ended = loop {
        if let Some(ended) = process.0.try_wait().expect("it can be waited for") {
            break ended;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it waits for a reader");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(ended.success(), "{ended}");
    let mut printed = String::new();
    process.0.stderr.take().expect("a pipe").read_to_string(&mut printed).expect("text");
    let printed = printed.matches("recovery:counted").count() as u64;
    assert!(printed > 100, "{printed}");
    let trace = place.path().join("trace");
    Remains::open(&session(place.path(), process.0.id())).expect("it is left").recover(Some(&trace)).expect("a trace");
    let contents = common::read_by_both(&trace);
    let numbers = contents.numbers("recovery:counted", "number");
    assert!(numbers.len() as u64 >= EVENTS / 2 && numbers[0] >= printed, "{} from {:?}", numbers.len(), numbers.first());
    assert_eq!(printed + contents.discarded + numbers.len() as u64, EVENTS, "{printed} were printed");
    assert!(numbers.iter().copied().eq(numbers[0]..EVENTS), "events are missing, or there twice");
}

const LOOKED_AT: &str = "who_looks_at_what_was_left_is_hurt_by_nobody_who_opens_it";

/// Programs that start, and `ringtrace ps`, look at what others left. Somebody else may open it in the same moment.
#[test]
fn who_looks_at_what_was_left_is_hurt_by_nobody_who_opens_it() {
    if common::is_child(LOOKED_AT) {
        let Some(left) = std::env::var_os("LEFT").map(PathBuf::from) else { child() };
        for _ in 0..1000 {
            // Busy where the other one holds it for a moment.
            drop(Remains::open(&left));
        }
        return;
    }
    let _alone = common::alone();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let (_, pid) = kill_after(LOOKED_AT, "overwrite", place.path(), 1_000);
    let left = session(place.path(), pid);
    let mut command = common::child(LOOKED_AT);
    let mut looks = Kill(command.env("LEFT", &left).stdout(Stdio::null()).spawn().expect("the child starts"));
    let status = loop {
        // As whoever recovers or consumes does.
        drop(std::fs::File::options().read(true).write(true).open(left.join("rings")).expect("the rings"));
        if let Some(status) = looks.0.try_wait().expect("it is ours") {
            break status;
        }
    };
    assert!(status.success(), "{status}");
}

const PLANTED: &str = "a_recovery_follows_no_link_and_waits_for_no_fifo";

/// Runs `work`, which must not wait for anything.
fn promptly<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _done = done;
            work()
        });
        let timeout = is_done.recv_timeout(std::time::Duration::from_secs(120));
        if timeout == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // The scope would wait for it.
            eprintln!("it waits for a FIFO");
            std::process::abort();
        }
        worker.join().expect("it does not panic")
    })
}

/// Puts something else into the place of what is there.
fn replace(path: &Path, put: impl FnOnce(&Path)) {
    let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
    put(path);
}

fn fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo");
    assert!(made.success());
}

#[test]
fn a_recovery_follows_no_link_and_waits_for_no_fifo() {
    if common::is_child(PLANTED) {
        child();
    }
    let _alone = common::alone();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let (told, pid) = kill_after(PLANTED, "discard", place.path(), 5_000);
    let left = session(place.path(), pid);
    let trace = place.path().join("trace");
    let saved = place.path().join("saved");
    let copy_trace = |from: &Path, to: &Path| {
        let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().expect("cp");
        assert!(copied.success());
    };
    copy_trace(&trace, &saved);
    let victim = place.path().join("victim");
    std::fs::create_dir(&victim).expect("a directory");
    std::fs::write(victim.join("file"), "precious").expect("a file");
    // Whether the process had got to it or not.
    let stream = "events_0";
    let link = |to: PathBuf| move |at: &Path| std::os::unix::fs::symlink(&to, at).expect("a link");
    let file = || victim.join("file");
    type Put = Box<dyn FnOnce(&Path)>;
    // What is put where, below the session's directory or below the trace; and what the error names.
    let cases: Vec<(&str, bool, &str, Put)> = vec![
        ("journal", true, "not a regular file", Box::new(fifo)),
        ("journal", true, "symbolic link", Box::new(link(file()))),
        ("rings", true, "not a regular file", Box::new(fifo)),
        ("rings", true, "symbolic link", Box::new(link(file()))),
        ("", true, "symbolic link", Box::new(link(left.clone()))),
        ("", false, "symbolic link", Box::new(link(saved.clone()))),
        ("metadata", false, "not a regular file", Box::new(fifo)),
        ("metadata", false, "symbolic link", Box::new(link(file()))),
        ("index", false, "symbolic link", Box::new(link(victim.clone()))),
        (stream, false, "not a regular file", Box::new(fifo)),
        (stream, false, "symbolic link", Box::new(link(file()))),
    ];
    for (number, (name, is_session, expected, put)) in cases.into_iter().enumerate() {
        let copy = copied(&left, &place.path().join(format!("copy-{number}")));
        let at = if is_session { copy.join(name) } else { trace.join(name) };
        // Without the separator at the end.
        replace(&at.components().collect::<PathBuf>(), put);
        let error = promptly(|| Remains::open(&copy).and_then(|remains| remains.recover(None))).expect_err(name);
        assert!(format!("{error:?}").contains(expected), "{name}: {error:?}");
        assert_eq!(std::fs::read_to_string(file()).expect("it is there"), "precious", "{name}");
        assert_eq!(std::fs::read_dir(&victim).expect("it is there").count(), 1, "{name}");
        let _ = std::fs::remove_file(&trace).or_else(|_| std::fs::remove_dir_all(&trace));
        copy_trace(&saved, &trace);
    }
    // What is none of the trace's is left alone.
    fifo(&trace.join("notes"));
    let recovered = promptly(|| Remains::open(&left).and_then(|remains| remains.recover(None))).expect("a trace");
    std::fs::remove_file(recovered.path.join("notes")).expect("it is there");
    assert_complete(&recovered.path, told);
}

const THEIRS: &str = "the_rings_of_another_user_say_nothing_of_where_is_written_to";

#[test]
fn the_rings_of_another_user_say_nothing_of_where_is_written_to() {
    if common::is_child(THEIRS) {
        child();
    }
    let _alone = common::alone();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let (told, pid) = kill_after(THEIRS, "discard", place.path(), 5_000);
    let left = session(place.path(), pid);
    let trace = place.path().join("trace");
    let give = |path: &Path| {
        let given = std::process::Command::new("chown").args(["-R", "65534"]).arg(path).stderr(Stdio::null()).status();
        given.expect("chown").success()
    };
    if !give(&place.path().join("ringtrace")) {
        eprintln!("not tested: this needs two users, so it needs to be run by root");
        return;
    }
    let before = std::fs::read(trace.join("metadata")).expect("a trace");
    let recover = |output: Option<&Path>| Remains::open(&left).expect("it is gone").recover(output);
    let error = recover(None).expect_err("they are another user's");
    assert!(format!("{error:?}").contains("user ID 65534") && format!("{error:?}").contains("--output"), "{error:?}");
    // Their journal names a trace that is not theirs.
    let output = place.path().join("output");
    let error = recover(Some(&output)).expect_err("the trace is not theirs");
    assert!(format!("{error:?}").contains("does not belong to the user"), "{error:?}");
    assert_eq!(std::fs::read(trace.join("metadata")).expect("a trace"), before);
    assert!(left.join("rings").exists() && !output.exists());
    assert!(give(&trace));
    let recovered = recover(Some(&output)).expect("a trace");
    assert_eq!(recovered.path, output);
    assert_complete(&output, told);
    assert_eq!(std::fs::read(trace.join("metadata")).expect("a trace"), before, "theirs is as it was");
    assert!(!left.exists());
    // What this user has is not continued in a directory of theirs.
    std::fs::create_dir(place.path().join("again")).expect("a directory");
    let (_, pid) = kill_after(THEIRS, "discard", &place.path().join("again"), 1_000);
    assert!(give(&place.path().join("again/trace")));
    let remains = Remains::open(&session(&place.path().join("again"), pid)).expect("it is gone");
    let error = remains.recover(None).expect_err("the trace is not ours");
    assert!(format!("{error:?}").contains("belongs to another user (user ID 65534)"), "{error:?}");
}
