//! `ringtrace view`: events as text or JSON.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use trace_ctf::reader::{Entry, Event, Loss, LossKind, Merge, Trace};
use trace_ctf::text::{Formatter, Readable};
use trace_registry::Glob;

use super::{json, open};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{Failure, complain, remedy};

/// Shows the events of a trace, in the order of their time stamps.
///
/// A line has the time, the level where it is not INFO, the name, the fields, and in brackets the context: the CPU, the
/// thread, and with several traces the process. Discarded events, lost packets, damage and a closing summary are told on the
/// standard error stream.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory of the trace, or one above it; without it, the newest *.ringtrace here.
    directory: Option<PathBuf>,

    /// Times in UTC instead of local time.
    #[arg(long)]
    utc: bool,

    /// Only the first N events.
    #[arg(long, value_name = "N", conflicts_with = "tail")]
    head: Option<u64>,

    /// Only the last N events.
    #[arg(long, value_name = "N")]
    tail: Option<usize>,

    /// Only events whose name matches: * stands for any text, ? for any character.
    #[arg(long, value_name = "GLOB")]
    event: Option<String>,

    /// With the time since the line before, in seconds.
    #[arg(long, conflicts_with_all = ["babeltrace", "json"])]
    delta: bool,

    /// The text of babeltrace2, byte for byte.
    #[arg(long, conflicts_with = "json")]
    babeltrace: bool,
}

/// What is counted on the way.
#[derive(Debug, Default)]
struct Summary {
    events: u64,
    shown: u64,
    discarded_events: u64,
    lost_packets: u64,
    /// Losses that the trace does not count.
    uncounted: bool,
    damaged: u64,
    stopped: bool,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut traces = open::traces(arguments.directory.as_deref())?;
    let mut summary = Summary::default();
    for error in traces.iter_mut().flat_map(|trace| trace.take_damage()) {
        summary.damage(&error);
    }
    let mut lines = Lines::new(arguments, common, &traces);
    let mut merge = Merge::new(&traces);
    let pattern = arguments.event.as_deref().map(Glob::new);
    loop {
        // Asked before the next event, so that `--head 0` shows none.
        if arguments.head.is_some_and(|limit| summary.shown >= limit) {
            summary.stopped = true;
            break;
        }
        match merge.next_entry() {
            None => break,
            Some(Ok(Entry::Event(event))) => {
                summary.events += 1;
                if pattern.as_ref().is_none_or(|pattern| pattern.matches(event.name())) {
                    summary.shown += 1;
                    lines.event(&event)?;
                }
            }
            Some(Ok(Entry::Loss(loss))) => {
                summary.loss(&loss);
                let mut sentence = Vec::new();
                lines.form.loss(&loss, &mut sentence);
                complain(format_args!("warning: {}", String::from_utf8_lossy(&sentence)));
            }
            Some(Err(error)) => summary.damage(&error),
        }
    }
    lines.finish()?;
    complain(format_args!("{summary}"));
    Ok(if summary.damaged > 0 { Outcome::Partial } else { Outcome::Complete })
}

/// What lines look like.
enum Form {
    Readable(Readable),
    Exact(Formatter),
    Json(Readable),
}

impl Form {
    fn new(arguments: &Arguments, common: &Common, traces: &[Trace]) -> Self {
        if arguments.babeltrace {
            return Self::Exact(if arguments.utc { Formatter::utc() } else { Formatter::local(local()) });
        }
        let readable = if arguments.utc { Readable::utc() } else { Readable::local(local()) };
        if common.json {
            return Self::Json(readable);
        }
        let mut readable = readable.deltas(arguments.delta).processes(traces.len() > 1).colors(common.is_colored());
        traces.iter().for_each(|trace| readable.read_thread_names(trace));
        Self::Readable(readable)
    }

    fn event(&mut self, event: &Event<'_>, line: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Readable(readable) => readable.event(event, line),
            Self::Exact(formatter) => formatter.event(event, line),
            Self::Json(_) => {
                serde_json::to_writer(&mut *line, &json::EventJson(event))?;
                line.push(b'\n');
            }
        }
        Ok(())
    }

    fn loss(&self, loss: &Loss, sentence: &mut Vec<u8>) {
        match self {
            Self::Readable(readable) | Self::Json(readable) => readable.loss(loss, sentence),
            Self::Exact(formatter) => formatter.loss(loss, sentence),
        }
    }
}

/// The distance of the system's time zone from UTC, in seconds, at a time in seconds from the Unix epoch.
fn local() -> impl Fn(i64) -> i32 + Send + 'static {
    let zone = TimeZone::system();
    move |seconds| Timestamp::from_second(seconds).map_or(0, |time| zone.to_offset(time).seconds())
}

/// Where lines go.
struct Lines<'a> {
    arguments: &'a Arguments,
    form: Form,
    out: io::BufWriter<io::StdoutLock<'static>>,
    line: Vec<u8>,
    last: VecDeque<Vec<u8>>,
}

impl<'a> Lines<'a> {
    fn new(arguments: &'a Arguments, common: &Common, traces: &[Trace]) -> Self {
        let out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        Self { arguments, form: Form::new(arguments, common, traces), out, line: Vec::new(), last: VecDeque::new() }
    }

    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.line.clear();
        self.form.event(event, &mut self.line)?;
        let Some(limit) = self.arguments.tail else { return self.out.write_all(&self.line) };
        if limit > 0 {
            // The line that falls out lends its memory to the next one.
            let free = if self.last.len() == limit { self.last.pop_front() } else { None };
            self.last.push_back(core::mem::replace(&mut self.line, free.unwrap_or_default()));
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        for line in &self.last {
            self.out.write_all(line)?;
        }
        self.out.flush()
    }
}

impl Summary {
    fn loss(&mut self, loss: &Loss) {
        let counter = match loss.kind {
            LossKind::DiscardedEvents => &mut self.discarded_events,
            LossKind::LostPackets => &mut self.lost_packets,
        };
        match loss.count {
            Some(count) => *counter = counter.saturating_add(count),
            None => self.uncounted = true,
        }
    }

    fn damage(&mut self, error: &trace_ctf::Error) {
        self.damaged += 1;
        complain(format_args!("error: {error}\n  {}", remedy(error)));
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shown != self.events {
            write!(f, "{} of ", self.shown)?;
        }
        write!(f, "{}", Count(self.events, "event"))?;
        if self.stopped {
            write!(f, ", the rest was not read")?;
        }
        write!(f, ", {}, {}", Count(self.discarded_events, "discarded event"), Count(self.lost_packets, "lost packet"))?;
        if self.uncounted {
            write!(f, ", others before the first packet of a stream")?;
        }
        if self.damaged > 0 {
            write!(f, ", {}", Count(self.damaged, "damaged file"))?;
        }
        Ok(())
    }
}

/// A number of things.
struct Count(u64, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, what) = self;
        write!(f, "{number} {what}{}", if *number == 1 { "" } else { "s" })
    }
}
