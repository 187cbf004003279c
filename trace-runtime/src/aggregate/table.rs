//! Where an aggregation keeps its figures: a directory of keys, and for each CPU the figures of each group.
//!
//! ```text
//! memory     directory │ region of CPU 0 │ region of CPU 1 │ … │ stripe 0 │ … │ stripe 3
//! directory  a line for each key: which, its 32 bytes, its group                        shared, only ever filled
//! region     a line for each group and bucket: the cell                                changed by its CPU only
//! cell       count │ figures of even counts: 3 words │ figures of odd counts: 3 words │ lock
//! ```
//!
//! A group's figures are spread over the regions, and added up by whoever reads. Stripes are for threads without restartable
//! sequences, and for sequences that were aborted again and again.
//!
//! # Invariants
//!
//! - AT-1: A cell of a CPU is changed only by [`sys::commit_on_cpu`] on that CPU; a cell of a stripe only by whoever took its lock.
//! - AT-2: The figures of a cell are those of the slot `count % 2`. An update writes the other slot and then adds 1 to `count`: the
//!   one store that makes it visible. Wherever it is interrupted before, nothing has happened; there is no half of an event.
//! - AT-3: `count` is its own version, since every update adds exactly 1. Whoever reads the same count before and after has
//!   figures that belong to it: an update under way writes the other slot, and the next one begins behind a new count.
//! - AT-4: A line of the directory is empty, then claimed, then a key for ever. The key's words are stored before its first word.
//! - AT-5: Nobody waits for a line that is claimed: a thread in a signal handler would wait for itself. So a key may have two
//!   lines, and the reader adds them up.
//!
//! # Loss
//!
//! An event finds no lock in any of the stripes: [`Table::add`] returns false, and it is counted. No event is lost for want of room:
//! those of keys beyond the limit belong to the group of their event's others.
#![expect(unsafe_code, reason = "updates by restartable sequences, which take addresses")]

use crate::sys::memory::Mapping;
use std::io;
use trace_registry::sync::{AtomicU64, Ordering, fence};
use trace_registry::sys;

/// Bytes of a key; what is longer is hashed.
pub(super) const KEY: usize = 32;
const LINE: usize = 64;
type Line = [AtomicU64; LINE / 8];

/// Regions for threads that cannot use those of the CPUs.
const STRIPES: u32 = 4;
/// How often a sequence is tried before a stripe.
const TRIES: usize = 3;
/// Lines of the directory that are looked at for a key, at most.
const PROBES: usize = 16;
/// A directory is filled to a quarter, so that keys seldom meet.
const SPARE: u32 = 4;
/// Memory that is made present before it is used.
const AHEAD: usize = 64 << 20;

const EMPTY: u64 = 0;
const CLAIMED: u64 = 1 << 62;
/// In the first word of every key.
pub(super) const IS_KEY: u64 = 1 << 63;
/// In place of a group: there was no room.
const OTHERS: u64 = u64::MAX;

const COUNT: usize = 0;
const LOCK: usize = 7;
/// Where the line of a key has its group.
const GROUP: usize = 5;

/// Where the cells of a group begin in the first region: a line of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group(u64);

/// Sum, least and greatest value, as the class of the values has them in 64 bits.
pub(super) type Figures = [u64; 3];

/// What the events of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    /// [`IS_KEY`], the event, and what each value is; see [`super::key`].
    pub(super) head: u64,
    pub(super) bytes: [u64; KEY / 8],
}

impl Key {
    /// The same, for a call that takes or returns one in memory: so that only then it need be there.
    #[inline(always)]
    pub(super) fn in_registers(self) -> Key {
        let Key { head, bytes: [a, b, c, d] } = self;
        Key { head, bytes: [a, b, c, d] }
    }

    /// Evenly spread. The products do not wait for each other.
    #[inline]
    fn hash(&self) -> u64 {
        let [a, b, c, d] = self.bytes;
        fold(a ^ 0xa076_1d64_78bd_642f, b ^ 0xe703_7ed1_a0b4_28db) ^ fold(c ^ 0x8ebc_6af0_9c88_c6e3, d ^ self.head)
    }
}

/// Mixes two words: the halves of their product, of which each bit depends on all bits of both.
#[inline(always)]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// How large a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Groups by number: those of events that are not divided, and of the others of those that are.
    pub(super) events: u32,
    /// Keys that are told apart.
    pub(super) keys: u32,
    /// Cells of a group.
    pub(super) buckets: u32,
    /// Numbers of CPUs are below.
    pub(super) cpus: u32,
}

impl Shape {
    fn lines(self) -> u32 {
        self.keys.saturating_mul(SPARE).next_power_of_two()
    }

    fn region(self) -> u64 {
        (u64::from(self.events) + u64::from(self.keys)) * u64::from(self.buckets) * LINE as u64
    }

