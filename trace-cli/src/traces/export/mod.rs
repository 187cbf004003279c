//! `ringtrace export`: a trace for other tools.

mod chrome;
mod csv;
mod perfetto;
mod proto;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use trace_ctf::declared::EnvValue;
use trace_ctf::reader::{Event, Loss, Trace};

use super::hist;
use super::json::EventJson;
use super::names::{Names, Thread};
use super::source::{Item, Source};
use super::summary::Summary;
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;
use crate::live::text::out;

/// Writes the events of a trace in a form that other tools read.
///
/// perfetto is for https://ui.perfetto.dev and the trace processor: threads by name, pairs of events such as request_begin and
/// request_end as slices, all others as instants, with their fields as arguments. chrome is the older JSON form of the same.
/// jsonl has an object in each line, as `view --json`; csv has a column for each field, and one line for each event. Memory does not
/// grow with the trace.
///
/// Examples: ringtrace export --to perfetto -o shop.pftrace; ringtrace export --to csv --event cache_lookup > lookups.csv
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// The form.
    #[arg(long, value_name = "FORMAT")]
    to: Format,

    /// File to write; without it, standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// perfetto: a counter track of a numeric field. May be given several times.
    #[arg(long, value_name = "EVENT.FIELD")]
    counter: Vec<String>,

    /// perfetto: an arrow from each event to the next that has the same value of this field.
    #[arg(long, value_name = "FIELD")]
    flow: Option<String>,
}

impl Arguments {
    /// The file to write; `-` is standard output too.
    fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Jsonl,
    Csv,
    Chrome,
    Perfetto,
}

/// Makes the text of an event, whatever the events before it are.
type Map = Box<dyn FnMut(&Event<'_>, &mut Vec<u8>) -> io::Result<()>>;

/// Writes events in some form.
trait Writer {
    /// Makes the functions that make texts, on all cores.
    fn mapper(&self) -> Box<dyn Fn() -> Map + Sync>;

    /// Writes an event, in the order of time, by its text.
    fn event(&mut self, event: &Event<'_>, text: &[u8], out: &mut dyn Write) -> io::Result<()>;

    fn name(&mut self, _event: &Event<'_>, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn loss(&mut self, _loss: &Loss) {}

    fn finish(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// An object in each line.
struct Jsonl;

impl Writer for Jsonl {
    fn mapper(&self) -> Box<dyn Fn() -> Map + Sync> {
        Box::new(|| {
            Box::new(|event, line| {
                serde_json::to_writer(&mut *line, &EventJson(event))?;
                line.push(b'\n');
                Ok(())
            })
        })
    }

    fn event(&mut self, _event: &Event<'_>, line: &[u8], out: &mut dyn Write) -> io::Result<()> {
        out.write_all(line)
    }
}

/// The process that wrote a trace: its ID, and its name.
struct Process {
    trace: Option<[u8; 16]>,
    pid: i64,
    name: Option<String>,
}

impl Process {
    fn of(trace: &Trace, number: usize) -> Self {
        let declared = trace.declarations();
        let pid = match declared.environment("vpid") {
            Some(EnvValue::Int(pid)) => *pid,
            // A number is needed; 0 is the idle process.
            _ => number as i64 + 1,
        };
        let name = match declared.environment("procname") {
            Some(EnvValue::String(name)) => Some(name.to_string()),
            _ => None,
        };
        Self { trace: declared.uuid, pid, name }
    }

    fn all(traces: &[Trace]) -> Vec<Self> {
        traces.iter().enumerate().map(|(number, trace)| Self::of(trace, number)).collect()
    }
}

/// The process of a thread: what its events tell, or else its trace.
fn process<'p>(all: &'p [Process], names: &'p Names, thread: &Thread) -> (i64, Option<&'p str>) {
    let of_trace = all.iter().find(|process| process.trace == thread.trace);
    let (pid, name) = of_trace.map_or((1, None), |process| (process.pid, process.name.as_deref()));
    match thread.pid {
        Some(own) if own != pid => (own, names.process(thread)),
        _ => (pid, name),
    }
}

/// Thread IDs of those who have none: CPUs.
const CPUS: i64 = 1 << 31;

fn tid(thread: &Thread) -> i64 {
    thread.tid.unwrap_or_else(|| CPUS + thread.cpu.unwrap_or_default() as i64)
}

/// What a thread is called in other tools, which show its ID by themselves.
fn label(names: &Names, thread: &Thread) -> Option<String> {
    match (names.of(thread), thread.tid, thread.cpu) {
        (Some(name), ..) => Some(name.to_owned()),
        (None, None, Some(cpu)) => Some(format!("cpu {cpu}")),
        _ => None,
    }
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let opened = arguments.source.open(&mut summary)?;
    if arguments.to != Format::Perfetto && !(arguments.counter.is_empty() && arguments.flow.is_none()) {
        return Err(Failure::Wrong("--counter and --flow are for --to perfetto".to_owned()));
    }
    let mut writer: Box<dyn Writer> = match arguments.to {
        Format::Jsonl => Box::new(Jsonl),
        Format::Csv => Box::new(csv::Csv::new(&opened)?),
        Format::Chrome => Box::new(chrome::Chrome::new(&opened)),
        Format::Perfetto => {
            let counters: Result<_, _> = arguments.counter.iter().map(|field| hist::find(&opened, field)).collect();
            Box::new(perfetto::Perfetto::new(&opened, counters?, arguments.flow.as_deref())?)
        }
    };
    let mut out = output(arguments)?;
    let told = |error: io::Error| match arguments.file() {
        Some(path) => Failure::file(path, error),
        None => Failure::Output(error),
    };
    opened.each(&mut summary, writer.mapper(), |item| {
        match item {
            Item::Event(event, made, text) => made.and_then(|()| writer.event(event, text, &mut *out)).map_err(told)?,
            Item::Name(event) => writer.name(event, &mut *out).map_err(told)?,
            Item::Loss(loss) => writer.loss(loss),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    writer.finish(&mut *out).and_then(|()| out.flush()).map_err(told)?;
    if let Some(path) = arguments.file() {
        summary.written(path, common)?;
    }
    Ok(opened.close(&summary))
}

fn output(arguments: &Arguments) -> Result<Box<dyn Write>, Failure> {
    match arguments.file() {
        Some(path) => {
            let file = File::create(path).map_err(|error| Failure::file(path, error))?;
            Ok(Box::new(BufWriter::with_capacity(1 << 18, file)))
        }
        None if arguments.to == Format::Perfetto && io::stdout().is_terminal() => Err(Failure::Wrong(
            "perfetto is no text: name a file with -o shop.pftrace, then open it in https://ui.perfetto.dev".to_owned(),
        )),
        // JSON can say what would harm a terminal; the other forms are data as they are.
        None if matches!(arguments.to, Format::Jsonl | Format::Chrome) => {
            Ok(Box::new(BufWriter::with_capacity(1 << 18, out(true))))
        }
        None => Ok(Box::new(BufWriter::with_capacity(1 << 18, io::stdout().lock()))),
    }
}
