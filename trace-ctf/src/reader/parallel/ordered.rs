//! All cores, in the order of time.
//!
//! Work is cut so that it is independent: reading the next packet of a stream, and mapping the next batch of events of a packet.
//! Who is free takes what is wanted first. The merge takes the batches stream by stream, and works itself where the one it needs
//! is not there, so one thread alone does all of it in turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use super::lock;
use crate::Error;
use crate::reader::packet::{EventHead, Position};
use crate::reader::{Event, Loss, Packet, Packets};

/// What a batch ends at: events that are wanted, events in all, and bytes of text.
const BATCH: usize = 4096;
const BATCH_SEEN: usize = 1 << 16;
const BATCH_TEXT: usize = 256 << 10;

/// For each thread, bytes of packets and batches beyond which nothing is done that is not needed next: they stay in the cache.
const AHEAD: usize = 4 << 20;

/// Packets that are read ahead, for each thread.
const PACKETS_AHEAD: usize = 4;

/// One step of a [`merge`].
#[derive(Debug)]
pub enum Step<'s, T> {
    /// The next event that is wanted, what was made of it, and the text that belongs to it.
    Event(Event<'s>, T, &'s [u8]),
    /// So many events are not wanted.
    Passed(u64),
    /// Something is missing here, in the stream it names.
    Loss(Loss),
    /// What is wrong with a stream, which then has ended.
    Error(Error),
}

/// An event on its way to the merge.
struct Entry<T> {
    head: EventHead,
    /// Events before it that are not wanted.
    passed: u32,
    /// Where its text ends.
    end: usize,
    value: T,
}

/// Events of one packet that follow each other.
struct Batch<T> {
    entries: VecDeque<Entry<T>>,
    text: Vec<u8>,
    /// Events behind the last entry that are not wanted.
    passed: u32,
    error: Option<Error>,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), text: Vec::new(), passed: 0, error: None }
    }
}

impl<T> Batch<T> {
    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<T>>() + self.text.capacity()
    }
}

/// A packet that was read, or why it could not be.
struct Slot<T> {
    packet: Result<Arc<Packet>, Option<Error>>,
    losses: Vec<Loss>,
    /// Batches that are made and wait for the merge.
    batches: VecDeque<Batch<T>>,
    /// Where the next batch begins; none while a thread makes it, and behind the last.
    rest: Option<Position>,
    is_done: bool,
    /// A time about which the next batch begins.
    since: i64,
}

/// A stream.
struct Lane<T> {
    /// None while a thread reads.
    packets: Option<Box<Packets>>,
    /// The times that its events lie between.
    limits: (Option<i64>, Option<i64>),
    is_ended: bool,
    slots: VecDeque<Slot<T>>,
    /// How many slots are gone.
    gone: u64,
    /// A time about which the next packet begins.
    since: i64,
}

struct State<T> {
    lanes: Vec<Lane<T>>,
    slots: usize,
    /// Those of packets and batches, but for the ones that the merge holds.
    bytes: usize,
    /// Nothing more is wanted.
    is_over: bool,
    /// Their memory serves again.
    spare_packets: Vec<Packet>,
    spare_batches: Vec<Batch<T>>,
}

enum Task<T> {
    Read { lane: usize, packets: Box<Packets> },
    Map { lane: usize, slot: u64, packet: Arc<Packet>, rest: Position, limits: (Option<i64>, Option<i64>), batch: Batch<T> },
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// A task was finished, or there is room for another.
    changed: Condvar,
    room: Room,
}

/// What may be ahead of the merge: bytes, and packets.
#[derive(Clone, Copy)]
struct Room {
    bytes: usize,
    slots: usize,
}

/// Ends the work when its thread does, which then was the last that wanted it, or has panicked.
struct OverGuard<'s, T>(&'s Shared<T>);

impl<T> Drop for OverGuard<'_, T> {
    fn drop(&mut self) {
        lock(&self.0.state).is_over = true;
        self.0.changed.notify_all();
    }
}