    /// Bytes that may be used, where the process runs on so many CPUs.
    pub(super) fn memory(self, cpus: usize) -> u64 {
        u64::from(self.lines()) * LINE as u64 + self.region().saturating_mul(cpus as u64 + 1)
    }
}

pub(super) struct Table {
    memory: Mapping,
    shape: Shape,
    /// Lines of the directory, less one.
    mask: u64,
    /// Lines of a region.
    region: u64,
    /// Groups of keys so far; may be above the limit by as many threads as found the last one at once.
    used: AtomicU64,
}

impl Table {
    /// Makes a table; memory of the CPUs `present` is allocated at once, as far as [`AHEAD`] reaches.
    pub(super) fn new(shape: Shape, present: &[u32]) -> io::Result<Table> {
        let regions = u64::from(shape.cpus) + u64::from(STRIPES);
        let len = u64::from(shape.lines()) * LINE as u64 + regions.saturating_mul(shape.region());
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let (mask, region) = (u64::from(shape.lines()) - 1, shape.region() / LINE as u64);
        let table = Table { memory: Mapping::zeroed(len)?, shape, mask, region, used: AtomicU64::new(0) };
        let directory = (shape.lines() as usize) * LINE;
        table.memory.populate(0, directory);
        let region = shape.region() as usize;
        let ahead = AHEAD.checked_div(region).unwrap_or(0);
        for cpu in present.iter().filter(|cpu| **cpu < shape.cpus).take(ahead) {
            // From the page where it begins.
            let at = (directory + *cpu as usize * region) & !4095;
            table.memory.populate(at as u64, region);
        }
        Ok(table)
    }

    #[inline]
    fn line(&self, index: u64) -> Option<&Line> {
        self.memory.all().get(usize::try_from(index).ok()?)
    }

    #[inline(always)]
    fn cell(&self, region: u32, Group(group): Group, bucket: u32) -> Option<&Line> {
        self.line(u64::from(region) * self.region + group + u64::from(bucket))
    }

    /// The group of this number: those of events come first, then those of keys.
    #[inline(always)]
    fn numbered(&self, number: u64) -> Group {
        Group(self.mask + 1 + number * u64::from(self.shape.buckets))
    }

    /// The group of an event that is not divided, or of the others of one that is.
    #[inline(always)]
    pub(super) fn of_event(&self, event: u16) -> Group {
        self.numbered(event.into())
    }

    /// The group of `key`, which has one from now on if there is room; `None`: it belongs to the others of its event.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free: looks at [`PROBES`] lines at most.
    #[inline(always)]
    pub(super) fn group(&self, key: &Key) -> Option<Group> {
        let (mut at, mut left) = (key.hash(), PROBES);
        loop {
            let line = self.line(at & self.mask)?;
            // Acquire: orders the key's words before its first one. Pairs with the Release store in `claim`.
            let head = line[0].load(Ordering::Acquire);
            if head == key.head {
                let [a, b, c, d] = key.bytes;
                // Relaxed: AT-4.
                let differs = (line[1].load(Ordering::Relaxed) ^ a)
                    | (line[2].load(Ordering::Relaxed) ^ b)
                    | (line[3].load(Ordering::Relaxed) ^ c)
                    | (line[4].load(Ordering::Relaxed) ^ d);
                if differs == 0 {
                    return known(line[GROUP].load(Ordering::Relaxed));
                }
            }
            if head != EMPTY {
                at = at.wrapping_add(1);
            } else if let Some(group) = self.claim(line, key.in_registers()) {
                return known(group);
            }
            // Or somebody else claimed it: perhaps for the same key.
            left -= 1;
            if left == 0 {
                return None;
            }
        }
    }

