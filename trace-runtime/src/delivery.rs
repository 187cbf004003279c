//! Delivery: from a session's rings to its output, by the consumer's thread alone.
#![expect(unsafe_code, reason = "hands the rings' memory to the output")]

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::metadata;
use crate::output::{Packet, Sink, StreamId};
use crate::report;
use crate::ring_buffer::{Losses, Mode, Reader};
use crate::threads::ThreadNames;
use std::collections::HashMap;
use std::sync::Arc;
use trace_ctf::schema as ctf;

/// Fallback records are gathered to packets of about this size, in bytes.
const FALLBACK_PACKET: usize = 64 << 10;
const FALLBACK: StreamId = StreamId { class: metadata::FALLBACK, instance: 0 };

/// What one round of deliveries found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// The fullest ring before the round, in 1/256 of its size.
    pub(crate) fullness: u32,
}

/// What the last packet of a stream told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    end_ns: u64,
    discarded: u64,
}

/// What delivery has to know of the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records {
    /// Bytes of context fields in front of each payload.
    pub(crate) context: usize,
    /// Whether the CPU is one of them.
    pub(crate) has_cpu: bool,
    /// Whether the trace is to have the names of this process's threads.
    pub(crate) has_names: bool,
}

impl Records {
    /// Of another process's trace.
    pub(crate) fn of(trace: &ctf::Trace, rings: u32) -> Records {
        let fields = trace.streams.iter().find(|s| s.id == rings).map_or(&[][..], |s| &s.context);
        let bytes = |field: &ctf::Field| match field.class {
            ctf::FieldClass::Integer { bits, .. } => usize::from(bits) / 8,
            _ => 0,
        };
        Records { context: fields.iter().map(bytes).sum(), has_cpu: fields.iter().any(|f| f.name == "cpu"), has_names: false }
    }
}

/// The reading end of a session.
pub(crate) struct Delivery {
    reader: Reader,
    records: Records,
    told: HashMap<StreamId, Told>,
    sink: Box<dyn Sink>,
    /// `None`: another process writes it.
    journal: Option<Journal>,
    failure: Option<Arc<Error>>,
    /// The records delivered.
    events: u64,
    /// Bytes of those.
    bytes: u64,
    /// Another process consumes the rings, and this one does not.
    is_elsewhere: bool,
    /// Threads whose names the trace has, where it wants them.
    threads: Option<ThreadNames>,
}

impl Delivery {
    pub(crate) fn new(reader: Reader, records: Records, sink: Box<dyn Sink>, journal: Option<Journal>) -> Delivery {
        Delivery {
            reader,
            records,
            told: HashMap::new(),
            sink,
            journal,
            failure: None,
            events: 0,
            bytes: 0,
            is_elsewhere: false,
            threads: records.has_names.then(ThreadNames::default),
        }
    }

    /// Leaves the rings to another process.
    pub(crate) fn leave_to_others(&mut self) {
        self.is_elsewhere = true;
    }

    /// Whether another process still holds rings that were left to others: it may not have delivered all.
    pub(crate) fn is_held_elsewhere(&self) -> bool {
        self.is_elsewhere && self.reader.holder().is_some()
    }

