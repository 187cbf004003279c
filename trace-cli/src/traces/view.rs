//! `ringtrace view`: events as text or JSON.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::ControlFlow;

use jiff::tz::TimeZone;
use trace_ctf::reader::{Event, Loss};
use trace_ctf::text::{Formatter, Readable};

use super::columns::Columns;
use super::source::{Item, Opened, Source};
use super::summary::Summary;
use super::{json, time};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};
use crate::live::text::out;

/// Shows the events of a trace, in the order of their time stamps.
///
/// A line has the time, the level where it is not INFO, the name, the fields, and in brackets the context: the CPU, the
/// thread, and with several traces the process. Discarded events, lost packets, damage and a closing summary are told on the
/// standard error stream.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// How times are shown.
    #[arg(long, value_name = "FORMAT", default_value = "clock", conflicts_with_all = ["babeltrace", "json"])]
    time: Time,

    /// Only these columns, with tabs between them: fields and context fields by name, and time, event, level, cpu.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', conflicts_with_all = ["babeltrace", "json", "delta"])]
    columns: Vec<String>,

    /// Only the first N events.
    #[arg(long, value_name = "N", conflicts_with = "tail")]
    head: Option<u64>,

    /// Only the last N events.
    #[arg(long, value_name = "N")]
    tail: Option<usize>,

    /// With the time since the line before, in seconds.
    #[arg(long, conflicts_with_all = ["babeltrace", "json"])]
    delta: bool,

    /// The text of babeltrace2, byte for byte.
    #[arg(long, conflicts_with = "json")]
    babeltrace: bool,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let opened = arguments.source.open(&mut summary)?;
    let mut lines = Lines::new(arguments, common, &opened)?;
    if arguments.head == Some(0) {
        summary.stopped = true;
        return Ok(opened.close(&summary));
    }
    let mut shown = 0;
    let form = lines.form.clone();
    let mapper = || {
        let mut form = form.clone();
        move |event: &Event<'_>, line: &mut Vec<u8>| form.event(event, line)
    };
    opened.each(&mut summary, mapper, |item| {
        match item {
            Item::Event(event, distance, line) => {
                lines.event(event, line, distance?)?;
                shown += 1;
                if arguments.head == Some(shown) {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Item::Name(_) => {}
            Item::Loss(loss) => {
                let mut sentence = Vec::new();
                lines.form.loss(loss, &mut sentence);
                failure::warning(format_args!("{}", String::from_utf8_lossy(&sentence)));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    lines.finish()?;
    Ok(opened.close(&summary))
}

/// What lines look like.
#[derive(Clone)]
enum Form {
    /// With the place of the time in its lines.
    Readable(Readable, Stamp, usize),
    Columns(Readable, Columns, Stamp),
    Exact(Formatter),
    Json(Readable),
}

/// How times are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Time {
    /// Time of day: 14:05:09.123456789.
    Clock,
    /// With the date.
    Date,
    /// Seconds since the first event of the trace.
    Relative,
    /// Seconds from the Unix epoch.
    Unix,
    /// Clock cycles, as recorded.
    Cycles,
}

/// Writes times.
#[derive(Clone)]
struct Stamp {
    time: Time,
    first: i64,
    zone: TimeZone,
}

/// Bytes of a time of day, and of what makes it dim.
const CLOCK: usize = 18;
const DIM: usize = 4;

impl Stamp {
    fn show(&self, event: &Event<'_>) -> String {
        let Some(timestamp) = event.timestamp() else { return String::new() };
        let seconds = |nanoseconds: i64| {
            let sign = if nanoseconds < 0 { "-" } else { "" };
            let size = nanoseconds.unsigned_abs();
            format!("{sign}{}.{:09}", size / 1_000_000_000, size % 1_000_000_000)
        };
        match self.time {
            Time::Clock => time::show(timestamp, &self.zone).split_off("2026-01-01 ".len()),
            Time::Date => time::show(timestamp, &self.zone),
            Time::Relative => seconds(timestamp.saturating_sub(self.first)),
            Time::Unix => seconds(timestamp),
            Time::Cycles => event.cycles().to_string(),
        }
    }
}

impl Form {
    fn new(arguments: &Arguments, common: &Common, opened: &Opened) -> Result<Self, Failure> {
        let utc = arguments.source.wanted.utc;
        if arguments.babeltrace {
            return Ok(Self::Exact(if utc { Formatter::utc() } else { Formatter::local(time::local_offset()) }));
        }
        let readable = if utc { Readable::utc() } else { Readable::local(time::local_offset()) };
        if common.json {
            return Ok(Self::Json(readable));
        }
        let stamp = Stamp { time: arguments.time, first: opened.first.unwrap_or_default(), zone: opened.zone.clone() };
        if !arguments.columns.is_empty() {
            let columns = Columns::new(&arguments.columns, &opened.classes())?;
            return Ok(Self::Columns(readable, columns, stamp));
        }
        let colors = common.is_colored();
        let mut readable = readable.deltas(arguments.delta).processes(opened.traces.len() > 1).colors(colors);
        opened.traces.iter().for_each(|trace| readable.read_thread_names(trace));
        Ok(Self::Readable(readable, stamp, if colors { DIM } else { 0 }))
    }

    /// Appends the line of an event, in any order, and gives the place in it for the distance to the line before.
    fn event(&mut self, event: &Event<'_>, line: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let start = line.len();
        Ok(match self {
            Self::Readable(readable, stamp, at) => {
                let mut place = readable.event_without_distance(event, line);
                if stamp.time != Time::Clock && event.timestamp().is_some() {
                    let (time, at) = (stamp.show(event).into_bytes(), start + *at);
                    place = place - CLOCK + time.len();
                    line.splice(at..at + CLOCK, time);
                }
                Some(place)
            }
            Self::Exact(formatter) => Some(formatter.event_without_distance(event, line)),
            Self::Columns(_, columns, stamp) => {
                columns.line(event, &stamp.show(event), line);
                None
            }
            Self::Json(_) => {
                serde_json::to_writer(&mut *line, &json::EventJson(event))?;
                line.push(b'\n');
                None
            }
        })
    }

    /// Appends the distance to the line before.
    fn distance(&mut self, event: &Event<'_>, line: &mut Vec<u8>) {
        match self {
            Self::Readable(readable, ..) => readable.distance(event, line),
            Self::Exact(formatter) => formatter.distance(event, line),
            Self::Columns(..) | Self::Json(_) => {}
        }
    }

    fn loss(&self, loss: &Loss, sentence: &mut Vec<u8>) {
        match self {
            Self::Readable(readable, ..) | Self::Columns(readable, ..) | Self::Json(readable) => readable.loss(loss, sentence),
            Self::Exact(formatter) => formatter.loss(loss, sentence),
        }
    }
}

/// Where lines go.
struct Lines<'a> {
    arguments: &'a Arguments,
    form: Form,
    out: io::BufWriter<Box<dyn Write>>,
    line: Vec<u8>,
    last: VecDeque<Vec<u8>>,
}

impl<'a> Lines<'a> {
    fn new(arguments: &'a Arguments, common: &Common, opened: &Opened) -> Result<Self, Failure> {
        let form = Form::new(arguments, common, opened)?;
        let out: Box<dyn Write> = match &form {
            // It has escaped what is a trace's, and colored what is its own; the other writes exactly what babeltrace2 does.
            Form::Readable(..) | Form::Exact(_) => Box::new(io::stdout().lock()),
            Form::Columns(..) | Form::Json(_) => Box::new(out(common.json)),
        };
        let out = io::BufWriter::with_capacity(1 << 16, out);
        Ok(Self { arguments, form, out, line: Vec::new(), last: VecDeque::new() })
    }

    fn event(&mut self, event: &Event<'_>, text: &[u8], distance: Option<usize>) -> io::Result<()> {
        let (before, behind) = text.split_at(distance.unwrap_or_default());
        self.line.clear();
        self.line.extend(before);
        self.form.distance(event, &mut self.line);
        self.line.extend(behind);
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
