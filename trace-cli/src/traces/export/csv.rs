//! Comma-separated values, as RFC 4180 says.

use std::collections::HashSet;
use std::io::{self, Write};

use trace_ctf::reader::{Event, Scope};

use super::super::columns::{Column, names};
use super::super::json::ValueJson;
use super::super::source::Opened;
use super::{Map, Writer};
use crate::failure::Failure;

/// What every event has.
const COMMON: [&str; 4] = ["timestamp_ns", "event", "level", "cpu_id"];

pub(super) struct Csv {
    columns: Vec<Column>,
    has_heading: bool,
}

impl Csv {
    pub(super) fn new(opened: &Opened) -> Result<Self, Failure> {
        let classes = opened.classes();
        let mut known: HashSet<String> = COMMON.iter().map(|&name| name.to_owned()).collect();
        let mut all = classes.iter().flat_map(|(stream, class)| names(stream, class)).collect::<Vec<_>>();
        all.retain(|name| known.insert(name.clone()));
        let columns = all.iter().map(|name| Column::anywhere(name, &classes)).collect();
        Ok(Self { columns, has_heading: false })
    }

    fn heading(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !core::mem::replace(&mut self.has_heading, true) {
            let names = self.columns.iter().map(|column| column.name.as_str());
            let mut line = Vec::new();
            COMMON.into_iter().chain(names).for_each(|name| cell(name, &mut line));
            end(&mut line);
            out.write_all(&line)?;
        }
        Ok(())
    }
}

impl Writer for Csv {
    fn mapper(&self) -> Box<dyn Fn() -> Map + Sync> {
        let columns = self.columns.clone();
        Box::new(move || {
            let mut columns = columns.clone();
            Box::new(move |event, line| {
                row(&mut columns, event, line);
                Ok(())
            })
        })
    }

    fn event(&mut self, _event: &Event<'_>, line: &[u8], out: &mut dyn Write) -> io::Result<()> {
        self.heading(out)?;
        out.write_all(line)
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.heading(out)
    }
}

fn row(columns: &mut [Column], event: &Event<'_>, line: &mut Vec<u8>) {
    cell(&event.timestamp().map(|time| time.to_string()).unwrap_or_default(), line);
    cell(event.name(), line);
    cell(event.class().level.map(|level| level.name()).unwrap_or_default(), line);
    cell(&event.packet().info().cpu_id.map(|cpu| cpu.to_string()).unwrap_or_default(), line);
    for column in columns {
        let text = match column.raw(event) {
            Some(text) => text,
            None if column.is_of(event.class()) => parts(event, &column.name).unwrap_or_default(),
            None => String::new(),
        };
        cell(&text, line);
    }
    end(line);
}

/// What has parts, as JSON.
fn parts(event: &Event<'_>, name: &str) -> Option<String> {
    let tree = [Scope::Payload, Scope::EventContext, Scope::StreamContext].map(|scope| event.value(scope));
    let value = tree.iter().find_map(|tree| tree.member(name))?;
    serde_json::to_string(&ValueJson(value)).ok().filter(|text| text != "null")
}

fn cell(text: &str, line: &mut Vec<u8>) {
    if text.contains([',', '"', '\r', '\n']) {
        line.push(b'"');
        line.extend(text.replace('"', "\"\"").as_bytes());
        line.push(b'"');
    } else {
        line.extend(text.as_bytes());
    }
    line.push(b',');
}

/// Makes the comma behind the last cell the end of the line.
fn end(line: &mut Vec<u8>) {
    line.pop();
    line.extend(b"\r\n");
}
