//! Reservation and commit in the fallback region.
//!
//! The smallest ring: 16 words, four records without payload.

#[path = "../../../trace-runtime/src/ring_buffer/fallback/ring.rs"]
#[allow(dead_code, unsafe_code, unreachable_pub, reason = "a model needs a part")]
mod ring;

use crate::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;
use ring::{FALLBACK_HEADER, Head, Ring};

const WORDS: usize = 16;
const EXTENT: u64 = FALLBACK_HEADER as u64;
const KEY: u64 = 0x5bd1_e995_9e37_79b9;

/// What goes wrong in a model on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// Reserved by a load and a store.
    PlainReserve,
    /// Copies are taken as they are.
    CopyNotChecked,
    /// `consumed` is moved before the copy.
    ConsumedFirst,
}

struct Memory {
    reserved: AtomicU64,
    reservations: AtomicU64,
    consumed: AtomicU64,
    words: Vec<AtomicU64>,
    clock: AtomicU64,
}

impl Memory {
    fn new() -> Arc<Memory> {
        let zero = || AtomicU64::new(0);
        let words = (0..WORDS).map(|_| zero()).collect();
        Arc::new(Memory { reserved: zero(), reservations: zero(), consumed: zero(), words, clock: zero() })
    }

    fn ring(&self) -> Ring<'_> {
        let Memory { reserved, reservations, consumed, words, .. } = self;
        Ring { reserved, reservations, consumed, words, key: KEY }
    }

    /// Appends a record; `None`: there was no room. Its fields follow from its ID.
    fn append(&self, id: u32, discards: bool, mutation: Option<Mutation>) -> Option<u64> {
        let ring = self.ring();
        // Relaxed: a clock orders nothing; that a later reader of it reads more is what any clock promises.
        let stamp = || self.clock.fetch_add(1, Ordering::Relaxed);
        let (position, ns) = if mutation == Some(Mutation::PlainReserve) {
            let position = self.reserved.load(Ordering::Acquire);
            self.reserved.store(position + EXTENT, Ordering::Release);
            (position, stamp())
        } else {
            ring.reserve(EXTENT, discards, stamp)?
        };
        // SAFETY: there is no piece.
        #[expect(unsafe_code, reason = "the signature of the protocol")]
        unsafe {
            ring.commit(position, EXTENT, Head { tid: id + 100, id, cpu: id + 200, ns }, [].iter())
        };
        Some(ns)
    }

    /// Reads the record at `position`: its ID and stamp. It is one that was written.
    fn read(&self, position: u64, mutation: Option<Mutation>) -> Option<(u32, u64)> {
        let ring = self.ring();
        let reserved = ring.reserved.load(Ordering::Acquire);
        if reserved <= position {
            return None;
        }
        let len = ring.length_at(position, reserved)?;
        let mut words = Vec::new();
        if mutation == Some(Mutation::CopyNotChecked) {
            words.extend((0..4).map(|k| ring.word(position + k * 8).load(Ordering::Relaxed)));
        } else {
            ring.copy(position, len, &mut words)?;
        }
        let (id, tid, cpu) = ((words[2] >> 32) as u32, words[2] as u32, (words[1] >> 32) as u32);
        assert!(tid == id + 100 && cpu == id + 200, "a record that nobody wrote");
        Some((id, words[3]))
    }
}

/// Two writers and a reader at once: what is read is whole; at the end all is there, in the order of the stamps.
pub fn two_writers_and_a_reader(mutation: Option<Mutation>) {
    loom::model(move || {
        let memory = Memory::new();
        let writers: Vec<_> = (0..2)
            .map(|id| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || memory.append(id, false, mutation))
            })
            .collect();
        let early = memory.read(0, mutation);
        for writer in writers {
            assert!(writer.join().expect("a writer").is_some());
        }
        let read: Vec<(u32, u64)> = (0..2).map_while(|k| memory.read(k * EXTENT, mutation)).collect();
        assert_eq!(read.len(), 2, "a record is missing");
        assert!(read[0].0 != read[1].0 && read[0].1 < read[1].1, "{read:?}");
        assert!(early.is_none_or(|record| record == read[0]));
    });
}

/// Overwrite mode: a writer laps the reader, which takes the old record, or none.
pub fn a_lap_during_a_copy(mutation: Option<Mutation>) {
    loom::model(move || {
        let memory = Memory::new();
        for id in 0..4 {
            memory.append(id, false, None);
        }
        let writer = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.append(4, false, None))
        };
        let read = memory.read(0, mutation);
        assert!(read.is_none_or(|record| record == (0, 0)), "{read:?}");
        writer.join().expect("a writer");
        assert_eq!(memory.read(4 * EXTENT, mutation), Some((4, 4)));
    });
}

/// Discard mode: a full ring refuses until the reader has consumed, and does not touch what it reads.
pub fn consuming_a_full_ring(mutation: Option<Mutation>) {
    loom::model(move || {
        let memory = Memory::new();
        for id in 0..4 {
            memory.append(id, true, None);
        }
        let writer = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.append(4, true, None))
        };
        if mutation == Some(Mutation::ConsumedFirst) {
            memory.ring().consume(EXTENT);
            assert_eq!(memory.read(0, None), Some((0, 0)), "it was written over");
        } else {
            assert_eq!(memory.read(0, None), Some((0, 0)), "it was written over");
            memory.ring().consume(EXTENT);
        }
        let recorded = writer.join().expect("a writer");
        let expected = recorded.map(|ns| (4, ns));
        assert_eq!(memory.read(4 * EXTENT, None), expected);
    });
}
