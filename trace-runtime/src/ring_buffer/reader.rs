//! Reading: what was committed, in order, as packets.
//!
//! The invariants RB-… are those of the [module](super).
//!
//! One file, because the tests turn the words that a cursor compares.
#![expect(unsafe_code, reason = "reads the mapping by address")]

use super::core::{Core, Memory};
use super::fallback::{FallbackReader, FallbackRecord};
use super::layout::{COUNTERS, Control, Layout, OPENING, Settings};
use super::losses::{self, Losses};
use super::position::{CommitWord, Position, Shape};
use super::{Geometry, Mode};
use crate::sys::memory::Mapping;
use std::fs::File;
use std::io;
use std::sync::Arc;
use trace_registry::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// What a reader is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To consume: what was delivered and [consumed](Reader::consume) makes room. One reader at a time.
    Consume,
    /// To copy what the rings hold at the moment of its making, without a trace.
    Snapshot,
}

/// A cursor in each buffer of a channel.
#[derive(Debug)]
pub struct Reader {
    mapping: Arc<Mapping>,
    layout: Layout,
    settings: Settings,
    key: u64,
    purpose: Purpose,
    shape: Shape,
    cursors: Vec<Cursor>,
    fallback: FallbackReader,
    lease: Option<Arc<Lease>>,
    /// Memory of a copy that was consumed, for the next one.
    spare: Vec<u8>,
}

/// The right to consume within this process; held by the reader and by packets that lie in the ring.
#[derive(Debug)]
struct Lease(Arc<AtomicBool>);

impl Lease {
    fn take(flag: &Arc<AtomicBool>) -> Option<Lease> {
        // Acquire: pairs with the Release store in `drop`: what the last holder read comes before.
        (!flag.swap(true, Ordering::Acquire)).then(|| Lease(Arc::clone(flag)))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Where a reader is in one buffer.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// Number of the sub-buffer, counted from 0.
    sequence: u64,
    /// Offset of the next byte in it; 0: nothing of it was delivered.
    offset: u64,
    /// Records of it that were delivered.
    records: u32,
    /// Stamp of the last record delivered of it.
    last_ns: u64,
    /// Losses at the end of the packet before.
    lost: u64,
    /// Counters at the end of the packet before.
    counters: [u64; COUNTERS],
    /// Records that were delivered of this buffer, by predecessors too.
    delivered: u64,
    /// Snapshots: the writer's state when the reader was made.
    until: Option<Committed>,
    /// Snapshots that have begun.
    pace: Option<Pace>,
}

/// How fast a snapshot is, beside the writer that it may be overtaken by.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Number of the writer's sub-buffer when the snapshot began.
    since: u64,
    /// Sub-buffers that were copied.
    copied: u64,
}

/// The writer's state: word and stamp of one commit.
#[derive(Clone, Copy, Debug)]
struct Committed {
    word: CommitWord,
    last_ns: u64,
}

/// How far the rings of a channel were, at one time.
#[derive(Clone, Debug)]
pub struct Moment {
    buffers: Vec<Option<Committed>>,
    fallback: Option<u64>,
}

/// How far a buffer is: bytes since its beginning, with what its sub-buffers are opened by and leave empty at their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Positions {
    /// Behind the last record that was committed.
    pub produced: u64,
    /// Behind the last record that was consumed, by any reader.
    pub consumed: u64,
}

