//! Which processes a verb is about.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trace_control::place::{self, Image};
use trace_control::protocol;

use super::process::Process;
use crate::failure::{self, Failure};

/// A process so young may not have got to `init()` yet; it is looked for again so often.
const YOUTH: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// How many processes are asked at once who they are: one that does not answer takes its time only once.
const AT_ONCE: usize = 32;

/// Options that say which processes a verb is about.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Target {
    /// Process: its number, or the name of its program (then all of that name). May be repeated. Without it, the only process
    /// that can be traced.
    #[arg(short, long = "process", value_name = "PID|NAME", display_order = 800)]
    process: Vec<String>,

    /// Run-time directory of the processes, such as one of a container that is mounted here. Without it, those of this user:
    /// $XDG_RUNTIME_DIR/ringtrace, /dev/shm/ringtrace-UID, /tmp/ringtrace-UID.
    #[arg(long, value_name = "DIR", display_order = 801)]
    dir: Option<PathBuf>,
}

impl Target {
    /// Whether processes were named.
    pub(super) fn is_named(&self) -> bool {
        !self.process.is_empty()
    }

    /// Whether it is said where to look.
    pub(super) fn is_given(&self) -> bool {
        self.is_named() || self.dir.is_some()
    }

    /// The directories of process images that are looked into.
    pub(super) fn bases(&self) -> Vec<PathBuf> {
        self.dir.as_ref().map_or_else(place::searched, |dir| vec![base_in(dir)])
    }

