//! What a probe returns, and its way to the targets of its entry.
//!
//! Events of a few bytes stay in registers, with their text or slice at the end, if they have one; others are encoded on the stack.
#![expect(unsafe_code, reason = "targets are called by address")]

use super::{Entry, Loss, Target, contain};
use crate::condition::Conditional;
use crate::event::{Event, EventClass};
use crate::field::{Finished, HEADROOM, MAX_PIECES, MAX_STAGED, Payload, Piece, Sizes, Storage, WORDS};
use core::borrow::Borrow;
use core::mem::needs_drop;
use core::ptr::NonNull;

/// What a probe returns: an event, `Option` of one (`None` skips), or `()` (an action).
///
/// A destructor of the event that panics is contained as the probe is; one that does so while another panic unwinds aborts the
/// program, as everywhere.
#[diagnostic::on_unimplemented(
    message = "a probe cannot return `{Self}`",
    label = "expected an event, `Option` of one, or `()`",
    note = "add `#[derive(ringtrace::Event)]` to the type that the probe returns"
)]
pub trait ProbeOutput {
    /// Class of the events; `None`: nothing is recorded.
    const CLASS: Option<&'static EventClass>;
    /// Least bytes of an event's payload.
    const LEAST: usize;

    /// Records the event in every target of `entry`.
    fn record(self, entry: &Entry);
}

impl<E: Event> ProbeOutput for E {
    const CLASS: Option<&'static EventClass> = Some(E::DESCRIPTION);
    const LEAST: usize = E::SIZES.least;
    #[inline(always)]
    fn record(self, entry: &Entry) {
        if const { needs_drop::<E>() } {
            return record_and_drop(self, entry);
        }
        match &*entry.targets {
            [only] if const { has_tail::<E>() } => record_tail::<E, E>(self, core::slice::from_ref(only)),
            [only] => {
                if !record_uncut(&self, core::slice::from_ref(only)) {
                    record_cut_by_value(self, entry);
                }
            }
            _ if const { size_of::<E>() <= IN_REGISTERS } => record_small_elsewhere(self, entry),
            _ => record_large_elsewhere(self, entry),
        }
    }
}

impl<E: Event> ProbeOutput for Option<E> {
    const CLASS: Option<&'static EventClass> = Some(E::DESCRIPTION);
    const LEAST: usize = E::SIZES.least;
    #[inline(always)]
    fn record(self, entry: &Entry) {
        if let Some(event) = self {
            event.record(entry);
        }
    }
}

impl ProbeOutput for () {
    const CLASS: Option<&'static EventClass> = None;
    const LEAST: usize = 0;
    #[inline(always)]
    fn record(self, _entry: &Entry) {}
}

/// Bytes of an event that a call takes in registers.
const IN_REGISTERS: usize = 2 * size_of::<usize>();
const SMALL_STAGED: usize = 64;
const SMALL_PIECES: usize = 6;

/// Records `event` where its entry has not one target that takes all.
///
/// What is rejected by the bounds of the only target, the commonest condition, saves the rest.
#[inline(always)]
fn record_elsewhere<E: Event>(event: &E, entry: &Entry) {
    match &*entry.conditional {
        [only] if !only.is_within_bounds(event) => only.count_filtered(),
        [] => record(event, &entry.targets),
        [only] => record_if_accepted(event, only),
        targets => record_those(event, targets),
    }
}

/// Records an event that has a destructor, which is foreign code as the probe is, and may panic like it.
///
/// Each is contained apart: a destructor that panicked while the panic of a field unwinds would abort the program. What was recorded
/// before its destructor panicked is no loss.
#[inline(never)]
fn record_and_drop<E: Event>(event: E, entry: &Entry) {
    if !contain(|| record_elsewhere(&event, entry)) {
        entry.panicked();
    }
    if !contain(move || drop(event)) {
        entry.detach();
    }
}

/// The same as [`record_elsewhere`] for an event without a destructor in registers, where it stays as it comes by value. No panic leaves it, as its
/// convention says, so that a probe that cannot panic itself keeps nothing for the case.
#[inline(never)]
extern "C" fn record_small_elsewhere<E: Event>(event: E, entry: &Entry) {
    if !contain(|| record_elsewhere(&event, entry)) {
        entry.panicked();
    }
}

/// The same for an event that is in memory anyway.
#[inline(never)]
fn record_large_elsewhere<E: Event>(event: E, entry: &Entry) {
    record_elsewhere(&event, entry);
}

#[inline(never)]
fn record_those<E: Event>(event: &E, targets: &[Conditional]) {
    for conditional in targets {
        if conditional.is_within_bounds(event) {
            record_if_accepted(event, conditional);
        } else {
            conditional.count_filtered();
        }
    }
}

/// Records `event` in a target within whose bounds it is.
#[inline(never)]
fn record_if_accepted<E: Event>(event: &E, conditional: &Conditional) {
    if conditional.accepts(event) {
        record_in_one(event, &conditional.target);
    }
}

