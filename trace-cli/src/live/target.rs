//! Which processes a verb is about.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use trace_control::place::{self, Image};
use trace_control::protocol::{Named, RefusalKind, Request, RuleText};

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
    /// that can be traced. Of a process with several copies of ringtrace, PID means all of them and PID@VERSION one; `ps` shows
    /// their versions.
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
        let named: Option<Vec<u32>> = self.process.iter().map(|wanted| number(wanted)).collect();
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
        tell_copies_apart(&mut processes);
        let name = |process: &Process| (process.image.name.pid, process.image.name.start_time);
        processes.sort_by(|a, b| (name(a), &a.copy).cmp(&(name(b), &b.copy)));
        Ok(processes)
    }

    /// Returns the processes that are meant: at least one.
    pub(super) fn chosen(&self) -> Result<Vec<Process>, Failure> {
        let mut silent = Vec::new();
        let mut all = self.all(|image, error| silent.push((image, error)))?;
        // `program & ringtrace record -p $!`: a process that has just begun may be traceable in a moment.
        let is_awaited = |all: &[Process], wanted: &str| {
            let is_young = |pid| super::text::has_just_begun(pid, YOUTH);
            !all.iter().any(|process| names(wanted, process)) && number(wanted).is_some_and(is_young)
        };
        while self.process.iter().any(|wanted| is_awaited(&all, wanted)) {
            std::thread::sleep(LOOK);
            silent.clear();
            all = self.all(|image, error| silent.push((image, error)))?;
        }
        if self.process.is_empty() {
            return match &all[..] {
                [] => Err(Failure::NoProcess(nothing(&silent))),
                [one, others @ ..] if others.iter().all(|other| other.is_beside(one)) => Ok(all),
                _ => Err(Failure::NoProcess(format!("several processes can be traced: choose by -p\n{}", table(&all)))),
            };
        }
        for wanted in &self.process {
            if !all.iter().any(|process| names(wanted, process)) {
                return Err(Failure::NoProcess(missing(wanted, &all, &silent)));
            }
        }
        all.retain(|process| self.process.iter().any(|wanted| names(wanted, process)));
        Ok(all)
    }

    /// Returns the one process that is meant, by a verb that is about one.
    pub(super) fn only(&self) -> Result<Process, Failure> {
        let mut processes = self.chosen()?;
        match processes.pop() {
            Some(process) if processes.is_empty() => Ok(process),
            last => {
                processes.extend(last);
                Err(several(&processes))
            }
        }
    }

    /// Asks the one process that is meant; of several copies of ringtrace in it, the one that does not refuse. If all refuse, it
    /// says why each does: only one of them may have what is asked about.
    pub(super) fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<(Process, T), Failure> {
        let chosen = self.chosen()?;
        if !chosen.iter().skip(1).all(|process| process.is_beside(&chosen[0])) {
            return Err(several(&chosen));
        }
        let (mut answered, mut refused) = (Vec::new(), Vec::new());
        for mut process in chosen {
            match process.demand(request) {
                Ok(answer) => answered.push((process, answer)),
                Err(failure) => refused.push(failure),
            }
        }
        match (answered.pop(), refused.pop()) {
            (Some(one), _) if answered.is_empty() => Ok(one),
            (None, Some(last)) => {
                refused.iter().for_each(|failure| failure::error(format_args!("{failure}")));
                Err(last)
            }
            (last, _) => Err(several(&answered.into_iter().chain(last).map(|(process, _)| process).collect::<Vec<_>>())),
        }
    }

    /// Runs `work` for each chosen process. Where there are several, one that fails does not keep the others from it.
    pub(super) fn each(&self, work: impl FnMut(&mut Process) -> Result<(), Failure>) -> Result<crate::Outcome, Failure> {
        each(&mut self.chosen()?, work)
    }
}

/// What rules are given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A new session: rules that only exclude take nothing, and make none.
    Create,
    /// A change of a session.
    Change,
}

/// Gives each process its [share](shares) of the rules. A copy of ringtrace that none of them concerns is left out.
pub(super) fn share(mut processes: Vec<Process>, rules: &str, purpose: Purpose) -> Vec<Process> {
    let shares = shares(&mut processes, rules, purpose);
    processes.iter_mut().zip(shares).for_each(|(process, share)| process.share = share);
    processes.retain(|process| process.share.as_ref().is_none_or(|share| !share.is_empty()));
    processes
}

