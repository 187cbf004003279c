//! Appending a record: the fast path, and everything that it leaves to the slow one.
#![expect(unsafe_code, reason = "appends by address")]

use super::core::{Buffer, Core};
use super::layout::{COUNTERS, OPENING};
use super::losses::{self, Counter};
use super::position::CommitWord;
use super::sequence::{self, AppendPieces, AppendTail, AppendWords, Appender, Store, Switch};
use super::{ClockKind, Config, Mode, Placement};
use trace_registry::field::Piece;
use trace_registry::sync::{AtomicU64, Ordering};
use trace_registry::{is_mutated, mutation};

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[must_use]
pub enum Outcome {
    /// It is a record, in its CPU's buffer or in the fallback region.
    Recorded,
    /// Discard mode: no room. Counted.
    Full,
    /// Larger than a record may be. Counted.
    TooLarge,
    /// Neither a buffer nor a fallback region takes it. Counted.
    NoBuffer,
    /// The channel's generation is another one (disabled, or this is a forked child). Not a loss.
    Refused,
}

/// How often a sequence is tried before the event goes to the fallback region.
const ATTEMPTS: u32 = 8;
/// How often the loop turns, changes of sub-buffer included.
const TURNS: u32 = 64;

impl Outcome {
    fn of(code: u8) -> Outcome {
        match code {
            0 => Outcome::Recorded,
            1 => Outcome::Full,
            2 => Outcome::TooLarge,
            3 => Outcome::NoBuffer,
            _ => Outcome::Refused,
        }
    }
}

impl Appender {
    /// Appends the record of one event to the channel's buffer of this CPU.
    ///
    /// `pieces`, of `total` bytes, are its payload, and the context that the appender does not put in front of it by itself.
    ///
    /// # Safety
    ///
    /// `C` is the configuration that the appender's core was created with, and the core is not dropped before this returns. Each
    /// piece names bytes that may be read, and their lengths add up to `total`. Where records carry the thread's ID, this thread
    /// [is prepared](trace_registry::sys::prepare_thread).
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe, and safe inside allocators and at any point of a thread's life, in handlers that interrupt another
    /// append included. Wait-free up to eight aborted sequences; then lock-free. No allocation, no lock, no panic. Two system
    /// calls at most, in a thread's first event. Not in a child of `vfork` or `clone(CLONE_VM)`.
    #[inline(always)]
    pub unsafe fn append<C: Config>(&self, pieces: &[Piece], total: usize) -> Outcome {
        // SAFETY: RB-1: the caller's duty; the length is checked there (RB-4).
        Outcome::of(unsafe { sequence::append::<C>(self, pieces, total, || self.core().clock().os_ns()) })
    }

    /// Appends the record of one event whose payload is given in words, in the order of memory: as many bytes as the appender
    /// was made for, at most 24.
    ///
    /// # Safety
    ///
    /// As for [`append`](Self::append).
    ///
    /// # Signal safety
    ///
    /// As for [`append`](Self::append).
    #[inline(always)]
    pub unsafe fn append_words<C: Config>(&self, words: [u64; 3]) -> Outcome {
        let len = self.words_len().min(size_of_val(&words));
        let [first, second, third] = words;
        match sequence::direct_words::<C>(len).filter(|_| self.id <= C::HEADER.largest_short_id()) {
            // SAFETY: the caller's duty.
            Some(append) => Outcome::of(unsafe { append(self, first, second, third) }),
            // SAFETY: the caller's duty; the piece names the words.
            None => unsafe { self.append::<C>(&[Piece { start: words.as_ptr().cast(), len }], len) },
        }
    }

