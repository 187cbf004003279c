//! Appending a record: the fast path, and everything that it leaves to the slow one.
#![expect(unsafe_code, reason = "appends by address")]

use super::core::{Buffer, Core};
use super::layout::{COUNTERS, OPENING};
use super::losses::{self, Counter};
use super::position::CommitWord;
use super::sequence::{self, Hot, Store, Switch};
use super::{ClockKind, Config, Mode};
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

/// Appends the record of one event to the channel's buffer of this CPU.
///
/// `id` is its event ID, `pieces` its context and payload, of `total` bytes; `tid` goes into the header where the record takes
/// the fallback region.
///
/// # Safety
///
/// `C` is the configuration that `core` was created with, and `core` is not dropped before this returns. Each piece names bytes
/// that may be read, and their lengths add up to `total`.
///
/// # Signal safety
///
/// Async-signal-safe, and safe inside allocators and at any point of a thread's life, in handlers that interrupt another append
/// included. Wait-free up to eight aborted sequences; then lock-free. No allocation, no lock, no panic. One system call at most in a
/// thread's life, where the C library registered no rseq area. Not in a child of `vfork` or `clone(CLONE_VM)`.
#[inline(always)]
pub unsafe fn append<C: Config>(core: &Core, generation: u64, id: u32, pieces: &[Piece], total: usize, tid: u32) -> Outcome {
    let ids = u64::from(id) | u64::from(tid) << 32;
    // SAFETY: RB-1: the caller's duty; the length is checked there (RB-4).
    unsafe { sequence::append::<C>(core.hot(), generation, ids, pieces, total, || core.clock().os_ns()) }
}

/// Everything that the fast path does not do, with its arguments.
///
/// # Safety
///
/// As for [`append`]; `hot` is the address of a core, and `start..end` the pieces.
#[cold]
#[inline(never)]
pub(super) unsafe extern "C" fn append_slow<C: Config>(
    hot: *const Hot,
    generation: u64,
    ids: u64,
    start: *const Piece,
    end: *const Piece,
    total: usize,
) -> Outcome {
    // SAFETY: RB-1: the caller's duty. `hot` was made from a reference to the core.
    let core = unsafe { &*hot.cast::<Core>() };
    // SAFETY: both are ends of one slice.
    let pieces = unsafe { core::slice::from_raw_parts(start, end.offset_from(start) as usize) };
    if core.generation() != generation || generation == 0 {
        return Outcome::Refused;
    }
    if total as u64 > core.limit() {
        core.count_loss(trace_registry::probe::Loss::TooLarge);
        return Outcome::TooLarge;
    }
    let is_sequenced = super::core::is_registered::<C>() || trace_registry::sys::register_thread();
    if is_sequenced {
        // SAFETY: the caller's duty.
        match unsafe { append_sequenced::<C>(core, generation, ids, pieces, total) } {
            Attempt::Done(outcome) => return outcome,
            Attempt::Diverted => {}
        }
    }
    if core.generation() != generation {
        return Outcome::Refused;
    }
    // SAFETY: the caller's duty.
    let outcome = unsafe { super::fallback::append::<C>(core, ids as u32, pieces, total, (ids >> 32) as u32) };
    if outcome == Outcome::Recorded && is_sequenced {
        core.outside().count(Counter::Diverted);
    }
    outcome
}

/// Where a short form goes that the slow path tries, when it declines: straight back.
unsafe extern "C" fn declined(_: *const Hot, _: u64, _: u64, _: *const Piece, _: *const Piece, _: usize) -> Outcome {
    Outcome::Refused
}

enum Attempt {
    Done(Outcome),
    /// To the fallback region.
    Diverted,
}

/// # Safety
///
/// As for [`append`]; `total` is at most the limit.
unsafe fn append_sequenced<C: Config>(core: &Core, generation: u64, ids: u64, pieces: &[Piece], total: usize) -> Attempt {
    let id = ids as u32;
    let shape = core.shape();
    let len = |extended| (C::HEADER.len(extended) + total) as u64;
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
                let recorded = unsafe { sequence::append_extended::<C>(core.hot(), generation, ids, pieces, total, || now) };
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
                let hot = core.hot_with(declined);
                // SAFETY: RB-1, RB-4: the caller's duty. `hot` is a copy, which only the sequence and `declined` get.
                let outcome = unsafe { sequence::append::<C>(&raw const hot, generation, ids, pieces, total, || now) };
                if outcome == Outcome::Recorded {
                    return Attempt::Done(outcome);
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
    let closed = unsafe { sequence::switch::<C>(core.hot_ref(), generation, index, &switch, stamp::<C>(core)) };
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
    let before = buffer.descriptor(place.wrapping_sub(1));
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed); // RB-7: of sub-buffers that are closed
    // Descriptors count from 1, so the one before tells this one's number counted from 0.
    let sequence = load(&before.sequence);
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
    Some(unsafe { sequence::switch::<C>(core.hot_ref(), generation, index, &switch, stamp::<C>(core)) })
}

fn store(place: &AtomicU64, value: u64) -> Store {
    Store { at: place.as_ptr(), value }
}

/// The stamp that a sequence is given: the OS clock's, which it cannot read itself.
fn stamp<C: Config>(core: &Core) -> u64 {
    if C::CLOCK == ClockKind::Os { core.clock().os_ns() } else { 0 }
}
