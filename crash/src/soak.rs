//! The crash-loop soak: programs start and die, one after the other, in a run-time directory with little memory.
//!
//! `crash soak DEATHS [--seed N]`, which `cargo xtask soak` runs. What a user's machine sees in a crash loop: programs that
//! `RINGTRACE` traces, programs with sessions of their own and no `init()`, families that fork and exec, two flight recorders of
//! one program in one directory. Asked of each round: every program ended as it would have without a tracer; what lies behind is
//! within its bound; every event is in a trace, is stated as lost there, or lay in rings whose removal was counted.

use crate::case::Random;
use crate::counts::{Counts, THREADS};
use crate::ending::Mounted;
use crate::judge;
use crate::workload;
use anyhow::{Context as _, Result, bail, ensure};
use ringtrace::{Session, tracepoint};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use trace_control::place;

/// The environment of such a program: directory, kind, means, thread.
pub(crate) const VARIABLE: &str = "RINGTRACE_SOAK_PROGRAM";

#[tracepoint(record)]
fn happened(thread: u64, number: u64, text: &str);

const EVENT: &str = "crash:soak::happened";
/// Events of each process that fires.
const EVENTS: u64 = 500;
/// Snapshots that each of two flight recorders takes: together more than are kept of one.
const SNAPSHOTS: usize = 8;
/// Memory of a session.
const MEMORY: u64 = 4 << 20;
/// Of the file system with the run-time directory.
const ROOM: &str = "256m";
/// What may lie behind after a round: half of that, and what the programs of the round had at their end. Each may be three processes.
const BOUND: u64 = (256 << 20) / 2 + AT_A_TIME as u64 * 3 * (MEMORY + (1 << 20));
/// Programs that run at the same time.
const AT_A_TIME: usize = 4;
/// Rounds after which what lies behind is recovered; in between it piles up.
const BETWEEN: u64 = 8;

/// What a program is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `RINGTRACE` says what is recorded.
    Environment,
    /// A session of its own, without `init()`.
    Session,
    /// `RINGTRACE` follows the children: one that becomes another program, one that ends at once, two that fire.
    Family,
    /// Two programs with a flight recorder of one name, in one directory.
    Twins,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Environment, Kind::Session, Kind::Family, Kind::Twins];
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Return,
    Exit,
    UnderscoreExit,
    Panic,
    Abort,
    Segfault,
    Sigterm,
    Sigkill,
    /// Killed from outside, at any moment from its start on.
    AnyMoment,
}

impl Means {
    const ALL: [Means; 9] = [
        Means::Return,
        Means::Exit,
        Means::UnderscoreExit,
        Means::Panic,
        Means::Abort,
        Means::Segfault,
        Means::Sigterm,
        Means::Sigkill,
        Means::AnyMoment,
    ];

    /// The signal that ends it.
    fn signal(self) -> Option<i32> {
        match self {
            Means::Return | Means::Exit | Means::UnderscoreExit | Means::Panic => None,
            Means::Abort => Some(libc::SIGABRT),
            Means::Segfault => Some(libc::SIGSEGV),
            Means::Sigterm => Some(libc::SIGTERM),
            Means::Sigkill | Means::AnyMoment => Some(libc::SIGKILL),
        }
    }

    /// Ends the process.
    fn end(self) -> ! {
        match self {
            Means::UnderscoreExit => {
                // SAFETY: ends the process.
                unsafe { libc::_exit(0) }
            }
            Means::Panic => std::process::exit(match std::panic::catch_unwind(|| panic!("the program's own")) {
                Ok(()) => 0,
                Err(_) => 101,
            }),
            Means::Abort => std::process::abort(),
            Means::Segfault | Means::Sigterm | Means::Sigkill => {
                let signal = self.signal().unwrap_or(libc::SIGKILL);
                // SAFETY: ends the process by its default action: no handler is installed.
                unsafe {
                    libc::signal(signal, libc::SIG_DFL);
                    libc::raise(signal);
                }
                std::process::exit(3)
            }
            Means::Return | Means::Exit | Means::AnyMoment => std::process::exit(0),
        }
    }
}