/// Event records of one sub-buffer, or a part of one, as delivered: what becomes a packet of the trace.
#[derive(Debug)]
pub struct Packet {
    /// Number of the buffer.
    pub buffer: u32,
    /// CPU, concurrency ID or number of a thread that it serves.
    pub cpu: u32,
    /// Number of the sub-buffer, counted from 0. Numbers that were passed over were overwritten.
    pub sequence: u64,
    /// Not above the first record's stamp; short forms are completed from it.
    pub begin_ns: u64,
    /// Not below the last record's stamp.
    pub end_ns: u64,
    /// Number of records.
    pub records: u32,
    /// Losses of this buffer so far, by cause, at the end of the packet.
    pub losses: Losses,
    /// Events [discarded](Losses::discarded) in this buffer up to the end of the packet before.
    pub discarded_before: u64,
    /// Events discarded in this buffer before its sub-buffer was opened, where the packet begins with that. They came before
    /// `begin_ns`.
    pub discarded_at_open: Option<u64>,
    /// Whether nothing of this sub-buffer follows.
    pub closes: bool,
    content: Content,
    /// Commit word behind the content, for `consume`.
    word: CommitWord,
    /// Records delivered of this buffer up to the end of the packet.
    delivered: u64,
}

#[derive(Debug)]
enum Content {
    /// In the ring, until it is consumed; RB-7.
    Mapped {
        mapping: Arc<Mapping>,
        at: u64,
        len: usize,
        _lease: Option<Arc<Lease>>,
    },
    Copied(Vec<u8>),
}

impl Packet {
    /// Returns the number of bytes of its records.
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Mapped { len, .. } => *len,
            Content::Copied(bytes) => bytes.len(),
        }
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns where its records lie, for a system call to read them. The memory stays mapped as long as the packet.
    ///
    /// They may lie in shared memory, which only the protocol protects: copy, or have the kernel copy, before you look twice.
    pub fn as_ptr(&self) -> *const u8 {
        match &self.content {
            Content::Mapped { mapping, at, len, .. } => {
                mapping.range(*at, *len).map_or(core::ptr::null(), |p| p.as_ptr().cast_const())
            }
            Content::Copied(bytes) => bytes.as_ptr(),
        }
    }

    /// Returns its records as a slice.
    ///
    /// # Safety
    ///
    /// Whoever can write the ring file keeps to the protocol, no other reader consumes this channel, and while the slice is there no
    /// packet that was delivered later is [consumed](Reader::consume); else the bytes may change under the slice. Use [`to_vec`](Self::to_vec) for files of others.
    pub unsafe fn as_slice(&self) -> &[u8] {
        match &self.content {
            // SAFETY: inside the mapping, which the packet keeps; RB-7 and the caller's duty: nobody writes there before the
            // packet is consumed, and `consume` takes the packet.
            Content::Mapped { .. } => unsafe { core::slice::from_raw_parts(self.as_ptr(), self.len()) },
            Content::Copied(bytes) => bytes,
        }
    }

    /// Copies its records.
    pub fn to_vec(&self) -> Vec<u8> {
        match &self.content {
            Content::Mapped { mapping, at, len, .. } => copy(mapping, *at, *len, Vec::new()),
            Content::Copied(bytes) => bytes.clone(),
        }
    }
}

/// Copies bytes that others may write meanwhile, into the memory of `bytes` where that is enough.
fn copy(mapping: &Mapping, at: u64, len: usize, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.clear();
    let Some(start) = mapping.range(at, len) else { return bytes };
    bytes.reserve(len);
    // SAFETY: both are `len` bytes, which are written before they count. What a concurrent writer makes of the source is thrown
    // away by whoever called (RB-7); the copy itself is of plain bytes, of which any values are valid.
    unsafe {
        core::ptr::copy_nonoverlapping(start.as_ptr(), bytes.as_mut_ptr(), len);
        bytes.set_len(len);
    }
    bytes
}

impl Core {
    /// Returns a reader of this channel. `None`: it has a reader that consumes (or a packet of one), and this one is to
    /// consume too.
    pub fn reader(&self, purpose: Purpose) -> Option<Reader> {
        let lease = match purpose {
            Purpose::Consume => Some(Lease::take(&self.is_consumed)?),
            Purpose::Snapshot => None,
        };
        Some(Reader::new(Arc::clone(self.mapping()), &self.memory(), purpose, lease.map(Arc::new)))
    }
}