    /// Describes new event classes; before they are used anywhere (JR-1).
    pub(crate) fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.describe(classes)?;
        }
        self.sink.describe(classes)
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.as_deref().map(Error::again)
    }

    pub(crate) fn written(&self) -> u64 {
        self.sink.written()
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns what was lost so far.
    pub(crate) fn losses(&self) -> Losses {
        let buffers = 0..self.reader.geometry().buffers;
        buffers.fold(self.reader.fallback_losses(), |sum, buffer| sum.plus(&self.reader.buffer_losses(buffer)))
    }

    /// Delivers finished sub-buffers, and with `cut` what is committed of the current ones. In overwrite mode nothing: those
    /// rings are delivered when recording ends.
    pub(crate) fn round(&mut self, cut: bool, now_ns: u64) -> Round {
        if self.failure.is_some() || self.is_elsewhere {
            return Round::default();
        }
        self.attempt(|d| {
            d.deliver_thread_names(false, now_ns)?;
            match d.reader.settings().mode {
                Mode::Overwrite => Ok(Round::default()),
                Mode::Discard => d.deliver(cut, false),
            }
        })
    }

    /// Names of threads become events of a stream that the consumer writes itself.
    fn deliver_thread_names(&mut self, all: bool, now_ns: u64) -> Result<()> {
        let Some(threads) = &mut self.threads else { return Ok(()) };
        let news = threads.news(all);
        if news.is_empty() {
            return Ok(());
        }
        let mut content = Vec::new();
        for (tid, name) in news {
            content.extend_from_slice(&metadata::THREAD_NAME_ID.to_le_bytes());
            content.extend_from_slice(&now_ns.to_le_bytes());
            content.extend_from_slice(&tid.to_ne_bytes());
            content.extend_from_slice(&(name.len() as u16).to_ne_bytes());
            content.extend_from_slice(name.as_bytes());
        }
        let stream = StreamId { class: metadata::CONSUMER, instance: 0 };
        self.sink.deliver(&Packet { stream, cpu: 0, begin_ns: now_ns, end_ns: now_ns, discarded: 0, content: &content })
    }

    /// Delivers everything, and tells the output the last losses. Nobody writes to the rings any more.
    pub(crate) fn finish(&mut self, now_ns: u64, quiet: bool) {
        if self.failure.is_none() && !self.is_elsewhere {
            self.attempt(|d| {
                d.deliver_thread_names(true, now_ns)?;
                let round = d.deliver(true, quiet)?;
                d.close(now_ns)?;
                d.sink.flush()?;
                Ok(round)
            });
        }
    }

    /// An error ends the recording: it is kept for whoever asks, and the output gets nothing more.
    fn attempt(&mut self, work: impl FnOnce(&mut Delivery) -> Result<Round>) -> Round {
        work(self).unwrap_or_else(|error| {
            report::say(format_args!("{}", crate::error::Chain(&error)));
            self.failure = Some(Arc::new(error));
            let _ = self.sink.flush();
            Round::default()
        })
    }

    /// `last`: nobody writes any more. Otherwise a round ends, however fast events come: after as much as a ring holds, and
    /// after a cut.
    fn deliver(&mut self, cut: bool, last: bool) -> Result<Round> {
        let mut round = Round::default();
        let geometry = self.reader.geometry();
        let ring = u64::from(geometry.sub_buffer) * u64::from(geometry.sub_buffers);
        for buffer in 0..geometry.buffers {
            round.fullness = round.fullness.max((self.reader.pending(buffer) * 256 / ring) as u32);
            let mut most = if last { u32::MAX } else { geometry.sub_buffers };
            while let Some(packet) = self.reader.next(buffer, cut) {
                most = if packet.closes { most - 1 } else { 0 };
                let stream = StreamId { class: metadata::RINGS, instance: packet.cpu };
                let copy;
                let content = if self.journal.is_none() {
                    copy = packet.to_vec(); // what another process may still write to
                    &copy
                } else {
                    // SAFETY: CO-1: the session's rings have this reader only, and its file is closed to other users.
                    unsafe { packet.as_slice() }
                };
                let (begin_ns, end_ns, discarded) = (packet.begin_ns, packet.end_ns, packet.losses.total());
                self.tell(&Packet { stream, cpu: packet.cpu, begin_ns, end_ns, discarded, content })?;
                self.events += u64::from(packet.records);
                self.reader.consume(packet);
                if most == 0 && !last {
                    break;
                }
            }
        }
        self.deliver_fallback(last)?;
        self.sink.settle()?;
        Ok(round)
    }

    fn tell(&mut self, packet: &Packet<'_>) -> Result<()> {
        // A packet behind the one that ended the stream, when recording began again, may continue a sub-buffer whose last
        // record came before that end. Its own first record came later, so the later begin completes its short stamps too.
        let told = self.told.get(&packet.stream).copied().unwrap_or_default();
        let packet = &Packet {
            begin_ns: packet.begin_ns.max(told.end_ns),
            end_ns: packet.end_ns.max(told.end_ns),
            // A reader takes the difference; a sample that was taken earlier than the last one told must not be one of 2⁶⁴.
            discarded: packet.discarded.max(told.discarded),
            ..*packet
        };
        self.sink.deliver(packet)?;
        self.bytes += packet.content.len() as u64;
        self.told.insert(packet.stream, Told { end_ns: packet.end_ns, discarded: packet.discarded });
        Ok(())
    }

    /// The fallback region's records become packets of a stream class of their own.
    fn deliver_fallback(&mut self, last: bool) -> Result<()> {
        let mut left = if last { usize::MAX } else { self.reader.geometry().fallback as usize };
        while left > 0 {
            let mut content = Vec::new();
            let mut span: Option<(u64, u64)> = None;
            while content.len() < FALLBACK_PACKET {
                let Some(record) = self.reader.next_fallback(last) else { break };
                let begin = span.map_or(record.ns, |(begin, _)| begin);
                span = Some((begin, record.ns));
                content.extend_from_slice(&record.id.to_le_bytes());
                content.extend_from_slice(&record.ns.to_le_bytes());
                let (context, payload) = record.payload.split_at(self.records.context.min(record.payload.len()));
                content.extend_from_slice(context);
                if !self.records.has_cpu {
                    content.extend_from_slice(&record.cpu.to_ne_bytes());
                }
                content.extend_from_slice(payload);
                self.events += 1;
            }
            let Some((begin_ns, end_ns)) = span else { return Ok(()) };
            left = left.saturating_sub(content.len());
            let discarded = self.reader.fallback_losses().total();
            self.tell(&Packet { stream: FALLBACK, cpu: 0, begin_ns, end_ns, discarded, content: &content })?;
            self.reader.consume_fallback();
        }
        Ok(())
    }

    /// Ends each stream that has packets, or losses to tell, with an empty packet.
    fn close(&mut self, now_ns: u64) -> Result<()> {
        let rings = (0..self.reader.geometry().buffers).filter_map(|buffer| {
            let cpu = self.reader.cpu(buffer)?;
            let stream = StreamId { class: metadata::RINGS, instance: cpu };
            Some((stream, cpu, self.reader.buffer_losses(buffer).total()))
        });
        let fallback = (FALLBACK, 0, self.reader.fallback_losses().total());
        for (stream, cpu, discarded) in rings.chain([fallback]).collect::<Vec<_>>() {
            if discarded > 0 || self.told.contains_key(&stream) {
                self.tell(&Packet { stream, cpu, begin_ns: now_ns, end_ns: now_ns, discarded, content: &[] })?;
            }
        }
        Ok(())
    }
}