/// Returns which of the rules concern each process; `None`: all of them. Of several copies of ringtrace in one process, each gets
/// the rules that name something in it; a rule that names nothing in any copy goes to all of them, which refuse it.
pub(super) fn shares(processes: &mut [Process], rules: &str, purpose: Purpose) -> Vec<Option<String>> {
    let request = Request::Named(RuleText { rules: rules.to_owned() });
    // A copy that does not answer gets all rules, so that it says itself what is wrong; so does every copy if there are no rules.
    let ask = |process: &mut Process| process.copy.is_some().then(|| process.ask::<Named>(&request).ok())?;
    let named: Vec<_> = processes.iter_mut().map(|process| ask(process).filter(|named| !named.rules.is_empty())).collect();
    let is_named_beside = |process: &Process, place: usize| {
        let mut others = processes.iter().zip(&named).filter(|(other, _)| other.is_beside(process));
        others.any(|(_, named)| named.as_ref().and_then(|named| named.rules.get(place)).is_some_and(|rule| rule.names))
    };
    let takes = |rule: &&str| !rule.starts_with('!');
    let own = |process: &Process, named: &Named| {
        let all = named.rules.iter().map(|rule| rule.rule.as_str());
        let concerns = |place: usize| named.rules[place].names || !is_named_beside(process, place);
        let mut own: Vec<&str> = all.clone().enumerate().filter(|(place, _)| concerns(*place)).map(|(_, rule)| rule).collect();
        if purpose == Purpose::Create && all.clone().any(|rule| takes(&rule)) && !own.iter().any(takes) {
            own.clear();
        }
        own.join("; ")
    };
    processes.iter().zip(&named).map(|(process, named)| named.as_ref().map(|named| own(process, named))).collect()
}

/// Runs `work` for each process. Where there are several, one that fails does not keep the others from it; and of several copies of
/// ringtrace in a process, it is no failure of one to lack what another one has.
pub(super) fn each(
    processes: &mut [Process],
    mut work: impl FnMut(&mut Process) -> Result<(), Failure>,
) -> Result<crate::Outcome, Failure> {
    let several = processes.len() > 1;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (place, process) in processes.iter_mut().enumerate() {
        match work(process) {
            Ok(()) => done.push(place),
            Err(failure) if several && !failure.is_output() => failed.push((place, failure)),
            Err(failure) => return Err(failure),
        }
    }
    let is_beside_one_that_did = |place: usize| done.iter().any(|done| processes[*done].is_beside(&processes[place]));
    failed.retain(|(place, failure)| !(lacks_something(failure) && is_beside_one_that_did(*place)));
    let Some((_, last)) = failed.pop() else { return Ok(crate::Outcome::Complete) };
    failed.iter().for_each(|(_, failure)| failure::error(format_args!("{failure}")));
    if done.is_empty() {
        return Err(last);
    }
    failure::error(format_args!("{last}"));
    Ok(crate::Outcome::Partial)
}

/// Whether a process has no such session, probe or tracepoint.
fn lacks_something(failure: &Failure) -> bool {
    match failure {
        Failure::Process { error: trace_control::Error::Refused(refusal), .. } => {
            matches!(refusal.kind, RefusalKind::UnknownName | RefusalKind::NoSession)
        }
        failure => matches!(failure, Failure::Wrong(_)),
    }
}

/// Gives the copies of ringtrace in one process the names by which they are told apart: their versions, with a number where these
/// are the same.
fn tell_copies_apart(processes: &mut [Process]) {
    let copy = |process: &Process| {
        let beside: Vec<&Process> = processes.iter().filter(|other| other.is_beside(process)).collect();
        // It becomes a part of a file's name, and is what the process says.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
        let version = process.is.ringtrace.replace(|c| !is_plain(c), "_");
        let is_unique = beside.iter().all(|other| other.is.ringtrace != process.is.ringtrace);
        let name = if is_unique { version } else { format!("{version}-{:08x}", process.image.name.id) };
        (!beside.is_empty()).then_some(name)
    };
    let copies: Vec<_> = processes.iter().map(copy).collect();
    processes.iter_mut().zip(copies).for_each(|(process, copy)| process.copy = copy);
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

/// Whether a process is named so: by its number or by its program, and maybe by the copy of ringtrace in it.
fn names(wanted: &str, process: &Process) -> bool {
    let is = |wanted: &str| wanted.parse().map_or_else(|_| wanted == process.is.program, |pid: u32| pid == process.is.pid);
    is(wanted) || wanted.rsplit_once('@').is_some_and(|(wanted, copy)| is(wanted) && copy == process.version())
}

/// The number by which a process is named.
fn number(wanted: &str) -> Option<u32> {
    wanted.rsplit_once('@').map_or(wanted, |(process, _)| process).parse().ok()
}

fn several(processes: &[Process]) -> Failure {
    let what = match processes {
        [one, others @ ..] if others.iter().all(|other| other.is_beside(one)) => "several copies of ringtrace in one process",
        _ => "several processes",
    };
    Failure::NoProcess(format!("{what} are meant: choose one by -p\n{}", table(processes)))
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
    let name = |p: &Process| p.copy.as_ref().map_or_else(|| p.is.pid.to_string(), |_| p.chosen_by());
    let width = processes.iter().map(|p| name(p).len()).max().unwrap_or_default().max(7);
    let lines = processes.iter().map(|p| format!("  {:>width$}  {}", name(p), super::text::one_line(&p.is.command.join(" "))));
    lines.collect::<Vec<_>>().join("\n")
}

/// Says why the process that was asked for is not among them.
fn missing(wanted: &str, all: &[Process], silent: &[(Image, trace_control::Error)]) -> String {
    if let Some(pid) = number(wanted) {
        let copies: Vec<String> = all.iter().filter(|p| p.is.pid == pid).map(|p| format!("-p {}", p.chosen_by())).collect();
        if !copies.is_empty() {
            let version = wanted.rsplit_once('@').map_or("", |(_, version)| version);
            return format!("process {pid} has no ringtrace `{version}`; choose {}", copies.join(" or "));
        }
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