impl Reader {
    /// Returns a reader of a ring file, of a channel in another process or of one that is gone.
    ///
    /// All is mapped read-only, but for the consumed pages of a reader that consumes.
    ///
    /// # Errors
    ///
    /// The file is not a ring file of this version, or cannot be mapped.
    ///
    /// # Safety
    ///
    /// Nobody makes the file shorter while it is mapped: reading there would raise SIGBUS. No other reader consumes, if this
    /// one does.
    pub unsafe fn open(file: &File, purpose: Purpose) -> io::Result<Reader> {
        let (layout, settings, key) = Memory::read_superblock(file)?;
        let mapping = Mapping::new(file, layout.file_size(), false)?;
        if purpose == Purpose::Consume {
            let parts = (0..layout.geometry.buffers).map(|b| layout.buffer(b));
            let fallback = (layout.geometry.fallback > 0).then(|| layout.fallback());
            for part in parts.chain(fallback) {
                mapping.make_writable(part + Layout::CONSUMED, super::layout::PAGE as usize)?;
            }
        }
        let mapping = Arc::new(mapping);
        let memory = Memory { mapping: &mapping, layout, settings, key };
        Ok(Reader::new(Arc::clone(&mapping), &memory, purpose, None))
    }

    fn new(mapping: Arc<Mapping>, memory: &Memory<'_>, purpose: Purpose, lease: Option<Arc<Lease>>) -> Reader {
        let geometry = memory.layout.geometry;
        let shape = Shape::new(geometry.sub_buffer, geometry.sub_buffers);
        let cursors = (0..geometry.buffers).map(|b| Cursor::new(memory, b, shape, purpose)).collect();
        let fallback = FallbackReader::new(memory, purpose == Purpose::Snapshot);
        let (layout, settings, key) = (memory.layout, memory.settings, memory.key);
        Reader { mapping, layout, settings, key, purpose, shape, cursors, fallback, lease, spare: Vec::new() }
    }