/// Gives the events of streams in the order of time, each with what was made of it before, on so many threads.
///
/// `mapper` makes a function for each thread, which is asked about each event, in any order: it gives `None` where the event is not
/// wanted, else a value, and may append a text. Events outside of [`Packets::between`] are left out. `visit` gets the wanted ones on the calling thread, in the order of
/// [`Merge`](crate::reader::Merge), and ends all with `Break`.
///
/// Memory does not grow with the trace: a packet and a batch of events of each stream, and for each thread some 4 MiB that are ahead.
///
/// # Examples
///
/// The lines of a trace, made on all cores:
///
/// ```no_run
/// use std::io::Write as _;
/// use std::num::NonZero;
/// use std::ops::ControlFlow;
///
/// use trace_ctf::reader::{Event, Trace, parallel};
/// use trace_ctf::text::Readable;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let trace = Trace::open("app.ringtrace".as_ref())?;
/// let mut out = std::io::stdout().lock();
/// let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
/// let mapper = || {
///     let mut readable = Readable::utc();
///     move |event: &Event<'_>, line: &mut Vec<u8>| Some(readable.event(event, line))
/// };
/// let done = parallel::merge(trace.streams().iter().map(|stream| trace.packets(stream)), threads, mapper, |step| {
///     match step {
///         parallel::Step::Event(_, (), line) => match out.write_all(line) {
///             Ok(()) => ControlFlow::Continue(()),
///             Err(error) => ControlFlow::Break(error),
///         },
///         _ => ControlFlow::Continue(()),
///     }
/// });
/// done.break_value().map_or(Ok(()), Err)?;
/// # Ok(())
/// # }
/// ```
pub fn merge<T: Send, M: FnMut(&Event<'_>, &mut Vec<u8>) -> Option<T>, B>(
    streams: impl IntoIterator<Item = Packets>,
    threads: NonZero<usize>,
    mapper: impl Fn() -> M + Sync,
    visit: impl FnMut(Step<'_, T>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let lane = |packets: Packets| Lane {
        limits: packets.limits(),
        packets: Some(Box::new(packets)),
        is_ended: false,
        slots: VecDeque::new(),
        gone: 0,
        since: i64::MIN,
    };
    let lanes: Vec<_> = streams.into_iter().map(lane).collect();
    let room = Room { bytes: threads.get() * AHEAD, slots: lanes.len() + threads.get() * PACKETS_AHEAD };
    let (spare_packets, spare_batches) = Default::default();
    let state = Mutex::new(State { lanes, slots: 0, bytes: 0, is_over: false, spare_packets, spare_batches });
    let shared = Shared { state, changed: Condvar::new(), room };
    thread::scope(|scope| {
        for _ in 1..threads.get() {
            scope.spawn(|| {
                let _guard = OverGuard(&shared);
                shared.work(&mut mapper());
            });
        }
        let _guard = OverGuard(&shared);
        shared.merge(&mut mapper(), visit)
    })
}

impl<T> State<T> {
    /// What is to be done next: of a stream if one is needed, else what comes first in time and has room.
    fn task(&mut self, needed: Option<usize>, room: Room) -> Option<Task<T>> {
        let has_room = self.bytes < room.bytes;
        let reads_ahead = has_room && self.slots < room.slots;
        let mut first = None;
        for (index, lane) in self.lanes.iter().enumerate() {
            let is_needed = needed == Some(index);
            for (place, slot) in lane.slots.iter().enumerate() {
                if slot.rest.is_some() && (has_room || place == 0 && slot.batches.is_empty()) {
                    let key = (Reverse(is_needed && place == 0), slot.since, index, Some(place));
                    first = first.map_or(Some(key), |other| Some(key.min(other)));
                }
            }
            if lane.packets.is_some() && (reads_ahead || lane.slots.is_empty()) {
                let key = (Reverse(is_needed && lane.slots.is_empty()), lane.since, index, None);
                first = first.map_or(Some(key), |other| Some(key.min(other)));
            }
        }
        let (_, _, index, place) = first?;
        let lane = &mut self.lanes[index];
        let Some(place) = place else {
            let mut packets = lane.packets.take()?;
            if let Some(spare) = self.spare_packets.pop() {
                packets.recycle(spare);
            }
            return Some(Task::Read { lane: index, packets });
        };
        let slot = &mut lane.slots[place];
        let packet = slot.packet.as_ref().ok()?.clone();
        let batch = self.spare_batches.pop().unwrap_or_default();
        Some(Task::Map {
            lane: index,
            slot: lane.gone + place as u64,
            packet,
            rest: slot.rest.take()?,
            limits: lane.limits,
            batch,
        })
    }

    /// Takes over a packet that was read, or the end of its stream.
    fn read(&mut self, index: usize, packets: Box<Packets>, next: Option<crate::Result<(Packet, Vec<Loss>)>>) {
        let lane = &mut self.lanes[index];
        if lane.is_ended {
            return;
        }
        let batches = VecDeque::new();
        let slot = match next {
            None => {
                lane.is_ended = true;
                return;
            }
            Some(Ok((packet, losses))) => {
                let (begin, end) = packet.span();
                let since = begin.unwrap_or(lane.since);
                (lane.since, lane.packets) = (end.unwrap_or(since), Some(packets));
                self.bytes += packet.bytes().len();
                let rest = Some(packet.begin());
                Slot { packet: Ok(Arc::new(packet)), losses, batches, rest, is_done: false, since }
            }
            Some(Err(error)) => {
                lane.is_ended = true;
                Slot { packet: Err(Some(error)), losses: Vec::new(), batches, rest: None, is_done: true, since: lane.since }
            }
        };
        self.slots += 1;
        lane.slots.push_back(slot);
    }

