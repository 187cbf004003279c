//! Starts a program, and ends it.

use crate::case::{Case, Consumer, Means};
use crate::counts::{Counts, LISTENS, Mapped, WRITES};
use crate::workload;
use anyhow::{Context as _, Result, bail, ensure};
use std::ffi::CString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use trace_control::place::images;

/// Where all endings of one run take place.
pub(crate) struct Ground {
    pub(crate) directory: tempfile::TempDir,
    /// The `ringtrace` command; without it, no session is recorded from outside.
    pub(crate) command: Option<PathBuf>,
    pub(crate) can_mount: bool,
    /// The memory cgroup below which others may be made.
    pub(crate) cgroup: Option<PathBuf>,
}

impl Ground {
    pub(crate) fn new(command: Option<PathBuf>) -> Result<Ground> {
        let directory = tempfile::tempdir_in("/dev/shm").context("a directory in memory")?;
        let try_mount = directory.path().join("mount");
        std::fs::create_dir(&try_mount)?;
        let can_mount = Mounted::new(&try_mount, SMALL).is_ok();
        let cgroup = own_memory_cgroup().filter(|own| Cgroup::new(own, "try", &try_mount).is_ok());
        Ok(Ground { directory, command, can_mount, cgroup })
    }

    pub(crate) fn runtime(&self) -> PathBuf {
        self.directory.path().join("runtime")
    }

    /// Where one program works.
    pub(crate) fn place(&self, case: &Case) -> PathBuf {
        self.directory.path().join(case.number.to_string())
    }
}

/// What is left of a program.
pub(crate) struct Ended {
    pub(crate) pid: u32,
    pub(crate) directory: PathBuf,
    pub(crate) counts: Mapped,
    _mounted: Option<Mounted>,
}

/// Ends a process whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// So long nothing here takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn end(ground: &Ground, case: &Case) -> Result<Ended> {
    let directory = ground.place(case);
    let traces = directory.join("traces");
    std::fs::create_dir_all(&traces)?;
    let mounted = if case.means == Means::DiskFull && ground.can_mount { Some(Mounted::new(&traces, SMALL)?) } else { None };
    let _cgroup = match &ground.cgroup {
        Some(own) if case.means == Means::OutOfMemory => Some(Cgroup::new(own, &case.number.to_string(), &directory)?),
        _ => None,
    };
    let counts = Counts::map(&directory.join("counts"))?;
    let means = if case.means == Means::DiskFull && mounted.is_none() { Means::FileLimit } else { case.means };
    let words =
        [directory.display().to_string(), case.flags(), case.memory.to_string(), means.to_string(), case.moment_us.to_string()];
    let mut command = Command::new(std::env::current_exe()?);
    command.env(workload::VARIABLE, words.join(";")).env("RINGTRACE_DIR", ground.runtime()).env_remove("RINGTRACE");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(directory.join("stderr"))?);
    let mut program = Running(command.spawn()?);
    let pid = program.0.id();
    let mut recorder = None;
    if case.means == Means::AtStart {
        std::thread::sleep(Duration::from_micros(case.moment_us));
        program.0.kill()?;
    } else {
        if case.consumer != Consumer::Own {
            reach(&mut program, &counts, LISTENS)?;
            recorder = Some(record(ground, pid, &traces)?);
        }
        reach(&mut program, &counts, WRITES)?;
        match case.means {
            means if means.is_own() => {}
            Means::InWrite => {
                in_write(&traces.join("plain"));
                program.0.kill()?;
            }
            means => {
                std::thread::sleep(Duration::from_micros(case.moment_us));
                if matches!(means, Means::DiskFull | Means::FileLimit) {
                    until_full(&directory.join("stderr"))?;
                }
                let signal = if means == Means::Sigterm { rustix::process::Signal::TERM } else { rustix::process::Signal::KILL };
                let pid = rustix::process::Pid::from_child(&program.0);
                rustix::process::kill_process(pid, signal)?;
            }
        }
    }
    let begun = Instant::now();
    while program.0.try_wait()?.is_none() {
        ensure!(begun.elapsed() < PATIENCE, "the program does not end");
        std::thread::sleep(Duration::from_micros(500));
    }
    if case.consumer == Consumer::ExternalKilled {
        // Before it has noticed. Had it been killed earlier, the session would have ended with it.
        drop(recorder.take());
    }
    if let Some(mut recorder) = recorder {
        let status = recorder.0.wait()?;
        // Where the program ends before the session has quite begun, the command says so, and what is there is recovered.
        let was_late = || std::fs::read_to_string(directory.join("recorder")).is_ok_and(|said| said.contains("has ended"));
        ensure!(status.success() || was_late(), "`ringtrace record --external`: {status}");
    }
    if let Some(mounted) = &mounted {
        mounted.enlarge()?; // recovery needs room
    }
    Ok(Ended { pid, directory, counts, _mounted: mounted })
}

