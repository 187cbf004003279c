//! Events of many streams in the order of their time stamps.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::packet::{EventHead, Position};
use crate::reader::{Event, Loss, Packet, Packets, Trace};
use crate::{Error, Result};

/// One step of a merge.
#[derive(Debug)]
pub enum Entry<'m> {
    /// The next event.
    Event(Event<'m>),
    /// Something is missing here, in the stream it names.
    Loss(Loss),
}

/// The events of one or more traces, by time stamp.
///
/// Events of one stream keep their order. Equal time stamps go by trace UUID, stream class and stream instance, as in
/// babeltrace2.
#[derive(Debug)]
pub struct Merge {
    inputs: Vec<Input>,
    /// Time stamp and input of each event that is ready.
    ready: BinaryHeap<Reverse<(i64, usize)>>,
    losses: VecDeque<Loss>,
    errors: VecDeque<Error>,
    /// Input whose event was given last, and is not needed any more.
    given: Option<usize>,
}

#[derive(Debug)]
struct Input {
    packets: Packets,
    packet: Option<(Packet, Position)>,
    event: Option<EventHead>,
}

impl Merge {
    /// Merges traces.
    pub fn new<'t>(traces: impl IntoIterator<Item = &'t Trace>) -> Self {
        let mut traces: Vec<_> = traces.into_iter().collect();
        traces.sort_by_key(|trace| trace.declarations().uuid);
        let streams = traces.iter().flat_map(|trace| trace.streams().iter().map(|stream| trace.packets(stream)));
        let inputs: Vec<_> = streams.map(|packets| Input { packets, packet: None, event: None }).collect();
        let mut merge = Self { ready: BinaryHeap::new(), losses: VecDeque::new(), errors: VecDeque::new(), given: None, inputs };
        for input in 0..merge.inputs.len() {
            merge.advance(input);
        }
        merge
    }

    /// Gives the next event or loss, or what is wrong with a stream, which then has ended.
    pub fn next_entry(&mut self) -> Option<Result<Entry<'_>>> {
        if let Some(input) = self.given.take() {
            self.advance(input);
        }
        if let Some(loss) = self.losses.pop_front() {
            return Some(Ok(Entry::Loss(loss)));
        }
        if let Some(error) = self.errors.pop_front() {
            return Some(Err(error));
        }
        let Reverse((_, index)) = self.ready.pop()?;
        self.given = Some(index);
        let Input { packet: Some((packet, _)), event: Some(event), .. } = &self.inputs[index] else { return None };
        Some(Ok(Entry::Event(Event::new(packet, event))))
    }

    /// Makes the next event of an input ready.
    fn advance(&mut self, index: usize) {
        let input = &mut self.inputs[index];
        input.event = None;
        loop {
            if let Some((packet, position)) = &mut input.packet {
                match packet.next(position) {
                    Ok(Some(event)) => {
                        self.ready.push(Reverse((event.timestamp.unwrap_or(i64::MIN), index)));
                        input.event = Some(event);
                        return;
                    }
                    Ok(None) => input.packet = None,
                    Err(error) => {
                        self.errors.push_back(error);
                        input.packet = None;
                        input.packets.stop();
                        return;
                    }
                }
            }
            match input.packets.next() {
                Some(Ok((packet, losses))) => {
                    self.losses.extend(losses);
                    let position = packet.begin();
                    input.packet = Some((packet, position));
                }
                Some(Err(error)) => {
                    self.errors.push_back(error);
                    return;
                }
                None => return,
            }
        }
    }
}