    /// Appends the record of one event whose payload is given in words, as for [`append_words`](Self::append_words), and `tail`
    /// behind them.
    ///
    /// # Safety
    ///
    /// As for [`append`](Self::append).
    ///
    /// # Signal safety
    ///
    /// As for [`append`](Self::append).
    #[inline(always)]
    pub unsafe fn append_tail<C: Config>(&self, words: [u64; 3], tail: &[u8]) -> Outcome {
        let len = self.words_len().min(size_of_val(&words));
        let [first, second, third] = words;
        // RB-4: the function looks at no length.
        let fits = self.id <= C::HEADER.largest_short_id() && (len + tail.len()) as u64 <= self.core().limit();
        match sequence::direct_tail::<C>(len).filter(|_| fits) {
            // SAFETY: the caller's duty.
            Some(append) => Outcome::of(unsafe { append(self, first, second, third, tail.as_ptr(), tail.len()) }),
            None => {
                let pieces = [Piece { start: words.as_ptr().cast(), len }, Piece { start: tail.as_ptr(), len: tail.len() }];
                // SAFETY: the caller's duty; the pieces name the words, and what the caller lends.
                unsafe { self.append::<C>(&pieces, len + tail.len()) }
            }
        }
    }

    /// Returns the generation for which it was made.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Bytes of a payload that is given in words.
    fn words_len(&self) -> usize {
        (self.behind - self.prefix) as usize
    }

    /// The core.
    pub(super) fn core(&self) -> &Core {
        // SAFETY: RB-1: whoever appends keeps the core; the table has at least one entry.
        unsafe { &*(*self.table).core.load(Ordering::Relaxed).cast::<Core>() }
    }
}

/// The functions that append by the address of an [`Appender`].
#[derive(Clone, Copy)]
pub(crate) struct Direct {
    /// For payloads of the number of bytes that it was asked for, in words.
    pub(crate) words: Option<AppendWords>,
    /// For those with one piece more behind them.
    pub(crate) tail: Option<AppendTail>,
    /// For all payloads, in pieces.
    pub(crate) pieces: Option<AppendPieces>,
}

impl Direct {
    /// Returns those of a configuration; `None` where there is no such function, and [`Appender::append`] serves.
    pub(crate) fn of<C: Config>(bytes: usize) -> Direct {
        Direct {
            words: sequence::direct_words::<C>(bytes),
            tail: sequence::direct_tail::<C>(bytes),
            pieces: sequence::direct_pieces::<C>(),
        }
    }
}

/// Everything that the fast path does not do, with its arguments.
///
/// # Safety
///
/// As for [`Appender::append`].
#[cold]
#[inline(never)]
pub(super) unsafe extern "C" fn append_slow<C: Config>(
    appender: *const Appender,
    pieces: *const Piece,
    count: usize,
    total: usize,
) -> u8 {
    // SAFETY: the caller's duty.
    let (appender, pieces) = unsafe { (&*appender, core::slice::from_raw_parts(pieces, count)) };
    let core = appender.core();
    let generation = appender.generation;
    if core.generation() != generation {
        return Outcome::Refused as u8;
    }
    if total as u64 > core.limit() {
        core.count_loss(trace_registry::probe::Loss::TooLarge);
        return Outcome::TooLarge as u8;
    }
    let is_sequenced =
        C::PLACEMENT != Placement::Global && (super::core::is_registered::<C>() || trace_registry::sys::register_thread());
    if is_sequenced {
        if C::PLACEMENT == Placement::Thread {
            take_buffer(core);
        }
        // SAFETY: the caller's duty.
        match unsafe { append_sequenced::<C>(appender, pieces, total) } {
            Attempt::Done(outcome) => return outcome as u8,
            Attempt::Diverted => {}
        }
    }
    if core.generation() != generation {
        return Outcome::Refused as u8;
    }
    // SAFETY: the caller's duty.
    let outcome = unsafe { super::fallback::append::<C>(core, appender.id, appender.tid != 0, pieces, total) };
    if outcome == Outcome::Recorded && is_sequenced {
        core.outside().count(Counter::Diverted);
    }
    outcome as u8
}

/// Gives this thread a buffer of the channel, where it has none and there is one to spare.
fn take_buffer(core: &Core) {
    if let Some(number) = sequence::thread_number().filter(|number| core.buffer_at(*number).is_none()) {
        core.add_cpu(number);
    }
}

