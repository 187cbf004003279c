//! Events of many streams in the order of their time stamps.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use super::packet::{EventHead, Position};
use crate::declared::{EventClass, StreamClass};
use crate::reader::{Event, Loss, Packet, Packets, Trace};
use crate::{Error, Result};

/// One step of a merge.
#[derive(Debug)]
pub enum Entry<'m> {
    /// The next event.
    Event(Event<'m>),
    /// Something is missing here, in the stream it names.
    Loss(Box<Loss>),
}

/// Which events are wanted: all of them, unless told otherwise.
///
/// # Examples
///
/// ```
/// use trace_ctf::reader::Selection;
///
/// let second = 1_000_000_000;
/// let selection = Selection::default().from(5 * second).to(6 * second).classes(|_, class| class.name.starts_with("app:"));
/// # let _ = selection;
/// ```
#[derive(Clone, Default)]
pub struct Selection {
    from: Option<i64>,
    to: Option<i64>,
    classes: Option<Arc<IsWanted>>,
}

type IsWanted = dyn Fn(&StreamClass, &EventClass) -> bool + Send + Sync;

impl Selection {
    /// Leaves out what is earlier than a time, in nanoseconds from the Unix epoch. Packets that end before are not read.
    #[must_use]
    pub fn from(self, nanoseconds: i64) -> Self {
        Self { from: Some(nanoseconds), ..self }
    }

    /// Leaves out what is not earlier than a time, in nanoseconds from the Unix epoch. Packets that begin later are not read.
    #[must_use]
    pub fn to(self, nanoseconds: i64) -> Self {
        Self { to: Some(nanoseconds), ..self }
    }

    /// Leaves out the events of classes that are not wanted; each class is asked about once for each stream.
    #[must_use]
    pub fn classes(self, are_wanted: impl Fn(&StreamClass, &EventClass) -> bool + Send + Sync + 'static) -> Self {
        Self { classes: Some(Arc::new(are_wanted)), ..self }
    }

    fn selects_all(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.classes.is_none()
    }

    fn selects(&self, packet: &Packet, event: &EventHead, known: &mut Vec<Option<bool>>) -> bool {
        if let Some(timestamp) = Event::new(packet, event).timestamp() {
            if self.from.is_some_and(|from| timestamp < from) || self.to.is_some_and(|to| timestamp >= to) {
                return false;
            }
        }
        let Some(are_wanted) = &self.classes else { return true };
        let place = event.class as usize;
        if known.len() <= place {
            known.resize(place + 1, None);
        }
        *known[place].get_or_insert_with(|| are_wanted(packet.stream_class(), Event::new(packet, event).class()))
    }
}

impl std::fmt::Debug for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let classes = if self.classes.is_some() { "some" } else { "all" };
        f.debug_struct("Selection").field("from", &self.from).field("to", &self.to).field("classes", &classes).finish()
    }
}

/// The events of one or more traces, by time stamp.
///
/// Events of one stream keep their order. Equal time stamps go by trace UUID, stream class and stream instance, as in
/// babeltrace2. A merge holds one packet of each stream in memory.
#[derive(Debug)]
pub struct Merge {
    inputs: Vec<Input>,
    /// Time stamp and input of each event that is ready.
    ready: BinaryHeap<Reverse<(i64, usize)>>,
    /// The input whose event was given last.
    current: usize,
    /// Whether `current` has given its event, and is not in `ready`.
    is_given: bool,
    /// The first of `ready`.
    limit: (i64, usize),
    losses: VecDeque<Loss>,
    errors: VecDeque<Error>,
    selection: Selection,
    selects_all: bool,
}

impl Input {
    fn new(packets: Packets, packet: Option<Packet>) -> Self {
        let packet = packet.map(|packet| {
            let position = packet.begin();
            (packet, position)
        });
        Self { packets, packet, event: EventHead::default(), classes: Vec::new() }
    }
}

/// Behind every time stamp.
const NO_LIMIT: (i64, usize) = (i64::MAX, usize::MAX);

#[derive(Debug)]
struct Input {
    packets: Packets,
    packet: Option<(Packet, Position)>,
    event: EventHead,
    /// Which event classes are selected, by their place, as far as that was asked.
    classes: Vec<Option<bool>>,
}

