//! The memory of a channel: mapping, private geometry, the table from CPU to buffer, loss counters.
//!
//! One file, because what is written to the mapping and what is read of it are checked against the same private geometry.
#![expect(unsafe_code, reason = "gives sequences the addresses of buffers")]

use super::layout::{self, CALLER_WORDS, ConsumedPage, Control, Descriptor, Layout, SUPERBLOCK, Settings, Superblock};
use super::losses::{Counter, Losses};
use super::position::{CommitWord, Shape};
use super::room::{AHEAD, CHUNK, allocate_buffers, extend};
use super::sequence::{self, AppendPieces, Appender, PerCpu};
use super::{Config, Geometry, HeaderKind, LONGEST_HEADER, Mode, Placement};
use crate::clock::Clock;
use crate::sys::memory::{Mapping, WipedWord, Words};
use core::mem::{offset_of, size_of};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;
use trace_registry::probe::Loss;
use trace_registry::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

// SAFETY: each consists of `AtomicU64` only; their sizes are asserted in `layout`.
unsafe impl Words for Superblock {}
// SAFETY: as above.
unsafe impl Words for Control {}
// SAFETY: as above.
unsafe impl Words for ConsumedPage {}
// SAFETY: as above.
unsafe impl Words for Descriptor {}

/// Entries of the table from CPU to buffer that every channel has at least, so that CPUs can be added.
const FEWEST_ENTRIES: usize = 64;
/// A CPU number beyond this gets no buffer.
const MOST_ENTRIES: usize = 1 << 16;

/// The ring buffers of one channel, as [`Appender`]s use them.
///
/// It is not generic: the configuration that it was [created](Core::create) with must be named again at each append.
pub struct Core {
    mapping: Arc<Mapping>,
    layout: Layout,
    settings: Settings,
    shape: Shape,
    table: Box<[PerCpu]>,
    header: HeaderKind,
    slow: AppendPieces,
    /// Buffers that serve a CPU, or a thread.
    served: AtomicU32,
    /// Whether somebody gives away a spare buffer now.
    is_adding: AtomicBool,
    generation: WipedWord,
    clock: &'static Clock,
    key: u64,
    /// Sub-buffers of each ring that have room in the file; all: `u32::MAX`. 0: nor has the fallback region.
    allocated: AtomicU32,
    /// What it is to be first.
    ready: u32,
    /// The [identity] of that file.
    file: (u64, u64),
    /// Whether a reader consumes, or a packet of one that did still exists.
    pub(super) is_consumed: Arc<AtomicBool>,
}

// SAFETY: RB-8: the addresses in `table` are those of `generation`, `clock` and `mapping`, which live as long
// as the core and are used through atomics and sequences.
unsafe impl Send for Core {}
// SAFETY: as above.
unsafe impl Sync for Core {}