/// The program that dies.
pub(crate) fn program(words: &str) -> Result<()> {
    let [directory, kind, means, thread] = words.split(';').collect::<Vec<_>>()[..] else { bail!("{VARIABLE}: {words}") };
    let directory = Path::new(directory);
    let kind = Kind::ALL.into_iter().find(|k| format!("{k:?}") == kind).context("a kind")?;
    let means = Means::ALL.into_iter().find(|m| format!("{m:?}") == means).context("a means")?;
    let thread: usize = thread.parse()?;
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a plain call; `limit` is one.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
    let counts = Counts::map(&directory.join("counts"))?;
    let mut own = None;
    match kind {
        Kind::Environment | Kind::Family => ringtrace::init(),
        Kind::Session => own = Some(Session::builder("own").enable(EVENT).memory(MEMORY).output("own").start()?),
        Kind::Twins => own = Some(Session::builder("twin").enable(EVENT).memory(MEMORY).overwrite().start()?),
    }
    if kind == Kind::Family {
        family(&counts)?;
    }
    fire(&counts, thread);
    if let Some(session) = own.as_ref().filter(|_| kind == Kind::Twins) {
        for _ in 0..SNAPSHOTS {
            let receipt = session.snapshot("soak")?;
            println!("{}", receipt.path.display());
        }
        if means != Means::AnyMoment {
            wait_for_twin(directory, thread)?;
        }
    }
    if means == Means::Return {
        return Ok(());
    }
    std::mem::forget(own);
    means.end()
}

/// Waits until the other one has taken its snapshots too: what one that has ended took makes room for newer ones.
fn wait_for_twin(directory: &Path, thread: usize) -> Result<()> {
    let taken = |thread: usize| directory.join(format!("taken-{thread}"));
    File::create(taken(thread))?;
    let begun = Instant::now();
    while !taken(1 - thread).exists() {
        ensure!(begun.elapsed() < Duration::from_secs(60), "the other one took no snapshots");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn fire(counts: &Counts, thread: usize) {
    let own = &counts.threads[thread];
    for number in 0..EVENTS {
        own.begun.store(number + 1, SeqCst);
        happened(thread as u64, number, workload::text(thread as u64, number));
        own.fired.store(number + 1, SeqCst);
    }
}

/// Children of every kind, each of which must end as it would without a tracer.
fn family(counts: &Counts) -> Result<()> {
    let mut command = Command::new("true");
    // SAFETY: the closure does nothing; with it, the child is made by fork(2).
    unsafe { command.pre_exec(|| Ok(())) };
    ensure!(command.status()?.success(), "a child that became another program");
    let fork = |body: &dyn Fn()| {
        // SAFETY: this program has one thread but for those of the tracer.
        match unsafe { libc::fork() } {
            0 => {
                body();
                std::process::exit(0)
            }
            child => child,
        }
    };
    let children = [
        (fork(&|| Means::UnderscoreExit.end()), None),
        (fork(&|| fire(counts, 1)), None),
        (
            fork(&|| {
                fire(counts, 2);
                Means::Sigkill.end()
            }),
            Some(libc::SIGKILL),
        ),
    ];
    for (child, signal) in children {
        let mut status = 0;
        // SAFETY: waits for a child of this process; `status` is one.
        ensure!(unsafe { libc::waitpid(child, &raw mut status, 0) } == child, "a child is gone");
        let ended = std::process::ExitStatus::from_raw(status);
        ensure!(ended.signal() == signal && (signal.is_some() || ended.success()), "a child ended by {ended}");
    }
    Ok(())
}

/// One or two programs that die in a directory of their own.
struct Case {
    number: u64,
    kind: Kind,
    means: Means,
    directory: PathBuf,
}

struct Soak {
    ground: tempfile::TempDir,
    _mounted: Option<Mounted>,
    random: Random,
    /// What is not judged yet: its rings may lie there still.
    pending: Vec<Case>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    deaths: u64,
    /// Programs that ended otherwise than they would have without a tracer.
    harmed: u64,
    /// Rounds after which more lay behind than may.
    beyond: u64,
    /// Most bytes that lay behind after a round.
    most: u64,
    recovered: u64,
    /// Traces that no reader could read, or that are not as they were written.
    torn: u64,
    /// Programs of which events are in no trace and stated in none: their rings were removed to make room.
    without: u64,
    /// Snapshots that were taken and are not there.
    snapshots: u64,
}

/// Runs the soak. Returns whether nothing was wrong.
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> Result<bool> {
    let deaths: u64 = words.next().context("DEATHS: a number")?.parse().context("DEATHS: a number")?;
    let mut seed = 1;
    while let Some(option) = words.next() {
        ensure!(option == "--seed", "no option {option}");
        seed = words.next().context("--seed: a number")?.parse().context("--seed: a number")?;
    }
    let ground = tempfile::tempdir_in("/dev/shm").context("a directory in memory")?;
    let memory = ground.path().join("memory");
    std::fs::create_dir(&memory)?;
    let mounted = Mounted::new(&memory, ROOM).ok();
    if mounted.is_none() {
        println!("nothing can be mounted here: the run-time directory has the room of /dev/shm in place of {ROOM}");
    }
    let mut soak = Soak { ground, _mounted: mounted, random: Random(seed), pending: Vec::new(), tally: Tally::default() };
    let (runtime, is_over) = (soak.runtime(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                meddle(&runtime);
            }
        });
        let result = soak.rounds(deaths);
        is_over.store(true, SeqCst);
        result
    })?;
    soak.close()
}