    /// Takes over a batch; `rest` is where the next one of its packet begins.
    fn mapped(&mut self, index: usize, number: u64, batch: Batch<T>, rest: Option<Position>) {
        let lane = &mut self.lanes[index];
        let place = number.checked_sub(lane.gone).map(|place| place as usize);
        let Some((place, slot)) = place.and_then(|place| Some((place, lane.slots.get_mut(place)?))) else { return };
        (slot.rest, slot.is_done) = (rest, rest.is_none());
        slot.since = batch.entries.back().map_or(slot.since, |entry| entry.head.timestamp);
        let is_broken = batch.error.is_some();
        self.bytes += batch.bytes();
        slot.batches.push_back(batch);
        if is_broken {
            // Its stream ends here, whatever was read of it meanwhile.
            (lane.is_ended, lane.packets) = (true, None);
            for slot in lane.slots.drain(place + 1..) {
                self.slots -= 1;
                self.bytes -= slot.packet.map_or(0, |packet| packet.bytes().len());
                self.bytes -= slot.batches.iter().map(Batch::bytes).sum::<usize>();
            }
        }
    }

    /// Takes back what the merge is done with.
    fn recycle(&mut self, mut batch: Batch<T>) {
        batch.entries.clear();
        batch.text.clear();
        batch.passed = 0;
        self.spare_batches.push(batch);
    }
}

/// What the merge has of a stream.
struct Input<T> {
    packet: Option<Arc<Packet>>,
    batch: Batch<T>,
    /// How far the text of the batch was given.
    at: usize,
}

/// What a stream goes on with.
enum Next<T> {
    Batch(Batch<T>),
    Packet(Arc<Packet>, Vec<Loss>),
    Error(Error),
    End,
}

/// Behind every time stamp.
const NO_LIMIT: (i64, usize) = (i64::MAX, usize::MAX);

impl<T> Shared<T> {
    fn work(&self, map: &mut impl FnMut(&Event<'_>, &mut Vec<u8>) -> Option<T>) {
        let mut state = lock(&self.state);
        while !state.is_over {
            state = self.step(state, None, map);
        }
    }

    /// Does what is to be done next, or waits until there is something.
    fn step<'s>(
        &'s self,
        mut state: MutexGuard<'s, State<T>>,
        needed: Option<usize>,
        map: &mut impl FnMut(&Event<'_>, &mut Vec<u8>) -> Option<T>,
    ) -> MutexGuard<'s, State<T>> {
        let Some(task) = state.task(needed, self.room) else {
            return self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        };
        drop(state);
        let mut state = match task {
            Task::Read { lane, mut packets } => {
                let next = packets.next();
                let mut state = lock(&self.state);
                state.read(lane, packets, next);
                state
            }
            Task::Map { lane, slot, packet, rest, limits, mut batch } => {
                let rest = fill(&packet, rest, limits, &mut batch, map);
                let mut state = lock(&self.state);
                drop(packet);
                state.mapped(lane, slot, batch, rest);
                state
            }
        };
        state.spare_packets.truncate(self.room.slots);
        state.spare_batches.truncate(self.room.slots);
        self.changed.notify_all();
        state
    }

