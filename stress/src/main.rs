//! Stress of the protocols: one process writes from threads, signal handlers and forked children, another one checks every record.
//!
//! `stress EVENTS KILLS [MUTATION]`, which `cargo xtask stress` runs. With a mutation, one step of a protocol is broken, and
//! the test ends as soon as it notices. Exit status: 0 nothing was wrong, 1 something was.
#![expect(unsafe_code, reason = "signal handlers, timers, shared memory")]
#![cfg(target_os = "linux")]

mod aggregates;
mod allocator;
mod checker;
mod lists;
mod record;
mod shared;
mod writer;

use anyhow::{Context, Result, bail, ensure};
use checker::{Checker, Kind, Wrong};
use shared::Counts;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use trace_registry::mutation;
use trace_runtime::ring_buffer::{Purpose, Reader};
use writer::{SCENARIOS, Scenario, Task};

#[global_allocator]
static ALLOCATOR: allocator::Quarantine = allocator::Quarantine::new();

/// The scenarios without a channel of their own.
const LISTS: &str = "probe lists";
const AGGREGATES: &str = "aggregations";
/// Name of the scenario, path of the ring, path of the counts, number of events: what a child is given.
const CHILD: &str = "RINGTRACE_STRESS_CHILD";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

struct Arguments {
    events: u64,
    kills: u64,
    mutation: Option<String>,
}

fn arguments() -> Result<Arguments> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |what| arguments.next().context(what)?.parse::<u64>().context(what);
    let (events, kills) = (number("EVENTS: a number")?, number("KILLS: a number")?);
    let mutation = arguments.next();
    if let Some(name) = &mutation {
        ensure!(mutation::select(name), "no mutation {name} in this build: use `cargo xtask stress --mutate {name}`");
    }
    Ok(Arguments { events, kills, mutation })
}

fn run() -> Result<bool> {
    let arguments = arguments()?;
    if let Ok(child) = std::env::var(CHILD) { write(&child).map(|()| true) } else { read(&arguments) }
}

/// The writing process.
fn write(child: &str) -> Result<()> {
    let [name, ring, counts, events] = child.split(';').collect::<Vec<_>>()[..] else { bail!("{CHILD}: {child}") };
    let open = |path: &str| File::options().read(true).write(true).open(path).with_context(|| path.to_owned());
    let (events, counts) = (events.parse()?, shared::map(&open(counts)?)?);
    match name {
        LISTS => return lists::fire(counts, events),
        AGGREGATES => return aggregates::fire(counts, events),
        _ => {}
    }
    let scenario = SCENARIOS.iter().find(|s| s.name == name).context("a scenario")?;
    scenario.write(Task { ring: open(ring)?, counts, geometry: scenario.geometry(), events })
}

/// What one scenario, or all of them, came to.
#[derive(Default)]
struct Outcome {
    events: u64,
    restarted: u64,
    wrong: Wrong,
}

/// The checking process.
fn read(arguments: &Arguments) -> Result<bool> {
    // A mutation of the probe lists, of aggregations or of the fallback region is looked for there.
    let breaks = |what: &str| arguments.mutation.as_ref().is_none_or(|name| name.starts_with(what));
    let is_concerned = |s: &&Scenario| arguments.mutation.is_none() || breaks("fallback_") == s.is_fallback();
    let scenarios: Vec<&Scenario> = SCENARIOS.iter().filter(|s| s.is_available()).filter(is_concerned).collect();
    let is_elsewhere = arguments.mutation.is_some() && (breaks("list_") || breaks("aggregate_"));
    let scenarios = if is_elsewhere { Vec::new() } else { scenarios };
    let parts = scenarios.len() as u64 + 2;
    // With a mutation, in smaller portions, until it is noticed.
    let rounds = match &arguments.mutation {
        None => 1,
        Some(name) if name.starts_with("list_") => (arguments.events / MUTATED_LISTS).max(1),
        Some(name) if name.starts_with("fallback_") => (arguments.events / MUTATED_FALLBACK).max(1),
        Some(_) => (arguments.events / MUTATED_ROUND).max(1),
    };
    let share = arguments.events / rounds / parts;
    let mut sum = Outcome::default();
    let mut add = |name: &str, outcome: Outcome, start: Instant| {
        let Outcome { events, restarted, wrong } = &outcome;
        println!("{name:28} {events:11} events {restarted:8} aborts {:6.1} s  {wrong}", start.elapsed().as_secs_f64());
        sum.events += events;
        sum.restarted += restarted;
        sum.wrong.join(wrong);
        arguments.mutation.is_some() && wrong.total() > 0
    };
    'noticed: for _ in 0..rounds {
        for scenario in &scenarios {
            let start = Instant::now();
            if add(scenario.name, channel(scenario, share, None, arguments)?, start) {
                break 'noticed;
            }
        }
        for (name, prefix) in [(LISTS, "list_"), (AGGREGATES, "aggregate_")] {
            let start = Instant::now();
            if breaks(prefix) && add(name, without_channel(name, share, arguments)?, start) {
                break 'noticed;
            }
        }
        if arguments.mutation.is_none() {
            let start = Instant::now();
            add("killed at random", kills(&scenarios, arguments)?, start);
        }
    }
    println!("stress: {} events, {} aborts, {} wrong", sum.events, sum.restarted, sum.wrong.total());
    Ok(sum.wrong.total() == 0)
}

