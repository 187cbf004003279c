//! `cargo xtask bench-compare`: the same events through other tracers, in one run with ours.
//!
//! Each tracer is a program of its own, from `benches/compare`. They are measured in turns, a repetition of each row at a time,
//! and all but the one whose turn it is are stopped. One that does not build, start or deliver is reported and stops no other.

mod lttng;
mod program;
mod tracers;

use crate::bench::Form;
use crate::process::Cmd;
use crate::workspace::{Metadata, root};
use anyhow::{Context, Result, bail};
use lttng::Lttng;
use program::Program;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;
use tracers::{CLOCK, LTTNG, OURS, TRACERS, Tracer};

const REPETITIONS: usize = 31;
/// Nanoseconds of one repetition.
const LENGTH: f64 = 5e6;
/// Events with which each row is first checked, and then its speed guessed.
const FEW: u64 = 1000;
const PAYLOADS: [&str; 2] = ["u64", "mix"];

/// One figure.
struct Row {
    tracer: &'static Tracer,
    payload: &'static str,
    threads: usize,
    events: u64,
    /// For an event, one for each repetition.
    ns: Vec<f64>,
    fired: u64,
    /// Events that did not arrive; `None` where the tracer does not tell.
    lost: Option<u64>,
    error: Option<String>,
}

/// Returns whether every tracer that was asked for was measured.
pub(crate) fn run(only: Option<&str>, json: bool, form: Form) -> Result<bool> {
    let only = only.unwrap_or("*");
    // The clock and ours are always measured: they are what the others are compared with.
    let wanted = |t: &&Tracer| matches(only, t.name) || t.name == CLOCK || t.name == OURS;
    if !TRACERS.iter().any(|t| matches(only, t.name)) {
        let names: Vec<&str> = TRACERS.iter().map(|t| t.name).collect();
        bail!("no tracer matches `{only}`; there are {}", names.join(", "));
    }
    let place = tempfile::tempdir()?;
    let mut lttng = None;
    let mut rows = Vec::new();
    let mut programs = Vec::new();
    for tracer in TRACERS.iter().filter(wanted) {
        let first = rows.len();
        for threads in [1, 2] {
            // The clock carries nothing.
            for payload in &PAYLOADS[..if tracer.name == CLOCK { 1 } else { 2 }] {
                rows.push(Row { tracer, payload, threads, events: 0, ns: Vec::new(), fired: 0, lost: None, error: None });
            }
        }
        match start(tracer, place.path(), &mut lttng, form) {
            Ok(program) => programs.push((program, first..rows.len())),
            Err(error) => {
                eprintln!("{}: {error:#}", tracer.name);
                rows[first..].iter_mut().for_each(|row| row.error = Some(format!("{error:#}")));
            }
        }
    }
    for (program, of_it) in &mut programs {
        for row in &mut rows[of_it.clone()] {
            if let Err(error) = row.check(program, lttng.as_ref()) {
                eprintln!("{}: {error:#}", row.tracer.name);
                row.error = Some(format!("{error:#}"));
            }
        }
    }
    eprintln!("measuring {} rows", rows.iter().filter(|row| row.error.is_none()).count());
    for _ in 0..form.rounds(REPETITIONS) {
        for (program, of_it) in &mut programs {
            for row in rows[of_it.clone()].iter_mut().filter(|row| row.error.is_none()) {
                if let Err(error) = row.measure(program) {
                    row.error = Some(format!("{error:#}"));
                }
            }
        }
    }
    drop(programs);
    let shown = |row: &&Row| matches(only, row.tracer.name);
    if json {
        for row in rows.iter().filter(shown) {
            println!("{}", row.json(&rows));
        }
    } else {
        table(&rows, |name| matches(only, name));
    }
    Ok(rows.iter().all(|row| row.error.is_none()))
}