    /// Makes an empty line that of a key. `None`: it is not empty any more.
    #[cold]
    #[inline(never)]
    fn claim(&self, line: &Line, key: Key) -> Option<u64> {
        let most = u64::from(self.shape.keys);
        // Relaxed: it decides who gets a line, and orders nothing.
        if self.used.load(Ordering::Relaxed) >= most {
            return Some(OTHERS);
        }
        line[0].compare_exchange(EMPTY, CLAIMED, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        let number = self.used.fetch_add(1, Ordering::Relaxed);
        let group = if number < most { self.numbered(u64::from(self.shape.events) + number).0 } else { OTHERS };
        line[1..].iter().zip(key.bytes).for_each(|(word, bytes)| word.store(bytes, Ordering::Relaxed));
        line[GROUP].store(group, Ordering::Relaxed);
        // Release: orders the stores above. Pairs with the Acquire loads in `group` and `keys`.
        line[0].store(key.head, Ordering::Release);
        Some(group)
    }

    /// Adds an event without a value to a group. Returns false if it is lost.
    ///
    /// # Signal safety
    ///
    /// As for [`add`](Self::add).
    #[inline(always)]
    pub(super) fn count(&self, group: Group) -> bool {
        let none = |_: &Line, _| [0; 3];
        self.try_update(group, 0, none) || self.update_slow(group, 0, none)
    }

    /// Adds an event to a bucket of a group: `fold` makes its figures from those before it, if any. Returns false if it is lost.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free: a sequence that was aborted is tried again, then each stripe once.
    #[inline(always)]
    pub(super) fn add(&self, group: Group, bucket: u32, fold: impl Fn(Option<Figures>) -> Figures + Copy) -> bool {
        let folded = move |cell: &Line, count| fold(figures_of(cell, count));
        self.try_update(group, bucket, folded) || self.update_slow(group, bucket, folded)
    }

    #[inline(always)]
    fn try_update(&self, group: Group, bucket: u32, figures: impl Fn(&Line, u64) -> Figures) -> bool {
        let cpu = sys::cpu_id();
        if cpu >= self.shape.cpus {
            return false;
        }
        let Some(cell) = self.cell(cpu, group, bucket) else { return false };
        // Acquire: the figures are loaded behind it. They are believed only if the sequence finds the same count (AT-3).
        let count = cell[COUNT].load(Ordering::Acquire);
        let figures = figures(cell, count);
        let to = slot(cell, count.wrapping_add(1));
        // SAFETY: AT-1: the cell is of this CPU; `to` are three of its words.
        unsafe { sys::commit_on_cpu(sys::rseq_offset(), cpu, &raw const cell[COUNT], count, to.as_ptr(), figures) }
    }

    #[cold]
    #[inline(never)]
    fn update_slow(&self, group: Group, bucket: u32, figures: impl Fn(&Line, u64) -> Figures + Copy) -> bool {
        (1..TRIES).any(|_| self.try_update(group, bucket, figures)) || self.update_locked(group, bucket, figures)
    }

    fn update_locked(&self, group: Group, bucket: u32, figures: impl Fn(&Line, u64) -> Figures) -> bool {
        let first = sys::with_thread(|thread| thread.tid.load(Ordering::Relaxed)).unwrap_or(0);
        for stripe in 0..STRIPES {
            let region = self.shape.cpus + first.wrapping_add(stripe) % STRIPES;
            let Some(cell) = self.cell(region, group, bucket) else { return false };
            // Acquire: orders what the last one who held it stored. Pairs with the Release store below.
            if cell[LOCK].compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                continue;
            }
            // Release: a reader that sees figures stored below sees the count that the last one stored. Pairs with the fence in
            // `read_cell`.
            fence(Ordering::Release);
            let count = cell[COUNT].load(Ordering::Relaxed);
            let figures = figures(cell, count);
            slot(cell, count.wrapping_add(1))
                .iter()
                .zip(figures)
                .for_each(|(word, figure)| word.store(figure, Ordering::Relaxed));
            // Release: orders the figures before the count. Pairs with the Acquire load in `read_cell`.
            cell[COUNT].store(count.wrapping_add(1), Ordering::Release);
            // Release: orders all of it before the next one who holds it.
            cell[LOCK].store(0, Ordering::Release);
            return true;
        }
        false
    }

    /// The keys so far, each with its group.
    pub(super) fn keys(&self) -> Vec<(Key, Group)> {
        let mut keys = Vec::new();
        for line in (0..self.shape.lines()).filter_map(|index| self.line(index.into())) {
            // Acquire: as in `group`.
            let head = line[0].load(Ordering::Acquire);
            if head & IS_KEY == 0 {
                continue;
            }
            let mut key = Key { head, bytes: [0; KEY / 8] };
            key.bytes.iter_mut().zip(&line[1..]).for_each(|(bytes, word)| *bytes = word.load(Ordering::Relaxed));
            keys.extend(known(line[GROUP].load(Ordering::Relaxed)).map(|group| (key, group)));
        }
        keys
    }

    /// What all regions hold of a group: `see` is given bucket, count and figures of each cell that is used.
    pub(super) fn read(&self, group: Group, mut see: impl FnMut(u32, u64, Figures)) {
        for region in 0..self.shape.cpus + STRIPES {
            for bucket in 0..self.shape.buckets {
                if let Some((count, figures)) = self.cell(region, group, bucket).and_then(read_cell) {
                    see(bucket, count, figures);
                }
            }
        }
    }
}

/// What the line of a key has as its group.
#[inline]
fn known(group: u64) -> Option<Group> {
    (group != OTHERS).then_some(Group(group))
}

/// The words that hold the figures of `count` events.
#[inline]
fn slot(cell: &Line, count: u64) -> &[AtomicU64] {
    let [_, even @ .., _, _, _, _] = cell;
    let [_, _, _, _, odd @ .., _] = cell;
    if count % 2 == 0 { even } else { odd }
}

