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
use super::super::slices::{Future, Open, Phase, Slices};
use super::super::source::Opened;
use super::{Map, Process, Writer, label, process, tid};

pub(super) struct Chrome {
    processes: Vec<Process>,
    slices: Slices,
    open: Open<()>,
    names: Names,
    /// Names of threads that were told.
    told: HashMap<Thread, Option<String>>,
    told_processes: HashMap<i64, Option<String>>,
    is_begun: bool,
    text: String,
}

impl Chrome {
    pub(super) fn new(opened: &Opened) -> Self {
        Self {
            processes: Process::all(&opened.traces),
            slices: Slices::new(&opened.classes()),
            open: Open::default(),
            names: Names::default(),
            told: HashMap::new(),
            told_processes: HashMap::new(),
            is_begun: false,
            text: String::new(),
        }
    }

    fn separate(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let first = !core::mem::replace(&mut self.is_begun, true);
        out.write_all(if first { b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" } else { b",\n" })
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
        let phase = self.open.step(&self.slices, event.class(), thread, || (), drop);
        let name = match phase {
            Phase::Begin | Phase::End(_) => self.slices.name(event.class()).unwrap_or(event.name()),
            Phase::Instant => event.name(),
        };
        // Microseconds, with the nanoseconds behind the point.
        let time = event.timestamp().unwrap_or_default();
        self.text.clear();
        let _ = write!(self.text, "{}.{:03}", time.div_euclid(1000), time.rem_euclid(1000));
        let future = match self.slices.future(event) {
            Some(Future::Begin(number)) => Some(("b", number)),
            Some(Future::End(number)) => Some(("e", number)),
            _ => None,
        };
        let own = self.slices.name(event.class()).filter(|_| future.is_some());
        let name = own.unwrap_or(name);
        let (letter, count) = match phase {
            _ if future.is_some() => (future.map_or("", |(letter, _)| letter), 1),
            Phase::Begin => ("B", 1),
            Phase::End(count) => ("E", count),
            Phase::Instant => ("i\",\"s\":\"t", 1),
        };
        let category = event.name().split(':').next().unwrap_or_default().to_owned();
        let name = name.to_owned();
        for number in 1..=count {
            self.separate(out)?;
            out.write_all(b"{\"name\":")?;
            write_json(&mut *out, &name)?;
            out.write_all(b",\"cat\":")?;
            write_json(&mut *out, &category)?;
            write!(out, ",\"ph\":\"{letter}\",\"ts\":{},\"pid\":{pid},\"tid\":{tid}", self.text)?;
            if let Some((_, number)) = future {
                write!(out, ",\"id\":{number}")?;
            }
            // Slices inside whose end is missing have no arguments of their own.
            if number == count {
                out.write_all(b",\"args\":")?;
                out.write_all(fields)?;
            }
            out.write_all(b"}")?;
        }
        Ok(())
    }

    fn name(&mut self, event: &Event<'_>, _out: &mut dyn Write) -> io::Result<()> {
        self.names.learn(event);
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.is_begun {
            out.write_all(b"{\"traceEvents\":[")?;
        }
        // Names that came later than the thread's last event.
        let threads: Vec<Thread> = self.told.keys().copied().collect();
        for thread in threads {
            self.tell(&thread, out)?;
        }
        out.write_all(b"\n]}\n")
    }
}
