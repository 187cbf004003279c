//! The project's own commands: `cargo xtask help`.

mod bench;
mod bench_compare;
mod bench_control;
mod browser;
mod check;
mod ci;
mod crash;
mod ctf2;
mod ctf_suite;
mod environments;
mod fuzz;
mod golden;
mod instructions;
mod link_matrix;
mod process;
mod readme;
mod smoke;
mod stress;
mod test;
mod tidy;
mod tools;
mod ui;
mod workspace;

use anyhow::Result;
use bench::Form;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Builds, checks and measures Ringtrace. Start with `cargo xtask test`; before a change is handed in, `cargo xtask ci`.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// First installs what the verb needs and this machine lacks: Debian packages, by apt-get, and parts of the Rust toolchain.
    ///
    /// With sudo, where you are not root.
    #[arg(long, global = true)]
    install: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// What the compiler says: formatting, clippy in each feature set, documentation, oldest supported Rust.
    ///
    /// Warnings are errors. The oldest supported compiler is used where rustup has it (`rustup toolchain install 1.85.0
    /// --profile minimal`).
    Check,
    /// Every test: unit, integration, documentation, examples, the portable build, and without restartable sequences.
    ///
    /// What the macros accept and say is tested by `ui`, what they compile to by `golden`.
    Test,
    /// The event path without restartable sequences of the C library, and under a sanitizer: tests built for musl, and with
    /// AddressSanitizer.
    ///
    /// Each where rustup has what it needs: the target `x86_64-unknown-linux-musl`, a nightly compiler.
    Environments {
        /// The short form, as in `cargo xtask smoke`: only that it runs.
        #[arg(long)]
        short: bool,
    },
    /// What the macros accept, and the messages they give where they do not.
    Ui {
        /// Write the messages of this run into the `.stderr` files. Read the difference before you commit it.
        #[arg(long)]
        bless: bool,
    },
    /// The machine code of a tracepoint that is off, and the stack that a firing takes, against the files in `tests/golden`.
    ///
    /// Needs objdump (Debian: binutils) and an x86-64 Linux machine.
    Golden {
        /// Write what this run produced as the expected code.
        #[arg(long)]
        bless: bool,
    },
    /// Instructions of an event, counted by callgrind, against the figures in `benches/instructions.txt`.
    ///
    /// At most 2 % more are accepted, and 15 % with another compiler than the file names. Needs valgrind (Debian: valgrind).
    Instructions {
        /// Write what this run counted as the expected figures.
        #[arg(long)]
        bless: bool,
    },
    /// Rules of the source that no compiler checks: layers, versions, where assembly and atomics may stand, file sizes.
    Tidy,
    /// Runs the commands of README.md in a copy of the repository, and compares what they print.
    ///
    /// Blocks of README.md are marked by comments before their fence: `<!-- run -->` runs it, `<!-- output -->` is what the
    /// block before it prints (`…` stands for anything, digits are not compared), `<!-- file: PATH -->` is written to PATH,
    /// `<!-- test -->` is the test command, which `.ci/run` runs.
    Readme,
    /// That every tracepoint and probe arrives, whatever the linker: GNU ld, lld, mold, section garbage collection, LTO.
    ///
    /// Also two versions of ringtrace in one program, shared objects, and the feature states of a library.
    LinkMatrix {
        /// All combinations; without it, one of each kind, as in `cargo xtask test`.
        #[arg(long)]
        full: bool,
    },
    /// The benchmarks: ratios to a bare clock read, in one run.
    Bench {
        /// Only benchmarks whose names match.
        #[arg(long, value_name = "GLOB")]
        only: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The short form, as in `cargo xtask smoke`: only that it runs.
        #[arg(long)]
        short: bool,
        /// Passed on to the benchmark program.
        #[arg(last = true)]
        rest: Vec<String>,
    },
    /// The same two events through other tracers, in one run with ours: `tracing`, micromegas, dial9, fastrace, Tracy, two
    /// loggers, and LTTng-UST where Debian's packages are installed (`apt-get install lttng-tools liblttng-ust-dev babeltrace2`).
    ///
    /// Each is built from `benches/compare`, first checks that its events arrive, and says what its figure includes. One that
    /// does not build is reported, and stops no other. Medians of 31 repetitions, in turns. For a machine that does nothing
    /// else; the first build takes some minutes.
    BenchCompare {
        /// Only tracers whose names match, in which `*` stands for anything: `tracing/*`.
        #[arg(long, value_name = "GLOB")]
        only: Option<String>,
        /// Print JSON: one object a line, with `name`, `payload`, `threads`, `ns`, `x_rdtsc`, `x_ours`, `includes`.
        #[arg(long)]
        json: bool,
        /// The short form, as in `cargo xtask smoke`: only that it runs.
        #[arg(long)]
        short: bool,
    },
    /// How quickly a trace is read, beside babeltrace2 on the same trace in the same run.
    ///
    /// `decode` looks at every field of every event in the order of time, on one core, `merge` on all of them, `parallel` on all
    /// packet by packet, in no order; `text` writes babeltrace2's lines to memory on one core, `lines` on all. `x_babeltrace2`
    /// compares with `--component sink.utils.dummy`, and with its text to /dev/null; both whole runs, from opening the trace. The
    /// figures are the best of five rounds.
    BenchRead {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
        /// The short form, as in `cargo xtask smoke`: only that it runs.
        #[arg(long)]
        short: bool,
        /// Passed on to the benchmark program: `--events N`, `--rounds N`, `--only NAME`, `--write DIR` (only writes the traces).
        #[arg(last = true)]
        rest: Vec<String>,
    },
    /// The stress test of the protocols: threads, signal handlers, forked and killed processes write, another process checks
    /// every record.
    ///
    /// The last line is the result. With a mutation, it must fail: one step of a protocol is broken then.
    Stress {
        /// 10⁹ events in place of 10⁸.
        #[arg(long)]
        long: bool,
        /// Break this step; the names are those in `trace-registry/src/mutation.rs`.
        #[arg(long, value_name = "NAME", conflicts_with = "long")]
        mutate: Option<String>,
    },
    /// The kill laboratory: programs ended at random moments by every means, and every committed event looked for in what is
    /// left of their traces, by both readers.
    ///
    /// The last line is the result. With a mutation, it must fail. Where it may make a memory cgroup and mount a file system, it
    /// uses them; else it says what stands in.
    Crash(crash::Arguments),
    /// The crash-loop soak: a thousand programs that start and die by every means, families that fork and exec, two programs in
    /// one directory, all in 256 MB of memory.
    ///
    /// Nobody may be ended by a signal of ours, what lies behind must stay within its bound, and every event must be in a trace,
    /// stated as lost, or have lain in rings whose removal was counted. The last line is the result.
    Soak {
        /// So many deaths.
        #[arg(long, value_name = "N", default_value_t = crash::MANY)]
        deaths: u64,
        /// Another seed gives other programs and other moments.
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Traces in CTF 2, against babeltrace2 2.1.
    ///
    /// It is installed into `target/debian-13`, 230 MB, which takes a minute, needs root, a network and debootstrap (Debian:
    /// debootstrap). Left out where that is missing.
    Ctf2,
    /// Traces of public suites: good ones are read as babeltrace2 reads them, bad ones are refused with their place.
    ///
    /// Without a directory, those of Debian's source package of babeltrace2, which is fetched into `target/ctf-suite`: 3 MB, by apt; left
    /// out without a network. A directory may hold any suite whose good traces are below `succeed` or `pass`, and bad ones below `fail`:
    /// `tests/data/ctf-traces` of any version of babeltrace2, the ctf-testsuite of the DiaMon workgroup. Traces in CTF 2 need
    /// the reference reader that `ctf2` installs.
    CtfSuite {
        /// Directory at or below which the traces are.
        directory: Option<PathBuf>,
    },
    /// How long control from outside takes: enabling 1 000 tracepoints, the first event, the start of a process.
    ///
    /// Medians in milliseconds, of whole commands and processes. For a machine that does nothing else.
    BenchControl {
        /// Print JSON: one object a line, with `name` and `ms`.
        #[arg(long)]
        json: bool,
        /// The short form, as in `cargo xtask smoke`: only that it runs.
        #[arg(long)]
        short: bool,
    },
    /// Fuzzes what reads traces: metadata in CTF 1.8 and in CTF 2, packets. The targets are in `fuzz/`.
    ///
    /// Without further words, changes seeds at random on any compiler; `--guided` has cargo-fuzz do it (`cargo install
    /// cargo-fuzz`, and a nightly compiler).
    Fuzz {
        /// Seconds for each target.
        #[arg(long, value_name = "N", default_value_t = 60)]
        seconds: u64,
        /// The short form, as in `cargo xtask ci`.
        #[arg(long, conflicts_with = "seconds")]
        short: bool,
        /// Guided by coverage.
        #[arg(long)]
        guided: bool,
    },
    /// How much memory each command takes that reads a trace, of one of 256 MB and of a part of it: it does not grow.
    ///
    /// Needs three times the size on the disk.
    Memory {
        /// Size of the trace.
        #[arg(long, value_name = "MB", default_value_t = 256)]
        megabytes: u64,
        /// The short form, as in `cargo xtask smoke`: only that it runs.
        #[arg(long)]
        short: bool,
    },
    /// What is made for browsers, in headless Chromium: the page of `ringtrace report`, and exported traces in the Perfetto UI.
    ///
    /// Of the page, what its keys, its search and its timeline do. Of the exports, that Perfetto's trace processor skips no packet and
    /// finds every event by SQL. Needs Chromium (`apt-get install chromium`: 240 MB, which is why CI does not run it) and, the first time,
    /// pip and a network for the Perfetto UI (16 MB). Look at the screenshots that it names.
    Browser {
        /// The short form, as in `cargo xtask smoke`: only that it runs.
        #[arg(long)]
        short: bool,
    },
    /// That each verb runs which `cargo xtask ci` does not run in full: its short form, with JSON where it has that.
    ///
    /// `browser` where Chromium is, `environments` where rustup has what it needs; not `bench-compare`,
    /// whose tracers take minutes to compile.
    Smoke,
    /// What the checks need beside cargo, and whether it is there; `--install` installs it.
    Tools,
    /// Everything, in order, with the time of each step; what `.ci/run` runs.
    Ci,
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let name = matches.subcommand_name().unwrap_or_default().to_owned();
    let Cli { verb, install } = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // Before anything is compiled, and not after twenty minutes.
    match tools::ready(&name, install).and_then(|()| run(verb)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything passed.
fn run(verb: Verb) -> Result<bool> {
    match verb {
        Verb::Check => Ok(check::run()?.close()),
        Verb::Test => Ok(test::run()?.close()),
        Verb::Environments { short } => Ok(environments::run(Form::new(short))?.close()),
        Verb::Ui { bless } => Ok(ui::run(bless)?.close()),
        Verb::Golden { bless } => Ok(golden::run(bless)?.close()),
        Verb::Instructions { bless } => Ok(instructions::run(bless)?.close()),
        Verb::Tidy => Ok(tidy::run()?.close()),
        Verb::Readme => Ok(readme::run()?.close()),
        Verb::LinkMatrix { full } => Ok(link_matrix::run(full)?.close()),
        Verb::Bench { only, json, short, rest } => bench::run(only, json, Form::new(short), rest),
        Verb::BenchCompare { only, json, short } => bench_compare::run(only.as_deref(), json, Form::new(short)),
        Verb::BenchRead { json, short, rest } => bench::read(json, Form::new(short), rest),
        Verb::Stress { mutate: Some(name), .. } => stress::mutated(&name),
        Verb::Stress { long, mutate: None } => stress::run(long),
        Verb::Crash(arguments) => crash::run(&arguments),
        Verb::Soak { deaths, seed } => crash::soak(deaths, seed)?.passes(),
        Verb::Ctf2 => Ok(ctf2::run()?.close()),
        Verb::CtfSuite { directory } => Ok(ctf_suite::run(directory.as_deref())?.close()),
        Verb::BenchControl { json, short } => bench_control::run(json, Form::new(short)),
        Verb::Fuzz { short: true, .. } => Ok(fuzz::short()?.close()),
        Verb::Fuzz { seconds, guided, .. } => Ok(fuzz::run(seconds, guided)?.close()),
        Verb::Memory { megabytes, short } => bench::memory(if short { 1 } else { megabytes }, Form::new(short)),
        Verb::Browser { short } => Ok(browser::run(Form::new(short))?.close()),
        Verb::Smoke => Ok(smoke::run()?.close()),
        Verb::Tools => {
            tools::list();
            Ok(true)
        }
        Verb::Ci => Ok(ci::run()?.close()),
    }
}
