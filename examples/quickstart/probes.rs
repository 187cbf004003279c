//! The probe module: what is recorded when the store's tracepoints fire.

use crate::store::{self, Operation};
use ringtrace::{Event, Field, probe};
use std::path::Path;
use std::time::Duration;

/// `Operation` belongs to the application, so its form in the trace is written here.
#[derive(Field)]
enum Kind {
    Put,
    Remove,
}

#[derive(Event)]
struct Logged<'a> {
    operation: Kind,
    key: &'a str,
    #[field(unit = "B")]
    bytes: Option<u32>,
}

#[probe(store::logged)]
fn record_logged<'a>(operation: Operation, key: &'a str, value: Option<&[u8]>) -> Logged<'a> {
    let operation = match operation {
        Operation::Put => Kind::Put,
        Operation::Remove => Kind::Remove,
    };
    Logged { operation, key, bytes: value.map(|v| v.len() as u32) }
}

#[derive(Event)]
struct Missed<'a> {
    key: &'a str,
}

/// Only look-ups that found nothing are worth a record.
#[probe(store::looked_up, name = "quickstart:store::missed", level = Debug)]
fn record_missed<'a>(key: &'a str, found: Option<&[u8]>) -> Option<Missed<'a>> {
    found.is_none().then_some(Missed { key })
}

#[derive(Event)]
struct Flushed {
    records: u32,
    #[field(unit = "ns")]
    took: Duration,
}

#[probe(store::flushed, level = Notice)]
fn record_flushed(records: u32, took: Duration) -> Flushed {
    Flushed { records, took }
}

#[derive(Event)]
struct Opened<'a> {
    path: &'a Path,
    keys: usize,
}

#[probe(store::opened, level = Notice)]
fn record_opened(path: &Path, keys: usize) -> Opened<'_> {
    Opened { path, keys }
}
