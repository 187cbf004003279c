//! Delivery: from a session's rings to its output, by the consumer's thread alone.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::metadata;
use crate::output::{Packet, Sink, StreamId};
use crate::ring_buffer::{Core, FallbackReader, Reader};
use crate::threads::ThreadNames;
use std::collections::HashMap;
use std::sync::Arc;
use trace_ctf::schema as ctf;

/// Fallback records are gathered to packets of about this size, in bytes.
const FALLBACK_PACKET: usize = 64 << 10;
/// Bytes of context that the fallback region's records have beside the session's: the CPU.
const CPU_BYTES: usize = 4;

/// What one round of deliveries found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// Bytes delivered.
    pub(crate) bytes: u64,
    /// The fullest ring before the round, in 1/256 of its size.
    pub(crate) fullness: u32,
}

/// The reading end of a session.
pub(crate) struct Delivery {
    rings: Vec<Reader>,
    fallback: FallbackReader,
    context: Context,
    /// Events lost by stream, as last told to the output.
    told: HashMap<StreamId, u64>,
    /// Time of the last packet of each stream.
    last_ns: HashMap<StreamId, u64>,
    sink: Box<dyn Sink>,
    journal: Journal,
    failure: Option<Arc<Error>>,
    /// Overwrite mode: the rings are delivered when recording ends, not before.
    overwrite: bool,
    /// Threads whose names the trace has, where it wants them.
    threads: Option<ThreadNames>,
}

impl Delivery {
    pub(crate) fn new(core: &Core, context: Context, sink: Box<dyn Sink>, journal: Journal, overwrite: bool) -> Delivery {
        Delivery {
            rings: (0..core.buffers()).map(|i| core.reader(i)).collect(),
            fallback: core.fallback_reader(),
            context,
            told: HashMap::new(),
            last_ns: HashMap::new(),
            sink,
            journal,
            failure: None,
            overwrite,
            threads: context.contains(Context::THREAD_NAME).then(ThreadNames::default),
        }
    }

    /// Describes new event classes; before they are used anywhere (JR-1).
    pub(crate) fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        for class in classes {
            self.journal.describe(class)?;
            self.sink.describe(class)?;
        }
        Ok(())
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.as_deref().map(Error::again)
    }

    pub(crate) fn written(&self) -> u64 {
        self.sink.written()
    }

    /// Delivers finished sub-buffers, and with `cut` what is committed of the current ones.
    pub(crate) fn round(&mut self, core: &Core, cut: bool, now_ns: u64) -> Round {
        if self.failure.is_some() {
            return Round::default();
        }
        self.attempt(|d| {
            d.deliver_thread_names(false, now_ns)?;
            if d.overwrite { Ok(Round::default()) } else { d.deliver(core, cut) }
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
    pub(crate) fn finish(&mut self, core: &Core, now_ns: u64) {
        if self.failure.is_none() {
            self.attempt(|d| {
                d.deliver_thread_names(true, now_ns)?;
                let round = d.deliver(core, true)?;
                d.close(core, now_ns)?;
                d.sink.flush()?;
                Ok(round)
            });
        }
    }

    /// An error ends the recording: it is kept for whoever asks, and the output gets nothing more.
    fn attempt(&mut self, work: impl FnOnce(&mut Delivery) -> Result<Round>) -> Round {
        work(self).unwrap_or_else(|error| {
            eprintln!("ringtrace: {}", crate::error::Chain(&error));
            self.failure = Some(Arc::new(error));
            let _ = self.sink.flush();
            Round::default()
        })
    }

    fn deliver(&mut self, core: &Core, cut: bool) -> Result<Round> {
        let mut round = Round::default();
        for reader in &mut self.rings {
            round.fullness = round.fullness.max(reader.fullness(core));
            while let Some(chunk) = reader.next(core, cut) {
                let stream = StreamId { class: metadata::RINGS, instance: chunk.cpu };
                let packet = Packet {
                    stream,
                    cpu: chunk.cpu,
                    begin_ns: chunk.begin_ns,
                    end_ns: chunk.end_ns,
                    discarded: chunk.discarded,
                    content: chunk.content,
                };
                self.sink.deliver(&packet)?;
                round.bytes += chunk.content.len() as u64;
                self.told.insert(stream, chunk.discarded);
                self.last_ns.insert(stream, chunk.end_ns);
                reader.release(core, chunk);
            }
        }
        round.bytes += self.deliver_fallback(core)?;
        self.sink.settle()?;
        Ok(round)
    }

    /// The fallback region's records become packets of a stream class of their own.
    fn deliver_fallback(&mut self, core: &Core) -> Result<u64> {
        let stream = StreamId { class: metadata::FALLBACK, instance: 0 };
        let mut bytes = 0;
        loop {
            let mut content = Vec::new();
            let mut span: Option<(u64, u64)> = None;
            while content.len() < FALLBACK_PACKET {
                let Some(record) = self.fallback.next(core) else { break };
                let begin = span.map_or(record.time_ns, |(begin, _)| begin);
                span = Some((begin, record.time_ns));
                content.extend_from_slice(&record.id.to_le_bytes());
                content.extend_from_slice(&record.time_ns.to_le_bytes());
                let (context, payload) = record.payload.split_at(self.context.size().min(record.payload.len()));
                content.extend_from_slice(context);
                if !self.context.contains(Context::CPU) {
                    content.extend_from_slice(&record.cpu.to_le_bytes()[..CPU_BYTES]);
                }
                content.extend_from_slice(payload);
            }
            let Some((begin_ns, end_ns)) = span else { return Ok(bytes) };
            let discarded = core.unplaced_losses();
            self.sink.deliver(&Packet { stream, cpu: 0, begin_ns, end_ns, discarded, content: &content })?;
            self.fallback.release(core);
            self.told.insert(stream, discarded);
            self.last_ns.insert(stream, end_ns);
            bytes += content.len() as u64;
        }
    }

    /// Ends each stream that has packets, or losses to tell, with an empty packet.
    fn close(&mut self, core: &Core, now_ns: u64) -> Result<()> {
        let rings = self.rings.iter().map(|r| (StreamId { class: metadata::RINGS, instance: r.cpu() }, r.cpu(), r.discarded(core)));
        let fallback = (StreamId { class: metadata::FALLBACK, instance: 0 }, 0, core.unplaced_losses());
        for (stream, cpu, discarded) in rings.chain([fallback]).collect::<Vec<_>>() {
            if discarded == 0 && !self.told.contains_key(&stream) {
                continue;
            }
            let now_ns = now_ns.max(self.last_ns.get(&stream).copied().unwrap_or(0));
            self.sink.deliver(&Packet { stream, cpu, begin_ns: now_ns, end_ns: now_ns, discarded, content: &[] })?;
            self.told.insert(stream, discarded);
            self.last_ns.insert(stream, now_ns);
        }
        Ok(())
    }
}