impl Merge {
    /// Merges traces.
    pub fn new<'t>(traces: impl IntoIterator<Item = &'t Trace>) -> Self {
        Self::select(traces, Selection::default())
    }

    /// Merges what is selected of traces.
    pub fn select<'t>(traces: impl IntoIterator<Item = &'t Trace>, selection: Selection) -> Self {
        let mut traces: Vec<_> = traces.into_iter().collect();
        traces.sort_by_key(|trace| trace.declarations().uuid);
        let streams = traces.iter().flat_map(|trace| trace.streams().iter().map(|stream| trace.packets(stream)));
        Self::of(streams, selection)
    }

    /// Merges what is selected of streams; where time stamps are equal, earlier streams go first.
    pub fn of(streams: impl IntoIterator<Item = Packets>, selection: Selection) -> Self {
        let input = |packets: Packets| Input::new(packets.between(selection.from, selection.to), None);
        Self::start(streams.into_iter().map(input).collect(), selection)
    }

    /// Merges packets in memory; where time stamps are equal, earlier packets go first.
    pub fn of_packets(packets: impl IntoIterator<Item = Packet>) -> Self {
        let input = |packet: Packet| Input::new(Packets::none(&packet), Some(packet));
        Self::start(packets.into_iter().map(input).collect(), Selection::default())
    }

    fn start(inputs: Vec<Input>, selection: Selection) -> Self {
        let selects_all = selection.selects_all();
        let (losses, errors) = Default::default();
        let ready = BinaryHeap::new();
        let (current, limit) = (0, NO_LIMIT);
        let mut merge = Self { inputs, ready, current, is_given: false, limit, losses, errors, selection, selects_all };
        for input in 0..merge.inputs.len() {
            if let Some(timestamp) = merge.advance(input) {
                merge.ready.push(Reverse((timestamp, input)));
            }
        }
        merge
    }

    /// Gives the next event or loss, or what is wrong with a stream, which then has ended.
    #[inline]
    pub fn next_entry(&mut self) -> Option<Result<Entry<'_>>> {
        // As long as no other stream has an earlier event, one goes on; what else there is to do is done at its packets' ends.
        if self.selects_all && self.is_given {
            let input = &mut self.inputs[self.current];
            if let Some((packet, position)) = &mut input.packet {
                match packet.next(position, &mut input.event) {
                    Ok(true) if (input.event.timestamp, self.current) < self.limit => {
                        let input = &self.inputs[self.current];
                        let (packet, _) = input.packet.as_ref()?;
                        return Some(Ok(Entry::Event(Event::new(packet, &input.event))));
                    }
                    Ok(true) => {
                        self.ready.push(Reverse((input.event.timestamp, self.current)));
                        self.is_given = false;
                    }
                    Ok(false) => {}
                    Err(error) => self.failed(error),
                }
            }
        }
        self.next_slow()
    }

    #[inline(never)]
    fn next_slow(&mut self) -> Option<Result<Entry<'_>>> {
        if core::mem::take(&mut self.is_given) {
            if let Some(timestamp) = self.advance(self.current) {
                self.ready.push(Reverse((timestamp, self.current)));
            }
        }
        if let Some(loss) = self.losses.pop_front() {
            return Some(Ok(Entry::Loss(Box::new(loss))));
        }
        if let Some(error) = self.errors.pop_front() {
            return Some(Err(error));
        }
        let Reverse((_, index)) = self.ready.pop()?;
        self.current = index;
        self.is_given = true;
        self.limit = self.ready.peek().map_or(NO_LIMIT, |Reverse(first)| *first);
        let input = &self.inputs[index];
        let (packet, _) = input.packet.as_ref()?;
        Some(Ok(Entry::Event(Event::new(packet, &input.event))))
    }

    /// Ends the current input.
    #[cold]
    fn failed(&mut self, error: Error) {
        self.errors.push_back(error);
        self.inputs[self.current].packets.stop();
    }

    /// Finds the next event of an input, and gives its time.
    #[inline]
    fn advance(&mut self, index: usize) -> Option<i64> {
        loop {
            let input = &mut self.inputs[index];
            let Some((packet, position)) = &mut input.packet else {
                self.next_packet(index);
                self.inputs[index].packet.as_ref()?;
                continue;
            };
            match packet.next(position, &mut input.event) {
                Ok(true) => {
                    if !self.selects_all && !self.selection.selects(packet, &input.event, &mut input.classes) {
                        continue;
                    }
                    return Some(input.event.timestamp);
                }
                Ok(false) => {}
                Err(error) => {
                    self.errors.push_back(error);
                    input.packets.stop();
                }
            }
            self.next_packet(index);
        }
    }

    /// Reads the next packet of an input, into the memory of the one before it.
    #[cold]
    fn next_packet(&mut self, index: usize) {
        let input = &mut self.inputs[index];
        if let Some((packet, _)) = input.packet.take() {
            input.packets.recycle(packet);
        }
        match input.packets.next() {
            Some(Ok((packet, losses))) => {
                self.losses.extend(losses);
                let position = packet.begin();
                input.packet = Some((packet, position));
            }
            Some(Err(error)) => self.errors.push_back(error),
            None => {}
        }
    }
}
