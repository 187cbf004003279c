//! The Trace Event Format, which Chrome's tools and many others read.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use trace_ctf::reader::Event;

use super::super::json::ValueJson;
use super::super::names::{Names, Thread};
use super::super::slices::{End, Future, Open, Phase, Slices};
use super::super::source::Opened;
use super::{Map, Process, Writer, label, process, tid};

/// What a slice says of its end.
const LOST: &str = "{\"end\":\"lost\"}";

pub(super) struct Chrome {
    processes: Vec<Process>,
    slices: Slices,
    open: Open<()>,
    names: Names,
    /// Names of threads that were told.
    told: HashMap<Thread, Option<String>>,
    told_processes: HashMap<i64, Option<String>>,
    is_begun: bool,
    /// Slices whose begin is lost, so far.
    alone: u64,
    text: String,
}

impl Chrome {
    pub(super) fn new(opened: &Opened) -> Self {
        Self {
            processes: Process::all(&opened.traces),
            slices: Slices::new(&opened.classes()),
            open: Open::new(opened.whole()),
            names: Names::default(),
            told: HashMap::new(),
            told_processes: HashMap::new(),
            is_begun: false,
            alone: 0,
            text: String::new(),
        }
    }

    fn separate(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let first = !core::mem::replace(&mut self.is_begun, true);
        out.write_all(if first { b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" } else { b",\n" })
    }

    /// Begins an object: its name, its phase and its time.
    fn head(&mut self, name: &str, category: &str, letter: &str, time: i64, out: &mut dyn Write) -> io::Result<()> {
        self.separate(out)?;
        out.write_all(b"{\"name\":")?;
        write_json(&mut *out, &name)?;
        out.write_all(b",\"cat\":")?;
        write_json(&mut *out, &category)?;
        // Microseconds, with the nanoseconds behind the point.
        self.text.clear();
        let _ = write!(self.text, "{}.{:03}", time.div_euclid(1000), time.rem_euclid(1000));
        write!(out, ",\"ph\":\"{letter}\",\"ts\":{}", self.text)
    }

    /// Ends the innermost slice of a thread that has no event that says so.
    fn end(&mut self, pid: i64, tid: i64, time: i64, args: &str, out: &mut dyn Write) -> io::Result<()> {
        self.separate(out)?;
        self.text.clear();
        let _ = write!(self.text, "{}.{:03}", time.div_euclid(1000), time.rem_euclid(1000));
        write!(out, "{{\"ph\":\"E\",\"ts\":{},\"pid\":{pid},\"tid\":{tid},\"args\":{args}}}", self.text)
    }

    /// Names the thread and its process, if that was not done; returns the process's number.
    fn tell(&mut self, thread: &Thread, out: &mut dyn Write) -> io::Result<i64> {
        let (pid, process) = process(&self.processes, &self.names, thread);
        let metadata =
            |what: &str, name: &str| json!({ "name": what, "ph": "M", "pid": pid, "tid": tid(thread), "args": { "name": name } });
        let name = label(&self.names, thread);
        if self.told_processes.get(&pid).map(Option::as_deref) != Some(process) {
            let process = process.map(str::to_owned);
            if let Some(name) = &process {
                let line = metadata("process_name", name);
                self.separate(out)?;
                write_json(&mut *out, &line)?;
            }
            self.told_processes.insert(pid, process);
        }
        if self.told.get(thread) != Some(&name) {
            if let Some(name) = &name {
                let line = metadata("thread_name", name);
                self.separate(out)?;
                write_json(&mut *out, &line)?;
            }
            self.told.insert(*thread, name);
        }
        Ok(pid)
    }
}

/// Writes backslashes by their number: Perfetto 52 takes a text that ends in `\\` for one without an end.
struct Numbered;

impl Formatter for Numbered {
    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::ReverseSolidus => writer.write_all(b"\\u005c"),
            other => CompactFormatter.write_char_escape(writer, other),
        }
    }
}

fn write_json(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    Ok(value.serialize(&mut Serializer::with_formatter(out, Numbered))?)
}

impl Writer for Chrome {
    fn mapper(&self) -> Box<dyn Fn() -> Map + Sync> {
        Box::new(|| Box::new(|event, fields| write_json(fields, &ValueJson(&event.payload()))))
    }

    fn event(&mut self, event: &Event<'_>, fields: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let thread = self.names.thread(event);
        let (pid, tid) = (self.tell(&thread, out)?, tid(&thread));
        let time = event.timestamp().unwrap_or_default();
        let mut closed = Vec::new();
        let phase = self.open.step(&self.slices, event, thread, || (), |(), end| closed.push(end));
        for end in closed {
            match end {
                End::Own | End::Apart => {}
                End::Around => self.end(pid, tid, time, "{}", out)?,
                End::Left(at) => self.end(pid, tid, at, "{}", out)?,
                End::Lost(at) => self.end(pid, tid, at, LOST, out)?,
            }
        }
        let own = self.slices.name(event.class()).unwrap_or(event.name()).to_owned();
        let category = event.name().split(':').next().unwrap_or_default().to_owned();
        let (name, letter, id) = match (self.slices.future(event), phase) {
            (Some(Future::Begin(number)), _) => (own, "b", Some(number.to_string())),
            (Some(Future::End(number)), _) => (own, "e", Some(number.to_string())),
            (_, Phase::Begin) => (own, "B", None),
            (_, Phase::End) => (own, "E", None),
            // A track of its own: nothing says what else happened in it.
            (_, Phase::Alone(begin)) => {
                self.alone += 1;
                let (name, id) = (format!("{own} (begin lost)"), format!("\"lost {}\"", self.alone));
                self.head(&name, &category, "b", begin.at, out)?;
                write!(out, ",\"pid\":{pid},\"tid\":{tid},\"id\":{id}}}")?;
                (name, "e", Some(id))
            }
            (_, Phase::Apart | Phase::Instant) => (event.name().to_owned(), "i\",\"s\":\"t", None),
        };
        self.head(&name, &category, letter, time, out)?;
        write!(out, ",\"pid\":{pid},\"tid\":{tid}")?;
        if let Some(id) = id {
            write!(out, ",\"id\":{id}")?;
        }
        out.write_all(b",\"args\":")?;
        out.write_all(fields)?;
        out.write_all(b"}")
    }

    fn name(&mut self, event: &Event<'_>, _out: &mut dyn Write) -> io::Result<()> {
        self.names.learn(event);
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.is_begun {
            out.write_all(b"{\"traceEvents\":[")?;
        }
        let mut closed = Vec::new();
        self.open.finish(|thread, (), end| closed.push((*thread, end)));
        for (thread, end) in closed {
            let (pid, _) = process(&self.processes, &self.names, &thread);
            match end {
                End::Lost(at) => self.end(pid, tid(&thread), at, LOST, out)?,
                End::Left(at) => self.end(pid, tid(&thread), at, "{}", out)?,
                End::Own | End::Around | End::Apart => {}
            }
        }
        // Names that came later than the thread's last event.
        let threads: Vec<Thread> = self.told.keys().copied().collect();
        for thread in threads {
            self.tell(&thread, out)?;
        }
        out.write_all(b"\n]}\n")
    }
}