    /// Returns every process image there is, alive or not.
    pub(super) fn images(&self) -> Result<Vec<Image>, Failure> {
        let mut found = Vec::new();
        match &self.dir {
            Some(dir) => {
                found = images_in(dir)?;
            }
            None => {
                for base in place::searched() {
                    match place::images(&base) {
                        Ok(images) => found.extend(images),
                        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                            failure::warning(format_args!("{}: {error}", base.display()));
                        }
                        Err(_) => {} // it is not there
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns every process that answers; what does not answer is told to `silent`. Where processes are named by their numbers
    /// only, others are not asked: one that is stopped takes its time not to answer.
    pub(super) fn all(&self, mut silent: impl FnMut(Image, trace_control::Error)) -> Result<Vec<Process>, Failure> {
        let mut processes = Vec::new();
        let named: Option<Vec<u32>> = self.process.iter().map(|wanted| wanted.parse().ok()).collect();
        let named = named.filter(|named| !named.is_empty());
        let mut asked = self.images()?;
        asked.retain(|image| named.as_ref().is_none_or(|named| named.contains(&image.name.pid)));
        for some in asked.chunks(AT_ONCE) {
            let met: Vec<_> = std::thread::scope(|scope| {
                let ask = |image: &Image| {
                    let image = image.clone();
                    std::thread::Builder::new().spawn_scoped(scope, || Process::meet(image))
                };
                let asking: Vec<_> = some.iter().map(ask).collect();
                asking.into_iter().map(|asking| asking.map(std::thread::ScopedJoinHandle::join)).collect()
            });
            for (image, met) in some.iter().zip(met) {
                let met = match met {
                    Ok(met) => met.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    // There is no room for another thread.
                    Err(_) => Process::meet(image.clone()),
                };
                match met {
                    Ok(process) => processes.push(process),
                    Err(error) => silent(image.clone(), error),
                }
            }
        }
        Ok(processes)
    }

    /// Returns the processes that are meant: at least one.
    pub(super) fn chosen(&self) -> Result<Vec<Process>, Failure> {
        let mut silent = Vec::new();
        let mut all = self.all(|image, error| silent.push((image, error)))?;
        // `program & ringtrace record -p $!`: a process that has just begun may be traceable in a moment.
        let is_there = |all: &[Process], pid| all.iter().any(|p| p.is.pid == pid);
        let named: Vec<u32> = self.process.iter().filter_map(|wanted| wanted.parse().ok()).collect();
        while named.iter().any(|pid| !is_there(&all, *pid) && super::text::has_just_begun(*pid, YOUTH)) {
            std::thread::sleep(LOOK);
            silent.clear();
            all = self.all(|image, error| silent.push((image, error)))?;
        }
        if self.process.is_empty() {
            return match all.len() {
                1 => Ok(all),
                0 => Err(Failure::NoProcess(nothing(&silent))),
                _ => Err(Failure::NoProcess(format!("several processes can be traced: choose by -p\n{}", table(&all)))),
            };
        }
        for wanted in &self.process {
            if !all.iter().any(|process| names(wanted, &process.is)) {
                return Err(Failure::NoProcess(missing(wanted, &all, &silent)));
            }
        }
        all.retain(|process| self.process.iter().any(|wanted| names(wanted, &process.is)));
        Ok(all)
    }

    /// Runs `work` for each chosen process. Where there are several, one that fails does not keep the others from it.
    pub(super) fn each(&self, mut work: impl FnMut(&mut Process) -> Result<(), Failure>) -> Result<crate::Outcome, Failure> {
        let mut processes = self.chosen()?;
        let several = processes.len() > 1;
        let (mut done, mut last) = (0, None);
        for process in &mut processes {
            match work(process) {
                Ok(()) => done += 1,
                Err(failure) if several && !failure.is_output() => {
                    if let Some(earlier) = last.replace(failure) {
                        failure::error(format_args!("{earlier}"));
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        match last {
            None => Ok(crate::Outcome::Complete),
            Some(failure) if done == 0 => Err(failure),
            Some(failure) => {
                failure::error(format_args!("{failure}"));
                Ok(crate::Outcome::Partial)
            }
        }
    }
}

/// The process images in a run-time directory, or in one that has it below: $XDG_RUNTIME_DIR, or what a session was given as `rings`.
pub(super) fn images_in(directory: &Path) -> Result<Vec<Image>, Failure> {
    let base = base_in(directory);
    place::images_of_owner(&base).map_err(|error| match error.raw_os_error() {
        None if error.kind() == io::ErrorKind::PermissionDenied => Failure::Wrong(format!(
            "{}: this is no run-time directory: such a one is its user's alone, closed to others: {error}",
            base.display()
        )),
        _ => Failure::file(&base, error),
    })
}

fn base_in(directory: &Path) -> PathBuf {
    let below = directory.join(place::BELOW);
    if below.is_dir() { below } else { directory.to_owned() }
}

/// Whether a process is named so: by its number, or by its program.
fn names(wanted: &str, is: &protocol::Process) -> bool {
    wanted.parse().map_or_else(|_| wanted == is.program, |pid: u32| pid == is.pid)
}

fn nothing(silent: &[(Image, trace_control::Error)]) -> String {
    let mut text = String::from(
        "no process can be traced\n  a program can be while it runs, if it calls ringtrace::init() and RINGTRACE is not `off`; \
         `ringtrace ps` names other users' that are found by --dir",
    );
    for (image, error) in silent.iter().filter(|(image, error)| !Process::is_absent(image, error)) {
        text.push_str(&format!("\n  process {}: {error}", image.name.pid));
    }
    text
}

fn table(processes: &[Process]) -> String {
    let lines = processes.iter().map(|p| format!("  {:>7}  {}", p.is.pid, super::text::one_line(&p.is.command.join(" "))));
    lines.collect::<Vec<_>>().join("\n")
}

/// Says why the process that was asked for is not among them.
fn missing(wanted: &str, all: &[Process], silent: &[(Image, trace_control::Error)]) -> String {
    if let Ok(pid) = wanted.parse::<u32>() {
        if let Some((image, error)) = silent.iter().find(|(image, _)| image.name.pid == pid) {
            return if image.is_gone() {
                format!("process {pid} has ended; `ringtrace ps --dead` shows what it left")
            } else {
                format!("process {pid}: {error}")
            };
        }
        return match super::text::why_not_traceable(pid) {
            Some(why) => format!("process {pid} cannot be traced: {why}"),
            None => format!("there is no process {pid}"),
        };
    }
    let near = super::text::near(wanted, all.iter().map(|p| p.is.program.as_str()));
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean `{}`?", near.join("`, `")) };
    let others = if all.is_empty() { nothing(silent) } else { format!("these can be traced:\n{}", table(all)) };
    format!("no program called `{wanted}` can be traced{hint}\n{others}")
}
