//! The output of `RINGTRACE=print`: readable lines on stderr, from the consumer's thread.

use crate::consumer;
use crate::error::{Error, Result};
use crate::output::{Packet, Sink, StreamId};
use crate::report::PATIENCE;
use crate::ring_buffer::Core;
use crate::sys;
use std::collections::HashMap;
use std::io::{ErrorKind, IsTerminal as _};
use std::sync::Arc;
use trace_ctf::reader::{self, Decoder, Entry, Loss, LossKind, Merge};
use trace_ctf::schema as ctf;
use trace_ctf::text::Readable;

/// Prints events and losses in the order of their time, as `ringtrace view` shows those of a trace.
pub(crate) struct Printer {
    /// Where what cannot be printed is counted.
    core: Arc<Core>,
    decoder: Decoder,
    readable: Readable,
    /// Packets since the last [`settle`](Sink::settle).
    packets: Vec<reader::Packet>,
    /// Losses since then.
    losses: Vec<Loss>,
    /// How far each stream has been reported.
    reported: HashMap<StreamId, Reported>,
    written: u64,
}

#[derive(Default)]
struct Reported {
    discarded: u64,
    /// Nanoseconds from the Unix epoch.
    end: Option<i64>,
}

impl Printer {
    pub(crate) fn new(trace: &ctf::Trace, core: Arc<Core>) -> Result<Printer> {
        let decoder = ctf::Schema::new(trace.clone()).and_then(|schema| Decoder::new(&schema)).map_err(unreadable)?;
        Ok(Printer {
            core,
            decoder,
            readable: Readable::local(sys::utc_offset()).colors(is_colored()),
            packets: Vec::new(),
            losses: Vec::new(),
            reported: HashMap::new(),
            written: 0,
        })
    }
}

/// Whether stderr is a terminal that shows colors, and nobody minds: <https://no-color.org>.
fn is_colored() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

const WARNING: &[u8] = b"ringtrace: warning: ";

fn warn(readable: &Readable, loss: &Loss, lines: &mut Vec<u8>) {
    lines.extend(WARNING);
    readable.loss(loss, lines);
    lines.push(b'\n');
}

/// What is printed is read by way of the trace format; a description that this cannot express is our own fault.
fn unreadable(error: trace_ctf::Error) -> Error {
    Error::io("cannot print events on", "stderr", std::io::Error::other(error))
}

impl Sink for Printer {
    fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        classes.iter().try_for_each(|class| self.decoder.add(class).map_err(unreadable))
    }

    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()> {
        let content = self.decoder.packet(&packet.header(), packet.content).map_err(unreadable)?;
        let (_, end) = content.span();
        let reported = self.reported.entry(packet.stream).or_default();
        if packet.discarded > reported.discarded {
            self.losses.push(Loss {
                kind: LossKind::DiscardedEvents,
                count: Some(packet.discarded - reported.discarded),
                begin: reported.end,
                // As in a trace: the last packet of a ring may have been filled before events found no room behind it.
                end,
                stream_class_id: packet.stream.class.into(),
                stream_instance_id: Some(packet.stream.instance.into()),
                file: None,
            });
        }
        // A count that was sampled earlier than the one before is no news.
        *reported = Reported { discarded: packet.discarded.max(reported.discarded), end };
        self.packets.push(content);
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        let mut lines = Vec::new();
        self.losses.sort_by_key(|loss| loss.begin);
        // Threads were recorded before they were looked for.
        for packet in &self.packets {
            let mut events = packet.events();
            while let Some(event) = events.next_event() {
                self.readable.learn(&event.map_err(unreadable)?);
            }
        }
        let mut losses = self.losses.drain(..).peekable();
        let mut merge = Merge::of_packets(self.packets.drain(..));
        while let Some(entry) = merge.next_entry() {
            let Entry::Event(event) = entry.map_err(unreadable)? else { continue };
            while let Some(loss) = losses.next_if(|loss| loss.begin <= event.timestamp()) {
                warn(&self.readable, &loss, &mut lines);
            }
            self.readable.event(&event, &mut lines);
        }
        losses.for_each(|loss| warn(&self.readable, &loss, &mut lines));
        // While the program runs, events are lost to full rings, and counted; its end waits no longer than for a message.
        let written = sys::write_stderr(&lines, |waited| !consumer::is_ending() || waited < PATIENCE);
        let left = written.map_or_else(|(left, _)| left, |()| 0);
        self.written += (lines.len() - left) as u64;
        let Err((_, why)) = written else { return Ok(()) };
        let is_event = |line: &&[u8]| !line.is_empty() && !line.starts_with(WARNING);
        let lost = lines[lines.len() - left..].split(|byte| *byte == b'\n').filter(is_event).count();
        self.core.count_without_buffer(lost as u64);
        let why = match why {
            // Whoever reads has seen enough.
            ErrorKind::BrokenPipe => return Ok(()),
            ErrorKind::TimedOut => "nobody reads it".to_owned(),
            ErrorKind::NotFound => "it is closed, or another file is in its place".to_owned(),
            why => why.to_string(),
        };
        Err(Error::io("cannot print events on", "stderr", std::io::Error::other(format!("{why}; {lost} events are lost"))))
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn flush(&mut self) -> Result<()> {
        self.settle()
    }
}