/// Opens all rings for writing, as somebody who looks at them may: whoever examines them at that moment must not be hurt.
fn meddle(runtime: &Path) {
    for image in place::images(runtime).unwrap_or_default() {
        for session in image.sessions() {
            drop(File::options().read(true).write(true).open(image.path.join(session).join("rings")));
        }
    }
}

impl Soak {
    fn runtime(&self) -> PathBuf {
        self.ground.path().join("memory/ringtrace")
    }

    fn rounds(&mut self, deaths: u64) -> Result<()> {
        let mut round = 0;
        while self.tally.deaths < deaths {
            self.round()?;
            round += 1;
            if round % BETWEEN == 0 {
                self.judge()?;
            }
        }
        self.judge()
    }

    /// Starts programs together, and waits until they and all their children are dead.
    fn round(&mut self) -> Result<()> {
        let mut running = Vec::new();
        for _ in 0..AT_A_TIME {
            let number = self.tally.deaths;
            let kind = Kind::ALL[self.random.below(Kind::ALL.len() as u64) as usize];
            let means = Means::ALL[self.random.below(Means::ALL.len() as u64) as usize];
            let case = Case { number, kind, means, directory: self.ground.path().join(number.to_string()) };
            std::fs::create_dir(&case.directory)?;
            let programs = if kind == Kind::Twins { 2 } else { 1 };
            let started = (0..programs).map(|thread| self.start(&case, thread)).collect::<Result<Vec<_>>>()?;
            self.tally.deaths += programs as u64;
            let moment = Duration::from_micros(self.random.below(30_000));
            running.push((case, started, moment));
        }
        for (case, started, moment) in running {
            if case.means == Means::AnyMoment {
                std::thread::sleep(moment);
            }
            for (thread, mut program) in started.into_iter().enumerate() {
                if case.means == Means::AnyMoment {
                    program.kill()?;
                }
                // Its children have this end, too: it is read to the end when all of them are dead.
                let mut said = String::new();
                program.stdout.take().context("a pipe")?.read_to_string(&mut said)?;
                self.look_at(&case, thread, program.wait()?, &said)?;
            }
            self.pending.push(case);
        }
        let behind = bytes(&self.runtime())?;
        self.tally.most = self.tally.most.max(behind);
        if behind > BOUND {
            println!("{behind} bytes lie behind after {} deaths", self.tally.deaths);
            self.tally.beyond += 1;
        }
        Ok(())
    }