    fn merge<B>(
        &self,
        map: &mut impl FnMut(&Event<'_>, &mut Vec<u8>) -> Option<T>,
        mut visit: impl FnMut(Step<'_, T>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let count = lock(&self.state).lanes.len();
        let mut inputs: Vec<Input<T>> = (0..count).map(|_| Input { packet: None, batch: Batch::default(), at: 0 }).collect();
        let mut ready = BinaryHeap::new();
        for (index, input) in inputs.iter_mut().enumerate() {
            self.advance(index, input, map, &mut visit)?;
            ready.extend(input.first().map(|time| Reverse((time, index))));
        }
        while let Some(Reverse((_, index))) = ready.pop() {
            let limit = ready.peek().map_or(NO_LIMIT, |Reverse(first)| *first);
            let input = &mut inputs[index];
            // As long as no other stream has an earlier event, one goes on.
            while let Some((packet, entry)) = input.packet.as_ref().zip(input.batch.entries.pop_front()) {
                if entry.passed > 0 {
                    visit(Step::Passed(entry.passed.into()))?;
                }
                let text = &input.batch.text[input.at..entry.end];
                input.at = entry.end;
                visit(Step::Event(Event::new(packet, &entry.head), entry.value, text))?;
                if input.first().is_none() {
                    self.advance(index, input, map, &mut visit)?;
                }
                match input.first() {
                    Some(time) if (time, index) < limit => {}
                    next => {
                        ready.extend(next.map(|time| Reverse((time, index))));
                        break;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Gets a batch with events for an input, and gives what lies in between.
    #[cold]
    fn advance<B>(
        &self,
        index: usize,
        input: &mut Input<T>,
        map: &mut impl FnMut(&Event<'_>, &mut Vec<u8>) -> Option<T>,
        visit: &mut impl FnMut(Step<'_, T>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        while input.first().is_none() {
            let mut done = core::mem::take(&mut input.batch);
            if done.passed > 0 {
                visit(Step::Passed(done.passed.into()))?;
            }
            if let Some(error) = done.error.take() {
                visit(Step::Error(error))?;
            }
            match self.next(index, input, done, map) {
                Next::Batch(batch) => (input.batch, input.at) = (batch, 0),
                Next::Packet(packet, losses) => {
                    input.packet = Some(packet);
                    losses.into_iter().try_for_each(|loss| visit(Step::Loss(loss)))?;
                }
                Next::Error(error) => visit(Step::Error(error))?,
                Next::End => break,
            }
        }
        ControlFlow::Continue(())
    }

    /// What a stream goes on with; works until it is there.
    fn next(
        &self,
        index: usize,
        input: &mut Input<T>,
        done: Batch<T>,
        map: &mut impl FnMut(&Event<'_>, &mut Vec<u8>) -> Option<T>,
    ) -> Next<T> {
        let mut guard = lock(&self.state);
        guard.recycle(done);
        while !guard.is_over {
            let state = &mut *guard;
            let lane = &mut state.lanes[index];
            let Some(slot) = lane.slots.front_mut() else {
                if lane.is_ended {
                    return Next::End;
                }
                guard = self.step(guard, Some(index), map);
                continue;
            };
            if let (Ok(packet), None) = (&slot.packet, &input.packet) {
                return Next::Packet(packet.clone(), core::mem::take(&mut slot.losses));
            }
            if let Some(batch) = slot.batches.pop_front() {
                state.bytes -= batch.bytes();
                self.changed.notify_all();
                return Next::Batch(batch);
            }
            if !slot.is_done {
                guard = self.step(guard, Some(index), map);
                continue;
            }
            input.packet = None;
            lane.gone += 1;
            state.slots -= 1;
            match lane.slots.pop_front().map(|slot| slot.packet) {
                Some(Ok(packet)) => {
                    state.bytes -= packet.bytes().len();
                    state.spare_packets.extend(Arc::try_unwrap(packet));
                    self.changed.notify_all();
                }
                Some(Err(Some(error))) => return Next::Error(error),
                _ => {}
            }
        }
        Next::End
    }
}

impl<T> Input<T> {
    /// The time of its next event.
    #[inline]
    fn first(&self) -> Option<i64> {
        self.batch.entries.front().map(|entry| entry.head.timestamp)
    }
}

/// Makes a batch of the events from a place on, and gives the place behind it, if the packet goes on there.
fn fill<T>(
    packet: &Packet,
    mut position: Position,
    (from, to): (Option<i64>, Option<i64>),
    batch: &mut Batch<T>,
    map: &mut impl FnMut(&Event<'_>, &mut Vec<u8>) -> Option<T>,
) -> Option<Position> {
    let mut head = EventHead::default();
    let mut seen = 0;
    while batch.entries.len() < BATCH && batch.text.len() < BATCH_TEXT && seen < BATCH_SEEN {
        match packet.next(&mut position, &mut head) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                batch.error = Some(error);
                return None;
            }
        }
        seen += 1;
        let time = Event::new(packet, &head).timestamp();
        if time.is_some_and(|time| from.is_some_and(|from| time < from) || to.is_some_and(|to| time >= to)) {
            continue;
        }
        let start = batch.text.len();
        match map(&Event::new(packet, &head), &mut batch.text) {
            Some(value) => {
                let (passed, end) = (core::mem::take(&mut batch.passed), batch.text.len());
                batch.entries.push_back(Entry { head: head.clone(), passed, end, value });
            }
            None => {
                batch.text.truncate(start);
                batch.passed += 1;
            }
        }
    }
    Some(position)
}
