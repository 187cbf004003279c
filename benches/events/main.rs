//! What an event costs, beside a bare loop and a bare clock read in the same run.
//!
//! `cargo xtask bench [--only GLOB] [--json] [--short] [-- --long]`. Medians of repetitions that are interleaved, so that a change of the
//! machine's speed meets all rows alike. Each row first checks that its events arrive. `event/*` includes everything: gate, probe
//! list, probe, context (thread ID), clock, append; rings are in overwrite mode, so nothing but the writer is measured.
//! `probe/skip` is a probe that makes no event, and with it all that comes before a filter; `filter/reject/*` includes that, the
//! evaluation and the count of the rejection. docs/performance.md says what each row is.

mod aggregates;
mod appends;
mod arc_swap;
mod consumer;
mod lists;
mod network;
mod rows;
mod sites;
mod snapshot;
mod tail;

use ringtrace::Glob;

/// What is measured, and how it is shown.
struct Options {
    only: Glob,
    json: bool,
    /// The recording to a file for ten seconds in place of two.
    long: bool,
    /// Each row runs, in seconds and without optimisation: its figures say nothing.
    short: bool,
}

impl Options {
    fn takes(&self, name: &str) -> bool {
        self.only.matches(name)
    }

    /// Repetitions of a row that takes `full` of them.
    fn rounds(&self, full: usize) -> usize {
        if self.short { 2 } else { full }
    }

    /// The number of events, or of bytes, of a row that takes `full` of them.
    fn amount(&self, full: u64) -> u64 {
        if self.short { full.div_ceil(100) } else { full }
    }
}

/// Prints one figure as a line of text or an object.
fn show(options: &Options, name: &str, threads: usize, figures: &[(&str, f64)]) {
    if options.json {
        let mut object = serde_json::Map::from_iter([("name".to_owned(), name.into()), ("threads".to_owned(), threads.into())]);
        object.extend(figures.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())));
        println!("{}", serde_json::Value::Object(object));
    } else {
        let figures: String = figures.iter().map(|(key, value)| format!(" {value:>10.3} {key}")).collect();
        println!("{name:<28} {threads:>3}{figures}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|a| a == flag);
    let only = arguments.iter().position(|a| a == "--only").and_then(|i| arguments.get(i + 1));
    let only = Glob::new(only.map_or("*", String::as_str));
    let options = Options { only, json: has("--json"), long: has("--long"), short: has("--short") };
    rows::run(&options)?;
    lists::run(&options)?;
    network::run(&options)?;
    tail::run(&options)?;
    snapshot::run(&options)?;
    consumer::run(&options)
}

/// Runs the calling thread on the first CPU that it may use.
fn pin() {
    #[cfg(target_os = "linux")]
    // SAFETY: the sets are plain data, of the size that is given.
    #[expect(unsafe_code, reason = "sched_setaffinity")]
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed);
        if let Some(cpu) = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &allowed)) {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut one);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const one);
        }
    }
}
