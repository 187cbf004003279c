//! Where packets lie, so that a reader need not pass all of those before a time.
//!
//! What is known comes from the index that a tracer wrote beside a stream file, `index/NAME.idx`, and from headers that were
//! read before: each reader of a file adds what it passes, for the next one. Nothing is written. An index is believed as far as
//! it fits the file, and the packet that it leads to must be the one that it describes.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::declared::Declarations;
use crate::index;

/// Largest index that is read, in bytes: some 900 000 packets.
const LARGEST: u64 = 64 << 20;

/// Packets of a file that are remembered: the first ones. 16 MiB.
const MOST: u64 = 1 << 20;

/// The packets of a stream file, from the first on, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Index(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    packets: Vec<Span>,
    /// Whether the index beside the file was looked for.
    is_looked_for: bool,
    /// Packets do not follow each other in time, or have none.
    is_unfit: bool,
}

/// A packet: where it begins, and when it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) offset: u64,
    /// Nanoseconds from the Unix epoch.
    pub(super) end: i64,
}

impl Index {
    /// Adds a packet that was passed, by its number, if it is the next one.
    pub(super) fn add(&self, number: u64, offset: u64, end: Option<i64>) {
        let mut known = self.lock();
        if known.is_unfit || number != known.packets.len() as u64 || number >= MOST {
            return;
        }
        match end {
            Some(end) if known.packets.last().is_none_or(|last| last.end <= end) => known.packets.push(Span { offset, end }),
            _ => known.is_unfit = true,
        }
    }

    /// The last packet that is known to end before a time, and its number.
    pub(super) fn before(&self, declarations: &Declarations, file: &Path, length: u64, time: i64) -> Option<(u64, Span)> {
        let mut known = self.lock();
        if !core::mem::replace(&mut known.is_looked_for, true) {
            if let Some(packets) = load(declarations, file, length).filter(|packets| packets.len() > known.packets.len()) {
                known.packets = packets;
            }
        }
        let place = known.packets.partition_point(|packet| packet.end < time).checked_sub(1)?;
        known.packets.get(place).filter(|_| !known.is_unfit).map(|packet| (place as u64, *packet))
    }

    /// Says that it led to something else than it said.
    pub(super) fn refuse(&self) {
        let mut known = self.lock();
        (known.is_unfit, known.packets) = (true, Vec::new());
    }

    /// A thread that panicked in between has left what was true.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the index beside a file, if it is one of this file: packets without gaps, in the order of time.
fn load(declarations: &Declarations, file: &Path, length: u64) -> Option<Vec<Span>> {
    let mut name = file.file_name()?.to_owned();
    name.push(".idx");
    let path = file.with_file_name("index").join(name);
    if fs::metadata(&path).ok()?.len() > LARGEST {
        return None;
    }
    let entries = index::decode(&fs::read(path).ok()?).ok()?;
    let mut packets: Vec<Span> = Vec::with_capacity(entries.len());
    let mut next = 0;
    for entry in entries {
        let clock = declarations.stream(entry.packet.stream_class_id.into())?.clock()?;
        let end = clock.nanoseconds(entry.packet.timestamp_end)?;
        if entry.offset != next || entry.packet.packet_bits == 0 || packets.last().is_some_and(|last| last.end > end) {
            return None;
        }
        packets.push(Span { offset: entry.offset, end });
        next = entry.offset.checked_add(entry.packet.packet_bits / 8)?;
    }
    (next <= length).then_some(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_passed_is_known() {
        let (index, all) = (Index::default(), Declarations::default());
        let before = |time| index.before(&all, Path::new("/none"), 100, time).map(|(number, span)| (number, span.offset));
        assert_eq!(before(5), None);
        index.add(0, 0, Some(10));
        index.add(2, 70, Some(30));
        index.add(1, 40, Some(20));
        assert_eq!([before(10), before(11), before(20), before(99)], [None, Some((0, 0)), Some((0, 0)), Some((1, 40))]);
        index.add(2, 70, Some(15));
        assert_eq!(before(99), None);
    }
}
