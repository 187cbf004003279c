//! Events as lines for people.

mod escape;
mod threads;
mod writer;

use std::io::Write as _;

use crate::declared::{EnvValue, Level};
use crate::reader::{Event, Loss, LossKind, Scope, Trace};
use crate::text::time::{SECOND, Zone};
use threads::Threads;
use writer::{Scratch, Writer};

/// Writes events for people: one line each, with what was recorded and nothing that only readers need.
///
/// ```text
/// 12:45:43.898598172  first:request  id=0 path="/"  [cpu 1 vtid 11455]
/// 12:45:43.898601020  WARNING storage:evicted  bytes=4096 B reason=LRU parent=none  [cpu 1 vtid 11456 flusher]
/// ```
///
/// - The level stands before the name where it is not [`Level::Info`], the context behind the fields.
/// - Lengths and tags are left out. An optional value is itself or `none`, an enumeration its label or else its number, a
///   variant the name of the option and its value, a redacted value `<redacted>`. A structure whose only member is a sequence,
///   array, text or optional named `value` looks like that member, because nested ones are recorded as such structures.
/// - Keys that are known only at run time (`ringtrace::Extra`) look like fields.
/// - Numbers are exact, with their unit behind them.
/// - Texts are in quotes, with Rust's escapes. No control character and no invalid UTF-8 of a trace gets into a line as it is,
///   so lines are UTF-8 and safe to show.
/// - `vtid` has the name of the thread behind it where the trace has `ringtrace:thread_name` events.
#[derive(Clone, Debug)]
pub struct Readable {
    zone: Zone,
    deltas: bool,
    processes: bool,
    colors: bool,
    previous: Option<i64>,
    threads: Threads,
    scratch: Scratch,
}

/// Sequences of ECMA-48 that a terminal takes for colors.
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

impl Readable {
    /// Shows times in UTC.
    pub fn utc() -> Self {
        Self::new(Zone::utc())
    }

    /// Shows local times; `offset` tells the distance from UTC, in seconds, at a time in seconds from the Unix epoch.
    pub fn local(offset: impl Fn(i64) -> i32 + Send + Sync + 'static) -> Self {
        Self::new(Zone::local(offset))
    }

    fn new(zone: Zone) -> Self {
        Self {
            zone,
            deltas: false,
            processes: false,
            colors: false,
            previous: None,
            threads: Threads::default(),
            scratch: Scratch::default(),
        }
    }

    /// Sets whether each line tells the time since the one before it, in seconds.
    pub fn deltas(self, deltas: bool) -> Self {
        Self { deltas, ..self }
    }

    /// Sets whether the context tells host and process, for lines of several traces.
    pub fn processes(self, processes: bool) -> Self {
        Self { processes, ..self }
    }

    /// Sets whether lines are colored for a terminal.
    pub fn colors(self, colors: bool) -> Self {
        Self { colors, ..self }
    }

    /// Reads the thread names of a trace ahead: the tracer learns them later than it records the threads' first events.
    ///
    /// Only streams that may have such names are read. Damage is left to whoever reads the events.
    pub fn read_thread_names(&mut self, trace: &Trace) {
        self.threads.read(trace);
    }

    /// Takes over the name of a thread, where `event` tells one; [`Readable::event`] does so by itself.
    pub fn learn(&mut self, event: &Event<'_>) {
        self.threads.learn(event);
    }

    /// Appends the line of an event, with its line feed.
    pub fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.learn(event);
        self.time(event, out);
        self.distance(event, out);
        self.rest(event, out);
    }

    /// Appends a line in which the [distance](Self::distance) is missing, and gives its place in the line: for lines that are made
    /// in another order than that of the events.
    pub fn event_without_distance(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        self.time(event, out);
        let place = out.len() - start;
        self.rest(event, out);
        place
    }

    /// Appends the fields of an event alone, as its line has them.
    pub fn fields(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        Writer::new(event, Scope::Payload, &self.threads, &mut self.scratch, out).write("");
    }

    fn time(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if let Some(timestamp) = event.timestamp() {
            self.color(DIM, out);
            self.zone.next_time(timestamp, out);
        }
    }

    /// Appends what a line says of the time since the event before, if it [does](Self::deltas).
    pub fn distance(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let Some(timestamp) = event.timestamp().filter(|_| self.deltas) else { return };
        // The first one is its own predecessor.
        let previous = self.previous.replace(timestamp).unwrap_or(timestamp);
        let sign = if timestamp < previous { '-' } else { '+' };
        let distance = timestamp.abs_diff(previous);
        let _ = write!(out, "  {sign}{}.{:09}", distance / SECOND as u64, distance % SECOND as u64);
    }

    fn rest(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if event.timestamp().is_some() {
            self.color(PLAIN, out);
            out.extend(b"  ");
        }
        if let Some(level) = event.class().level.filter(|&level| level != Level::Info) {
            match level {
                level if level <= Level::Err => self.color(RED, out),
                Level::Warning => self.color(YELLOW, out),
                _ => self.color(DIM, out),
            }
            out.extend(level.name().as_bytes());
            self.color(PLAIN, out);
            out.push(b' ');
        }
        self.color(BOLD, out);
        escape::bare(event.name(), out);
        self.color(PLAIN, out);
        Writer::new(event, Scope::Payload, &self.threads, &mut self.scratch, out).write("  ");
        self.context(event, out);
        out.push(b'\n');
    }

    /// Appends a sentence about a loss, without a line feed.
    pub fn loss(&self, loss: &Loss, out: &mut Vec<u8>) {
        let (what, verb) = match loss.kind {
            LossKind::DiscardedEvents => ("event", "discarded"),
            LossKind::LostPackets => ("packet", "lost"),
        };
        let _ = match loss.count {
            Some(1) => write!(out, "1 {what} was {verb}"),
            Some(count) => write!(out, "{count} {what}s were {verb}"),
            None => write!(out, "{what}s may have been {verb}"),
        };
        let spans: &[_] = match (loss.begin, loss.end) {
            (Some(begin), Some(end)) => &[(" between ", begin), (" and ", end)],
            (Some(begin), None) => &[(" after ", begin)],
            (None, Some(end)) => &[(" before ", end)],
            (None, None) => &[],
        };
        for &(word, time) in spans {
            out.extend(word.as_bytes());
            self.zone.time(time, out);
        }
        let _ = write!(out, "  [stream class {}", loss.stream_class_id);
        if let Some(instance) = loss.stream_instance_id {
            let _ = write!(out, " stream {instance}");
        }
        if let Some(file) = &loss.file {
            out.push(b' ');
            escape::bytes(file.as_os_str().as_encoded_bytes(), out);
        }
        out.push(b']');
    }

    fn context(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        self.color(DIM, out);
        let mut first = "  [";
        if self.processes {
            for value in ["hostname", "procname", "vpid"].iter().filter_map(|name| event.trace().environment(name)) {
                out.extend(core::mem::replace(&mut first, ":").as_bytes());
                match value {
                    EnvValue::String(text) => escape::bare(text, out),
                    EnvValue::Int(number) => drop(write!(out, "{number}")),
                }
            }
            first = if first == ":" { " " } else { first };
        }
        for scope in [Scope::PacketContext, Scope::StreamContext, Scope::EventContext] {
            if Writer::new(event, scope, &self.threads, &mut self.scratch, out).write(first) {
                first = " ";
            }
        }
        if first == " " {
            out.push(b']');
            self.color(PLAIN, out);
        } else {
            out.truncate(start);
        }
    }

    fn color(&self, color: &str, out: &mut Vec<u8>) {
        if self.colors {
            out.extend(color.as_bytes());
        }
    }
}
