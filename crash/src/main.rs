//! The kill laboratory: programs are ended at random moments by every means; every committed event must be in the traces that
//! are left, or stated as lost there.
//!
//! `crash ENDINGS [--seed N] [--means NAME] [--command PATH] [--mutate NAME]`, which `cargo xtask crash` runs. Programs run four
//! at a time in one run-time directory, each with two or three sessions. With a mutation, a step of recovery is broken, and the
//! run ends as soon as that is noticed. Exit status: 0 nothing was wrong, 1 something was. `crash soak DEATHS` is the crash-loop
//! soak, see `soak.rs`.
#![expect(unsafe_code, reason = "shared memory, and ends of processes")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod case;
mod counts;
mod ending;
mod judge;
mod soak;
mod workload;

use anyhow::{Context as _, Result, ensure};
use case::{Case, Means};
use ending::Ground;
use judge::Verdict;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

fn main() -> ExitCode {
    type Program = fn(&str) -> Result<()>;
    for (variable, program) in [(workload::VARIABLE, workload::run as Program), (soak::VARIABLE, soak::program)] {
        let Ok(words) = std::env::var(variable) else { continue };
        return match program(&words) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::from(3)
            }
        };
    }
    let mut words = std::env::args().skip(1).peekable();
    let is_right = match words.next_if_eq("soak") {
        Some(_) => soak::run(words),
        None => arguments(words).and_then(|arguments| run(&arguments)),
    };
    match is_right {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

struct Arguments {
    endings: u64,
    seed: u64,
    means: Option<Means>,
    command: Option<std::path::PathBuf>,
    is_mutated: bool,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let endings = words.next().context("ENDINGS: a number")?.parse().context("ENDINGS: a number")?;
    let mut arguments = Arguments { endings, seed: 1, means: None, command: None, is_mutated: false };
    while let Some(option) = words.next() {
        let value = words.next().with_context(|| format!("{option}: a value"))?;
        match option.as_str() {
            "--seed" => arguments.seed = value.parse().context("--seed: a number")?,
            "--means" => {
                let names = || Means::ALL.map(Means::name).join(", ");
                let means = Means::ALL.into_iter().find(|m| m.name() == value);
                arguments.means = Some(means.with_context(|| format!("no means {value}; there are {}", names()))?);
            }
            "--command" => arguments.command = Some(value.into()),
            "--mutate" => {
                ensure!(trace_registry::mutation::select(&value), "no mutation {value} in this build");
                arguments.is_mutated = true;
            }
            _ => anyhow::bail!("no option {option}"),
        }
    }
    Ok(arguments)
}

/// Programs at a time; some of them wait, for a killed consumer's claim to become stale or a disk to be full.
const AT_A_TIME: usize = 4;

fn run(arguments: &Arguments) -> Result<bool> {
    let ground = Ground::new(arguments.command.clone())?;
    if ground.cgroup.is_none() {
        println!("no memory cgroup can be made here: `out of memory` is an allocation that fails (RLIMIT_AS)");
    }
    if !ground.can_mount {
        println!("nothing can be mounted here: `disk full` is a limit on the size of files (RLIMIT_FSIZE)");
    }
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let table: Mutex<BTreeMap<Means, (u64, Verdict)>> = Mutex::default();
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, SeqCst);
                    if number >= arguments.endings || stop.load(SeqCst) {
                        return;
                    }
                    let mut case = Case::new(arguments.seed, number, arguments.means);
                    if ground.command.is_none() {
                        case.consumer = case::Consumer::Own;
                    }
                    match one(&ground, &case) {
                        Ok(verdict) => {
                            let mut table = table.lock().expect("nobody panics");
                            let row = table.entry(case.means).or_default();
                            row.0 += 1;
                            row.1 += verdict;
                            if arguments.is_mutated && verdict.wrong.total() > 0 {
                                stop.store(true, SeqCst);
                            }
                        }
                        Err(error) => {
                            stop.store(true, SeqCst);
                            let said = |file| std::fs::read_to_string(ground.place(&case).join(file)).unwrap_or_default();
                            println!("{case}: {error:#}\n{}{}", said("stderr"), said("recorder"));
                            *failure.lock().expect("nobody panics") = Some(error);
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().expect("nobody panics") {
        return Err(error);
    }
    let (mut endings, mut sum) = (0, Verdict::default());
    println!("means of death        endings   recovered  cut packets      events       lost  missing  torn  readers");
    for (means, (count, verdict)) in table.into_inner().expect("nobody panics") {
        let Verdict { wrong, events, lost, recovered, cut } = verdict;
        let judge::Wrong { missing, torn, readers } = wrong;
        println!("{means:20} {count:8} {recovered:11} {cut:12} {events:11} {lost:10} {missing:8} {torn:5} {readers:8}");
        endings += count;
        sum += verdict;
    }
    let wrong = sum.wrong;
    println!("crash: {endings} endings, {} missing, {} torn, {} reader failures", wrong.missing, wrong.torn, wrong.readers);
    Ok(wrong.total() == 0)
}

fn one(ground: &Ground, case: &Case) -> Result<Verdict> {
    let ended = ending::end(ground, case)?;
    let verdict = judge::judge(ground, case, &ended)?;
    if verdict.wrong.total() == 0 {
        let directory = ended.directory.clone();
        drop(ended);
        std::fs::remove_dir_all(directory)?;
    }
    Ok(verdict)
}
