//! What is left of a program that ended, made a trace, and held against what was counted outside.

use crate::case::{Case, Consumer};
use crate::counts::{Bounds, THREADS};
use crate::ending::{Ended, Ground};
use crate::workload;
use anyhow::{Context as _, Result, bail};
use ringtrace::recovery::Remains;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use trace_control::place::images;
use trace_ctf::reader::{Entry, LossKind, Trace, Value};
use trace_ctf::text::Formatter;

/// What was wrong after an ending, or after many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wrong {
    /// Committed events that no trace has, and no trace says are lost.
    pub(crate) missing: u64,
    /// Events that are not as they were written, that were never written, or are there twice.
    pub(crate) torn: u64,
    /// Traces that a reader could not read, or complained about.
    pub(crate) readers: u64,
}

impl Wrong {
    pub(crate) fn total(self) -> u64 {
        self.missing + self.torn + self.readers
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) wrong: Wrong,
    /// Events in the traces.
    pub(crate) events: u64,
    /// Events that the traces say are lost.
    pub(crate) lost: u64,
    /// Traces that recovery completed.
    pub(crate) recovered: u64,
    /// Partial packets that recovery cut off.
    pub(crate) cut: u64,
}

impl std::ops::AddAssign for Verdict {
    fn add_assign(&mut self, other: Verdict) {
        self.wrong.missing += other.wrong.missing;
        self.wrong.torn += other.wrong.torn;
        self.wrong.readers += other.wrong.readers;
        self.events += other.events;
        self.lost += other.lost;
        self.recovered += other.recovered;
        self.cut += other.cut;
    }
}

pub(crate) fn judge(ground: &Ground, case: &Case, ended: &Ended) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    for image in images(&ground.runtime()).unwrap_or_default().iter().filter(|image| image.name.pid == ended.pid) {
        for session in image.sessions() {
            let remains = open(&image.path.join(&session)).with_context(|| format!("`{session}` is not recovered"))?;
            let recovered = remains.recover(None).with_context(|| format!("`{session}` is not recovered"))?;
            verdict.recovered += 1;
            verdict.cut += u64::from(recovered.cut > 0);
        }
        if !image.remove_if_empty() {
            let _ = std::fs::remove_dir(&image.path);
        }
    }
    let mut sessions = vec![("plain", "crash:workload::counted"), ("flight", "crash:workload::counted")];
    if case.consumer != Consumer::Own {
        sessions.push(("outside", "crash:workload::outside"));
    }
    let bounds = ended.counts.bounds();
    for (session, event) in sessions {
        let trace = ended.directory.join("traces").join(session);
        let found = if trace.join("metadata").exists() {
            match read(&trace, event) {
                Ok(found) => found,
                Err(problem) => {
                    println!("{case}: {session}: {problem:#}");
                    verdict.wrong.readers += 1;
                    continue;
                }
            }
        } else {
            Found::default()
        };
        compare(case, session, &found, &bounds, &mut verdict);
    }
    Ok(verdict)
}

/// Opens what a program left. Somebody who consumed the rings and was killed is believed for a moment.
pub(crate) fn open(session: &Path) -> Result<Remains> {
    let begun = Instant::now();
    loop {
        match Remains::open(session) {
            Err(error) if error.is_busy() && begun.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return Ok(result?),
        }
    }
}

/// The events of a trace that were counted outside, by thread, and those that it says are lost.
#[derive(Default)]
pub(crate) struct Found {
    numbers: [BTreeMap<u64, bool>; THREADS],
    pub(crate) torn: u64,
    pub(crate) lost: u64,
}

