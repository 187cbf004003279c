//! Delivery: from a session's rings to its output, by the consumer's thread alone.

use crate::error::{Error, Result};
use crate::keep::{self, Kept, NotKept, Sieve};
use crate::metadata;
use crate::output::{Elsewhere, Packet, Sink, StreamId};
use crate::rcu::lock;
use crate::report;
use crate::ring_buffer::{Losses, Mode, Moment, Reader};
use crate::threads::ThreadNames;
use crate::transfer::{Classes, Front, Span, Transfer};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
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
    /// What snapshots are described by.
    trace: ctf::Trace,
    classes: Classes,
    /// When recording began, in ns of the trace's clock.
    pub(crate) origin_ns: u64,
    failure: Failure,
    /// Another process consumes the rings, and this one does not.
    is_elsewhere: bool,
    /// All names that were told, for snapshots: also those of threads that have ended.
    names: Vec<(u32, String)>,
    /// Threads whose names the trace has, where it wants them.
    threads: Option<ThreadNames>,
    /// Where events are kept by their keys.
    keeping: Option<Keeping>,
}

/// What ended a recording, if anything did: known also while an output hangs.
pub(crate) type Failure = Arc<OnceLock<Error>>;

/// How far a delivery is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Bytes of the records delivered.
    pub(crate) bytes: u64,
    /// Bytes that the output wrote.
    pub(crate) written: u64,
    /// What was lost so far.
    pub(crate) lost: Losses,
}

/// What is held back until it is known which keys are kept.
struct Keeping {
    kept: Arc<Kept>,
    /// What the trace knows of what it did not get.
    told: NotKept,
    told_at: Instant,
    /// Moments at which the rings were looked at, the oldest first: what lies before one is delivered when that is old enough.
    moments: VecDeque<(Instant, Moment)>,
    /// How full the fullest ring was then, in 1/256.
    fullness: u32,
}

/// What is held back is delivered in so many steps of the wait.
const STEPS: u32 = 32;
/// A ring that is so full, in 1/256, does not wait any longer.
const HALF: u32 = 128;
/// What was left out is told so often, while it grows.
const TOLD: Duration = Duration::from_secs(1);

impl Delivery {
    /// `has_names`: the trace is to have the names of this process's threads.
    pub(crate) fn new(reader: Reader, trace: ctf::Trace, has_names: bool, sink: Box<dyn Sink>, classes: Classes) -> Delivery {
        let transfer = Transfer::new(reader, Front::of(&trace), Span::Whole, sink);
        Delivery {
            transfer: transfer.with_classes(classes.clone()),
            trace,
            classes,
            origin_ns: 0,
            failure: Failure::default(),
            is_elsewhere: false,
            names: Vec::new(),
            threads: has_names.then(ThreadNames::default),
            keeping: None,
        }
    }

    /// The rings are another process's.
    pub(crate) fn of_another_process(mut self) -> Delivery {
        self.transfer.is_foreign = true;
        self
    }

    /// Whether the output gets only what is kept.
    pub(crate) fn keeps(&self) -> bool {
        self.keeping.is_some()
    }