/// Apart, so that what is rejected, or in the figures of an aggregation, is without what this keeps in registers.
#[inline(never)]
fn record_in_one<E: Event>(event: &E, target: &Target) {
    record(event, core::slice::from_ref(target));
}

/// Encodes `event` and appends it to every target: once for those that share a limit, and redact it or do not.
#[inline(always)]
pub(super) fn record<E: Event>(event: &E, targets: &[Target]) {
    if !record_uncut(event, targets) {
        record_cut(event, targets);
    }
}

/// The same, unless the event is to be cut for its only target: returns false then, and nothing has happened.
#[inline(always)]
#[must_use]
fn record_uncut<E: Event>(event: &E, targets: &[Target]) -> bool {
    const fn is_small(sizes: Sizes) -> bool {
        sizes.staged <= SMALL_STAGED && sizes.pieces < SMALL_PIECES
    }
    if const { are_words::<E>() } {
        record_words(crate::field::words(event), targets);
    } else if targets.is_empty() {
        // Of a class that no session can record.
    } else if const { has_tail::<E>() } {
        record_tail::<E, &E>(event, targets);
    } else if const { is_small(E::SIZES) } {
        return record_in::<E, { HEADROOM + SMALL_STAGED }, SMALL_PIECES>(event, targets);
    } else {
        return record_in::<E, { HEADROOM + MAX_STAGED }, MAX_PIECES>(event, targets);
    }
    true
}

/// The same for an event that is to be cut.
#[cold]
#[inline(never)]
fn record_cut<E: Event>(event: &E, targets: &[Target]) {
    for target in targets {
        append_cut(event, core::iter::once(target), target.limit, target.redact);
    }
}

/// By value: in memory only here.
#[cold]
#[inline(never)]
fn record_cut_by_value<E: Event>(event: E, entry: &Entry) {
    record_cut(&event, &entry.targets);
}

/// Whether events are a few bytes, always as many.
const fn are_words<E: Event>() -> bool {
    E::SIZES.fixed && E::SIZES.pieces == 0 && E::SIZES.least <= 8 * WORDS && !E::DESCRIPTION.is_sensitive()
}

/// Whether events are a few bytes and then text or a slice, which goes where it is to be straight from where it lies.
const fn has_tail<E: Event>() -> bool {
    E::SIZES.tail && E::SIZES.least <= 8 * WORDS && !E::DESCRIPTION.is_sensitive()
}

/// Records an event that [has a tail](has_tail). By value, it stays in registers.
#[inline(always)]
fn record_tail<E: Event, B: Borrow<E>>(event: B, targets: &[Target]) {
    let Some(([a, b, c], tail)) = crate::field::words_and_tail(event.borrow()) else { return lose_in_all(targets) };
    match targets {
        [target] if tail.len <= usize::from(target.most_tail) => {
            // SAFETY: the duty of `Target::new`: the caller reads the list that holds the target, or holds the target.
            unsafe { _ = (target.with_tail)(target, a, b, c, tail.start, tail.len) };
        }
        _ => record_tail_in_all::<E, B>(event, targets),
    }
}

/// The same for any number of targets, and where the tail may have to be cut.
#[inline(never)]
fn record_tail_in_all<E: Event, B: Borrow<E>>(event: B, targets: &[Target]) {
    let Some(([a, b, c], tail)) = crate::field::words_and_tail(event.borrow()) else { return lose_in_all(targets) };
    for target in targets {
        if tail.len <= usize::from(target.most_tail) {
            // SAFETY: as above.
            unsafe { _ = (target.with_tail)(target, a, b, c, tail.start, tail.len) };
        } else {
            record_cut::<E>(event.borrow(), core::slice::from_ref(target));
        }
    }
}

/// What is in front of a payload in words: room for context (PL-4).
#[repr(C)]
struct Staged([u8; HEADROOM], [u64; WORDS]);

impl Staged {
    fn piece(&mut self, len: usize) -> Piece {
        Piece { start: (&raw mut *self).cast::<u8>().wrapping_add(HEADROOM), len }
    }
}

/// Appends a payload in words as one piece.
pub(super) unsafe extern "C" fn words_in_pieces(target: *const Target, a: u64, b: u64, c: u64) -> u8 {
    // SAFETY: the caller has the target.
    let Target { pieces, least, .. } = unsafe { &*target };
    let total = usize::from(*least).min(8 * WORDS);
    let mut staged = Staged([0; HEADROOM], [a, b, c]);
    let mut piece = staged.piece(total);
    // SAFETY: the duty of `Target::new`; the piece names `total` of the staged bytes, behind the headroom (PL-5).
    unsafe { pieces(target, NonNull::from(&mut piece), 1, total) }
}

