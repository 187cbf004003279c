//! Readers that count themselves by restartable sequences, and the writer's grace periods.
//!
//! Two threads on two CPUs, which they share and change at any instruction, fire one tracepoint; a third publishes lists. A thread
//! that runs on a CPU aborts the sequence of the other one there, as a migration does. An addition is a load and a store behind
//! the CPU's store buffer; a locked one is neither. membarrier(2) empties the buffers one CPU after the other.

use crate::explorer::{Model, Next, StoreBuffer};

/// What goes wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Sequences are not restarted.
    Unrestarted,
    /// Locked additions go to the words of the sequences.
    MixedWords,
    /// Grace periods wait for one phase.
    OnePhase,
    /// The list is loaded before the reader is counted.
    ListNotLoadedAgain,
    /// The writer does not make the readers fence.
    NoMembarrier,
    /// The writer sums up the enters first.
    EntersFirst,
    /// A leave counts for the phase of its time.
    LeavesAnotherPhase,
}

/// Lists that are published in place of the first.
const LISTS: u8 = 2;
const CPUS: usize = 2;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct ReadSide {
    /// What is wrong.
    pub mutation: Option<Mutation>,
}

/// A word of the counters: CPU (2: the locked words of all), phase, side.
type Word = (u8, u8, u8);
const LOCKED: u8 = CPUS as u8;
const ENTER: u8 = 0;
const LEAVE: u8 = 1;

/// Where a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Begin,
    /// About to look on which CPU it is, to count the side.
    Look(u8),
    /// In the sequence, about to compare the CPU.
    Compare(u8),
    /// In the sequence, about to add.
    Add(u8),
    /// The sequence was aborted.
    Slow(u8),
    Load,
    Use,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reader {
    at: At,
    cpu: u8,
    /// The CPU that it saw.
    seen: u8,
    phase: u8,
    list: u8,
}

/// Where the writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Writing {
    Publish,
    Begin,
    /// About to add up the word of this place: leaves, then enters.
    Sum(u8, u8),
    /// About to make this CPU fence.
    Barrier(u8),
    Compare,
    Done,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    gate: u8,
    freed: u8,
    phase: u8,
    words: [[[u8; 2]; 2]; CPUS + 1],
    buffers: [StoreBuffer<Word, u8>; CPUS],
    /// The reader that ran last on each CPU.
    running: [u8; CPUS],
    readers: [Reader; 2],
    writing: Writing,
    is_second: bool,
    waiting_for: u8,
    sums: [u8; 2],
}

impl State {
    fn word(&mut self, (cpu, phase, side): Word) -> &mut u8 {
        &mut self.words[cpu as usize][phase as usize][side as usize]
    }

    fn drain(&mut self, cpu: u8) {
        while let Some((word, value)) = self.buffers[cpu as usize].drain_one() {
            *self.word(word) = value;
        }
    }
}

impl ReadSide {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Takes a reader off its CPU.
    fn interrupt(&self, reader: &mut Reader) {
        if let At::Compare(side) | At::Add(side) = reader.at
            && !self.is(Mutation::Unrestarted)
        {
            reader.at = At::Slow(side);
        }
    }

    /// Lets a reader run where it is: whoever ran there is off.
    fn run(&self, state: &mut State, who: usize) {
        let cpu = state.readers[who].cpu;
        if state.running[cpu as usize] != who as u8 {
            state.drain(cpu);
            state.running[cpu as usize] = who as u8;
            let other = &mut state.readers[1 - who];
            if other.cpu == cpu {
                self.interrupt(other);
            }
        }
    }

    fn read(&self, before: &State, who: usize, step: &mut dyn FnMut(Next<State>)) {
        let mut state = before.clone();
        self.run(&mut state, who);
        let cpu = state.readers[who].cpu;
        let Reader { at, seen, phase, list, .. } = state.readers[who].clone();
        let after = |side| if side == ENTER { At::Load } else { At::Done };
        let mut go = |mut state: State, at: At| {
            let reader = &mut state.readers[who];
            reader.at = at;
            // What is not used any more makes no difference.
            match at {
                At::Done => *reader = Reader { at, cpu: 0, seen: 0, phase: 0, list: 0 },
                At::Look(LEAVE) => (reader.seen, reader.list) = (0, 0),
                At::Load => reader.seen = 0,
                _ => {}
            }
            step(Ok(state));
        };
        match at {
            At::Begin => {
                state.readers[who].phase = state.phase;
                if self.is(Mutation::ListNotLoadedAgain) {
                    state.readers[who].list = state.gate;
                }
                go(state, At::Look(ENTER));
            }
            At::Look(side) => {
                state.readers[who].seen = cpu;
                if side == LEAVE && self.is(Mutation::LeavesAnotherPhase) {
                    state.readers[who].phase = state.phase;
                }
                go(state, At::Compare(side));
            }
            At::Compare(side) => go(state, if seen == cpu { At::Add(side) } else { At::Slow(side) }),
            At::Add(side) => {
                if !state.buffers[cpu as usize].has_room() {
                    return;
                }
                let word = (seen, phase, side);
                let value = state.buffers[cpu as usize].load(word).unwrap_or(*state.word(word));
                state.buffers[cpu as usize].store(word, value + 1);
                go(state, after(side));
            }
            At::Slow(side) => {
                go(state.clone(), At::Look(side));
                state.drain(cpu);
                let word = (if self.is(Mutation::MixedWords) { seen } else { LOCKED }, phase, side);
                *state.word(word) += 1;
                go(state, after(side));
            }
            At::Load => {
                if !self.is(Mutation::ListNotLoadedAgain) {
                    state.readers[who].list = state.gate;
                }
                go(state, At::Use);
            }
            At::Use if state.freed & 1 << list != 0 => step(Err("a list that was freed is used")),
            At::Use => go(state, At::Look(LEAVE)),
            At::Done => {}
        }
    }

