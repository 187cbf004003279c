//! An output that is made when there is something for it: a followed child that records nothing leaves no trace.

use super::{Packet, Sink, StreamId};
use crate::error::Result;
use crate::metadata;
use crate::transfer::Told;
use trace_ctf::schema as ctf;

/// Makes the output.
type Make = Box<dyn Fn() -> Result<Box<dyn Sink>> + Send>;

pub(crate) struct Deferred {
    make: Make,
    /// `None`: nothing came yet.
    made: Option<Box<dyn Sink>>,
    /// Until it is made: the classes,
    classes: Vec<ctf::EventClass>,
    /// and the consumer's own events, such as names of threads, which are worth nothing by themselves: times and content.
    own: Vec<(u64, u64, Vec<u8>)>,
}

impl Deferred {
    pub(crate) fn new(make: Make) -> Deferred {
        Deferred { make, made: None, classes: Vec::new(), own: Vec::new() }
    }

    fn made(&mut self) -> Result<&mut Box<dyn Sink>> {
        if self.made.is_none() {
            let mut made = (self.make)()?;
            made.describe(&self.classes)?;
            let stream = StreamId { class: metadata::CONSUMER, instance: 0 };
            for (begin_ns, end_ns, content) in std::mem::take(&mut self.own) {
                made.deliver(&Packet { stream, cpu: 0, begin_ns, end_ns, discarded: 0, content: &content })?;
            }
            self.classes = Vec::new();
            self.made = Some(made);
        }
        // It was made just now at the latest.
        self.made.as_mut().ok_or_else(|| crate::error::Kind::Off("its output was not made").into())
    }
}

impl Sink for Deferred {
    fn told(&self) -> Vec<(StreamId, Told)> {
        self.made.as_ref().map_or_else(Vec::new, |made| made.told())
    }

    fn had(&mut self, packet: &Packet<'_>) -> usize {
        self.made.as_mut().map_or(0, |made| made.had(packet))
    }

    fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        match &mut self.made {
            Some(made) => made.describe(classes),
            None => {
                self.classes.extend_from_slice(classes);
                Ok(())
            }
        }
    }

    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()> {
        if self.made.is_none() && packet.stream.class == metadata::CONSUMER {
            self.own.push((packet.begin_ns, packet.end_ns, packet.content.to_vec()));
            return Ok(());
        }
        self.made()?.deliver(packet)
    }

    fn settle(&mut self) -> Result<()> {
        self.made.as_mut().map_or(Ok(()), |made| made.settle())
    }

    fn written(&self) -> u64 {
        self.made.as_ref().map_or(0, |made| made.written())
    }

    fn flush(&mut self) -> Result<()> {
        self.made.as_mut().map_or(Ok(()), |made| made.flush())
    }
}
