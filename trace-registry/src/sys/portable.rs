//! Per-thread block without assembly; no restartable sequences.
#![expect(unsafe_code, reason = "has the other targets' signatures")]

use super::ThreadBlock;
use crate::read_side::Section;
use crate::sync::AtomicU64;
use crate::tracepoint::{self, Entered, Gate};

/// Returns false: sequences are not available here.
pub fn init() -> bool {
    false
}

/// Returns false: it is not known.
pub fn c_library_registers() -> bool {
    false
}

/// Returns false: there is nothing to register.
pub fn register_thread() -> bool {
    false
}

/// Prepares a thread for its first event.
pub fn prepare_thread(thread: &ThreadBlock) {
    thread.nesting.fetch_and(!super::FRESH, crate::sync::Ordering::Relaxed);
}

/// Returns [`Entered::NOTHING`]: there is no fast way.
#[inline(always)]
pub fn enter(_gate: &Gate) -> Entered {
    Entered::NOTHING
}

/// Leaves the section of an emitter.
///
/// # Safety
///
/// `section` is of this thread, and is left once.
#[inline(always)]
pub unsafe fn leave(section: Section) {
    // SAFETY: the caller's duty.
    unsafe { tracepoint::leave_slow(section) };
}

/// Lends this thread's block to `look`. `None`: no standard library gives thread-local storage.
#[inline(always)]
pub fn with_thread<R>(look: impl FnOnce(&ThreadBlock) -> R) -> Option<R> {
    #[cfg(feature = "std")]
    {
        use super::RseqArea;
        use crate::sync::AtomicU32;
        std::thread_local! {
            static BLOCK: ThreadBlock = const {
                ThreadBlock {
                    nesting: AtomicU32::new(super::FRESH),
                    tid: AtomicU32::new(0),
                    number: AtomicU32::new(super::NO_NUMBER),
                    name: [const { AtomicU32::new(0) }; 4],
                    named: AtomicU32::new(0),
                    rseq: RseqArea {
                        cpu_id_start: AtomicU32::new(0),
                        cpu_id: AtomicU32::new(u32::MAX),
                        rseq_cs: AtomicU64::new(0),
                        flags: AtomicU32::new(0),
                        node_id: AtomicU32::new(0),
                        mm_cid: AtomicU32::new(0),
                        registration: AtomicU32::new(0),
                    },
                }
            };
        }
        // It has a constant initialiser and no destructor, so it is there as long as its thread.
        BLOCK.try_with(look).ok()
    }
    #[cfg(not(feature = "std"))]
    {
        let _ = look;
        None
    }
}

/// Returns `u32::MAX`: no CPU number is known without a system call.
#[inline(always)]
pub fn cpu_id() -> u32 {
    u32::MAX
}

/// Returns 0: there is no area.
#[inline(always)]
pub fn rseq_offset() -> isize {
    0
}

/// Declines.
///
/// # Safety
///
/// None here; the other targets have conditions.
#[inline(always)]
pub unsafe fn count_on_cpu<const FIELD: usize>(_offset: isize, _base: *const AtomicU64, _limit: u32) -> bool {
    false
}

/// Declines.
///
/// # Safety
///
/// None here; the other targets have conditions.
#[inline(always)]
pub unsafe fn turn_on_cpu(_offset: isize, _base: *const AtomicU64, _limit: u32, _n: u64) -> Option<u64> {
    None
}

/// Declines.
///
/// # Safety
///
/// None here; the other targets have conditions.
#[inline(always)]
pub unsafe fn commit_on_cpu(
    _offset: isize,
    _cpu: u32,
    _count: *const AtomicU64,
    _expected: u64,
    _slot: *const AtomicU64,
    _figures: [u64; 3],
) -> bool {
    false
}
