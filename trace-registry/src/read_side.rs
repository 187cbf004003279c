//! The read side of the probe lists: RCU with per-CPU counters in two phases.
//!
//! A reader adds 1 to an *enter* word of the current phase, reads, and adds 1 to a *leave* word of the same phase, on
//! whatever CPU it then runs. A phase has no readers when the leaves, summed over all CPUs, equal the enters. The writer
//! (`trace-runtime`, `rcu.rs`) sums the leaves first, then makes every running thread fence (membarrier(2)), then sums the
//! enters; so that no reader is counted as gone whose entry was not counted. It does so for the idle phase, flips, and does so
//! for the other: a reader that loaded the phase before the flip and counts itself after it is thus waited for as well.
//!
//! ```text
//! counters[cpu]   phase 0: enter by rseq | enter locked | leave by rseq | leave locked
//!  (64 bytes)     phase 1: the same
//! ```
//!
//! # Invariants
//!
//! - RS-1: A word is changed either by rseq additions on its own CPU or by locked additions, never by both: a plain addition
//!   that meets a locked one on another CPU loses it, and its grace period never ends.
//! - RS-2: A leave uses the phase and the table of its enter.
//! - RS-3: Entering orders its addition before the reads of the section: by the writer's membarrier where the addition was by
//!   rseq, by the locked addition and a fence otherwise.
//! - RS-4: Header and table are wiped in a forked child (MADV_WIPEONFORK), where no reader enters then.
//!
//! # References
//!
//! libside, `src/rcu.c`; P. McKenney, *Is Parallel Programming Hard*, appendix on user-space RCU; membarrier(2), rseq(2).
#![expect(unsafe_code, reason = "the counter table is shared by address")]

use crate::sync::{AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
use crate::sys;
use crate::{is_mutated, mutation};
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::{self, NonNull};

/// The words of one phase on one CPU. Only readers count.
#[repr(C)]
pub struct PhaseCounters {
    /// Readers that entered, counted by restartable sequences.
    pub(crate) enter: AtomicU64,
    /// Readers that entered, counted by locked additions.
    enter_locked: AtomicU64,
    /// Readers that left, counted by restartable sequences.
    pub(crate) leave: AtomicU64,
    /// Readers that left, counted by locked additions.
    leave_locked: AtomicU64,
}

impl PhaseCounters {
    /// Returns how many readers entered.
    pub fn entered(&self) -> u64 {
        sum(&self.enter, &self.enter_locked)
    }

    /// Returns how many readers left.
    pub fn left(&self) -> u64 {
        sum(&self.leave, &self.leave_locked)
    }
}

fn sum(sequenced: &AtomicU64, locked: &AtomicU64) -> u64 {
    // Acquire: orders what a reader did before its leave. Pairs with the addition in `Section::leave`.
    sequenced.load(Ordering::Acquire).wrapping_add(locked.load(Ordering::Acquire))
}

/// The counters of one CPU: a cache line.
#[repr(C, align(64))]
pub struct CpuCounters {
    /// By phase.
    pub phases: [PhaseCounters; 2],
}

static_assertions::const_assert_eq!(core::mem::size_of::<CpuCounters>(), 64);

/// What lies in front of the counters.
#[repr(C, align(64))]
pub struct Header {
    /// 0 in a forked child, where no reader enters.
    pub generation: AtomicU64,
    /// CPUs below this number count by rseq; 0 where membarrier(2) is missing.
    pub(crate) sequenced: AtomicU32,
    /// Entries of the table; at least 1 once there is one.
    entries: AtomicU32,
    /// The counters on CPU 0 of the phase that readers take now.
    pub(crate) current: AtomicPtr<PhaseCounters>,
    /// Panics of probes in all images.
    panics: AtomicU64,
    /// What a thread runs before its first event; null: nothing.
    before_first: AtomicPtr<()>,
    reserved: [AtomicU64; 3],
}

static_assertions::const_assert_eq!(core::mem::size_of::<Header>(), 64);

/// What readers load, and the sequences of the run time.
#[doc(hidden)]
#[repr(C)]
pub struct State {
    /// Followed by the counters; before they are installed, a header that lets nobody in.
    pub(crate) header: AtomicPtr<Header>,
    /// Distance in bytes from the thread pointer to the rseq area ([`sys::rseq_offset`]).
    pub(crate) rseq_offset: AtomicIsize,
    /// Distance in bytes from the thread pointer to the thread's block; 0 before [`sys::init`].
    pub(crate) block_offset: AtomicIsize,
}

impl State {
    /// Where assembly finds the distance of the rseq area, which nobody else may set.
    pub const RSEQ_OFFSET: usize = offset_of!(State, rseq_offset);

    /// Takes over the state of the image that owns the read side.
    pub(crate) fn adopt(&self, owner: &State) {
        self.rseq_offset.store(owner.rseq_offset.load(Ordering::Relaxed), Ordering::Relaxed);
        self.block_offset.store(owner.block_offset.load(Ordering::Relaxed), Ordering::Relaxed);
        // Release: as in `install`.
        self.header.store(owner.header.load(Ordering::Acquire), Ordering::Release);
    }
}

#[doc(hidden)]
pub static STATE: State = State {
    header: AtomicPtr::new(ptr::from_ref(&CLOSED).cast_mut()),
    rseq_offset: AtomicIsize::new(0),
    block_offset: AtomicIsize::new(0),
};

static CLOSED: Header = Header {
    generation: AtomicU64::new(0),
    sequenced: AtomicU32::new(0),
    entries: AtomicU32::new(0),
    current: AtomicPtr::new(ptr::null_mut()),
    panics: AtomicU64::new(0),
    before_first: AtomicPtr::new(ptr::null_mut()),
    reserved: [const { AtomicU64::new(0) }; 3],
};

/// Panics of probes in this process: the run time looks for those to detach when the number has changed.
pub fn panics() -> &'static AtomicU64 {
    &header().panics
}