/// What tells a file from others.
fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Core {
    /// Creates the buffers of a channel in `file`, which must be new or may be overwritten. Buffer `i` serves the CPU (or the
    /// concurrency ID) `cpus[i]`; further buffers are spare, for [`add_cpu`](Self::add_cpu). Placed by thread, all are spare, and
    /// `cpus` is empty; with a global placement there are none.
    ///
    /// The whole file is allocated, but no page is touched beyond the control pages; see [`populate`](Self::populate). Beyond
    /// `ahead` bytes only when [`allocate_more`](Self::allocate_more) is called; until then a ring ends there, and events beyond
    /// are lost as if it were full. `None`: nothing but control pages is allocated before [`make_ready`](Self::make_ready).
    ///
    /// # Errors
    ///
    /// A geometry that does not [check](Geometry::check) or that the placement cannot use, more CPUs than buffers, a counter clock
    /// where there is none, or concurrency IDs where the kernel has none (`Unsupported`); no room in the file system; no memory.
    ///
    /// # Safety
    ///
    /// Nobody makes the file shorter, or punches holes into it, as long as the core or a reader of it is there (RB-12).
    pub(crate) unsafe fn create<C: Config>(
        file: &File,
        geometry: Geometry,
        cpus: &[u32],
        clock: &'static Clock,
        ahead: Option<u64>,
    ) -> io::Result<Arc<Core>> {
        geometry.check()?;
        if cpus.len() > geometry.buffers as usize {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more CPUs than ring buffers"));
        }
        let misplaced = match C::PLACEMENT {
            Placement::Thread if !cpus.is_empty() => Some("ring buffers are placed by thread, and CPUs are named"),
            Placement::Global if geometry.buffers > 0 => Some("a global placement has no ring buffers, only the fallback region"),
            _ => None,
        };
        if let Some(why) = misplaced {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if C::CLOCK.is_counter() && !clock.is_counter() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the time stamp counter cannot be used as a clock here"));
        }
        if !C::PLACEMENT.is_available() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel has no concurrency IDs (Linux 6.3)"));
        }
        trace_registry::sys::init();
        if C::PLACEMENT == Placement::Thread {
            sequence::number_threads()?;
        }
        let layout = Layout::new(geometry);
        extend(file, layout.file_size())?;
        let most = ahead.unwrap_or(AHEAD);
        let share = most / u64::from(geometry.buffers.max(1)) / u64::from(geometry.sub_buffer);
        let ready = u32::try_from(share.max(2)).unwrap_or(u32::MAX);
        let ready = if most >= layout.file_size() || ready >= geometry.sub_buffers { u32::MAX } else { ready };
        let mut allocated = if ahead.is_some() { ready } else { 0 };
        allocate_buffers(file, &layout, None, allocated)?;
        let shape = Shape::new(geometry.sub_buffer, geometry.sub_buffers);
        // RB-8: a masked position that no writer made still leads to memory of ours.
        let mapping = Arc::new(Mapping::with_room_behind(file, layout.file_size(), shape.lap() - shape.ring())?);
        if allocated == 0 && mapping.reserve(0, SUPERBLOCK as usize).is_err() {
            // It cannot be done later without the file.
            allocate_buffers(file, &layout, None, ready)?;
            allocated = ready;
        }
        let key = u64::from_ne_bytes(crate::sys::random());
        let settings = Settings::of::<C>();
        write_superblock(&mapping, &layout, settings, key)?;
        let entries = match C::PLACEMENT {
            Placement::Thread => sequence::MOST_THREADS,
            _ => cpus.iter().map(|cpu| *cpu as usize + 1).max().unwrap_or(0).max(configured_cpus()).max(FEWEST_ENTRIES),
        };
        let generation = WipedWord::new(1)?;
        let per_cpu = |_| PerCpu {
            control: AtomicPtr::new(no_buffer()),
            ring: AtomicPtr::new(no_buffer()),
            generation: generation.as_ptr(),
            clock: clock.current(),
            sub_buffer_mask: shape.sub_buffer() - 1,
            ring_mask: shape.lap() - 1,
            limit: (geometry.largest_record() - LONGEST_HEADER) as u64,
            core: AtomicPtr::default(),
        };
        let table = (0..entries.min(MOST_ENTRIES)).map(per_cpu).collect();
        let core = Core {
            mapping,
            layout,
            settings,
            shape,
            table,
            header: C::HEADER,
            slow: super::append::append_slow::<C>,
            served: AtomicU32::new(0),
            is_adding: AtomicBool::new(false),
            generation,
            clock,
            key,
            allocated: AtomicU32::new(allocated),
            ready,
            file: identity(file)?,
            is_consumed: Arc::default(),
        };
        let core = Arc::new(core);
        for entry in &core.table {
            // Relaxed: nobody appends yet.
            entry.core.store(Arc::as_ptr(&core).cast_mut().cast(), Ordering::Relaxed);
        }
        for cpu in cpus {
            if !core.add_cpu(*cpu) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("CPU {cpu} is named twice, or too large")));
            }
        }
        Ok(core)
    }

    /// Gives `cpu` (or concurrency ID, or number of a thread) the next spare buffer. Returns false where there is none, it has
    /// one, or another thread gives one away now.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free; one system call.
    pub fn add_cpu(&self, cpu: u32) -> bool {
        // Acquire: sees what the caller before stored, who released it below. Whoever is interrupted here, or stopped, holds up
        // nobody: others do without a buffer for as long.
        if self.is_adding.swap(true, Ordering::Acquire) {
            return false;
        }
        let is_added = self.add(cpu);
        self.is_adding.store(false, Ordering::Release);
        is_added
    }

    fn add(&self, cpu: u32) -> bool {
        let Some(entry) = self.table.get(cpu as usize) else { return false };
        // Relaxed: there is one caller at a time.
        let index = self.served.load(Ordering::Relaxed);
        if index >= self.layout.geometry.buffers || entry.control.load(Ordering::Relaxed) != no_buffer() {
            return false;
        }
        let at = self.layout.buffer(index);
        let Some(control) = self.mapping.view::<Control>(at) else { return false };
        control.serves.store(u64::from(cpu) + 1, Ordering::Relaxed);
        self.mapping.populate(at, Layout::DESCRIPTORS as usize);
        self.served.store(index + 1, Ordering::Relaxed);
        let base: *mut u8 = std::ptr::from_ref(control).cast_mut().cast();
        entry.ring.store(base.wrapping_add(self.layout.data as usize), Ordering::Relaxed);
        // Release: orders the stores above. Pairs with the sequences' loads of the entry: the control page first, which their
        // accesses depend on, then the ring.
        entry.control.store(base, Ordering::Release);
        true
    }

    /// Makes the control pages and the first sub-buffers of all buffers that serve a CPU, or will serve a thread, and as much of
    /// the fallback region, present, so that events do not fault (2.4 µs for each page).
    pub fn populate(&self, first_sub_buffers: u32) {
        let geometry = &self.layout.geometry;
        let ring = u64::from(first_sub_buffers.min(geometry.sub_buffers).min(self.allocated())) * u64::from(geometry.sub_buffer);
        for index in 0..self.in_use() {
            self.mapping.populate(self.layout.buffer(index), (self.layout.data + ring) as usize);
        }
        if geometry.fallback > 0 {
            let ring = ring.min(u64::from(geometry.fallback));
            self.mapping.populate(self.layout.fallback(), (Layout::FALLBACK_DATA + ring) as usize);
        }
    }

    /// How many buffers serve a CPU, or may serve a thread at any time.
    fn in_use(&self) -> u32 {
        if self.settings.placement.is_assigned() { self.served() } else { self.layout.geometry.buffers }
    }

    /// Allocates, and makes present, what others have from the beginning, where this was created without. Where there is no room, events
    /// are lost as if the rings were full, until [`allocate_more`](Self::allocate_more) finds some.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe; a system call for each ring and the fallback region.
    pub(crate) fn make_ready(&self) {
        let geometry = &self.layout.geometry;
        if self.allocated() > 0 {
            return;
        }
        let ring = u64::from(self.ready.min(geometry.sub_buffers)) * u64::from(geometry.sub_buffer);
        let rings = (0..geometry.buffers).map(|index| (self.layout.buffer(index) + self.layout.data, ring));
        let fallback = (self.layout.fallback() + Layout::FALLBACK_DATA, u64::from(geometry.fallback));
        let mut all = rings.chain((geometry.fallback > 0).then_some(fallback));
        if all.all(|(at, len)| self.mapping.reserve(at, len as usize).is_ok()) {
            // Release: orders the allocation. Pairs with the Acquire load in `allocated`. Another thread may be further.
            let _ = self.allocated.compare_exchange(0, self.ready, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Allocates, and makes present, a further part of each ring in the file that the core was created with. Returns whether there
    /// is more to do.
    ///
    /// To be called by one thread at a time.
    ///
    /// # Errors
    ///
    /// The file system is full: it may be tried again. Or it is another file (`InvalidInput`), whose room is none for the rings
    /// (RB-11).
    pub(crate) fn allocate_more(&self, file: &File) -> io::Result<bool> {
        let (geometry, done) = (&self.layout.geometry, self.allocated());
        if done >= geometry.sub_buffers {
            return Ok(false);
        }
        if identity(file)? != self.file {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the file of these ring buffers"));
        }
        let next = done.saturating_add((CHUNK / geometry.sub_buffer).max(1)).min(geometry.sub_buffers);
        allocate_buffers(file, &self.layout, (done > 0).then_some(done), next)?;
        let (from, to) = [done, next].map(|n| u64::from(n) * u64::from(geometry.sub_buffer)).into();
        for index in 0..self.in_use() {
            self.mapping.populate(self.layout.buffer(index) + self.layout.data + from, (to - from) as usize);
        }
        // Release: orders the allocation. Pairs with the Acquire load in `allocated`.
        self.allocated.store(if next == geometry.sub_buffers { u32::MAX } else { next }, Ordering::Release);
        Ok(next < geometry.sub_buffers)
    }

    /// How many sub-buffers of each ring may be written to; `u32::MAX`: all.
    #[inline]
    pub(super) fn allocated(&self) -> u32 {
        // Acquire: pairs with the Release store in `allocate_more`.
        //  - If this sees a number, so many sub-buffers have room in the file.
        //  - If it sees an older one, the event is lost as if the ring were full.
        self.allocated.load(Ordering::Acquire)
    }

    /// Returns the generation for which appends are accepted; 0 in a forked child.
    #[inline]
    pub fn generation(&self) -> u64 {
        // Relaxed: a hint here; the sequences compare it again.
        self.generation.load()
    }

    /// Makes what appends the records of one event class while the channel has `generation`.
    ///
    /// With `thread_id`, each record carries the ID of its thread (4 bytes) in front of its payload. `bytes` is the size of
    /// payloads that are given in words, at most 24.
    pub fn appender(&self, generation: u64, id: u32, thread_id: bool, bytes: usize) -> Appender {
        let bytes = bytes.min(8 * trace_registry::field::WORDS);
        let tid = if thread_id { sequence::tid_offset() } else { 0 };
        let prefix = self.header.len(false) + if tid == 0 { 0 } else { 4 };
        // Words are stored whole, and the thread's ID even where the payload goes over it.
        let reach = prefix + bytes.next_multiple_of(8).max(8) + 1;
        Appender {
            table: self.table.as_ptr(),
            entries: u32::try_from(self.table.len()).unwrap_or(0),
            id,
            // RB-9: never 0, which is what a forked child would compare it with.
            generation: if generation == 0 { u64::MAX } else { generation },
            reach: reach as u64,
            advance: CommitWord::ONE_RECORD + (prefix + bytes) as u64,
            tid,
            prefix: prefix as u32,
            behind: (prefix + bytes) as u32,
            slow: self.slow,
            // Within the 2 GiB around the thread pointer where all thread-local storage lies (`tid_offset`).
            index: sequence::index_distance(self.settings.placement) as i32,
        }
    }

    /// Disables the channel for all that hold the present generation. Returns the new one.
    ///
    /// An append under way may still complete; after a grace period none is under way.
    pub fn bump_generation(&self) -> u64 {
        let word = self.generation.get();
        // A forked child stays at 0: 1 might be a generation that its copies of the parent's targets hold.
        let bump = |generation| if generation == 0 { None } else { Some(generation + 1) };
        // Relaxed: orders nothing; a grace period follows where memory is to be released.
        word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, bump).map_or(0, |before| before + 1)
    }

    /// Counts an event that was not even to be appended.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free.
    pub fn count_loss(&self, loss: Loss) {
        let counter = match loss {
            Loss::Nested => Counter::Nested,
            Loss::TooLarge => Counter::TooLarge,
            Loss::Panicked => Counter::Panicked,
            Loss::Cut => return, // it is a record
        };
        if self.generation() != 0 {
            self.here().count(counter);
        }
    }

    /// Counts events of others that had no buffers at all.
    pub(crate) fn count_without_buffer(&self, events: u64) {
        self.outside().add(Counter::NoBuffer, events);
    }

    /// Returns what was lost so far, all buffers together.
    pub fn losses(&self) -> Losses {
        (0..self.layout.geometry.buffers).fold(self.fallback_losses(), |sum, index| sum.plus(&self.buffer_losses(index)))
    }

    /// Returns what was lost so far in one buffer. Empty where there is no such buffer.
    pub fn buffer_losses(&self, index: u32) -> Losses {
        self.memory().buffer_losses(index).unwrap_or_default()
    }

    /// Returns what was lost so far in the fallback region; what it overwrote or never got is known to its reader.
    pub fn fallback_losses(&self) -> Losses {
        self.memory().fallback_losses()
    }

    /// Returns the number of records appended to buffers and fallback region so far.
    pub fn records(&self) -> u64 {
        self.memory().records()
    }

    /// Returns the bytes of the largest record, longest header included.
    pub fn largest_record(&self) -> usize {
        self.layout.geometry.largest_record()
    }

    /// Returns the words of the superblock that belong to the channel's creator, and that this module never touches.
    pub fn caller_area(&self) -> &[AtomicU64; CALLER_WORDS] {
        self.view(size_of::<Superblock>() as u64)
    }

    /// Returns the sizes.
    pub fn geometry(&self) -> Geometry {
        self.layout.geometry
    }

    /// Returns the configuration that it was created with.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns the clock.
    pub fn clock(&self) -> &'static Clock {
        self.clock
    }

    /// Returns the number of buffers that serve a CPU, or a thread.
    pub fn served(&self) -> u32 {
        self.served.load(Ordering::Relaxed)
    }

    /// What the cold sequences read that is the same for all CPUs.
    pub(super) fn per_cpu(&self) -> &PerCpu {
        &self.table[0]
    }

    /// Most bytes of payload in a record, and of context that is not an appender's.
    pub(super) fn limit(&self) -> u64 {
        self.per_cpu().limit
    }

    #[inline(always)]
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn memory(&self) -> Memory<'_> {
        Memory { mapping: &self.mapping, layout: self.layout, settings: self.settings, key: self.key }
    }

    /// Has the parent's rings left alone by a forked child, whatever it was forked in the middle of. Async-signal-safe.
    pub(crate) fn leave_to_parent(&self) {
        self.mapping.replace();
    }

    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// A part of the file that the layout places inside it.
    fn view<T: Words>(&self, at: u64) -> &T {
        // The layout computed the file's size from the same geometry; the fallback is never reached.
        self.mapping.view(at).unwrap_or_else(|| unreachable!("a layout beyond its own file"))
    }

    /// The buffer of `index` (CPU, concurrency ID or number of a thread).
    pub(super) fn buffer_at(&self, index: u32) -> Option<Buffer<'_>> {
        // Acquire: pairs with the Release store in `add_cpu`.
        let control = self.table.get(index as usize)?.control.load(Ordering::Acquire);
        if control == no_buffer() {
            return None;
        }
        // SAFETY: RB-8: the table holds addresses of control pages of buffers in the mapping only.
        unsafe { Some(Buffer { control: &*control.cast::<Control>(), base: control, core: self }) }
    }

    /// The control page that counts what happens here: that of the buffer an append would take now, or else the fallback region's.
    fn here(&self) -> &Control {
        let buffer = sequence::index_by(self.settings.placement).and_then(|index| self.buffer_at(index));
        buffer.map_or_else(|| self.outside(), |b| b.control)
    }

    /// Where losses are counted that belong to no buffer.
    fn counting_page(&self) -> u64 {
        if self.layout.geometry.fallback > 0 { self.layout.fallback() } else { self.layout.buffer(0) }
    }

    /// The control page that counts what happens outside the buffers.
    pub(super) fn outside(&self) -> &Control {
        self.view(self.counting_page())
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("geometry", &self.layout.geometry)
            .field("settings", &self.settings)
            .field("losses", &self.losses())
            .finish_non_exhaustive()
    }
}