    pub(super) fn memory(&self) -> Memory<'_> {
        Memory { mapping: &self.mapping, layout: self.layout, settings: self.settings, key: self.key }
    }

    /// Returns the sizes.
    pub fn geometry(&self) -> Geometry {
        self.layout.geometry
    }

    /// Returns the configuration.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns a word of the superblock that belongs to the channel's creator.
    pub fn caller_word(&self, index: usize) -> Option<u64> {
        if index >= super::layout::CALLER_WORDS {
            return None;
        }
        let at = size_of::<super::layout::Superblock>() + index * 8;
        Some(self.mapping.word(at as u64)?.load(Ordering::Acquire))
    }

    /// Returns the CPU, concurrency ID or number of a thread that a buffer serves. `None`: none yet.
    pub fn cpu(&self, buffer: u32) -> Option<u32> {
        let serves = self.memory().control(buffer)?.serves.load(Ordering::Relaxed);
        u32::try_from(serves).ok()?.checked_sub(1)
    }

    /// Returns the losses of a buffer so far.
    pub fn buffer_losses(&self, buffer: u32) -> Losses {
        self.memory().buffer_losses(buffer).unwrap_or_default()
    }

    /// Returns the losses of the fallback region. What was never committed or was overwritten there is exact when nobody writes
    /// and [`next_fallback`](Self::next_fallback) found nothing more; the counts of one reader never decrease.
    pub fn fallback_losses(&self) -> Losses {
        self.fallback.losses(&self.memory())
    }

    /// Whether the fallback region overwrote anything before it was consumed, up to where this reader ends.
    pub fn fallback_was_lapped(&self) -> bool {
        self.fallback.was_lapped(&self.memory())
    }

    /// Returns how far `buffer` is. `None`: there is no such buffer.
    ///
    /// The two are read one after the other, so what is produced may be newer than what is consumed.
    pub fn positions(&self, buffer: u32) -> Option<Positions> {
        let memory = self.memory();
        let page = memory.consumed(buffer)?;
        let partly = CommitWord::load(&page.partly, Ordering::Acquire).position();
        // Relaxed: a sample.
        let mut consumed = page.consumed.load(Ordering::Relaxed);
        let sequence = consumed / self.shape.sub_buffer();
        let oldest = memory.oldest(buffer)?;
        let mut at = self.shape.position_of(sequence);
        if self.shape.start(partly) == at {
            consumed += self.shape.offset(partly);
            at = partly;
        }
        // Acquire: what is produced is not older than what is consumed.
        let produced = CommitWord::load(&memory.control(buffer)?.commit, Ordering::Acquire).position();
        let (from, at) = if sequence < oldest {
            (oldest.wrapping_mul(self.shape.sub_buffer()), self.shape.position_of(oldest))
        } else {
            (consumed, at)
        };
        Some(Positions { produced: from.wrapping_add(self.shape.bytes_between(at, produced)), consumed })
    }

    /// Returns the number of records appended to buffers and fallback region so far.
    pub fn records(&self) -> u64 {
        self.memory().records()
    }

    /// Returns the bytes of the ring of `buffer` that are committed and not delivered, roughly: for a consumer's pace.
    pub fn pending(&self, buffer: u32) -> u64 {
        let memory = self.memory();
        let (Some(control), Some(cursor)) = (memory.control(buffer), self.cursors.get(buffer as usize)) else { return 0 };
        if memory.oldest(buffer).is_some_and(|oldest| cursor.sequence < oldest) {
            return self.shape.ring();
        }
        let now = CommitWord::load(&control.commit, Ordering::Relaxed).position();
        let at = self.shape.position_of(cursor.sequence).advance(cursor.offset);
        self.shape.bytes_between(at, now).min(self.shape.ring())
    }

    /// Returns how far the rings are now.
    pub fn moment(&self) -> Moment {
        let memory = self.memory();
        let far = |buffer| memory.control(buffer).map(|control| committed_by_now(control, self.shape));
        Moment { buffers: (0..self.layout.geometry.buffers).map(far).collect(), fallback: self.fallback.reserved(&memory) }
    }

    /// Ends what is read at a moment, which is not before one that it ended at already; or nowhere.
    pub fn end_at(&mut self, moment: Option<&Moment>) {
        for (cursor, buffer) in self.cursors.iter_mut().zip(0..) {
            cursor.until = moment.and_then(|moment| *moment.buffers.get(buffer)?);
        }
        self.fallback.end_at(moment.and_then(|moment| moment.fallback));
    }

    /// Returns the next packet of `buffer`: of the next closed sub-buffer; with `cut`, also of what is committed so far in the
    /// present one. `None`: nothing new.
    ///
    /// In discard mode, a consuming reader's packet lies in the ring itself until it is [consumed](Self::consume). In
    /// overwrite mode and in snapshots it is a copy that was checked. A packet that closes its sub-buffer may be empty.
    pub fn next(&mut self, buffer: u32, cut: bool) -> Option<Packet> {
        let memory = Memory { mapping: &self.mapping, layout: self.layout, settings: self.settings, key: self.key };
        let control = memory.control(buffer)?;
        let shape = self.shape;
        let cursor = self.cursors.get_mut(buffer as usize)?;
        let copies = self.purpose == Purpose::Snapshot || self.settings.mode == Mode::Overwrite;
        loop {
            // Where it is further behind than positions tell, the numbers of sub-buffers do.
            let oldest = memory.oldest(buffer)?;
            if copies && oldest.saturating_sub(cursor.sequence) > shape.in_sight() {
                cursor.skip_to(oldest);
            }
            // For a cut: losses before the commit that it ends at. Acquire fence: the loads of the counters come before that
            // of the commit word.
            let sample = control.sample();
            fence(Ordering::Acquire);
            let now = match cursor.until {
                Some(until) => until,
                None => committed(control)?,
            };
            let position = now.word.position();
            let start = shape.position_of(cursor.sequence);
            let ahead = position.since(start);
            if ahead > 1 << (super::position::POSITION_BITS - 1) {
                return None; // behind the cursor: not a state that a writer makes
            }
            if !copies && ahead > shape.lap() {
                return None; // more than fits, where nothing is overwritten: the same
            }
            let live = CommitWord::load(&control.commit, Ordering::Acquire).position();
            let newest = shape.sequence_of(live, cursor.sequence);
            if self.purpose == Purpose::Snapshot {
                cursor.pace.get_or_insert(Pace { since: newest, copied: 0 });
            }
            if copies && !shape.is_intact(start, live) {
                let oldest = newest.saturating_sub(shape.sub_buffers() - 1);
                let left = shape.sequence_of(position, cursor.sequence).saturating_sub(oldest);
                cursor.skip_to(oldest + cursor.pace.map_or(0, |pace| pace.lost_of(left, newest)));
                continue;
            }
            let is_closed = ahead >= shape.sub_buffer();
            let from = if cursor.offset == 0 { OPENING } else { cursor.offset };
            if !is_closed && (!cut || ahead <= from) {
                return None;
            }
            // RB-6: the descriptor's begin is valid now, and what close stored if the position is beyond.
            let descriptor = memory.descriptor(buffer, shape.index(start))?;
            let load = |word: &AtomicU64| word.load(Ordering::Relaxed); // behind the Acquire load of the commit word
            let begin_ns = if cursor.offset == 0 { load(&descriptor.begin_ns) } else { cursor.last_ns };
            let before = load(&descriptor.records_before).wrapping_add(u64::from(cursor.records));
            let (to, total, end_ns, counters) = if is_closed {
                let content = load(&descriptor.content);
                let counters = losses::load(&descriptor.at_close);
                (content & 0xffff_ffff, (content >> 32) as u32, load(&descriptor.end_ns), counters)
            } else {
                (ahead, now.word.records(), now.last_ns, sample)
            };
            // Whoever closes a sub-buffer samples before it commits, so a cut in between may have told more.
            let counters: [u64; COUNTERS] = std::array::from_fn(|k| counters[k].max(cursor.counters[k]));
            let sequence_seen = load(&descriptor.sequence);
            let ring_at = self.layout.buffer(buffer) + self.layout.data + shape.ring_offset(start);
            let is_whole = sequence_seen == cursor.sequence.wrapping_add(1) && from <= to && to < shape.sub_buffer();
            let len = if is_whole { (to - from) as usize } else { 0 };
            let content = if copies {
                let bytes = copy(&self.mapping, ring_at + from, len, std::mem::take(&mut self.spare));
                // Acquire fence: the copy comes before the position. Pairs with the order of the writer's stores: it
                // commits the close at the end of the ring before it writes the first byte of the next lap (x86-64 keeps
                // stores in order).
                //  - If the position is less than a ring ahead, none of the copied bytes was written over.
                //  - If it is not, the copy is thrown away.
                fence(Ordering::Acquire);
                let live = CommitWord::load(&control.commit, Ordering::Relaxed).position();
                if !shape.is_intact(start, live) && !trace_registry::is_mutated!(copy_not_checked) {
                    continue;
                }
                Content::Copied(bytes)
            } else {
                Content::Mapped { mapping: Arc::clone(&self.mapping), at: ring_at + from, len, _lease: self.lease.clone() }
            };
            if !is_whole {
                // Not a state that a writer makes: a foreign file that lies. Passed over, or nothing, so that readers end.
                if !is_closed {
                    return None;
                }
                cursor.skip_to(cursor.sequence + 1);
                continue;
            }
            // What was committed before and not delivered was overwritten.
            let overwritten = if copies { before.saturating_sub(cursor.delivered) } else { 0 };
            let losses = Losses::from_counters(counters, overwritten);
            let records = total.saturating_sub(cursor.records);
            cursor.delivered = cursor.delivered.wrapping_add(u64::from(records));
            let word = CommitWord::new(Position::new(start.bits() + to), total);
            let packet = Packet {
                buffer,
                cpu: u32::try_from(control.serves.load(Ordering::Relaxed)).unwrap_or(0).wrapping_sub(1),
                sequence: cursor.sequence,
                begin_ns,
                end_ns: end_ns.max(begin_ns),
                records,
                discarded_before: if cursor.lost == u64::MAX { load(&descriptor.lost_at_open) } else { cursor.lost },
                discarded_at_open: (cursor.offset == 0).then(|| load(&descriptor.lost_at_open)),
                losses,
                closes: is_closed,
                content,
                word,
                delivered: cursor.delivered,
            };
            cursor.lost = losses.discarded();
            cursor.counters = counters;
            if is_closed {
                cursor.sequence += 1;
                cursor.pace = cursor.pace.map(|pace| Pace { copied: pace.copied + 1, ..pace });
                (cursor.offset, cursor.records, cursor.last_ns) = (0, 0, 0);
            } else {
                (cursor.offset, cursor.records, cursor.last_ns) = (to, total, end_ns);
            }
            return Some(packet);
        }
    }

    /// Gives the memory of a packet back to writers; to be called in the order of delivery, after what it holds is safe.
    ///
    /// Until then a crash loses nothing: the next reader finds the packet again. In a snapshot, writers feel nothing of it.
    pub fn consume(&mut self, packet: Packet) {
        if let Content::Copied(bytes) = packet.content {
            self.spare = bytes;
        }
        if self.purpose != Purpose::Consume {
            return;
        }
        let memory = self.memory();
        let Some(page) = memory.consumed(packet.buffer) else { return };
        // Release: a successor that finds both words equal finds the stamp that belongs to them; see `Cursor::new`.
        page.partly_check.store(packet.word.bits(), Ordering::Relaxed);
        page.partly_ns.store(packet.end_ns, Ordering::Release);
        page.delivered.store(packet.delivered, Ordering::Release);
        page.partly.store(packet.word.bits(), Ordering::Release);
        if packet.closes {
            // Release: whatever read the bytes comes before. Pairs with the Acquire load in `append::open`.
            page.consumed.store((packet.sequence + 1).wrapping_mul(self.shape.sub_buffer()), Ordering::Release);
        }
    }

    /// Returns the next record of the fallback region. `None`: nothing is ready.
    ///
    /// A record that was reserved and is not committed holds up those behind it for 100 ms, then it is passed over and counted
    /// as uncommitted; at once where `is_final`: nobody writes any more.
    pub fn next_fallback(&mut self, is_final: bool) -> Option<FallbackRecord<'_>> {
        let memory = Memory { mapping: &self.mapping, layout: self.layout, settings: self.settings, key: self.key };
        self.fallback.next(&memory, is_final)
    }

    /// Gives the memory of all records that were delivered of the fallback region back to writers.
    pub fn consume_fallback(&mut self) {
        if self.purpose == Purpose::Consume {
            self.fallback.consume(&self.memory());
        }
    }
}

