//! The output of `RINGTRACE=print`: readable lines on stderr, from the consumer's thread.

use crate::error::{Error, Result};
use crate::output::{Packet, Sink, StreamId};
use std::collections::HashMap;
use std::io::Write as _;
use trace_ctf::packet::PacketHeader;
use trace_ctf::reader::{self, Decoder};
use trace_ctf::schema as ctf;
use trace_ctf::text::Formatter;

/// Prints events in the order of their time, as `ringtrace view` shows those of a trace.
pub(crate) struct Printer {
    decoder: Decoder,
    formatter: Formatter,
    /// Packets since the last [`settle`](Sink::settle).
    packets: Vec<reader::Packet>,
    /// Losses reported so far, by stream.
    discarded: HashMap<StreamId, u64>,
    written: u64,
}

impl Printer {
    pub(crate) fn new(trace: &ctf::Trace) -> Result<Printer> {
        let decoder = ctf::Schema::new(trace.clone()).and_then(|schema| Decoder::new(&schema)).map_err(unreadable)?;
        Ok(Printer {
            decoder,
            formatter: Formatter::local(crate::sys::utc_offset),
            packets: Vec::new(),
            discarded: HashMap::new(),
            written: 0,
        })
    }
}

/// What is printed is read by way of the trace format; a description that this cannot express is our own fault.
fn unreadable(error: trace_ctf::Error) -> Error {
    Error::io("cannot print events on", "stderr", std::io::Error::other(error))
}

impl Sink for Printer {
    fn describe(&mut self, class: &ctf::EventClass) -> Result<()> {
        self.decoder.add(class).map_err(unreadable)
    }

    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()> {
        let header = PacketHeader {
            stream_class_id: packet.stream.class,
            stream_instance_id: u64::from(packet.stream.instance),
            timestamp_begin: packet.begin_ns,
            timestamp_end: packet.end_ns,
            cpu_id: packet.cpu,
            ..PacketHeader::default()
        };
        self.packets.push(self.decoder.packet(&header, packet.content).map_err(unreadable)?);
        let seen = self.discarded.entry(packet.stream).or_default();
        if packet.discarded > *seen {
            eprintln!("ringtrace: {} events were lost here: the rings were full", packet.discarded - *seen);
            *seen = packet.discarded;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        let mut lines = Vec::new();
        let mut events = Vec::new();
        for packet in &self.packets {
            for event in packet.events() {
                events.push(event.map_err(unreadable)?);
            }
        }
        // Stable: events of one ring keep their order.
        events.sort_by_key(reader::Event::timestamp);
        for event in &events {
            self.formatter.event(event, &mut lines);
        }
        drop(events);
        self.packets.clear();
        self.written += lines.len() as u64;
        // Nobody reads stderr: that is no reason to end anything.
        let _ = std::io::stderr().lock().write_all(&lines);
        Ok(())
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn flush(&mut self) -> Result<()> {
        self.settle()
    }
}