/// Counts a payload in words and a tail whose words alone are more than the channel takes.
pub(super) unsafe extern "C" fn refuse_tail(target: *const Target, _: u64, _: u64, _: u64, _: *const u8, _: usize) -> u8 {
    // SAFETY: the caller has the target.
    unsafe { &*target }.lose(Loss::TooLarge);
    1
}

/// Appends a payload in words and a tail as two pieces.
pub(super) unsafe extern "C" fn tail_in_pieces(target: *const Target, a: u64, b: u64, c: u64, tail: *const u8, len: usize) -> u8 {
    // SAFETY: the caller has the target.
    let Target { pieces, least, .. } = unsafe { &*target };
    let total = usize::from(*least).min(8 * WORDS);
    let mut staged = Staged([0; HEADROOM], [a, b, c]);
    let mut both = [staged.piece(total), Piece { start: tail, len }];
    // SAFETY: as above; the second piece is the caller's.
    unsafe { pieces(target, NonNull::from(&mut both).cast(), 2, total + len) }
}

#[inline(always)]
fn record_words(words: Option<[u64; WORDS]>, targets: &[Target]) {
    let Some([a, b, c]) = words else { return lose_in_all(targets) };
    match targets {
        // SAFETY: the duty of `Target::new`: the caller reads the list that holds the target, or holds the target.
        [target] => unsafe { _ = (target.words)(target, a, b, c) },
        _ => record_words_in_all(a, b, c, targets),
    }
}

#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "the convention is that of a function that cannot unwind")]
extern "C" fn record_words_in_all(a: u64, b: u64, c: u64, targets: &[Target]) {
    for target in targets {
        // SAFETY: as above.
        unsafe { _ = (target.words)(target, a, b, c) };
    }
}

#[cold]
fn lose_in_all(targets: &[Target]) {
    for target in targets {
        target.lose(Loss::TooLarge);
    }
}

/// Returns false if the event is to be cut for its only target.
#[inline(always)]
#[must_use]
fn record_in<E: Event, const STAGED: usize, const PIECES: usize>(event: &E, targets: &[Target]) -> bool {
    if const { E::SIZES.fixed && !E::DESCRIPTION.is_sensitive() } {
        // The same bytes for all; a channel that cannot take them counts them.
        return append_uncut::<E, STAGED, PIECES>(event, targets.iter(), u32::MAX, false);
    }
    match targets {
        [target] => append_uncut::<E, STAGED, PIECES>(event, core::iter::once(target), target.limit, target.redact),
        _ => {
            record_by_kind::<E, STAGED, PIECES>(event, targets);
            true
        }
    }
}

/// Encodes once for the targets that share a limit, and redact or do not.
#[inline(never)]
fn record_by_kind<E: Event, const STAGED: usize, const PIECES: usize>(event: &E, targets: &[Target]) {
    for (i, leader) in targets.iter().enumerate() {
        let same = |t: &&Target| t.limit == leader.limit && t.redact == leader.redact;
        let those = || targets.iter().skip(i).filter(same);
        if !targets.iter().take(i).any(|t| same(&t))
            && !append_uncut::<E, STAGED, PIECES>(event, those(), leader.limit, leader.redact)
        {
            append_cut(event, those(), leader.limit, leader.redact);
        }
    }
}

/// Returns false if the event is to be cut: then it is in no target yet.
#[inline(always)]
#[must_use]
fn append_uncut<'t, E: Event, const STAGED: usize, const PIECES: usize>(
    event: &E,
    targets: impl Iterator<Item = &'t Target>,
    limit: u32,
    redact: bool,
) -> bool {
    let mut storage = Storage::<STAGED, PIECES>::new();
    let mut payload = storage.begin_uncut(limit as usize, E::SIZES, redact);
    event.write(&mut payload);
    let is_whole = payload.is_whole();
    if is_whole {
        hand_over(payload, targets);
    }
    is_whole
}

#[cold]
#[inline(never)]
fn append_cut<'t, E: Event>(event: &E, targets: impl Iterator<Item = &'t Target>, limit: u32, redact: bool) {
    let mut storage = Storage::<{ HEADROOM + MAX_STAGED }, MAX_PIECES>::new();
    let mut payload = storage.begin(limit as usize, E::SIZES, redact);
    event.write(&mut payload);
    hand_over(payload, targets);
}

#[inline(always)]
fn hand_over<'t>(payload: Payload<'_>, targets: impl Iterator<Item = &'t Target>) {
    match payload.finish() {
        Some(mut encoded) => {
            for target in targets {
                let Finished { pieces, count, total, .. } = encoded.finished();
                // SAFETY: the duty of `Target::new`: the caller reads the list that holds the target, or holds the target.
                let outcome = unsafe { (target.pieces)(target, pieces, count, total) };
                if encoded.is_cut() && outcome == 0 {
                    target.lose(Loss::Cut);
                }
            }
        }
        None => targets.for_each(|target| target.lose(Loss::TooLarge)),
    }
}