/// Reads word and stamp of one commit. `None`: the writer was too fast, again and again.
fn committed(control: &Control) -> Option<Committed> {
    for _ in 0..1000 {
        // Acquire, both: pair with the commit, one store of 16 bytes (RB-3). Two equal words with the stamp between them are
        // of one commit: a word does not come back within 16 TiB.
        let word = CommitWord::load(&control.commit, Ordering::Acquire);
        let last_ns = control.last.load(Ordering::Acquire);
        if CommitWord::load(&control.commit, Ordering::Relaxed) == word {
            return Some(Committed { word, last_ns });
        }
    }
    None
}

/// The same of any writer: one that never rests, at its last boundary.
fn committed_by_now(control: &Control, shape: Shape) -> Committed {
    committed(control).unwrap_or_else(|| {
        let word = CommitWord::load(&control.commit, Ordering::Acquire);
        Committed { word: CommitWord::new(shape.start(word.position()), 0), last_ns: 0 }
    })
}

impl Pace {
    /// Of `left` sub-buffers that are to be copied, how many the writer, now in that of number `newest`, will overwrite first.
    /// They are given up at once: those behind them, the newest, are then without a hole.
    fn lost_of(self, left: u64, newest: u64) -> u64 {
        let opened = newest.saturating_sub(self.since);
        if opened < 2 {
            return 0; // it was about to enter the oldest when the snapshot began
        }
        // The reader may not have run for a while: it is taken to be half as fast at least.
        left.saturating_mul(opened) / (opened + self.copied.max(opened / 2))
    }
}