/// Has threads run `run` before their first event, from now on; to be called when the counters are installed.
///
/// `run` is async-signal-safe, fires no event, and may run in several threads at once.
pub fn run_before_first(run: Option<extern "C" fn()>) {
    let run = run.map_or(ptr::null_mut(), |run| run as *mut ());
    // Release: what it uses comes before. Pairs with the load in `before_first`.
    header().before_first.store(run, Ordering::Release);
}

/// Runs what is to run before a thread's first event.
#[cold]
pub(crate) fn before_first() {
    // Acquire: pairs with the store in `run_before_first`.
    let run = header().before_first.load(Ordering::Acquire);
    if !run.is_null() {
        // SAFETY: `run_before_first` stored a function of this type.
        unsafe { core::mem::transmute::<*mut (), extern "C" fn()>(run)() };
    }
}

fn header() -> &'static Header {
    // Acquire: orders what `install` stored before. Pairs with its Release store. x86-64 needs no instruction for it, so the
    // emitter's assembly has it too.
    // SAFETY: `install`: mapped for ever; or `CLOSED`.
    unsafe { &*STATE.header.load(Ordering::Acquire) }
}

/// Gives the read side its table. Until then no reader enters.
///
/// # Safety
///
/// [`sys::init`] was called. `header` points to a header that is not zero, followed by `entries` zeroed [`CpuCounters`] (at least 1), all of which stay
/// mapped for the rest of the process. `sequenced` (at most `entries`) is 0 unless the process is registered for membarrier's
/// private expedited command, and every writer uses it. It is called once.
pub unsafe fn install(header: *mut Header, entries: u32, sequenced: u32) {
    // SAFETY: the caller's duty.
    let installed = unsafe { &*header };
    installed.entries.store(entries, Ordering::Relaxed);
    installed.sequenced.store(sequenced, Ordering::Relaxed);
    installed.current.store(counters_of(header, 0), Ordering::Relaxed);
    // Release: orders the stores above. Pairs with the Acquire load in `header`.
    STATE.header.store(header, Ordering::Release);
}