/// Builds and starts a program.
fn start(tracer: &'static Tracer, place: &Path, lttng: &mut Option<Lttng>, form: Form) -> Result<Program> {
    if tracer.feature == LTTNG {
        if lttng.is_none() {
            *lttng = Some(Lttng::new(place)?);
        }
        let lttng = lttng.as_ref().context("it was made above")?;
        let program = Program::start(&mut lttng.program())?;
        lttng.record(tracer, program.id())?;
        return Ok(program);
    }
    let target = Metadata::of_workspace()?.target("compare");
    eprintln!("building {}", tracer.name);
    Cmd::cargo()
        .args([
            "build",
            "--quiet",
            "--profile",
            form.profile(),
            "--bin",
            tracer.feature,
            "--features",
            tracer.feature,
            "--manifest-path",
        ])
        .arg(root().join("benches/compare/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .read()
        .context("it does not build")?;
    Program::start(Command::new(target.join(form.directory()).join(tracer.feature)).args(tracer.variant).env_remove("RINGTRACE"))
}

impl Row {
    /// That the events arrive, and how many fit a repetition.
    fn check(&mut self, program: &mut Program, lttng: Option<&Lttng>) -> Result<()> {
        let lttng = lttng.filter(|_| self.tracer.feature == LTTNG);
        let begin = SystemTime::now();
        let answer = program.ask("check", self.payload, self.threads, FEW)?;
        let arrived = match lttng {
            Some(lttng) => Some(lttng.recorded(self.tracer, begin)?),
            None => answer.arrived,
        };
        if let Some(arrived) = arrived.filter(|arrived| *arrived != answer.fired) {
            bail!("{arrived} of {} events arrived", answer.fired);
        }
        // The first are slow: caches and pages are cold.
        self.events = FEW;
        for _ in 0..3 {
            let guess = program.ask("measure", self.payload, self.threads, self.events)?.ns.max(0.1);
            self.events = ((LENGTH / guess) as u64).clamp(FEW, program.most());
        }
        Ok(())
    }

    fn measure(&mut self, program: &mut Program) -> Result<()> {
        let answer = program.ask("measure", self.payload, self.threads, self.events)?;
        self.ns.push(answer.ns);
        self.fired += answer.fired;
        if let Some(arrived) = answer.arrived {
            *self.lost.get_or_insert(0) += answer.fired.saturating_sub(arrived);
        }
        Ok(())
    }

    /// The share that did not arrive, in percent.
    fn lost_percent(&self) -> Option<f64> {
        self.lost.map(|lost| lost as f64 / self.fired as f64 * 100.0)
    }

    fn median(&self) -> Option<f64> {
        let mut sorted = self.ns.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().filter(|_| self.error.is_none())
    }

    /// The ratio to what `name` takes, with as many threads and the same payload.
    fn ratio(&self, rows: &[Row], name: &str) -> Option<f64> {
        let is_alike =
            |r: &&Row| r.tracer.name == name && r.threads == self.threads && (name == CLOCK || r.payload == self.payload);
        Some(self.median()? / rows.iter().find(is_alike)?.median()?)
    }

    fn json(&self, rows: &[Row]) -> serde_json::Value {
        let payload = if self.tracer.name == CLOCK { "-" } else { self.payload };
        let mut object = json!({
            "name": self.tracer.name, "payload": payload, "threads": self.threads, "ns": self.median(),
            "x_rdtsc": self.ratio(rows, CLOCK), "x_ours": self.ratio(rows, OURS),
            "includes": self.tracer.includes, "lost_percent": self.lost_percent(),
        });
        if let Some(error) = &self.error {
            object["error"] = json!(error);
        }
        object
    }
}

/// Prints a block for each payload and number of threads, the quickest first, and then what each figure includes.
fn table(rows: &[Row], shown: impl Fn(&str) -> bool) {
    for threads in [1, 2] {
        for payload in PAYLOADS {
            println!(
                "\n{payload}, {threads} thread{:<12} {:>8} {:>8} {:>8}",
                if threads == 1 { " " } else { "s" },
                "ns",
                "x rdtsc",
                "x ours"
            );
            let is_of_it =
                |r: &&Row| r.threads == threads && (r.payload == payload || r.tracer.name == CLOCK) && shown(r.tracer.name);
            let mut of_it: Vec<(f64, &Row)> = rows.iter().filter(is_of_it).filter_map(|r| Some((r.median()?, r))).collect();
            of_it.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (ns, row) in of_it {
                let ratio = |name| row.ratio(rows, name).map_or(String::new(), |ratio| format!("{ratio:.2}"));
                let lost =
                    row.lost_percent().filter(|lost| *lost > 0.0).map_or(String::new(), |lost| format!("  {lost:.2} % lost"));
                println!("{:<24} {ns:>8.1} {:>8} {:>8}{lost}", row.tracer.name, ratio(CLOCK), ratio(OURS));
            }
        }
    }
    println!("\nwhat each figure includes");
    for tracer in TRACERS.iter().filter(|t| shown(t.name)) {
        println!("{:<24} {}", tracer.name, tracer.includes);
    }
    for row in rows.iter().filter(|r| shown(r.tracer.name)) {
        if let Some(error) = &row.error {
            println!("NOT MEASURED: {}, {}, {} threads: {}", row.tracer.name, row.payload, row.threads, error.trim_end());
        }
    }
}

/// Whether a name matches a pattern in which `*` stands for anything.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name
            .strip_prefix(start)
            .is_some_and(|left| (0..=left.len()).filter_map(|at| left.get(at..)).any(|left| matches(rest, left))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, payload: &'static str, ns: &[f64]) -> Row {
        let tracer = TRACERS.iter().find(|t| t.name == name).expect("a tracer");
        Row { tracer, payload, threads: 1, events: 10, ns: ns.to_vec(), fired: 40, lost: Some(1), error: None }
    }

    #[test]
    fn ratios_are_of_medians_and_of_the_same_payload() {
        let rows =
            [row(CLOCK, "u64", &[9.0, 10.0, 90.0]), row(OURS, "mix", &[20.0; 3]), row("dial9/memory", "mix", &[5.0, 50.0, 60.0])];
        assert_eq!((rows[2].ratio(&rows, CLOCK), rows[2].ratio(&rows, OURS)), (Some(5.0), Some(2.5)));
        assert_eq!(row("dial9/memory", "u64", &[50.0]).ratio(&rows, OURS), None);
        assert_eq!(rows[2].lost_percent(), Some(2.5));
    }

    #[test]
    fn what_failed_says_so_and_has_no_figure() {
        let mut failed = row("dial9/memory", "mix", &[50.0]);
        failed.error = Some("it does not build".to_owned());
        let object = failed.json(&[]);
        assert!(object["ns"].is_null() && object["error"] == "it does not build", "{object}");
    }

    #[test]
    fn patterns() {
        assert!(matches("*", "tracing/fmt") && matches("tracing/*", "tracing/fmt") && matches("*f*t", "tracing/fmt"));
        assert!(!matches("tracing", "tracing/fmt") && !matches("*x", "tracing/fmt"));
    }
}
