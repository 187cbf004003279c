//! Append, close and open in the ring of one CPU or of one thread, and a reader on another.
//!
//! Two sub-buffers of four cells: the opening, and two records of one cell (a third would end where its sub-buffer ends). Two
//! threads append two or three records each. They share the CPU and change to another, at any instruction; a thread that runs
//! aborts the sequence of the other, as a signal handler does. By thread, the two are the thread and its handler, which change the
//! CPU together and go on there, in the same ring. Stores lie in the CPU's store buffer first. The reader takes what
//! is committed, also of a sub-buffer that is still open, and compares it with the order of the commits.

use crate::explorer::{Model, Next, StoreBuffer};

/// What goes wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Sequences are not restarted.
    Unrestarted,
    /// The sequence does not compare the CPU.
    IndexNotCompared,
    /// The position is published before the record.
    PositionBeforeBytes,
    /// The stamp is stored behind the sequence.
    StampOutsideCommit,
    /// A record may end where its sub-buffer ends.
    RecordToTheEnd,
    /// Close says what it closed after its commit.
    DescriptorAfterCommit,
    /// Discard mode: opens over what is not consumed.
    ConsumedIgnored,
    /// Overwrite mode: the reader believes its copy.
    CopyNotChecked,
    /// Open writes before it compares the position.
    OpenNotCompared,
    /// By thread: two threads have the ring at once.
    NumberGivenTwice,
}

const SUB_BUFFER: u8 = 4;
const SUB_BUFFERS: u8 = 2;
const RING: u8 = SUB_BUFFER * SUB_BUFFERS;
/// The end of a sub-buffer whose descriptor is of another: it is being written over.
const UNDESCRIBED: u8 = 0xff;
/// Records that each thread appends.
const RECORDS: [u8; 2] = [3, 2];

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Append {
    /// Overwrite mode; else discard mode.
    pub overwrites: bool,
    /// The ring is a thread's; else that of a CPU.
    pub by_thread: bool,
    /// What is wrong.
    pub mutation: Option<Mutation>,
}

/// Shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Cell(u8),
    /// Position, number of records in the sub-buffer, stamp: one store.
    Commit,
    Stamp,
    /// Number of a sub-buffer counted from 1, and the number of records before it.
    Opened(u8),
    /// Where the records of a sub-buffer end, their number, and the stamp of the last.
    Closed(u8),
}

type Value = (u8, u8, u8);

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// About to look where the writer is, outside a sequence.
    Look,
    /// About to begin the sequence of an append, and to compare the CPU and the position; then to write; to commit.
    Append,
    Write,
    Commit,
    /// Behind it.
    StoreStamp,
    /// The same for a close: to compare; to store; to commit.
    Close,
    Describe,
    CommitClose,
    /// Behind it.
    DescribeLate,
    /// The same for an open.
    Open,
    DescribeOpen,
    CommitOpen,
    Done,
}