    fn write(&self, before: &State, step: &mut dyn FnMut(Next<State>)) {
        let mut state = before.clone();
        let (first, second) = if self.is(Mutation::EntersFirst) { (ENTER, LEAVE) } else { (LEAVE, ENTER) };
        let free = |state: &mut State| {
            state.freed |= 1 << (state.gate - 1);
            state.writing = if state.gate == LISTS { Writing::Done } else { Writing::Publish };
        };
        match state.writing {
            Writing::Publish => {
                state.gate += 1;
                state.writing = Writing::Begin;
            }
            Writing::Begin => {
                state.is_second = self.is(Mutation::OnePhase);
                state.waiting_for = if state.is_second { state.phase } else { state.phase ^ 1 };
                state.phase ^= u8::from(state.is_second);
                state.writing = Writing::Sum(first, 0);
            }
            Writing::Sum(side, place) => {
                let value = *state.word((place, state.waiting_for, side));
                state.sums[side as usize] += value;
                state.writing = match place {
                    LOCKED if side == second => Writing::Compare,
                    LOCKED if self.is(Mutation::NoMembarrier) => Writing::Sum(second, 0),
                    LOCKED => Writing::Barrier(0),
                    _ => Writing::Sum(side, place + 1),
                };
            }
            Writing::Barrier(cpu) => {
                state.drain(cpu);
                let is_last = cpu as usize + 1 == CPUS;
                state.writing = if is_last { Writing::Sum(second, 0) } else { Writing::Barrier(cpu + 1) };
            }
            Writing::Compare => {
                let is_idle = state.sums[0] == state.sums[1];
                state.sums = [0; 2];
                state.writing = Writing::Sum(first, 0);
                if is_idle && state.is_second {
                    free(&mut state);
                } else if is_idle {
                    state.is_second = true;
                    state.waiting_for = state.phase;
                    state.phase ^= 1;
                }
            }
            Writing::Done => return,
        }
        step(Ok(state));
    }
}

impl Model for ReadSide {
    type State = State;

    fn first(&self) -> State {
        let reader = |cpu| Reader { at: At::Begin, cpu, seen: 0, phase: 0, list: 0 };
        State {
            gate: 0,
            freed: 0,
            phase: 0,
            words: Default::default(),
            buffers: Default::default(),
            running: [0, 1],
            readers: [reader(0), reader(1)],
            writing: Writing::Publish,
            is_second: false,
            waiting_for: 0,
            sums: [0; 2],
        }
    }

    fn steps(&self, state: &State, step: &mut dyn FnMut(Next<State>)) {
        for who in 0..2 {
            self.read(state, who, step);
            if state.readers[who].at != At::Done {
                let mut moved = state.clone();
                moved.drain(state.readers[who].cpu);
                self.interrupt(&mut moved.readers[who]);
                moved.readers[who].cpu ^= 1;
                step(Ok(moved));
            }
        }
        for cpu in 0..CPUS {
            let mut drained = state.clone();
            if let Some((word, value)) = drained.buffers[cpu].drain_one() {
                *drained.word(word) = value;
                step(Ok(drained));
            }
        }
        // All have left: then the writer ends, or never does.
        let is_quiet = state.readers.iter().all(|r| r.at == At::Done) && state.buffers.iter().all(StoreBuffer::is_empty);
        let is_balanced = |phase: usize| {
            let sum = |side: usize| state.words.iter().map(|cpu| cpu[phase][side]).sum::<u8>();
            sum(0) == sum(1)
        };
        if is_quiet && !(is_balanced(0) && is_balanced(1)) {
            step(Err("a grace period never ends"));
        }
        self.write(state, step);
    }

    fn end(&self, state: &State) -> Result<(), &'static str> {
        if state.writing == Writing::Done { Ok(()) } else { Err("nothing can happen any more") }
    }
}