impl Cursor {
    fn new(memory: &Memory<'_>, buffer: u32, shape: Shape, purpose: Purpose) -> Cursor {
        let mut cursor = Cursor {
            sequence: 0,
            offset: 0,
            records: 0,
            last_ns: 0,
            lost: u64::MAX,
            counters: [0; COUNTERS],
            delivered: 0,
            until: None,
            pace: None,
        };
        let (Some(control), Some(page)) = (memory.control(buffer), memory.consumed(buffer)) else { return cursor };
        let now = committed(control);
        if purpose == Purpose::Snapshot {
            cursor.until = Some(committed_by_now(control, shape));
        }
        cursor.sequence = page.consumed.load(Ordering::Relaxed) / shape.sub_buffer();
        cursor.delivered = page.delivered.load(Ordering::Relaxed);
        // Behind by more than a ring (or by the 44 bits, or not at all): begin with the oldest that is there.
        let word = cursor.until.or(now).map_or(CommitWord::load(&control.commit, Ordering::Acquire), |c| c.word);
        let index = shape.index(word.position());
        let present = if shape.offset(word.position()) == 0 { shape.before(index) } else { index };
        // The newest sub-buffer that was opened knows its number; counted from 1.
        if let Some(newest) = memory.descriptor(buffer, present) {
            // Beyond the largest: a foreign file that lies.
            let opened = newest.sequence.load(Ordering::Relaxed).min(u64::MAX >> 1);
            let oldest = opened.saturating_sub(shape.sub_buffers());
            let is_overwriting = memory.settings.mode == Mode::Overwrite;
            if cursor.sequence < oldest && is_overwriting || cursor.sequence > opened {
                cursor.sequence = oldest;
            }
        }
        // What its predecessor consumed of this sub-buffer is not delivered again.
        let partly = CommitWord::load(&page.partly, Ordering::Acquire);
        let is_whole = page.partly_check.load(Ordering::Relaxed) == partly.bits();
        let is_here = shape.start(partly.position()) == shape.position_of(cursor.sequence);
        if purpose == Purpose::Consume && is_whole && is_here && shape.offset(partly.position()) > OPENING {
            cursor.offset = shape.offset(partly.position());
            cursor.records = partly.records();
            cursor.last_ns = page.partly_ns.load(Ordering::Relaxed);
        }
        cursor
    }