fn reach(program: &mut Running, counts: &Counts, stage: u64) -> Result<()> {
    let begun = Instant::now();
    while counts.stage.load(SeqCst) < stage {
        if let Some(status) = program.0.try_wait()? {
            bail!("the program ended by itself: {status}");
        }
        ensure!(begun.elapsed() < PATIENCE, "the program does not get to stage {stage}");
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Records from outside.
fn record(ground: &Ground, pid: u32, traces: &Path) -> Result<Running> {
    let command = ground.command.as_ref().context("no command")?;
    let runtime = ground.runtime();
    let begun = Instant::now();
    let answers = || images(&runtime).is_ok_and(|all| all.iter().any(|i| i.name.pid == pid && i.connect().is_ok()));
    while !answers() {
        ensure!(begun.elapsed() < PATIENCE, "no agent");
        std::thread::sleep(Duration::from_micros(500));
    }
    let mut command = Command::new(command);
    command.args(["record", "crash:workload::outside", "--session", "outside", "--external", "-p"]).arg(pid.to_string());
    command.arg("--output").arg(traces.join("outside")).arg("--dir").arg(&runtime);
    let said = traces.with_file_name("recorder");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(said)?);
    Ok(Running(command.spawn()?))
}

/// Waits until a stream file of the trace grows.
fn in_write(trace: &Path) {
    let size = |name| std::fs::metadata(trace.join(name)).map_or(0, |m| m.len());
    let sizes = || ["events_0", "events_1"].map(size);
    let (before, begun) = (sizes(), Instant::now());
    while sizes() == before && begun.elapsed() < Duration::from_secs(3) {}
}

/// Waits until the program says that it cannot write. It may have had too little to write.
fn until_full(stderr: &Path) -> Result<()> {
    let begun = Instant::now();
    while !std::fs::read_to_string(stderr)?.contains("events_") && begun.elapsed() < Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Room for a part of a trace.
const SMALL: &str = "256k";

/// A small file system in memory.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    pub(crate) fn new(at: &Path, size: &str) -> Result<Mounted> {
        let options = CString::new(format!("size={size},mode=700"))?;
        rustix::mount::mount("none", at, "tmpfs", rustix::mount::MountFlags::empty(), options.as_c_str())?;
        Ok(Mounted(at.to_owned()))
    }

    fn enlarge(&self) -> Result<()> {
        Ok(rustix::mount::mount_remount(&self.0, rustix::mount::MountFlags::empty(), "size=64m")?)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A memory cgroup with little memory, for one program.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one below `own`. `directory` gets a link to the list of its processes.
    fn new(own: &Path, name: &str, directory: &Path) -> Result<Cgroup> {
        let path = own.join(format!("ringtrace-crash-{}-{name}", std::process::id()));
        std::fs::create_dir(&path)?;
        let group = Cgroup(path);
        let limit = ["memory.limit_in_bytes", "memory.max"].into_iter().find(|file| group.0.join(file).exists());
        std::fs::write(group.0.join(limit.context("no limit")?), "33554432")?;
        std::os::unix::fs::symlink(group.0.join("cgroup.procs"), directory.join("cgroup.procs"))?;
        Ok(group)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The directory of the memory cgroup of this process.
fn own_memory_cgroup() -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        match controllers {
            "" => Some(Path::new("/sys/fs/cgroup").join(path)),
            all => all.split(',').any(|c| c == "memory").then(|| Path::new("/sys/fs/cgroup/memory").join(path)),
        }
    };
    groups.lines().filter_map(of).find(|path| path.join("memory.limit_in_bytes").exists() || path.join("memory.max").exists())
}