    /// From now on the output gets only what is kept. [`metadata::not_kept`] is among the classes.
    pub(crate) fn keep(&mut self, kept: Arc<Kept>) -> Result<()> {
        self.transfer.describe()?;
        let classes = self.transfer.described();
        let mut sieve = Sieve::new(Box::new(Elsewhere::default()), kept.clone(), &self.trace, &classes, None)?;
        sieve.put_before(std::mem::replace(&mut self.transfer.sink, Box::new(Elsewhere::default())));
        self.transfer.sink = Box::new(sieve);
        let (told, told_at, moments) = (NotKept::default(), Instant::now(), VecDeque::new());
        self.keeping = Some(Keeping { kept, told, told_at, moments, fullness: 0 });
        Ok(())
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

    /// Describes to the output what it has not yet; otherwise that is done before the next packet (JR-4).
    ///
    /// # Errors
    ///
    /// The output failed, now or earlier.
    pub(crate) fn describe(&mut self) -> Result<()> {
        if self.failure.get().is_none() {
            self.attempt(|d| d.transfer.describe().map(|()| Round::default()));
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// The same for an output that is just made, whose failure is its maker's.
    pub(crate) fn describe_first(&mut self) -> Result<()> {
        self.transfer.describe()
    }

    /// What describes a snapshot: the trace, its classes, and the names of threads.
    pub(crate) fn description(&mut self, now_ns: u64) -> (ctf::Trace, Vec<ctf::EventClass>, Vec<(u32, String)>) {
        if self.threads.is_some() && self.failure.get().is_none() {
            self.attempt(|d| d.deliver_thread_names(true, now_ns).map(|()| Round::default()));
        }
        // Where the trace does not want them, those that live.
        let names = if self.threads.is_some() { self.names.clone() } else { ThreadNames::default().news(true) };
        (self.trace.clone(), lock(&self.classes).clone(), names)
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.transfer.reader
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().map(Error::again)
    }

    /// Where its failure will be.
    pub(crate) fn failures(&self) -> Failure {
        self.failure.clone()
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures { bytes: self.bytes(), written: self.written(), lost: self.losses() }
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
        if self.failure.get().is_some() || self.is_elsewhere {
            return Round::default();
        }
        self.attempt(|d| {
            d.transfer.describe()?;
            d.deliver_thread_names(false, now_ns)?;
            match d.transfer.reader.settings().mode {
                Mode::Overwrite => Ok(Round::default()),
                Mode::Discard => d.deliver_kept(cut, now_ns),
            }
        })
    }

    /// The same where events are kept by their keys: what was committed before the wait began.
    fn deliver_kept(&mut self, cut: bool, now_ns: u64) -> Result<Round> {
        let transfer = &mut self.transfer;
        let Some((keeping, wait)) = self.keeping.as_mut().and_then(|k| k.kept.wait().map(|wait| (k, wait))) else {
            transfer.reader.end_at(None);
            return Ok(Round { fullness: transfer.deliver(cut, false)? });
        };
        let now = Instant::now();
        let fullness = transfer.fullness();
        let grown = fullness.saturating_sub(keeping.fullness);
        let is_due = |(at, _): &(Instant, Moment)| now.duration_since(*at) >= wait;
        if grown >= 256 / STEPS || keeping.moments.back().is_none_or(|(at, _)| now.duration_since(*at) >= wait / STEPS) {
            keeping.moments.push_back((now, transfer.reader.moment()));
            keeping.fullness = fullness;
        }
        let due = keeping.moments.iter().take_while(|m| is_due(m)).count();
        let hurries = due == 0 && fullness >= HALF;
        if let Some((_, moment)) = keeping.moments.drain(..due.max(usize::from(hurries))).next_back() {
            transfer.reader.end_at(Some(&moment));
            let mut deliver = || transfer.deliver(true, false);
            if hurries { keeping.kept.hurried(deliver) } else { deliver() }?;
            keeping.fullness = transfer.fullness();
        }
        if now.duration_since(keeping.told_at) >= TOLD {
            keeping.tell(&mut *transfer.sink, now_ns)?;
        }
        // What is held back is no reason to hurry.
        Ok(Round { fullness: if fullness >= HALF { fullness } else { grown } })
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
        if self.failure.get().is_none() && !self.is_elsewhere {
            self.attempt(|d| {
                d.transfer.describe()?;
                d.deliver_thread_names(true, now_ns)?;
                d.transfer.reader.end_at(None);
                let fullness = d.transfer.deliver(true, quiet)?;
                d.transfer.close(now_ns)?;
                if let Some(keeping) = &mut d.keeping {
                    keeping.moments.clear();
                    keeping.tell(&mut *d.transfer.sink, now_ns)?;
                }
                d.transfer.sink.flush()?;
                Ok(Round { fullness })
            });
        }
    }

    /// Closes the output of a session that is over; its files are not to stay open until the rings may go.
    pub(crate) fn close(&mut self) {
        self.transfer.sink = Box::new(Elsewhere { written: self.transfer.sink.written() });
    }

    /// An error ends the recording: it is kept for whoever asks, and the output gets nothing more.
    fn attempt(&mut self, work: impl FnOnce(&mut Delivery) -> Result<Round>) -> Round {
        work(self).unwrap_or_else(|error| {
            if !self.transfer.is_foreign {
                report::say(format_args!("{error}")); // elsewhere, whoever consumes asks for it
            }
            let _ = self.failure.set(error);
            let _ = self.transfer.sink.flush();
            Round::default()
        })
    }
}

impl Keeping {
    fn tell(&mut self, sink: &mut dyn Sink, now_ns: u64) -> Result<()> {
        self.told_at = Instant::now();
        match keep::news(&mut self.told, self.kept.not_kept()) {
            Some(news) => keep::tell(sink, &news, now_ns),
            None => Ok(()),
        }
    }
}