/// Events of one round of a test with a mutation.
const MUTATED_ROUND: u64 = 5_000_000;
/// The same for the fallback region: that a record is missing is seen at the end, and the reader waits for what never comes.
const MUTATED_FALLBACK: u64 = 20_000;
/// The same for probe lists: what widens the windows there takes long.
const MUTATED_LISTS: u64 = 100_000;

/// Writer and reader wait for each other when nothing came for so long.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Kills writers.
fn kills(scenarios: &[&Scenario], arguments: &Arguments) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for round in 0..arguments.kills {
        let scenario = scenarios[round as usize % scenarios.len()];
        let one = channel(scenario, u64::MAX, Some(kill_at(round)), arguments)?;
        if one.wrong.total() > 0 {
            println!("killed: {}: {}", scenario.name, one.wrong);
        }
        outcome.events += one.events;
        outcome.wrong.join(&one.wrong);
    }
    Ok(outcome)
}

/// After how many records a process is killed: anything between its first and its many thousandth.
fn kill_at(round: u64) -> u64 {
    let random = (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id()) << 20;
    (random ^ random >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 45
}

fn spawn(name: &str, ring: &str, counts: &str, events: u64, arguments: &Arguments) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["0", "0"]).args(&arguments.mutation).env(CHILD, format!("{name};{ring};{counts};{events}"));
    if arguments.mutation.is_some() {
        command.stderr(std::process::Stdio::null()); // it may crash in many words
    }
    command.spawn().context("a child")
}

/// Runs the scenario of a channel; kills the writer once so many records were read.
fn channel(scenario: &Scenario, events: u64, kill_at: Option<u64>, arguments: &Arguments) -> Result<Outcome> {
    let (ring, ring_path) = shared::memory("ring")?;
    let (counts, counts_path) = shared::memory("counts")?;
    let counts: &Counts = shared::map(&counts)?;
    let mut child = spawn(scenario.name, &ring_path, &counts_path, events, arguments)?;
    let mut reader = loop {
        let is_over = child.try_wait()?.is_some();
        // SAFETY: nobody makes the file shorter, and there is no other reader.
        match unsafe { Reader::open(&ring, Purpose::Consume) } {
            Ok(reader) => break reader,
            Err(_) if is_over => return Ok(ended_badly()),
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut checker = Checker::new(reader.geometry().buffers);
    let (mut went_on, mut stands_still) = (Instant::now(), false);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if kill_at.is_some_and(|at| checker.records() >= at) {
            child.kill()?;
            break child.wait()?;
        }
        if arguments.mutation.is_some() && checker.wrong.total() > 0 {
            child.kill()?; // that is enough
            child.wait()?;
            break std::process::ExitStatus::default();
        }
        if checker.pass(&mut reader, false) {
            went_on = Instant::now();
        } else if went_on.elapsed() < STANDSTILL {
            std::thread::yield_now();
        } else {
            stands_still = true;
            child.kill()?;
            break child.wait()?;
        }
    };
    checker.pass(&mut reader, true);
    let is_expected = if kill_at.is_some() { status.signal() == Some(libc::SIGKILL) } else { status.success() };
    checker.wrong.add(Kind::Ended, stands_still || !is_expected);
    let events = checker.close(&reader, counts, kill_at.is_some());
    Ok(Outcome { events, restarted: counts.restarted.load(SeqCst), wrong: checker.wrong })
}

/// Runs a scenario without a channel of its own.
fn without_channel(name: &str, events: u64, arguments: &Arguments) -> Result<Outcome> {
    let (counts, counts_path) = shared::memory("counts")?;
    let counts: &Counts = shared::map(&counts)?;
    let status = spawn(name, "", &counts_path, events, arguments)?.wait()?;
    let mut outcome = if status.success() { Outcome::default() } else { ended_badly() };
    outcome.events = counts.streams[0].recorded.load(SeqCst);
    outcome.wrong.add(Kind::Armed, counts.armed.load(SeqCst));
    outcome.wrong.add(Kind::Sections, counts.unbalanced.load(SeqCst));
    outcome.wrong.add(Kind::Figures, counts.torn.load(SeqCst));
    outcome.wrong.add(Kind::Ended, counts.failed.load(SeqCst));
    Ok(outcome)
}

fn ended_badly() -> Outcome {
    let mut outcome = Outcome::default();
    outcome.wrong.add(Kind::Ended, 1_u64);
    outcome
}
