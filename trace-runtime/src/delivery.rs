//! Delivery: from a session's rings to its output, by the consumer's thread alone.

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::metadata;
use crate::output::{Packet, Sink, StreamId};
use crate::report;
use crate::ring_buffer::{Losses, Mode, Reader};
use crate::threads::ThreadNames;
use crate::transfer::{Front, Span, Transfer};
use std::sync::Arc;
use trace_ctf::schema as ctf;

/// Most names of threads that are kept for snapshots.
const MOST_NAMES: usize = 1 << 16;

/// What one round of deliveries found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// The fullest ring before the round, in 1/256 of its size.
    pub(crate) fullness: u32,
}

/// The reading end of a session.
pub(crate) struct Delivery {
    transfer: Transfer,
    /// `None`: another process writes it.
    journal: Option<Journal>,
    /// What snapshots are described by.
    trace: ctf::Trace,
    classes: Vec<ctf::EventClass>,
    failure: Option<Arc<Error>>,
    /// Another process consumes the rings, and this one does not.
    is_elsewhere: bool,
    /// All names that were told, for snapshots: also those of threads that have ended.
    names: Vec<(u32, String)>,
    /// Threads whose names the trace has, where it wants them.
    threads: Option<ThreadNames>,
}

impl Delivery {
    /// `has_names`: the trace is to have the names of this process's threads. Without a journal, the rings are another's.
    pub(crate) fn new(
        reader: Reader,
        trace: ctf::Trace,
        has_names: bool,
        sink: Box<dyn Sink>,
        journal: Option<Journal>,
    ) -> Delivery {
        let mut transfer = Transfer::new(reader, Front::of(&trace), Span::Whole, sink);
        transfer.is_foreign = journal.is_none();
        Delivery {
            transfer,
            trace,
            classes: Vec::new(),
            journal,
            failure: None,
            is_elsewhere: false,
            names: Vec::new(),
            threads: has_names.then(ThreadNames::default),
        }
    }

    /// Leaves the rings to another process.
    pub(crate) fn leave_to_others(&mut self) {
        self.is_elsewhere = true;
    }

    /// Whether another process still holds rings that were left to others, or was ended before it took them: they may not be
    /// delivered.
    pub(crate) fn is_held_elsewhere(&self) -> bool {
        let reader = &self.transfer.reader;
        self.is_elsewhere && (reader.holder().is_some() || !reader.was_claimed() && reader.records() > 0)
    }

    /// Describes new event classes; before they are used anywhere (JR-1).
    pub(crate) fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.describe(classes)?;
        }
        self.classes.extend_from_slice(classes);
        self.transfer.sink.describe(classes)
    }

    /// What describes a snapshot: the trace, its classes, and the names of threads.
    pub(crate) fn description(&mut self, now_ns: u64) -> (ctf::Trace, Vec<ctf::EventClass>, Vec<(u32, String)>) {
        if self.threads.is_some() && self.failure.is_none() {
            self.attempt(|d| d.deliver_thread_names(true, now_ns).map(|()| Round::default()));
        }
        // Where the trace does not want them, those that live.
        let names = if self.threads.is_some() { self.names.clone() } else { ThreadNames::default().news(true) };
        (self.trace.clone(), self.classes.clone(), names)
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.transfer.reader
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.as_deref().map(Error::again)
    }

    pub(crate) fn written(&self) -> u64 {
        self.transfer.sink.written()
    }

    pub(crate) fn events(&self) -> u64 {
        self.transfer.events
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.transfer.bytes
    }

    /// Returns what was lost so far.
    pub(crate) fn losses(&self) -> Losses {
        let buffers = 0..self.transfer.reader.geometry().buffers;
        buffers.fold(self.transfer.reader.fallback_losses(), |sum, buffer| sum.plus(&self.transfer.reader.buffer_losses(buffer)))
    }

    /// Delivers finished sub-buffers, and with `cut` what is committed of the current ones. In overwrite mode nothing: those
    /// rings are delivered when recording ends.
    pub(crate) fn round(&mut self, cut: bool, now_ns: u64) -> Round {
        if self.failure.is_some() || self.is_elsewhere {
            return Round::default();
        }
        self.attempt(|d| {
            d.deliver_thread_names(false, now_ns)?;
            match d.transfer.reader.settings().mode {
                Mode::Overwrite => Ok(Round::default()),
                Mode::Discard => Ok(Round { fullness: d.transfer.deliver(cut, false)? }),
            }
        })
    }

    /// Names of threads become events of a stream that the consumer writes itself.
    fn deliver_thread_names(&mut self, all: bool, now_ns: u64) -> Result<()> {
        let Some(threads) = &mut self.threads else { return Ok(()) };
        let news = threads.news(all);
        let Some(content) = metadata::thread_names(&news, now_ns) else { return Ok(()) };
        if self.transfer.reader.settings().mode == Mode::Overwrite {
            self.names.extend(news);
            // The oldest are those of events that were overwritten, most likely.
            self.names.drain(..self.names.len().saturating_sub(MOST_NAMES));
        }
        let stream = StreamId { class: metadata::CONSUMER, instance: 0 };
        self.transfer.sink.deliver(&Packet { stream, cpu: 0, begin_ns: now_ns, end_ns: now_ns, discarded: 0, content: &content })
    }

    /// Delivers everything, and tells the output the last losses. Nobody writes to the rings any more.
    pub(crate) fn finish(&mut self, now_ns: u64, quiet: bool) {
        if self.failure.is_none() && !self.is_elsewhere {
            self.attempt(|d| {
                d.deliver_thread_names(true, now_ns)?;
                let fullness = d.transfer.deliver(true, quiet)?;
                d.transfer.close(now_ns)?;
                d.transfer.sink.flush()?;
                Ok(Round { fullness })
            });
        }
    }

    /// An error ends the recording: it is kept for whoever asks, and the output gets nothing more.
    fn attempt(&mut self, work: impl FnOnce(&mut Delivery) -> Result<Round>) -> Round {
        work(self).unwrap_or_else(|error| {
            report::say(format_args!("{}", crate::error::Chain(&error)));
            self.failure = Some(Arc::new(error));
            let _ = self.transfer.sink.flush();
            Round::default()
        })
    }
}