/// The counters of a phase on CPU 0.
fn counters_of(header: *mut Header, phase: usize) -> *mut PhaseCounters {
    header.wrapping_add(1).cast::<PhaseCounters>().wrapping_add(phase)
}

/// Lets readers on CPUs below `sequenced` count by rseq from now on.
///
/// Readers that counted by locked additions before leave by either kind: the writer adds both up (RS-1).
///
/// # Safety
///
/// The process is registered for membarrier's private expedited command, and every writer uses it from now on (RS-3).
pub unsafe fn set_sequenced(sequenced: u32) {
    let header = header();
    header.sequenced.store(sequenced.min(header.entries.load(Ordering::Relaxed)), Ordering::Relaxed);
}

/// Returns the table for the writer; empty before [`install`].
pub fn counters() -> &'static [CpuCounters] {
    let entries = header().entries.load(Ordering::Relaxed) as usize;
    // SAFETY: `install`: that many entries behind the header, mapped for ever; all fields are atomics.
    unsafe { core::slice::from_raw_parts(STATE.header.load(Ordering::Relaxed).add(1).cast(), entries) }
}

/// Returns whether readers may count by rseq, so that the writer needs membarrier(2).
pub fn is_sequenced() -> bool {
    header().sequenced.load(Ordering::Relaxed) > 0
}

/// Turns to the other phase. Returns the phase that readers used until now.
///
/// # Safety
///
/// The caller is the one writer: a flip within a grace period of another one would let that end before its readers have left.
pub unsafe fn flip_phase() -> usize {
    let phase = phase();
    // SeqCst: the writer's sums come later. Readers that loaded the old phase are waited for by the second pass.
    header().current.store(counters_of(STATE.header.load(Ordering::Relaxed), phase ^ 1), Ordering::SeqCst);
    phase
}

/// Returns the phase that readers use now; for the writer.
pub fn phase() -> usize {
    let current = header().current.load(Ordering::Relaxed);
    usize::from(current != counters_of(STATE.header.load(Ordering::Relaxed), 0))
}

/// A read-side critical section.
///
/// One word, so that it stays in a register: the counters of its phase on CPU 0. Those of the other CPUs follow at the stride
/// of the table.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Section {
    counters: NonNull<PhaseCounters>,
    /// It nests on the stack of one thread.
    here: PhantomData<*const ()>,
}

impl Section {
    /// In place of the address of the counters where no section was entered.
    pub(crate) const NOTHING: usize = align_of::<PhaseCounters>();
    /// In place of a section where none was entered.
    pub(crate) const NONE: Section = Section {
        // SAFETY: not null.
        counters: unsafe { NonNull::new_unchecked(ptr::without_provenance_mut(Section::NOTHING)) },
        here: PhantomData,
    };

    /// Puts a section together again that was taken apart.
    ///
    /// # Safety
    ///
    /// `counters` is what [`into_raw`](Self::into_raw) returned, or what a reader found as the counters of its phase.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_raw(counters: *mut PhaseCounters) -> Section {
        // SAFETY: the caller's duty: neither is null.
        Section { counters: unsafe { NonNull::new_unchecked(counters) }, here: PhantomData }
    }

    /// Takes a section apart, for assembly.
    #[doc(hidden)]
    #[inline(always)]
    pub fn into_raw(self) -> *mut PhaseCounters {
        self.counters.as_ptr()
    }

    /// Whether one was entered.
    pub(crate) fn is_some(&self) -> bool {
        self.counters != Section::NONE.counters
    }
}

#[derive(Clone, Copy)]
enum Side {
    Enter,
    Leave,
}

/// Runs `run` in a read-side critical section. Does nothing before the run time has [installed](install) the counters, and in a
/// forked child, where the table is wiped.
///
/// There is no destructor that leaves, which would keep the section in memory: `run` contains its panics. A section that is
/// never left (a longjmp out of a probe) ends all reclaiming, and nothing else.
///
/// # Signal safety
///
/// Async-signal-safe; no registration, no allocation. Wait-free: a sequence that was aborted is tried twice more, then counted
/// by a locked addition.
pub fn section(run: impl FnOnce(&Section)) {
    if let Some(section) = enter() {
        run(&section);
        section.leave();
    }
}

