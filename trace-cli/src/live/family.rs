//! Children of recorded processes.
//!
//! A child after fork(2) has its session from the start: the program sees to that. Here it is found, so that it is shown, and
//! ends with the command. A program that a recorded one starts by exec(2) gets its session here, a moment after its start.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use trace_control::place::{Image, ImageName};
use trace_control::protocol::{Request, SessionName, SessionState, Status};
use trace_runtime::recovery::Remains;

use super::process::Process;
use super::record::Recorded;
use super::target::Target;
use crate::failure::{self, Failure};

/// What is known of the children.
pub(super) struct Family {
    target: Target,
    /// Where the rings are kept, if that was said.
    rings: Option<PathBuf>,
    /// Name of the session, the same in all.
    session: String,
    /// Traces of those with which it began.
    roots: Vec<PathBuf>,
    seen: HashSet<ImageName>,
    /// Whether the rings of all are consumed here.
    is_external: bool,
}

impl Family {
    pub(super) fn of(target: Target, rings: Option<PathBuf>, recorded: &[Recorded], is_external: bool) -> Family {
        // Also copies of ringtrace in the same processes that no rule concerns.
        let is_one = |image: &Image| {
            let key = |name: ImageName| (name.pid, name.start_time);
            recorded.iter().any(|r| key(r.process.image.name) == key(image.name))
        };
        let seen = target.images().unwrap_or_default().iter().filter(|image| is_one(image)).map(|image| image.name).collect();
        Family {
            target,
            rings,
            seen,
            is_external,
            session: recorded.first().map(|r| r.state.name.clone()).unwrap_or_default(),
            roots: recorded.iter().map(|r| r.output.clone()).collect(),
        }
    }

    /// Adds the children that are new; `begin` records a process that has no session yet.
    pub(super) fn look(
        &mut self,
        recorded: &mut Vec<Recorded>,
        begin: impl Fn(Process, PathBuf) -> Result<Recorded, Failure>,
    ) -> Result<(), Failure> {
        for image in self.target.images()? {
            if self.seen.contains(&image.name) {
                continue;
            }
            // One that does not answer yet is met the next time, and one that has ended is looked at in the end.
            let Ok(mut process) = Process::meet(image.clone()) else { continue };
            let Ok(status) = process.ask::<Status>(&Request::Status) else { continue };
            let is_ours = |s: &SessionState| s.name == self.session && s.output.as_deref().is_some_and(|o| self.is_of_root(o));
            if let Some(SessionState { name, output: Some(output), .. }) = status.sessions.into_iter().find(is_ours) {
                if let Ok(state) = process.ask::<SessionState>(&Request::Bind(SessionName { session: name })) {
                    // By the name that was checked, whatever it says now.
                    match Recorded::new(process, output, state, self.is_external) {
                        Ok(child) => recorded.push(child),
                        Err(failure) => failure::warning(format_args!("{failure}")),
                    }
                }
            } else if let Some(parent) = recorded.iter().find(|r| Self::is_started_by(&r.process, &process)) {
                let root = self.roots.iter().find(|root| is_of(root, &parent.output)).unwrap_or(&parent.output);
                match begin(process, free(root, image.name.pid)) {
                    Ok(child) => recorded.push(child),
                    Err(failure) => failure::warning(format_args!("{failure}")),
                }
            }
            self.seen.insert(image.name);
        }
        Ok(())
    }

    /// Delivers what children left that ended by a signal or `_exit`.
    pub(super) fn end(self, recorded: &mut [Recorded]) -> Result<(), Failure> {
        for (output, events) in recover(&self.target, self.rings.as_deref(), &self.session, &self.roots)? {
            recorded.iter_mut().filter(|one| one.output == output).for_each(|one| one.recovered = Some(events));
        }
        Ok(())
    }

    fn is_of_root(&self, output: &Path) -> bool {
        self.roots.iter().any(|root| is_of(root, output))
    }

    /// Whether `process` is what `parent` started or became by exec(2).
    fn is_started_by(parent: &Process, process: &Process) -> bool {
        // Numbers of another PID namespace are not those of /proc here.
        process.image.name.pid == parent.image.name.pid
            || (process.image.name.is_running() && parent_of(process.image.name.pid) == Some(parent.image.name.pid))
    }
}

/// The number of a process's parent; proc_pid_stat(5).
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether `output` is `root`, or `root-NUMBER`, as children have it.
fn is_of(root: &Path, output: &Path) -> bool {
    let (root, output) = (root.as_os_str().as_encoded_bytes(), output.as_os_str().as_encoded_bytes());
    match output.strip_prefix(root) {
        Some([]) => true,
        Some([b'-', number @ ..]) => !number.is_empty() && number.iter().all(|b| b.is_ascii_digit() || *b == b'-'),
        _ => false,
    }
}

/// `ROOT-PID`, with a number where that exists: a process that called exec(2) had one before.
fn free(root: &Path, pid: u32) -> PathBuf {
    let path = |n: u32| {
        let mut path = root.as_os_str().to_owned();
        path.push(if n == 1 { format!("-{pid}") } else { format!("-{pid}-{n}") });
        PathBuf::from(path)
    };
    (1..1000).map(path).find(|p| !p.exists()).unwrap_or_else(|| path(1000))
}

/// So long the kernel may take to close the files of a process that has ended.
const CLOSING: Duration = Duration::from_secs(1);

fn open(session: &Path) -> Result<Remains, trace_runtime::Error> {
    let begun = Instant::now();
    loop {
        match Remains::open(session) {
            Err(error) if error.is_busy() && begun.elapsed() < CLOSING => std::thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
}

/// Delivers what ended children of a session left in their rings: those whose trace is one of `roots` with a number. `rings`: the
/// directory that was given for them. Returns the traces, and how many events each got.
pub(super) fn recover(
    target: &Target,
    rings: Option<&Path>,
    session: &str,
    roots: &[PathBuf],
) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let mut images = target.images()?;
    // Nothing was ever recorded there if it cannot be opened.
    images.extend(rings.and_then(|rings| super::target::images_in(rings).ok()).unwrap_or_default());
    let mut done = Vec::new();
    for image in images {
        // A child may end before its agent has a socket, and its rings may lie elsewhere than that.
        if !image.is_gone() || image.remove_gone() || !image.sessions().iter().any(|s| s == session) {
            continue;
        }
        let remains = match open(&image.path.join(session)) {
            Ok(remains) => remains,
            Err(error) => {
                failure::warning(format_args!("what process {} left is not recovered: {error}", image.name.pid));
                continue;
            }
        };
        let is_child = |output: &PathBuf| !roots.contains(output) && roots.iter().any(|root| is_of(root, output));
        if !remains.output().as_ref().is_some_and(is_child) {
            continue;
        }
        match remains.recover(None) {
            Ok(recovered) => {
                image.remove_gone();
                let (events, path) = (recovered.events, recovered.path.display());
                failure::note(format_args!(
                    "child {}: {events} more events, which it left when it ended, in {path}",
                    image.name.pid
                ));
                done.push((recovered.path, events));
            }
            Err(error) => failure::error(format_args!("child {}: {error}", image.name.pid)),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_known_by_the_names_of_their_traces() {
        let root = Path::new("/a/trace");
        for (output, is_ours) in [
            ("/a/trace", true),
            ("/a/trace-12", true),
            ("/a/trace-12-2", true),
            ("/a/trace-", false),
            ("/a/trace-x", false),
            ("/a/tracer", false),
            ("/b/trace-12", false),
        ] {
            assert_eq!(is_of(root, Path::new(output)), is_ours, "{output}");
        }
    }
}
