//! `ringtrace formats`: what the events of a trace look like.

use std::io::{self, Write as _};

use serde_json::json;
use trace_ctf::declared::{EventClass, StreamClass};
use trace_ctf::text;

use super::json;
use super::open::Place;
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;
use crate::live::text::out;

/// Describes every event class of a trace: its name, ID, level, place, and fields with type, size and unit.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let traces = arguments.place.open()?;
    let mut out = io::BufWriter::new(out(common.json));
    let mut first = true;
    for trace in &traces {
        let declared = trace.declarations();
        for class in declared.events() {
            let Some(stream) = declared.stream(class.stream_id) else { continue };
            if common.json {
                writeln!(out, "{}", describe(stream, class))?;
            } else {
                let separator = if first { "" } else { "\n" };
                write!(out, "{separator}{}", text::describe(stream, class))?;
            }
            first = false;
        }
    }
    out.flush()?;
    Ok(Outcome::Complete)
}

fn describe(stream: &StreamClass, class: &EventClass) -> serde_json::Value {
    let source = class.source.as_ref();
    json!({
        "name": class.name,
        "id": class.id,
        "stream_class": class.stream_id,
        "level": class.level.map(|level| level.name()),
        "source": source.map(|source| json!({
            "file": source.file, "line": source.line, "function": source.function,
        })),
        "context": json::fields(stream.event_context.as_ref()),
        "event_context": json::fields(class.context.as_ref()),
        "fields": json::fields(class.fields.as_ref()),
    })
}