/// The buffer of CPUs that have none: at a boundary for ever, so that every sequence declines before it writes (RB-5).
fn no_buffer() -> *mut u8 {
    static CLOSED: AlignedControl = AlignedControl([const { AtomicU64::new(0) }; size_of::<Control>() / 8]);
    std::ptr::from_ref(&CLOSED).cast_mut().cast()
}

#[repr(align(64))]
struct AlignedControl(#[expect(dead_code, reason = "reached by address")] [AtomicU64; size_of::<Control>() / 8]);

pub(super) fn configured_cpus() -> usize {
    // SAFETY: sysconf(3) touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(0)
}

fn write_superblock(mapping: &Mapping, layout: &Layout, settings: Settings, key: u64) -> io::Result<()> {
    let superblock: &Superblock = mapping.view(0).ok_or(io::ErrorKind::InvalidInput)?;
    let geometry = &layout.geometry;
    let [mode, clock, header, placement] = settings.words();
    for (word, value) in [
        (&superblock.abi_version, layout::ABI_VERSION),
        (&superblock.size, size_of::<Superblock>() as u64),
        (&superblock.file_size, layout.file_size()),
        (&superblock.buffers, u64::from(geometry.buffers)),
        (&superblock.sub_buffer, u64::from(geometry.sub_buffer)),
        (&superblock.sub_buffers, u64::from(geometry.sub_buffers)),
        (&superblock.fallback, u64::from(geometry.fallback)),
        (&superblock.mode, mode),
        (&superblock.clock, clock),
        (&superblock.header, header),
        (&superblock.placement, placement),
        (&superblock.key, key),
        (&superblock.page, layout::PAGE),
    ] {
        // Relaxed: published by the magic.
        word.store(value, Ordering::Relaxed);
    }
    // Release: a reader that finds the magic finds the rest. Pairs with the Acquire load in `Memory::open`.
    superblock.magic.store(layout::MAGIC, Ordering::Release);
    Ok(())
}

/// One buffer, for the cold paths of the writer.
#[derive(Clone, Copy)]
pub(super) struct Buffer<'c> {
    pub(super) control: &'c Control,
    pub(super) base: *mut u8,
    core: &'c Core,
}