/// Where a short form goes that the slow path tries, when it declines: straight back.
unsafe extern "C" fn declined(_: *const Appender, _: *const Piece, _: usize, _: usize) -> u8 {
    Outcome::Refused as u8
}

enum Attempt {
    Done(Outcome),
    /// To the fallback region.
    Diverted,
}

/// # Safety
///
/// As for [`Appender::append`]; `total` is at most the limit.
unsafe fn append_sequenced<C: Config>(appender: &Appender, pieces: &[Piece], total: usize) -> Attempt {
    let (core, id, generation) = (appender.core(), appender.id, appender.generation);
    let prefix = |extended| appender.prefix + (C::HEADER.len(extended) - C::HEADER.len(false)) as u32;
    let with = |extended| Appender { prefix: prefix(extended), slow: declined, ..*appender };
    let len = |extended| u64::from(prefix(extended)) + total as u64;
    let shape = core.shape();
    let mut failures = 0;
    for _ in 0..TURNS {
        if failures >= ATTEMPTS {
            break;
        }
        let Some(index) = sequence::index::<C>() else { break };
        let Some(buffer) = core.buffer_at(index) else { break };
        // Acquire: keeps the loads of descriptors behind it. Written by this CPU's sequences only: those below compare it
        // again, or check the fit again, so what was read stands if they commit.
        let word = CommitWord::load(&buffer.control.commit, Ordering::Acquire);
        let last = buffer.control.last.load(Ordering::Relaxed);
        let position = word.position();
        let switched = if shape.offset(position) == 0 {
            match open::<C>(core, generation, index, buffer, word) {
                Some(opened) => opened,
                None => {
                    buffer.control.count(Counter::Full);
                    return Attempt::Done(Outcome::Full);
                }
            }
        } else {
            let now = now::<C>(core);
            let extended = id > C::HEADER.largest_short_id()
                || now.wrapping_sub(last) >> C::HEADER.stamp_bits() != 0 && C::CLOCK != ClockKind::None;
            if shape.needs_switch(position, len(extended)) {
                close::<C>(core, generation, index, buffer, word)
            } else if extended {
                // SAFETY: RB-1, RB-4: the caller's duty.
                let recorded = unsafe { sequence::append_extended::<C>(&with(true), pieces, total, || now) };
                if let Some(unclamped) = recorded {
                    // Signed: CL-5.
                    if (unclamped as i64) < last as i64 {
                        buffer.control.count(Counter::Clamped);
                    }
                    return Attempt::Done(Outcome::Recorded);
                }
                false
            } else {
                // The short form declined, and now fits: it was aborted, or another took the position.
                buffer.control.count(Counter::Restarted);
                // SAFETY: RB-1, RB-4: the caller's duty.
                let outcome = unsafe { sequence::append::<C>(&with(false), pieces, total, || now) };
                if outcome == Outcome::Recorded as u8 {
                    return Attempt::Done(Outcome::Recorded);
                }
                false
            }
        };
        if !switched {
            failures += 1;
            if core.generation() != generation {
                return Attempt::Done(Outcome::Refused);
            }
        }
    }
    Attempt::Diverted
}

/// The stamp that a sequence would take now.
#[inline]
fn now<C: Config>(core: &Core) -> u64 {
    match C::CLOCK {
        ClockKind::Raw => core.clock().now_ns(),
        ClockKind::Ordered => core.clock().now_ordered_ns(),
        ClockKind::Os => core.clock().os_ns(),
        ClockKind::None => 0,
    }
}

