//! The reader: checks each record's content, order, stamp and number.

use crate::record;
use crate::shared::{Counts, STREAMS};
use std::fmt;
use std::sync::atomic::Ordering::SeqCst;
use trace_runtime::ring_buffer::{HeaderKind, Mode, Packet, Reader};

/// Ways to be wrong.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Content,
    Order,
    Stamp,
    Packet,
    Count,
    Armed,
    Forked,
    Sections,
    Figures,
    Ended,
}

const KINDS: [&str; 10] = [
    "records with other bytes",
    "records out of order, or twice",
    "stamps out of order",
    "packets of another length",
    "records missing or too many",
    "rseq_cs left behind",
    "appends of forked children",
    "read-side critical sections unbalanced",
    "figures torn, or events in none",
    "processes that ended badly",
];

/// What went wrong, by kind.
#[derive(Default)]
pub(crate) struct Wrong([u64; KINDS.len()]);

impl Wrong {
    pub(crate) fn add(&mut self, kind: Kind, count: impl Into<u64>) {
        self.0[kind as usize] += count.into();
    }

    pub(crate) fn join(&mut self, other: &Wrong) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} wrong", self.total())?;
        for (count, kind) in self.0.into_iter().zip(KINDS).filter(|(count, _)| *count > 0) {
            write!(f, "; {count} {kind}")?;
        }
        Ok(())
    }
}

/// Reads a channel of another process to the end.
#[derive(Default)]
pub(crate) struct Checker {
    pub(crate) wrong: Wrong,
    /// Records read, and the sum of their numbers, by stream.
    read: [(u64, u64); STREAMS],
    /// Last number by buffer (behind them: fallback region) and stream.
    last: Vec<[u64; STREAMS]>,
    last_ns: Vec<u64>,
}

impl Checker {
    pub(crate) fn new(buffers: u32) -> Checker {
        let places = buffers as usize + 1;
        Checker { last: vec![[0; STREAMS]; places], last_ns: vec![0; places], ..Checker::default() }
    }

    /// Records read so far.
    pub(crate) fn records(&self) -> u64 {
        self.read.iter().map(|(count, _)| count).sum()
    }

    /// Checks the record at the beginning of `bytes`. Returns its length.
    fn record(&mut self, place: usize, bytes: &[u8]) -> Option<usize> {
        let Some((stream, number, len)) = record::read(bytes).filter(|(stream, ..)| *stream < STREAMS as u64) else {
            self.wrong.add(Kind::Content, 1_u64);
            return None;
        };
        let last = &mut self.last[place][stream as usize];
        self.wrong.add(Kind::Order, number <= *last);
        *last = number;
        let (count, sum) = &mut self.read[stream as usize];
        (*count, *sum) = (*count + 1, sum.wrapping_add(number));
        Some(len)
    }

    fn packet(&mut self, packet: &Packet, header: HeaderKind) {
        let bytes = packet.to_vec();
        let place = packet.buffer as usize;
        let mut last = packet.begin_ns;
        self.wrong.add(Kind::Stamp, packet.begin_ns < self.last_ns[place]);
        let (mut at, mut records) = (0, 0);
        while at < bytes.len() {
            let len = header.read(&bytes[at..], last).and_then(|read| {
                self.wrong.add(Kind::Stamp, read.ns < last || read.ns > packet.end_ns);
                self.wrong.add(Kind::Content, read.id != 1);
                last = read.ns;
                Some(read.len + self.record(place, &bytes[at + read.len..])?)
            });
            let Some(len) = len else { break };
            at += len;
            records += 1;
        }
        self.wrong.add(Kind::Packet, at != bytes.len() || records != packet.records);
        self.last_ns[place] = packet.end_ns;
    }

    /// Reads what there is. Returns whether there was anything.
    pub(crate) fn pass(&mut self, reader: &mut Reader, is_final: bool) -> bool {
        let header = reader.settings().header;
        let before = self.records();
        for buffer in 0..reader.geometry().buffers {
            while let Some(packet) = reader.next(buffer, true) {
                self.packet(&packet, header);
                reader.consume(packet);
            }
        }
        let place = self.last.len() - 1;
        while let Some(record) = reader.next_fallback(is_final) {
            self.wrong.add(Kind::Stamp, record.ns < self.last_ns[place]);
            self.last_ns[place] = record.ns;
            let payload = record.payload.to_vec();
            let len = self.record(place, &payload);
            self.wrong.add(Kind::Packet, len != Some(payload.len()));
        }
        reader.consume_fallback();
        self.records() > before
    }

    /// Compares what was read with what was written. Returns the number of events recorded.
    pub(crate) fn close(&mut self, reader: &Reader, counts: &Counts, was_killed: bool) -> u64 {
        let written: Vec<[u64; 3]> =
            counts.streams.iter().map(|s| [s.recorded.load(SeqCst), s.sum.load(SeqCst), s.begun.load(SeqCst)]).collect();
        let recorded: u64 = written.iter().map(|[recorded, ..]| recorded).sum();
        match reader.settings().mode {
            Mode::Discard => {
                for ((read, sum), [recorded, recorded_sum, begun]) in self.read.iter().copied().zip(written) {
                    // Killed between the commit and the count: one more.
                    let is_one_more = read == recorded + 1 && (sum == recorded_sum.wrapping_add(begun) || sum == recorded_sum);
                    let is_all = read == recorded && sum == recorded_sum;
                    self.wrong.add(Kind::Count, !(is_all || was_killed && is_one_more));
                }
            }
            Mode::Overwrite => {
                let buffers = 0..reader.geometry().buffers;
                let losses = buffers.fold(reader.fallback_losses(), |sum, b| sum.plus(&reader.buffer_losses(b)));
                let found = self.records() + losses.overwritten + losses.uncommitted;
                let most = recorded + if was_killed { STREAMS as u64 } else { 0 };
                self.wrong.add(Kind::Count, !(recorded..=most).contains(&found));
            }
        }
        self.wrong.add(Kind::Armed, counts.armed.load(SeqCst));
        self.wrong.add(Kind::Forked, counts.forked.load(SeqCst));
        recorded
    }
}