impl At {
    fn is_in_sequence(self) -> bool {
        matches!(self, At::Write | At::Commit | At::Describe | At::CommitClose | At::DescribeOpen | At::CommitOpen)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Writer {
    at: At,
    on_cpu: bool,
    /// Records it has appended or lost.
    done: u8,
    /// What it saw: position, records, stamp.
    seen: Value,
}

/// Where the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reading {
    Begin,
    Describe,
    Copy,
    Check,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reader {
    at: Reading,
    /// Number of the sub-buffer, and the next cell in it.
    sequence: u8,
    offset: u8,
    now: Value,
    to: u8,
    /// Records before the sub-buffer, by its descriptor.
    before: u8,
    end: u8,
    copied: [u8; 2],
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    cells: [u8; RING as usize],
    commit: Value,
    opened: [Value; SUB_BUFFERS as usize],
    closed: [Value; SUB_BUFFERS as usize],
    consumed: u8,
    /// Of the CPU, and of the other one.
    buffers: [StoreBuffer<Place, Value>; 2],
    running: u8,
    writers: [Writer; 2],
    reader: Reader,
    /// The records in the order of their commits.
    order: Vec<u8>,
}

impl State {
    fn apply(&mut self, place: Place, value: Value) {
        match place {
            Place::Cell(at) => self.cells[at as usize] = value.0,
            Place::Commit => self.commit = value,
            Place::Stamp => self.commit.2 = value.0,
            Place::Opened(at) => self.opened[at as usize] = value,
            Place::Closed(at) => self.closed[at as usize] = value,
        }
    }

    fn drain(&mut self, buffer: usize) {
        while let Some((place, value)) = self.buffers[buffer].drain_one() {
            self.apply(place, value);
        }
    }

    /// What a thread sees of the commit.
    fn load_commit(&self, buffer: usize) -> Value {
        let mut commit = self.buffers[buffer].load(Place::Commit).unwrap_or(self.commit);
        if let Some((stamp, ..)) = self.buffers[buffer].load(Place::Stamp) {
            commit.2 = stamp;
        }
        commit
    }
}

impl Append {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn interrupt(&self, writer: &mut Writer) {
        if writer.at.is_in_sequence() && !self.is(Mutation::Unrestarted) {
            (writer.at, writer.seen) = (At::Look, (0, 0, 0));
        }
    }

    fn write(&self, before: &State, who: usize, step: &mut dyn FnMut(Next<State>)) {
        let mut state = before.clone();
        let on_cpu = state.writers[who].on_cpu;
        let buffer = usize::from(!on_cpu);
        if (on_cpu || self.by_thread) && state.running != who as u8 {
            state.drain(buffer);
            state.running = who as u8;
            let other = &mut state.writers[1 - who];
            if other.on_cpu == on_cpu {
                self.interrupt(other);
            }
        }
        let Writer { at, done, seen, .. } = state.writers[who].clone();
        if at == At::Done || at == At::Look && !on_cpu && !self.by_thread || !state.buffers[buffer].has_room() {
            return; // elsewhere it has a ring of its own
        }
        let record = who as u8 * 16 + done + 1;
        let (position, records, _) = seen;
        let now = state.order.len() as u8 + 1;
        let sub_buffer = |position: u8| position / SUB_BUFFER % SUB_BUFFERS;
        let is_ours = on_cpu || self.by_thread || self.is(Mutation::IndexNotCompared);
        let is_here = |state: &State| is_ours && state.load_commit(buffer).0 == position;
        let next = match at {
            At::Look => {
                state.writers[who].seen = state.load_commit(buffer);
                let offset = state.writers[who].seen.0 % SUB_BUFFER;
                let room = if self.is(Mutation::RecordToTheEnd) { SUB_BUFFER + 1 } else { SUB_BUFFER };
                match offset {
                    0 => At::Open,
                    _ if offset + 1 < room => At::Append,
                    _ => At::Close,
                }
            }
            At::Append if is_here(&state) => At::Write,
            At::Write => {
                let commit = (position + 1, records + 1, now);
                if self.is(Mutation::PositionBeforeBytes) {
                    state.order.push(record);
                    state.buffers[buffer].store(Place::Commit, commit);
                } else {
                    state.buffers[buffer].store(Place::Cell(position % RING), (record, 0, 0));
                }
                At::Commit
            }
            At::Commit => {
                let last = state.load_commit(buffer).2;
                let is_late = self.is(Mutation::StampOutsideCommit);
                if self.is(Mutation::PositionBeforeBytes) {
                    state.buffers[buffer].store(Place::Cell(position % RING), (record, 0, 0));
                } else {
                    let stamp = if is_late { last } else { now };
                    state.buffers[buffer].store(Place::Commit, (position + 1, records + 1, stamp));
                    state.order.push(record);
                }
                if is_late {
                    state.writers[who].seen = (now, 0, 0);
                    At::StoreStamp
                } else {
                    self.finish(&mut state, who)
                }
            }
            At::StoreStamp => {
                state.buffers[buffer].store(Place::Stamp, (position, 0, 0));
                self.finish(&mut state, who)
            }
            At::Close if is_here(&state) => {
                if self.is(Mutation::DescriptorAfterCommit) {
                    At::CommitClose
                } else {
                    At::Describe
                }
            }
            At::Describe | At::DescribeLate => {
                state.buffers[buffer].store(Place::Closed(sub_buffer(position)), (position % SUB_BUFFER, records, seen.2));
                if at == At::Describe { At::CommitClose } else { At::Look }
            }
            At::CommitClose => {
                let boundary = (position / SUB_BUFFER + 1) * SUB_BUFFER;
                let last = state.load_commit(buffer).2;
                state.buffers[buffer].store(Place::Commit, (boundary, 0, last));
                if self.is(Mutation::DescriptorAfterCommit) { At::DescribeLate } else { At::Look }
            }
            At::Open if self.is(Mutation::OpenNotCompared) || is_here(&state) => {
                let is_full = position / SUB_BUFFER - state.consumed >= SUB_BUFFERS;
                if is_full && !self.overwrites && !self.is(Mutation::ConsumedIgnored) {
                    self.finish(&mut state, who) // counted as lost
                } else {
                    At::DescribeOpen
                }
            }
            At::DescribeOpen => {
                let before = state.order.len() as u8;
                state.buffers[buffer].store(Place::Opened(sub_buffer(position)), (position / SUB_BUFFER + 1, before, 0));
                At::CommitOpen
            }
            At::CommitOpen => {
                let last = state.load_commit(buffer).2;
                state.buffers[buffer].store(Place::Commit, (position + 1, 0, last));
                At::Look
            }
            _ => At::Look, // refused
        };
        let writer = &mut state.writers[who];
        writer.at = next;
        if matches!(next, At::Look | At::Done) {
            writer.seen = (0, 0, 0);
        }
        step(Ok(state));
    }

    /// The event is over.
    fn finish(&self, state: &mut State, who: usize) -> At {
        state.writers[who].done += 1;
        if state.writers[who].done == RECORDS[who] { At::Done } else { At::Look }
    }

    fn read(&self, before: &State, step: &mut dyn FnMut(Next<State>)) {
        let mut state = before.clone();
        let reader = &mut state.reader;
        let start = reader.sequence * SUB_BUFFER;
        let place = (reader.sequence % SUB_BUFFERS) as usize;
        let is_intact = |position: u8| position < start + RING;
        let is_closed = reader.now.0 >= start + SUB_BUFFER;
        let from = reader.offset.max(1);
        match reader.at {
            Reading::Begin => {
                let now = state.commit;
                if self.overwrites && !is_intact(now.0) {
                    (reader.sequence, reader.offset) = (now.0 / SUB_BUFFER - 1, 0);
                } else if now.0 > start + from {
                    (reader.now, reader.at) = (now, Reading::Describe);
                } else {
                    return; // nothing new
                }
            }
            Reading::Describe => {
                let (sequence, records_before, _) = state.opened[place];
                let (content, _, end) = state.closed[place];
                (reader.to, reader.end) = if is_closed { (content, end) } else { (reader.now.0 - start, reader.now.2) };
                reader.before = records_before;
                if sequence != reader.sequence + 1 || reader.to < from || reader.to > SUB_BUFFER {
                    (reader.to, reader.end) = (from, UNDESCRIBED);
                }
                reader.at = Reading::Copy;
            }
            Reading::Copy => {
                reader.copied = [0; 2];
                for (k, at) in (from..reader.to).take(2).enumerate() {
                    reader.copied[k] = state.cells[(start + at) as usize % RING as usize];
                }
                reader.at = Reading::Check;
            }
            Reading::Check => {
                reader.at = Reading::Begin;
                if !self.overwrites || is_intact(state.commit.0) || self.is(Mutation::CopyNotChecked) {
                    if reader.end == UNDESCRIBED {
                        return step(Err("a sub-buffer that nobody described"));
                    }
                    let first = (reader.before + from - 1) as usize;
                    let count = (reader.to - from) as usize;
                    let expected = state.order.get(first..first + count);
                    if count > 2 || expected != Some(&reader.copied[..count.min(2)]) {
                        return step(Err("a record that was not committed there"));
                    }
                    // Stamps count commits.
                    if count > 0 && (reader.end as usize) < first + count {
                        return step(Err("a packet that ends before its last record"));
                    }
                    if is_closed {
                        (reader.sequence, reader.offset) = (reader.sequence + 1, 0);
                        state.consumed = reader.sequence;
                    } else {
                        reader.offset = reader.to;
                    }
                }
                let Reader { sequence, offset, .. } = *reader;
                *reader = Reader { at: Reading::Begin, sequence, offset, ..Reader::new() };
            }
        }
        step(Ok(state));
    }
}

impl Reader {
    fn new() -> Reader {
        Reader { at: Reading::Begin, sequence: 0, offset: 0, now: (0, 0, 0), to: 0, before: 0, end: 0, copied: [0; 2] }
    }
}

impl Model for Append {
    type State = State;

    fn first(&self) -> State {
        let writer = || Writer { at: At::Look, on_cpu: true, done: 0, seen: (0, 0, 0) };
        State {
            cells: [0; RING as usize],
            commit: (0, 0, 0),
            opened: Default::default(),
            closed: Default::default(),
            consumed: 0,
            buffers: Default::default(),
            running: 0,
            writers: [writer(), writer()],
            reader: Reader::new(),
            order: Vec::new(),
        }
    }

    fn steps(&self, state: &State, step: &mut dyn FnMut(Next<State>)) {
        for who in 0..2 {
            self.write(state, who, step);
            if state.writers[who].at != At::Done {
                let mut moved = state.clone();
                let from = usize::from(!state.writers[who].on_cpu);
                let is_alone = !self.by_thread || self.is(Mutation::NumberGivenTwice);
                for (_, writer) in moved.writers.iter_mut().enumerate().filter(|(w, _)| *w == who || !is_alone) {
                    writer.on_cpu ^= true;
                    self.interrupt(writer);
                }
                moved.drain(from);
                step(Ok(moved));
            }
        }
        for buffer in 0..2 {
            let mut drained = state.clone();
            if let Some((place, value)) = drained.buffers[buffer].drain_one() {
                drained.apply(place, value);
                step(Ok(drained));
            }
        }
        self.read(state, step);
    }

    fn end(&self, state: &State) -> Result<(), &'static str> {
        // Everything that was committed has been read.
        let newest = state.commit.0;
        let read = state.reader.sequence * SUB_BUFFER + state.reader.offset;
        if newest % SUB_BUFFER > 1 && read != newest { Err("records that were never read") } else { Ok(()) }
    }
}