/// Closes the sub-buffer that `word` is in. Returns whether this call did.
fn close<C: Config>(core: &Core, generation: u64, index: u32, buffer: Buffer<'_>, word: CommitWord) -> bool {
    let shape = core.shape();
    let position = word.position();
    let descriptor = buffer.descriptor(shape.index(position));
    let counters = buffer.control.sample();
    let content = shape.offset(position) | u64::from(word.records()) << 32;
    let mut stores = [const { Store { at: core::ptr::null_mut(), value: 0 } }; 1 + COUNTERS];
    stores[0] = store(&descriptor.content, content);
    for ((slot, place), value) in stores[1..].iter_mut().zip(&descriptor.at_close).zip(counters) {
        *slot = store(place, value);
    }
    let switch = Switch {
        control: buffer.base,
        expected: word.bits(),
        new: CommitWord::new(shape.boundary(position), 0).bits(),
        stamp_at: descriptor.end_ns.as_ptr(),
        stores: &stores[..if is_mutated!(descriptor_after_commit) { 0 } else { stores.len() }],
    };
    // SAFETY: RB-1: the buffer is the core's. RB-6: readers look at these fields only when the position is beyond.
    let closed = unsafe { sequence::switch::<C>(core.per_cpu(), generation, index, &switch, stamp::<C>(core)) };
    if is_mutated!(descriptor_after_commit) && closed {
        mutation::widen(100);
        // SAFETY: none: it is broken on purpose.
        stores.iter().for_each(|store| unsafe { store.at.write_volatile(store.value) });
    }
    closed
}

/// Opens the sub-buffer at the boundary where `word` is. Returns whether this call did; `None`: the ring is full.
fn open<C: Config>(core: &Core, generation: u64, index: u32, buffer: Buffer<'_>, word: CommitWord) -> Option<bool> {
    let shape = core.shape();
    let position = word.position();
    let place = shape.index(position);
    let descriptor = buffer.descriptor(place);
    let before = buffer.descriptor(shape.before(place));
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed); // RB-7: of sub-buffers that are closed
    // Descriptors count from 1, so the one before tells this one's number counted from 0.
    let sequence = load(&before.sequence);
    let allocated = core.allocated();
    if allocated != u32::MAX && sequence >= u64::from(allocated) {
        return None; // RB-11
    }
    if C::MODE == Mode::Discard && !is_mutated!(consumed_ignored) {
        // Acquire: the reader has finished with the bytes that are about to be written. Pairs with the Release store in
        // `Reader::consume`.
        //  - If this sees the new value, the reader's loads came before.
        //  - If it does not, the event is discarded.
        let consumed = buffer.consumed().consumed.load(Ordering::Acquire) / shape.sub_buffer();
        // Signed: where `word` is stale, the reader may be beyond this sub-buffer; then the sequence declines.
        if sequence.wrapping_sub(consumed) as i64 >= shape.sub_buffers() as i64 {
            return None;
        }
    }
    let lost = losses::discarded(&buffer.control.sample());
    let records_before = load(&before.records_before).wrapping_add(load(&before.content) >> 32);
    let stores = [
        store(&descriptor.sequence, sequence.wrapping_add(1)),
        store(&descriptor.lost_at_open, lost),
        store(&descriptor.records_before, records_before),
        Store { at: buffer.data(shape.ring_offset(position)).cast(), value: sequence },
    ];
    let switch = Switch {
        control: buffer.base,
        expected: word.bits(),
        new: CommitWord::new(position.advance(OPENING), 0).bits(),
        stamp_at: descriptor.begin_ns.as_ptr(),
        stores: &stores,
    };
    // SAFETY: RB-1: the buffer is the core's. RB-6: the position is at the boundary, so neither the descriptor nor the bytes of
    // the sub-buffer that lay here are readable any more.
    Some(unsafe { sequence::switch::<C>(core.per_cpu(), generation, index, &switch, stamp::<C>(core)) })
}

fn store(place: &AtomicU64, value: u64) -> Store {
    Store { at: place.as_ptr(), value }
}

/// The stamp that a sequence is given: the OS clock's, which it cannot read itself.
fn stamp<C: Config>(core: &Core) -> u64 {
    if C::CLOCK == ClockKind::Os { core.clock().os_ns() } else { 0 }
}