impl<'c> Buffer<'c> {
    /// The page that the reader writes.
    pub(super) fn consumed(&self) -> &'c ConsumedPage {
        // SAFETY: RB-8: every buffer has this page behind its control page.
        unsafe { &*self.base.add(Layout::CONSUMED as usize).cast() }
    }

    /// The descriptor of the sub-buffer at `index` in the ring.
    pub(super) fn descriptor(&self, index: u64) -> &'c Descriptor {
        let index = (index as usize).min(self.core.layout.geometry.sub_buffers as usize - 1);
        // SAFETY: RB-8: the index is bounded by the private geometry.
        unsafe { &*self.base.add(Layout::DESCRIPTORS as usize).cast::<Descriptor>().add(index) }
    }

    /// Address of the data at `offset` in the ring.
    pub(super) fn data(&self, offset: u64) -> *mut u8 {
        // SAFETY: RB-8: masked with the private geometry; what a mask lets through beyond the ring is mapped too.
        unsafe { self.base.add((self.core.layout.data + (offset & self.core.per_cpu().ring_mask)) as usize) }
    }
}

/// A ring file as both sides see it: where things are, checked against the mapping.
#[derive(Clone, Copy)]
pub(super) struct Memory<'m> {
    pub(super) mapping: &'m Mapping,
    pub(super) layout: Layout,
    pub(super) settings: Settings,
    pub(super) key: u64,
}