    /// Goes to another sub-buffer, of which nothing was delivered.
    fn skip_to(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
        (self.offset, self.records, self.last_ns) = (0, 0, 0);
    }
}

// A reader may move to the consumer's thread; a packet to whoever writes it.
static_assertions::assert_impl_all!(Reader: Send, Sync);
static_assertions::assert_impl_all!(Packet: Send, Sync);

#[cfg(test)]
mod tests {
    use super::super::{Channel, ClockKind, Config, HeaderKind, Outcome, Placement};
    use super::*;
    use proptest::prelude::*;

    struct Flight;

    impl Config for Flight {
        const MODE: Mode = Mode::Overwrite;
        const CLOCK: ClockKind = ClockKind::Os;
        const HEADER: HeaderKind = HeaderKind::Large;
        const PLACEMENT: Placement = Placement::Cpu;
    }

    /// Laps of the ring below in 8 TiB, which is as far as positions tell.
    const FAR: u64 = 1 << (super::super::position::POSITION_BITS - 1 - 14);

    /// Makes the rings what they would be after so many laps more, of sub-buffers with one record each.
    fn turn(memory: &Memory<'_>, laps: u64) {
        let shape = memory.shape();
        for buffer in 0..memory.layout.geometry.buffers {
            let control = memory.control(buffer).expect("a buffer");
            let word = CommitWord::load(&control.commit, Ordering::Relaxed);
            if word.bits() == 0 {
                continue; // nothing ran on its CPU
            }
            let turned = Position::new(word.position().bits().wrapping_add(laps.wrapping_mul(shape.lap())));
            control.commit.store(CommitWord::new(turned, word.records()).bits(), Ordering::Relaxed);
            let sub_buffers = laps * shape.sub_buffers();
            for index in 0..shape.sub_buffers() {
                let descriptor = memory.descriptor(buffer, index).expect("a sub-buffer");
                descriptor.sequence.fetch_add(sub_buffers, Ordering::Relaxed);
                descriptor.records_before.fetch_add(sub_buffers, Ordering::Relaxed);
            }
        }
    }

