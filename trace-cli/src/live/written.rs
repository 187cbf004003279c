//! What the trace of a session holds so far: how often each event is in it, and how many bytes its records take.
//!
//! The run time knows neither: its consumer moves packets without looking into them, and the event path counts nothing by class. So
//! the trace is read where somebody asks.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use trace_ctf::reader::{Packet, Trace, discover};

/// Traces that are larger are not read through.
const LARGEST: u64 = 256 << 20;
/// Of smaller ones it is no matter what takes the bytes.
const WORTH_A_WORD: u64 = 64 << 10;

/// The events of one name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Class {
    pub(super) events: u64,
    /// Of their records.
    pub(super) bytes: u64,
    /// Time of the last one.
    pub(super) last: Option<i64>,
}

/// The events of a trace, by name.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeMap<String, Class>);

/// Why a trace is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    Missing,
    TooLarge,
}

impl Written {
    /// Reads a trace, also one that is being written.
    pub(super) fn read(output: &Path) -> Result<Written, Unread> {
        let found = discover(output, 1).map_err(|_| Unread::Missing)?;
        let traces: Vec<Trace> = found.iter().filter_map(|path| Trace::open(path).ok()).collect();
        let streams = || traces.iter().flat_map(|trace| trace.streams().iter().map(move |stream| (trace, stream)));
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
        if streams().flat_map(|(_, stream)| stream.files()).map(size).sum::<u64>() > LARGEST {
            return Err(Unread::TooLarge);
        }
        let mut written = Written::default();
        for (trace, stream) in streams() {
            // What is being written just now may not be whole.
            trace.packets(stream).map_while(Result::ok).for_each(|(packet, _)| written.add(&packet));
        }
        Ok(written)
    }

    fn add(&mut self, packet: &Packet) {
        // By the number of the class, whose name is then looked up once for each packet.
        let mut classes: HashMap<u64, (String, Class)> = HashMap::new();
        let mut events = packet.events();
        let mut before: Option<(u64, u64)> = None;
        while let Some(Ok(event)) = events.next_event() {
            let (id, begin) = (event.class().id, event.byte_offset());
            let (_, class) = classes.entry(id).or_insert_with(|| (event.name().to_owned(), Class::default()));
            class.events += 1;
            class.last = class.last.max(event.timestamp());
            // A record ends where the next one begins.
            if let Some((id, began)) = before.replace((id, begin)) {
                classes.entry(id).and_modify(|(_, class)| class.bytes += begin - began);
            }
        }
        if let Some((id, began)) = before {
            classes.entry(id).and_modify(|(_, class)| class.bytes += packet.end_offset().saturating_sub(began));
        }
        for (name, class) in classes.into_values() {
            let all = self.0.entry(name).or_default();
            *all = Class { events: all.events + class.events, bytes: all.bytes + class.bytes, last: all.last.max(class.last) };
        }
    }

    /// The events of a name.
    pub(super) fn of(&self, name: &str) -> Option<Class> {
        self.0.get(name).copied()
    }

    /// The event, of several, whose records take more than half of the bytes, and how much of them: `storage:read takes 83 % of the
    /// bytes`.
    pub(super) fn heaviest(&self) -> Option<(&str, String)> {
        let all: u64 = self.0.values().map(|class| class.bytes).sum();
        let (name, class) = self.0.iter().max_by_key(|(_, class)| class.bytes)?;
        let is_one = !name.starts_with("ringtrace:") && self.0.len() > 1 && class.bytes > all / 2 && all >= WORTH_A_WORD;
        is_one.then(|| (&**name, format!("{name} takes {} % of the bytes", class.bytes * 100 / all)))
    }
}