pub(crate) fn enter() -> Option<Section> {
    let header = header();
    if header.generation.load(Ordering::Relaxed) == 0 {
        return None; // RS-4
    }
    // Relaxed: a stale phase is what the writer's second pass is for.
    let counters = NonNull::new(header.current.load(Ordering::Relaxed))?;
    if is_mutated!(list_one_phase) && mutation::at_times(2048) {
        mutation::widen(100_000);
    }
    let section = Section { counters, here: PhantomData };
    section.count(Side::Enter);
    // RS-3: the compiler keeps the reads of the section behind the addition; the writer's membarrier makes the CPU do so.
    compiler_fence(Ordering::SeqCst);
    Some(section)
}

impl Section {
    /// Whether the writer has turned to the other phase since this one was chosen; for mutations.
    pub(crate) fn is_behind(&self) -> bool {
        self.counters.as_ptr() as usize / size_of::<PhaseCounters>() % 2 != phase()
    }

    /// The counters of this phase on `cpu`.
    ///
    /// # Safety
    ///
    /// `cpu` is below the number of entries.
    #[inline(always)]
    unsafe fn on<'t>(self, cpu: u32) -> &'t PhaseCounters {
        // SAFETY: the caller's duty. The table is mapped for ever, and consists of atomics.
        unsafe { &*self.counters.cast::<CpuCounters>().as_ptr().add(cpu as usize).cast::<PhaseCounters>() }
    }

    /// Counts by a restartable sequence. Returns false where that is not possible, or was interrupted.
    #[inline(always)]
    fn try_count(self, side: Side) -> bool {
        let (offset, limit) = (sys::rseq_offset(), header().sequenced.load(Ordering::Relaxed));
        let base = self.counters.as_ptr().cast::<AtomicU64>();
        // SAFETY: the table has entries of 64 bytes for as many CPUs as `sequenced` says; `base` lies in the first.
        unsafe {
            match side {
                Side::Enter => sys::count_on_cpu::<{ offset_of!(PhaseCounters, enter) }>(offset, base, limit),
                Side::Leave => sys::count_on_cpu::<{ offset_of!(PhaseCounters, leave) }>(offset, base, limit),
            }
        }
    }

    pub(crate) fn leave(self) {
        compiler_fence(Ordering::SeqCst);
        // x86-64 keeps a store behind earlier loads and stores, so the addition by rseq is a release.
        self.count(Side::Leave);
    }

    fn count(self, side: Side) {
        let is_broken = is_mutated!(list_mixed_words) && mutation::at_times(8);
        if !is_broken && self.try_count(side) {
            return;
        }
        if !is_mutated!(list_mixed_words) && (self.try_count(side) || self.try_count(side)) {
            return;
        }
        let cpu = sys::cpu_id();
        let index = if cpu < header().entries.load(Ordering::Relaxed) { cpu } else { 0 };
        // SAFETY: `index` is below the number of entries, of which there is at least one.
        let counters = unsafe { self.on(index) };
        match side {
            _ if is_mutated!(list_mixed_words) => {
                // SAFETY: entry 0 is there.
                let counters = unsafe { self.on(u32::from(index == 0 && header().entries.load(Ordering::Relaxed) > 1)) };
                let word = if matches!(side, Side::Enter) { &counters.enter } else { &counters.leave };
                word.fetch_add(1, Ordering::SeqCst);
            }
            // SeqCst and the fence: RS-3 without a membarrier. Pairs with the writer's fence between its sums.
            Side::Enter => {
                counters.enter_locked.fetch_add(1, Ordering::SeqCst);
                fence(Ordering::SeqCst);
            }
            // Release: orders the reads of the section before the leave. Pairs with the Acquire loads of the writer's sum.
            Side::Leave => {
                counters.leave_locked.fetch_add(1, Ordering::Release);
            }
        }
    }
}