impl<'m> Memory<'m> {
    pub(super) fn control(&self, buffer: u32) -> Option<&'m Control> {
        if buffer >= self.layout.geometry.buffers {
            return None;
        }
        self.mapping.view(self.layout.buffer(buffer))
    }

    pub(super) fn consumed(&self, buffer: u32) -> Option<&'m ConsumedPage> {
        self.control(buffer)?;
        self.mapping.view(self.layout.buffer(buffer) + Layout::CONSUMED)
    }

    pub(super) fn descriptor(&self, buffer: u32, index: u64) -> Option<&'m Descriptor> {
        self.control(buffer)?;
        let index = index.min(u64::from(self.layout.geometry.sub_buffers - 1));
        self.mapping.view(self.layout.buffer(buffer) + Layout::DESCRIPTORS + index * size_of::<Descriptor>() as u64)
    }

    pub(super) fn fallback(&self) -> Option<(&'m Control, &'m ConsumedPage)> {
        if self.layout.geometry.fallback == 0 {
            return None;
        }
        let at = self.layout.fallback();
        self.mapping.view(at).zip(self.mapping.view(at + Layout::CONSUMED))
    }

    pub(super) fn buffer_losses(&self, buffer: u32) -> Option<Losses> {
        let control = self.control(buffer)?;
        let overwritten = match self.settings.mode {
            Mode::Discard => 0,
            Mode::Overwrite => self.overwritten(buffer)?,
        };
        Some(Losses::from_counters(control.sample(), overwritten))
    }

    /// Records that were written over before they were consumed: those before the oldest sub-buffer that is there or is not
    /// consumed, less those that were. A moment's truth; exact when nobody consumes, unless writers are too fast again and again.
    fn overwritten(&self, buffer: u32) -> Option<u64> {
        const TRIES: u32 = 100;
        let (shape, control, page) = (self.shape(), self.control(buffer)?, self.consumed(buffer)?);
        let mut tries = 0;
        loop {
            // Acquire: what is loaded below is not older.
            let word = CommitWord::load(&control.commit, Ordering::Acquire);
            let (opened, total) = self.opened(buffer)?;
            // Relaxed: a sample for a report.
            let consumed = page.consumed.load(Ordering::Relaxed) / shape.sub_buffer();
            let first = consumed.max(opened.saturating_sub(shape.sub_buffers()));
            let before = if first >= opened {
                total
            } else {
                self.descriptor(buffer, first % shape.sub_buffers())?.records_before.load(Ordering::Relaxed)
            };
            let partly = CommitWord::load(&page.partly, Ordering::Relaxed);
            let is_partly = first == consumed
                && shape.start(partly.position()) == shape.position_of(first)
                && shape.offset(partly.position()) != 0
                && first < opened;
            let partly = if is_partly { u64::from(partly.records()) } else { 0 };
            // Acquire fence: as behind a copy, see `Reader::next`. The descriptor may have become that of a later lap.
            fence(Ordering::Acquire);
            let now = CommitWord::load(&control.commit, Ordering::Relaxed);
            tries += 1;
            if now == word || shape.is_intact(shape.position_of(first), now.position()) || tries == TRIES {
                return Some((before + partly).saturating_sub(page.delivered.load(Ordering::Relaxed)));
            }
        }
    }

    /// Returns the number of sub-buffers that were opened, and of records that were committed.
    fn opened(&self, buffer: u32) -> Option<(u64, u64)> {
        let shape = self.shape();
        // Acquire: pairs with the commits of opens and closes.
        let word = CommitWord::load(&self.control(buffer)?.commit, Ordering::Acquire);
        let position = word.position();
        // At a boundary the newest sub-buffer is closed, and its descriptor knows its records.
        let is_closed = shape.offset(position) == 0;
        let index = shape.index(position);
        let newest = self.descriptor(buffer, if is_closed { shape.before(index) } else { index })?;
        let closed = if is_closed { newest.content.load(Ordering::Relaxed) >> 32 } else { 0 };
        let records = newest.records_before.load(Ordering::Relaxed) + closed + u64::from(word.records());
        Some((newest.sequence.load(Ordering::Relaxed), records))
    }

    /// Returns the number of the oldest sub-buffer of which nothing was written over.
    ///
    /// Positions wrap, so they tell what is within 8 TiB; these numbers do not.
    pub(super) fn oldest(&self, buffer: u32) -> Option<u64> {
        // Beyond the largest there is none: a foreign file that lies.
        Some(self.opened(buffer)?.0.min(u64::MAX >> 1).saturating_sub(self.shape().sub_buffers()))
    }

    pub(super) fn shape(&self) -> Shape {
        Shape::new(self.layout.geometry.sub_buffer, self.layout.geometry.sub_buffers)
    }

    pub(super) fn fallback_losses(&self) -> Losses {
        self.fallback().map(|(control, _)| Losses::from_counters(control.sample(), 0)).unwrap_or_default()
    }

    pub(super) fn records(&self) -> u64 {
        let fallback = self.fallback().map_or(0, |(control, _)| control.last.load(Ordering::Relaxed));
        let buffers = (0..self.layout.geometry.buffers).filter_map(|buffer| Some(self.opened(buffer)?.1));
        buffers.fold(fallback, u64::wrapping_add)
    }

    /// Reads the superblock of `file`.
    pub(super) fn read_superblock(file: &File) -> io::Result<(Layout, Settings, u64)> {
        if file.metadata()?.len() < SUPERBLOCK {
            return Err(layout::not_a_ring("it is too short"));
        }
        // Read, not mapped: where its process ended before the file had memory, a page that is touched needs some, and without any the
        // kernel ends this program (SIGBUS). The magic number comes last, so a file that has it has all of its control pages.
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, 0)?;
        if u64::from_ne_bytes(magic) != layout::MAGIC {
            return Err(layout::not_a_ring("no magic number"));
        }
        let mut superblock = [0; size_of::<Superblock>()];
        file.read_exact_at(&mut superblock, 0)?;
        let word = |at: usize| superblock[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        let size = |at| u32::try_from(word(at)).map_err(|_| layout::not_a_ring("a size is out of range"));
        if word(offset_of!(Superblock, abi_version)) != layout::ABI_VERSION || word(offset_of!(Superblock, page)) != layout::PAGE
        {
            return Err(layout::not_a_ring("another layout version"));
        }
        let geometry = Geometry {
            buffers: size(offset_of!(Superblock, buffers))?,
            sub_buffer: size(offset_of!(Superblock, sub_buffer))?,
            sub_buffers: size(offset_of!(Superblock, sub_buffers))?,
            fallback: size(offset_of!(Superblock, fallback))?,
        };
        geometry.check().map_err(|_| layout::not_a_ring("sizes that cannot be"))?;
        let layout = Layout::new(geometry);
        if word(offset_of!(Superblock, file_size)) != layout.file_size() || file.metadata()?.len() < layout.file_size() {
            return Err(layout::not_a_ring("it is cut off"));
        }
        let settings = [
            offset_of!(Superblock, mode),
            offset_of!(Superblock, clock),
            offset_of!(Superblock, header),
            offset_of!(Superblock, placement),
        ]
        .map(word);
        let settings = Settings::from_words(settings).ok_or_else(|| layout::not_a_ring("unknown configuration"))?;
        Ok((layout, settings, word(offset_of!(Superblock, key))))
    }
}

/// Whether sequences are compiled in and this thread may use them.
pub(super) fn is_registered<C: Config>() -> bool {
    sequence::index::<C>().is_some()
}