    fn start(&self, case: &Case, thread: usize) -> Result<Child> {
        let Case { directory, kind, means, .. } = case;
        let mut command = Command::new(std::env::current_exe()?);
        command.env(VARIABLE, format!("{};{kind:?};{means:?};{thread}", directory.display()));
        command.env("RINGTRACE_DIR", self.runtime()).env_remove("RINGTRACE").current_dir(directory);
        match kind {
            Kind::Environment => command.env("RINGTRACE", format!("{EVENT}; memory 4M; output trace")),
            Kind::Family => command.env("RINGTRACE", format!("{EVENT}; memory 4M; output trace; follow")),
            Kind::Session | Kind::Twins => &mut command,
        };
        let stderr = File::create(directory.join(format!("stderr-{thread}")))?;
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn()?)
    }

    /// Holds against how it was to end how a program ended, and which snapshots it had taken.
    fn look_at(&mut self, case: &Case, thread: usize, ended: std::process::ExitStatus, said: &str) -> Result<()> {
        let code = if case.means == Means::Panic { 101 } else { 0 };
        let is_as_meant = match case.means {
            Means::AnyMoment => ended.success() || ended.signal() == Some(libc::SIGKILL),
            means => ended.signal() == means.signal() && (ended.signal().is_some() || ended.code() == Some(code)),
        };
        if !is_as_meant {
            let errors = std::fs::read_to_string(case.directory.join(format!("stderr-{thread}")))?;
            println!("{case}: ended by {ended}: {errors}");
            self.tally.harmed += 1;
        }
        // Killed at any moment, one may have ended before the other took its own.
        let said = if case.means == Means::AnyMoment { "" } else { said };
        for path in said.lines().filter(|path| !case.directory.join(path).join("metadata").exists()) {
            println!("{case}: the snapshot {path} is gone");
            self.tally.snapshots += 1;
        }
        Ok(())
    }

    /// Recovers what lies behind, and looks for every event of the programs since the last time.
    fn judge(&mut self) -> Result<()> {
        for image in place::images(&self.runtime()).unwrap_or_default() {
            for session in image.sessions() {
                judge::open(&image.path.join(session))?.recover(None)?;
                self.tally.recovered += 1;
            }
            image.remove_if_empty();
        }
        for case in std::mem::take(&mut self.pending) {
            self.judge_one(&case)?;
            std::fs::remove_dir_all(&case.directory)?;
        }
        Ok(())
    }

    fn judge_one(&mut self, case: &Case) -> Result<()> {
        let bounds = Counts::map(&case.directory.join("counts"))?.bounds();
        let mut found = judge::Found::default();
        for entry in std::fs::read_dir(&case.directory)? {
            let path = entry?.path();
            if !path.join("metadata").exists() {
                continue;
            }
            match judge::read(&path, EVENT) {
                Ok(one) => found.merge(one),
                Err(problem) => {
                    println!("{case}: {}: {problem:#}", path.display());
                    self.tally.torn += 1;
                }
            }
        }
        self.tally.torn += found.torn;
        let missing = (0..THREADS).map(|thread| bounds[thread].sure.saturating_sub(found.count(thread))).sum::<u64>();
        if missing > found.lost {
            self.tally.without += 1;
        }
        Ok(())
    }

    fn close(self) -> Result<bool> {
        let Tally { deaths, harmed, beyond, most, recovered, torn, without, snapshots } = self.tally;
        let removed = place::removed(&self.runtime()).sessions;
        println!(
            "soak: {deaths} deaths, {recovered} recovered, {removed} removed to make room, {without} without all their events, \
             {} KiB behind at most; {harmed} harmed, {beyond} times too much behind, {torn} torn, {snapshots} snapshots gone",
            most >> 10
        );
        Ok(harmed + beyond + torn + snapshots == 0 && without <= removed)
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "case {}: {:?}, {:?}", self.number, self.kind, self.means)
    }
}

/// Bytes that all files below a directory take.
fn bytes(directory: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let stat = rustix::fs::lstat(entry.path())?;
        // st_blocks counts units of 512 bytes, stat(3type).
        sum += stat.st_blocks as u64 * 512;
        if entry.file_type()?.is_dir() {
            sum += bytes(&entry.path())?;
        }
    }
    Ok(sum)
}