/// Reads a trace by both readers, which must say the same.
pub(crate) fn read(directory: &Path, event: &str) -> Result<Found> {
    let trace = Trace::open(directory)?;
    if !trace.damage().is_empty() {
        bail!("{:?}", trace.damage());
    }
    let (mut found, mut lines, mut formatter) = (Found::default(), Vec::new(), Formatter::utc());
    let mut merge = trace.merge();
    while let Some(entry) = merge.next_entry() {
        match entry? {
            Entry::Event(one) => {
                if one.name() == event {
                    found.add(&one.payload());
                }
                formatter.event(&one, &mut lines);
            }
            Entry::Loss(loss) => match (loss.kind, loss.count) {
                (LossKind::DiscardedEvents, Some(count)) => found.lost += count,
                _ => bail!("{loss:?}"),
            },
        }
    }
    let theirs = Command::new("babeltrace2").arg("--clock-gmt").arg(directory).output();
    let theirs = theirs.context("babeltrace2 is needed: apt-get install babeltrace2")?;
    let messages = String::from_utf8_lossy(&theirs.stderr);
    let mut discarded = 0;
    for message in messages.lines().filter(|line| !line.is_empty()) {
        let count = message.split_once("Tracer discarded ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
        discarded += count.with_context(|| format!("babeltrace2 complains: {message}"))?;
    }
    if !theirs.status.success() || theirs.stdout != lines || discarded != found.lost {
        let mut both = lines.split(|b| *b == b'\n').zip(theirs.stdout.split(|b| *b == b'\n'));
        let (a, b) = both.find(|(a, b)| a != b).unwrap_or_default();
        let [a, b] = [a, b].map(String::from_utf8_lossy);
        let lost = found.lost;
        bail!("babeltrace2 ({}) reads another trace: {discarded} and {lost} lost;\n{a}\n{b}", theirs.status);
    }
    Ok(found)
}

impl Found {
    /// Adds what another trace holds. What both have counts once: a snapshot has what its session has, too.
    pub(crate) fn merge(&mut self, other: Found) {
        for (numbers, others) in self.numbers.iter_mut().zip(other.numbers) {
            numbers.extend(others);
        }
        self.torn += other.torn;
        self.lost += other.lost;
    }

    /// How many events of a thread there are.
    pub(crate) fn count(&self, thread: usize) -> u64 {
        self.numbers[thread].len() as u64
    }

    fn add(&mut self, payload: &Value<'_>) {
        let number = |name| payload.member(name).and_then(|n| n.as_u64());
        let text = payload.member("text");
        let (Some(thread), Some(number), Some(text)) = (number("thread"), number("number"), text.and_then(|t| t.as_str())) else {
            self.torn += 1;
            return;
        };
        let is_whole = thread < THREADS as u64 && text == workload::text(thread, number);
        let is_new = is_whole && self.numbers[thread as usize].insert(number, true).is_none();
        self.torn += u64::from(!is_new);
    }
}

fn compare(case: &Case, session: &str, found: &Found, bounds: &[Bounds; THREADS], verdict: &mut Verdict) {
    let mut wrong = Wrong { torn: found.torn, ..Wrong::default() };
    let (mut least, mut most) = (0, 0);
    for (numbers, bounds) in found.numbers.iter().zip(bounds) {
        let below = |limit: u64| numbers.range(..limit).count() as u64;
        wrong.torn += numbers.range(bounds.possible..).count() as u64;
        least += bounds.sure - below(bounds.sure);
        most += bounds.possible - below(bounds.possible);
        // What is overwritten are the oldest; the newest are what a flight recorder is for.
        if session == "flight" && bounds.sure > 0 && below(bounds.sure) > 0 && !case.fallback {
            let oldest = numbers.keys().next().copied().unwrap_or(0);
            wrong.missing += u64::from(!numbers.contains_key(&(bounds.sure - 1)));
            let holes = (bounds.sure - oldest) - numbers.range(oldest..bounds.sure).count() as u64;
            if holes > 0 {
                println!("{case}: {session}: {holes} holes behind {oldest}");
            }
        }
        verdict.events += numbers.len() as u64;
    }
    // Each loss that the trace does not state is a missing event, each that it invents is as bad. The other classes of a
    // session are 32 events at most.
    wrong.missing += least.saturating_sub(found.lost);
    let others = if case.large { 32 } else { 0 };
    wrong.torn += found.lost.saturating_sub(most + others);
    verdict.lost += found.lost;
    if wrong.total() > 0 {
        println!("{case}: {session}: {wrong:?}, {bounds:?}, {} stated as lost, {least} to {most} not found", found.lost);
    }
    verdict.wrong.missing += wrong.missing;
    verdict.wrong.torn += wrong.torn;
}