#[inline]
fn figures_of(cell: &Line, count: u64) -> Option<Figures> {
    let [a, b, c] = slot(cell, count) else { return None };
    // Relaxed: AT-3, by whoever asks.
    (count > 0).then(|| [a, b, c].map(|word| word.load(Ordering::Relaxed)))
}

/// Count and figures that belong together; `None`: no event yet. Tries again only where an event was added meanwhile.
fn read_cell(cell: &Line) -> Option<(u64, Figures)> {
    loop {
        // Acquire: orders the figures behind the count. Pairs with the store of the count: in `update_locked`, and in the sequence,
        // where x86-64 keeps stores in order.
        let count = cell[COUNT].load(Ordering::Acquire);
        let figures = figures_of(cell, count)?;
        // Acquire: figures of a later update are seen only together with its predecessor's count (AT-3). Pairs with the fence in
        // `update_locked`, and with the order of stores in the sequence.
        fence(Ordering::Acquire);
        if cell[COUNT].load(Ordering::Relaxed) == count {
            return Some((count, figures));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn key(which: u64) -> Key {
        Key { head: IS_KEY | (which % 3), bytes: [which, 0, which.rotate_left(40), 0] }
    }

    fn sum(before: Option<Figures>, value: u64) -> Figures {
        before.map_or([value; 3], |[sum, min, max]| [sum + value, min.min(value), max.max(value)])
    }

    /// Whether events go to the CPUs' cells or to the stripes.
    fn tables(shape: Shape) -> Vec<Table> {
        sys::init();
        let of = |cpus| Table::new(Shape { cpus, ..shape }, &[0]).expect("memory");
        vec![of(1024), of(0)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn a_table_is_a_map(
            events in proptest::collection::vec((0..40_u64, 0..5_u32, 0..1000_u64), 1..300), keys in 1..60_u32,
        ) {
            for table in tables(Shape { events: 3, keys, buckets: 5, cpus: 0 }) {
                let mut model: HashMap<(Option<Key>, u32), (u64, Figures)> = HashMap::new();
                let mut known = HashSet::new();
                for (which, bucket, value) in &events {
                    let key = key(*which);
                    let group = table.group(&key);
                    if group.is_some() {
                        known.insert(key);
                    }
                    // A key that has a group keeps it, and one that has none gets none later.
                    prop_assert_eq!(group.is_some(), known.contains(&key));
                    prop_assert!(table.add(group.unwrap_or(table.of_event(0)), *bucket, |before| sum(before, *value)));
                    let (count, figures) = model.entry((group.map(|_| key), *bucket)).or_insert((0, [0; 3]));
                    *figures = sum((*count > 0).then_some(*figures), *value);
                    *count += 1;
                }
                prop_assert!(known.len() <= keys as usize);
                let mut found = HashMap::new();
                let groups = table.keys().into_iter().map(|(key, group)| (Some(key), group));
                for (key, group) in groups.chain([(None, table.of_event(0))]) {
                    table.read(group, |bucket, count, [more, min, max]| {
                        let (all, [sum, least, most]) = found.entry((key, bucket)).or_insert((0, [0, u64::MAX, 0]));
                        (*all, *sum) = (*all + count, *sum + more);
                        (*least, *most) = (min.min(*least), max.max(*most));
                    });
                }
                prop_assert_eq!(found, model);
            }
        }
    }

    #[test]
    fn a_key_that_is_being_claimed_is_not_waited_for() {
        for table in tables(Shape { events: 1, keys: 8, buckets: 1, cpus: 0 }) {
            let line = table.line(key(7).hash() & table.mask).expect("a line");
            line[0].store(CLAIMED, Ordering::Relaxed);
            let group = table.group(&key(7)).expect("the next line");
            // The same once more, after whoever claimed it is done: two groups of one key.
            line[0].store(EMPTY, Ordering::Relaxed);
            let second = table.group(&key(7)).expect("the first line");
            assert_ne!(group, second);
            assert_eq!(table.keys().iter().filter(|(found, _)| *found == key(7)).count(), 2);
        }
    }

    #[test]
    fn a_held_lock_is_passed_by() {
        let table = Table::new(Shape { events: 1, keys: 1, buckets: 1, cpus: 0 }, &[]).expect("memory");
        for held in 0..STRIPES {
            assert!(table.add(table.of_event(0), 0, |before| sum(before, 1)), "{held} of {STRIPES} are held");
            table.cell(held, table.of_event(0), 0).expect("a cell")[LOCK].store(1, Ordering::Relaxed);
        }
        assert!(!table.add(table.of_event(0), 0, |before| sum(before, 1)));
    }
}
