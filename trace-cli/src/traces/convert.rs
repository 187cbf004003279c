//! `ringtrace convert`: the same streams under another form of metadata.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use trace_ctf::metadata::Format;
use trace_ctf::reader::Trace;

use super::open::{self, Place};
use crate::Outcome;
use crate::common::{Common, format_parser};
use crate::failure::{self, Failure, remedy};
use crate::live::text::out;

/// Writes a trace with metadata in another form of CTF. The streams are copied byte for byte.
///
/// Example: ringtrace convert shop.ringtrace -o shop2.ringtrace --format ctf2
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,

    /// Directory to make.
    #[arg(short, long, value_name = "DIRECTORY")]
    output: PathBuf,

    /// Form of the metadata: ctf1.8, which every reader understands, or ctf2.
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let place = arguments.place.one()?;
    let traces = open::parts(&place)?;
    // Before anything is written: one that cannot be said in this form leaves nothing behind.
    let metadata: Vec<Option<String>> = traces.iter().map(|trace| metadata(trace, arguments.format)).collect::<Result<_, _>>()?;
    make(&arguments.output)?;
    let mut outcome = Outcome::Complete;
    for (trace, metadata) in traces.iter().zip(metadata) {
        let (foreign, damage): (Vec<_>, Vec<_>) = trace.damage().iter().partition(|error| error.is_no_stream());
        for error in damage {
            failure::warning(format_args!("{error}\n  {}", remedy(error)));
            outcome = Outcome::Partial;
        }
        let foreign: Vec<_> = foreign.into_iter().filter_map(|error| error.stream()?.file_name()?.to_str()).collect();
        // One trace becomes the directory itself, several keep their places below it.
        let inside = trace.path().strip_prefix(&place).unwrap_or(Path::new(""));
        let directory = if inside.as_os_str().is_empty() { arguments.output.clone() } else { arguments.output.join(inside) };
        fs::create_dir_all(&directory).map_err(|error| Failure::file(&directory, error))?;
        copy(trace.path(), &directory, |name| name != "metadata" && !foreign.contains(&name))?;
        let indexes = trace.path().join("index");
        if indexes.is_dir() {
            let to = directory.join("index");
            make(&to)?;
            copy(&indexes, &to, |name| name.ends_with(".idx"))?;
        }
        let (from, to) = (trace.path().join("metadata"), directory.join("metadata"));
        match metadata {
            Some(text) => fs::write(&to, text).map_err(|error| Failure::file(&to, error))?,
            // In the words of its tracer.
            None => copy_file(&from, &to)?,
        }
        tell(trace, &directory, arguments.format, common)?;
    }
    Ok(outcome)
}

/// The new metadata; `None` where they are of this form already.
fn metadata(trace: &Trace, format: Format) -> Result<Option<String>, Failure> {
    if trace.format() == format {
        return Ok(None);
    }
    let wrong = |error| Failure::Wrong(format!("{}: {error}", trace.path().display()));
    format.convert(trace.declarations()).map(Some).map_err(wrong)
}

fn make(directory: &Path) -> Result<(), Failure> {
    fs::create_dir(directory).map_err(|error| Failure::file(directory, error))
}

fn copy(from: &Path, to: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let told = |error| Failure::file(from, error);
    for entry in fs::read_dir(from).map_err(told)? {
        let entry = entry.map_err(told)?;
        let name = entry.file_name();
        let name_text = name.to_string_lossy();
        if entry.path().is_file() && !name_text.starts_with('.') && is_wanted(&name_text) {
            copy_file(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).map(drop).map_err(|error| Failure::file(from, error))
}

fn tell(trace: &Trace, directory: &Path, format: Format, common: &Common) -> Result<(), Failure> {
    let is_new = trace.format() != format;
    let declarations = trace.declarations();
    let (events, streams) = (declarations.events().len(), declarations.streams().count());
    if common.json {
        let line = serde_json::json!({ "output": directory, "format": format.name(), "event_classes": events,
            "stream_classes": streams, "converted": is_new });
        writeln!(out(true), "{line}")?;
        return Ok(());
    }
    let count = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "es" });
    let done = if is_new { format!("now {}", format.name()) } else { format!("{} as before", format.name()) };
    failure::note(format_args!(
        "{}: {} in {}, {done}",
        directory.display(),
        count(events, "event class"),
        count(streams, "stream class")
    ));
    Ok(())
}