    /// The process may have ended before its rings had memory, and there may be none left: touching a page would end this one.
    #[test]
    fn a_file_without_memory_is_refused_untouched() {
        use std::os::unix::fs::MetadataExt as _;
        let file = rustix::fs::memfd_create("rings", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        let file = std::fs::File::from(file);
        file.set_len(1 << 20).expect("its length");
        // SAFETY: nobody else has the file.
        let error = unsafe { Reader::open(&file, Purpose::Snapshot) }.expect_err("it has no superblock");
        assert!(error.to_string().contains("no magic number"), "{error}");
        assert_eq!(file.metadata().expect("its size").blocks(), 0, "it was given memory");
    }

    fn deliver(reader: &mut Reader) -> u64 {
        let mut delivered = 0;
        for buffer in 0..reader.geometry().buffers {
            while let Some(packet) = reader.next(buffer, true) {
                delivered += u64::from(packet.records);
                reader.consume(packet);
            }
        }
        delivered
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_reader_however_far_behind_goes_on_with_the_oldest_and_counts_the_rest(
            half in 0_u64..6, near in 0_u64..9, below in any::<bool>(),
        ) {
            let laps = if below { (half * FAR).saturating_sub(near) } else { half * FAR + near };
            let cpus = super::super::core::configured_cpus() as u32;
            let geometry = Geometry { buffers: cpus, sub_buffer: 4096, sub_buffers: 4, fallback: 0 };
            let channel = Channel::<Flight>::in_memory(geometry).expect("a channel");
            if !super::super::core::is_registered::<Flight>() {
                return Ok(()); // everything would go to the fallback region
            }
            let fill = || (0..1000).for_each(|_| assert_eq!(channel.record(1, &[&[7; 100]]), Outcome::Recorded));
            fill();
            let mut reader = channel.reader(Purpose::Consume).expect("the first reader");
            let mut delivered = deliver(&mut reader);
            fill();
            turn(&reader.memory(), laps);
            let behind = (0..cpus).map(|buffer| reader.pending(buffer)).sum::<u64>();
            prop_assert!(behind >= 3 * 4096, "{behind}");
            fill();
            let more = deliver(&mut reader);
            prop_assert!(more >= 100, "{more} of the newest");
            delivered += more;
            prop_assert_eq!(delivered + channel.core().losses().overwritten, reader.records());
            let (pending, produced) = (0..cpus).map(|buffer| {
                let positions = reader.positions(buffer).expect("a buffer");
                (reader.pending(buffer), positions.produced - positions.consumed)
            }).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            prop_assert_eq!((pending, produced), (0, 0));
            // All goes on as before.
            fill();
            let last = deliver(&mut reader);
            prop_assert!(last >= 100);
        }
    }
}
