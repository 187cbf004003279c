//! Per-thread block in initial-exec TLS, and restartable sequences (rseq(2)) in stable inline assembly.
//!
//! # Invariants
//!
//! - SYS-1: The block is `.tdata` of this module, so every thread has one from its first instruction to its last.
//! - SYS-2: [`rseq_offset`] is set once by [`init`], before any probe list is published; it is the distance from the thread
//!   pointer of an area that each thread has: the C library's where it registers one, else the one in the block.
//! - SYS-3: `rseq_cs` is zero outside a sequence. Every exit clears it: commit, refusal and abort. (A thread whose `rseq_cs`
//!   named a descriptor in a library that was unloaded since is killed at its next preemption.)
//! - SYS-4: The bytes before an abort handler are [`SIGNATURE`]; the kernel kills the process otherwise.
//!
//! # References
//!
//! `Documentation/userspace-api/rseq.rst`; librseq's `rseq-x86-bits.h`. Found by trying: labels are numeric and not of 0 and 1
//! only, results come back in registers, nothing in a sequence pushes or calls.
#![expect(unsafe_code, reason = "thread-local storage and restartable sequences need assembly")]

use super::{FRESH, NO_NUMBER, ThreadBlock};
use crate::probe::Entry;
use crate::read_side::{self, Header, PhaseCounters, Section, State};
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::tracepoint::{self, Entered, Gate, MAX_NESTING};
use core::arch::{asm, global_asm};
use core::mem::offset_of;

/// The word that precedes an abort handler; the same that the C library registers with.
pub const SIGNATURE: u32 = 0x5305_3053;

// One symbol per version of this crate: two versions in one program have a block each.
macro_rules! block_symbol {
    () => {
        concat!("ringtrace_thread_block_", env!("CARGO_PKG_VERSION"))
    };
}

global_asm!(
    // Weak: musl and glibc before 2.35 have none. Its address is null then.
    ".weak __rseq_offset",
    ".pushsection .tdata,\"awT\",@progbits",
    ".balign 64",
    concat!(".globl \"", block_symbol!(), "\""),
    concat!(".hidden \"", block_symbol!(), "\""),
    concat!(".type \"", block_symbol!(), "\", @object"),
    concat!(".size \"", block_symbol!(), "\", 64"),
    concat!("\"", block_symbol!(), "\":"),
    ".long {fresh}, 0, {no_number}",
    ".zero 20",
    ".long 0, -1", // cpu_id_start, cpu_id: RSEQ_CPU_ID_UNINITIALIZED
    ".zero 24",
    ".popsection",
    fresh = const FRESH,
    no_number = const NO_NUMBER,
);

/// Returns the distance in bytes from the thread pointer to the rseq area that every thread uses; 0 before [`init`].
#[inline(always)]
pub fn rseq_offset() -> isize {
    // Relaxed: written once before the first list is published; the emitter's Acquire load of that list orders it.
    read_side::STATE.rseq_offset.load(Relaxed)
}

/// Distance from the thread pointer to the per-thread block: one constant for all threads. In a shared object it is that of the
/// program's block, as soon as this image uses the program's read side.
#[inline(always)]
pub fn block_offset() -> isize {
    // Relaxed: as for `rseq_offset`.
    match read_side::STATE.block_offset.load(Relaxed) {
        0 => own_block_offset(),
        offset => offset,
    }
}

/// The same, of the block of this image.
#[inline(always)]
fn own_block_offset() -> isize {
    let offset: isize;
    // SAFETY: SYS-1; reads a GOT entry that the loader filled.
    unsafe {
        asm!(concat!("mov {}, qword ptr [rip + \"", block_symbol!(), "\"@GOTTPOFF]"), out(reg) offset,
             options(pure, nomem, nostack, preserves_flags));
    }
    offset
}

/// Lends this thread's block to `look`.
#[inline(always)]
pub fn with_thread<R>(look: impl FnOnce(&ThreadBlock) -> R) -> Option<R> {
    let block: *const ThreadBlock;
    // SAFETY: on x86-64 ELF the word at fs:0 is the thread pointer itself; SYS-1. This thread is there as long as `look` runs.
    unsafe {
        asm!("mov {0}, qword ptr fs:[0]", "add {0}, {1}", out(reg) block, in(reg) block_offset(),
             options(pure, readonly, nostack));
        Some(look(&*block))
    }
}

/// Where the C library has registered this thread's rseq area, if it has.
fn c_library_offset() -> Option<isize> {
    let c_library: *const isize;
    // SAFETY: reads a GOT entry; null where the symbol is missing.
    unsafe {
        asm!("mov {}, qword ptr [rip + __rseq_offset@GOTPCREL]", out(reg) c_library,
             options(pure, nomem, nostack, preserves_flags));
    }
    // SAFETY: not null, so it is the C library's constant `const ptrdiff_t __rseq_offset`.
    let offset = (!c_library.is_null()).then(|| unsafe { c_library.read() })?;
    // SAFETY: the C library keeps an area at this offset for every thread, registered or not.
    (unsafe { cpu_id_at(offset) } as i32 >= 0).then_some(offset)
}

/// Whether the C library registers each new thread with the kernel, and ends the process where that fails. Async-signal-safe.
pub fn c_library_registers() -> bool {
    c_library_offset().is_some()
}

/// Finds the rseq area. Returns whether the calling thread is registered.
///
/// Called once, before any probe list is published.
pub fn init() -> bool {
    if rseq_offset() != 0 {
        return cpu_id() as i32 >= 0; // decided: threads hold the offset
    }
    let own = block_offset() + offset_of!(ThreadBlock, rseq) as isize;
    let offset = c_library_offset().unwrap_or(own);
    read_side::STATE.block_offset.store(block_offset(), Relaxed);
    read_side::STATE.rseq_offset.store(offset, Relaxed);
    cpu_id() as i32 >= 0 || (offset == own && register_thread())
}

/// Registers this thread's own area with the kernel, once. Returns whether the thread is registered.
///
/// A cold path's only system call; it leaves `errno` as it was. Where the C library keeps the area, registration is its
/// business, and this returns what it did.
#[cold]
pub fn register_thread() -> bool {
    if cfg!(target_env = "musl") {
        // A detached thread there unmaps its own memory before it ends; the kernel must not write to an area in it.
        return false;
    }
    with_thread(register).unwrap_or(false)
}

fn register(block: &ThreadBlock) -> bool {
    let own = block_offset() + offset_of!(ThreadBlock, rseq) as isize;
    if rseq_offset() != own || block.rseq.registration.load(Relaxed) != 0 {
        return cpu_id() as i32 >= 0;
    }
    let result: isize;
    // SAFETY: rseq(area, 32, 0, SIGNATURE): the area is 32 bytes, aligned to 32, and lives as long as the thread (SYS-1).
    unsafe {
        asm!("syscall", inlateout("rax") libc::SYS_rseq as isize => result, in("rdi") &raw const block.rseq, in("rsi") 32,
             in("rdx") 0, in("r10") SIGNATURE, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    block.rseq.registration.store(if result == 0 { 1 } else { 2 }, Relaxed);
    result == 0
}

/// Prepares a thread for its first event: asks for its ID, and registers its rseq area where the C library did not.
///
/// Two system calls at most, once in a thread's life; `errno` stays as it was.
#[cold]
pub fn prepare_thread(thread: &ThreadBlock) {
    let tid: usize;
    // SAFETY: gettid(2) takes no arguments and cannot fail.
    unsafe {
        asm!("syscall", inlateout("rax") libc::SYS_gettid as usize => tid, lateout("rcx") _, lateout("r11") _,
             options(nostack, nomem));
    }
    thread.tid.store(tid as u32, Relaxed);
    if (cpu_id() as i32) < 0 {
        register_thread();
    }
    thread.nesting.fetch_and(!FRESH, Relaxed);
}

/// # Safety
///
/// An rseq area, or memory that holds two words, lies at `offset` from the thread pointer.
#[inline(always)]
unsafe fn cpu_id_at(offset: isize) -> u32 {
    let cpu: u32;
    // SAFETY: the caller's duty. Not `pure`: the kernel changes the word when the thread migrates.
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{1} + 4]", out(reg) cpu, in(reg) offset, options(readonly, nostack, preserves_flags))
    };
    cpu
}

/// Returns the CPU this thread runs on; at least 2³¹ where the thread is not registered, and any number before [`init`]: to be compared
/// before it is an index.
#[inline(always)]
pub fn cpu_id() -> u32 {
    // SAFETY: SYS-2.
    unsafe { cpu_id_at(rseq_offset()) }
}

/// What describes a restartable sequence whose text follows.
///
/// Labels: 22 start, 55 end, 44 abort handler, 77 descriptor; 78 and 79: what tools find it by.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_sections {
    () => {
        concat!(
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "77:\n",
            ".long 0, 0\n",
            ".quad 22f, 55f - 22f, 44f\n",
            ".popsection\n",
            // For debuggers, which must not step into a sequence (librseq's convention).
            ".pushsection __rseq_cs_ptr_array, \"aw\"\n",
            "78:\n",
            ".quad 77b\n",
            ".popsection\n",
            ".pushsection __rseq_exit_point_array, \"aw\"\n",
            "79:\n",
            ".quad 22f, 44f\n",
            ".popsection\n",
            // Linkers drop what nothing refers to: these relocations change nothing.
            ".reloc ., R_X86_64_NONE, 78b\n",
            ".reloc ., R_X86_64_NONE, 79b\n",
        )
    };
}

/// Start of a restartable sequence. Operands of the block: `off` ([`rseq_offset`]) and a scratch register `tmp`.
///
/// Labels: those of [`rseq_sections!`](crate::rseq_sections). `jne 44f` (any jump to 44) refuses.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_enter {
    () => {
        concat!(
            $crate::rseq_sections!(),
            "lea {tmp}, [rip + 77b]\n",
            "mov qword ptr fs:[{off} + 8], {tmp}\n",
            "22:\n",
            $crate::mutated_asm!(unrestarted ["mov qword ptr fs:[{off} + 8], 0"] else []),
        )
    };
}

/// End of a restartable sequence, after its commit. `{ok}` is 1 then, and 0 after a refusal or an abort.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_leave {
    () => {
        concat!(
            "55:\n",
            $crate::mutated_asm!(armed_after_commit [] else ["mov qword ptr fs:[{off} + 8], 0"]),
            "mov {ok:e}, 1\n",
            "66:\n",
            ".pushsection __rseq_failure, \"ax\"\n",
            ".byte 0x0f, 0xb9, 0x3d\n", // ud1 signature(%rip), %edi
            ".long 0x53053053\n",
            "44:\n",
            $crate::mutated_asm!(armed_after_refusal [] else ["mov qword ptr fs:[{off} + 8], 0"]),
            "xor {ok:e}, {ok:e}\n",
            "jmp 66b\n",
            ".popsection\n"
        )
    };
}

/// Counts the first word of the CPU that this thread runs on one further, from `n - 1` back to 0. Returns what it was before;
/// `None`, having changed nothing, on CPUs from `limit` and where the sequence was aborted.
///
/// # Safety
///
/// As for [`count_on_cpu`], with a `FIELD` of 0.
#[inline]
pub unsafe fn turn_on_cpu(offset: isize, base: *const AtomicU64, limit: u32, n: u64) -> Option<u64> {
    let (ok, position): (u32, u64);
    // SAFETY: SYS-2, SYS-3, SYS-4. The caller's duty for the word; the sequence writes nothing else.
    unsafe {
        asm!(
            "mov {cpu:e}, dword ptr fs:[{off} + 4]",
            "cmp {cpu:e}, {limit:e}",
            "jae 44f",
            "mov {word:e}, {cpu:e}",
            "shl {word}, 6",
            rseq_enter!(),
            "cmp {cpu:e}, dword ptr fs:[{off} + 4]",
            "jne 44f",
            "mov {position}, qword ptr [{base} + {word}]",
            "mov {tmp:e}, 0",
            "lea {next}, [{position} + 1]",
            "cmp {next}, {n}",
            "cmovae {next}, {tmp}",
            "mov qword ptr [{base} + {word}], {next}",
            rseq_leave!(),
            off = in(reg) offset, base = in(reg) base, limit = in(reg) limit, n = in(reg) n,
            cpu = out(reg) _, word = out(reg) _, tmp = out(reg) _, next = out(reg) _, position = out(reg) position,
            ok = out(reg) ok, options(nostack)
        );
    }
    (ok != 0).then_some(position)
}

/// Adds 1 to a word of the CPU that this thread runs on: the one at `FIELD` bytes behind `base`, of an array whose elements of
/// 64 bytes belong to one CPU each. Returns false, having added nothing, on CPUs from `limit` and where the sequence was aborted.
///
/// # Safety
///
/// `offset` is [`rseq_offset`], behind [`init`]; the array has at least `limit` elements, of atomics, and `FIELD` is a multiple of 8 below 64.
#[inline(always)]
pub unsafe fn count_on_cpu<const FIELD: usize>(offset: isize, base: *const AtomicU64, limit: u32) -> bool {
    let ok: u32;
    // SAFETY: SYS-2, SYS-3, SYS-4. The caller's duty for the word; the sequence writes nothing else.
    unsafe {
        asm!(
            "mov {cpu:e}, dword ptr fs:[{off} + 4]",
            "cmp {cpu:e}, {limit:e}",
            "jae 44f",
            "mov {word:e}, {cpu:e}",
            "shl {word}, 6",
            rseq_enter!(),
            "cmp {cpu:e}, dword ptr fs:[{off} + 4]",
            "jne 44f",
            "inc qword ptr [{base} + {word} + {field}]",
            rseq_leave!(),
            off = in(reg) offset, base = in(reg) base, limit = in(reg) limit, field = const FIELD,
            cpu = out(reg) _, word = out(reg) _, tmp = out(reg) _, ok = out(reg) ok,
            options(nostack)
        );
    }
    ok != 0
}

/// Stores `figures` at `slot`, and then counts `count` one further: the commit. Returns false, where `count` is as it was, if this
/// thread does not run on `cpu`, `count` is no longer `expected`, or the sequence was aborted.
///
/// # Safety
///
/// `offset` is [`rseq_offset`], behind [`init`]; `slot` has three words; nothing but such sequences on `cpu` changes `count` and the slot.
#[inline(always)]
pub unsafe fn commit_on_cpu(
    offset: isize,
    cpu: u32,
    count: *const AtomicU64,
    expected: u64,
    slot: *const AtomicU64,
    figures: [u64; 3],
) -> bool {
    let ok: u32;
    let [a, b, c] = figures;
    // SAFETY: SYS-2, SYS-3, SYS-4. The caller's duty for the words; the sequence writes nothing else.
    unsafe {
        asm!(
            rseq_enter!(),
            "cmp {cpu:e}, dword ptr fs:[{off} + 4]",
            "jne 44f",
            "cmp {expected}, qword ptr [{count}]",
            "jne 44f",
            crate::mutated_asm!(aggregate_count_first ["inc qword ptr [{count}]"] else []),
            "mov qword ptr [{slot}], {a}",
            "mov qword ptr [{slot} + 8], {b}",
            "mov qword ptr [{slot} + 16], {c}",
            // The commit.
            crate::mutated_asm!(aggregate_count_first [] else ["inc qword ptr [{count}]"]),
            rseq_leave!(),
            off = in(reg) offset, cpu = in(reg) cpu, count = in(reg) count, expected = in(reg) expected, slot = in(reg) slot,
            a = in(reg) a, b = in(reg) b, c = in(reg) c, tmp = out(reg) _, ok = out(reg) ok,
            options(nostack)
        );
    }
    ok != 0
}

// The read side of an emitter: nesting, one restartable addition, and the list. Inline, since a call costs as much as the addition.
//
// The CPU is read inside the sequence, which any migration aborts. Whatever the fast way does not do it declines before anything was
// counted.

/// Adds 1 to a word of this CPU. `$offset`: the distance of the rseq area; `$header`, which holds the header's address, and `$cpu`, once as
/// a whole and once as 32 bits: registers. The lines of `$declined` are for what was aborted, and for label 45.
macro_rules! count_in_sequence {
    ($word:literal, $offset:literal, $header:literal, $cpu:literal, $cpu_32:literal, [$($declined:literal),*]) => {
        concat!(
            "mov ", $offset, ", qword ptr [rip + {state} + {rseq_offset}]\n",
            crate::rseq_sections!(),
            "lea ", $cpu, ", [rip + 77b]\n",
            "mov qword ptr fs:[", $offset, " + 8], ", $cpu, "\n",
            "22:\n",
            crate::mutated_asm!(unrestarted [concat!("mov qword ptr fs:[", $offset, " + 8], 0")] else []),
            "mov ", $cpu_32, ", dword ptr fs:[", $offset, " + 4]\n",
            // Above: the thread is not registered, the counters are not installed, or this is a forked child (RS-4).
            "cmp ", $cpu_32, ", dword ptr [", $header, " + {sequenced}]\n",
            "jae 44f\n",
            "shl ", $cpu, ", 6\n",
            // The commit.
            "inc qword ptr [", $word, " + ", $cpu, "]\n",
            "55:\n",
            crate::mutated_asm!(armed_after_commit [] else [concat!("mov qword ptr fs:[", $offset, " + 8], 0")]), // SYS-3
            ".pushsection __rseq_failure, \"ax\"\n",
            ".byte 0x0f, 0xb9, 0x3d\n", // ud1 signature(%rip), %edi (SYS-4)
            ".long {signature}\n",
            "44:\n",
            crate::mutated_asm!(armed_after_refusal [] else [concat!("mov qword ptr fs:[", $offset, " + 8], 0")]), // SYS-3
            "45:\n",
            $($declined, "\n",)*
            "jmp 66f\n",
            ".popsection\n",
        )
    };
}

const _: () = assert!(offset_of!(PhaseCounters, enter) == 0);

/// Enters the read-side critical section of an emitter. [`Entered::NOTHING`]: not this way, and nothing was counted.
///
/// # Signal safety
///
/// As for [`emit`](crate::tracepoint::emit).
#[inline(always)]
pub fn enter(gate: &Gate) -> Entered {
    let (first, section): (*const Entry, *mut PhaseCounters);
    // SAFETY: SYS-1 to SYS-4. The sequence adds to a word that RS-1 gives to sequences of this CPU.
    unsafe {
        asm!(
            "mov {first}, qword ptr [rip + {state} + {block_offset}]",
            // Also true for threads that are untraced or fresh.
            "cmp dword ptr fs:[{first}], {max_nesting}",
            "jae 45f",
            crate::mutated_asm!(list_one_phase ["jmp 45f"] else []),
            crate::mutated_asm!(list_mixed_words ["jmp 45f"] else []),
            "mov {header}, qword ptr [rip + {state} + {header_at}]",
            "mov {section}, qword ptr [{header} + {current}]",
            count_in_sequence!("{section}", "{offset}", "{header}", "{first}", "{first:e}", ["xor {first:e}, {first:e}", "mov {section:e}, {nothing}"]),
            // Loaded again: few registers are taken, so that the event's values stay in theirs.
            "mov {first}, qword ptr [rip + {state} + {block_offset}]",
            "inc dword ptr fs:[{first}]",
            // RS-3: the list is loaded behind the addition; the writer's membarrier makes the CPU do so.
            "mov {first}, qword ptr [{gate}]",
            "66:",
            gate = in(reg) gate,
            first = out(reg) first,
            section = out(reg) section,
            header = out(reg) _,
            offset = out(reg) _,
            max_nesting = const MAX_NESTING,
            nothing = const Section::NOTHING,
            state = sym read_side::STATE,
            header_at = const offset_of!(State, header),
            rseq_offset = const offset_of!(State, rseq_offset),
            block_offset = const offset_of!(State, block_offset),
            sequenced = const offset_of!(Header, sequenced),
            current = const offset_of!(Header, current),
            signature = const SIGNATURE,
            options(nostack),
        );
        Entered { first, section: Section::from_raw(section) }
    }
}

/// Leaves the section that [`enter`] entered.
///
/// What the fast way declines is called from beside the abort handler: the stack is aligned for it, and nothing unwinds out of it.
///
/// # Safety
///
/// `section` is of this thread, and is left once.
#[inline(always)]
pub unsafe fn leave(section: Section) {
    // SAFETY: as above; the caller's duty.
    unsafe {
        asm!(
            crate::mutated_asm!(list_mixed_words ["jmp 45f"] else []),
            "mov rsi, qword ptr [rip + {state} + {header_at}]",
            count_in_sequence!("rdi + {leave}", "r8", "rsi", "rax", "eax", ["call {slow}"]),
            "mov rcx, qword ptr [rip + {state} + {block_offset}]",
            "dec dword ptr fs:[rcx]",
            "66:",
            in("rdi") section.into_raw(),
            state = sym read_side::STATE,
            header_at = const offset_of!(State, header),
            rseq_offset = const offset_of!(State, rseq_offset),
            block_offset = const offset_of!(State, block_offset),
            sequenced = const offset_of!(Header, sequenced),
            leave = const offset_of!(PhaseCounters, leave),
            slow = sym tracepoint::leave_slow,
            signature = const SIGNATURE,
            clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn each_thread_has_a_block_and_an_area() {
        init();
        let address = || with_thread(|block| core::ptr::from_ref(block).addr());
        let (here, there) = (address(), thread::spawn(address).join().ok().flatten());
        assert_ne!(here, there);
        assert_eq!(here.map(|a| a % 64), Some(0));
    }

    #[test]
    fn a_sequence_adds_on_its_cpu_and_is_refused_on_another() {
        if !init() {
            return; // no rseq here (valgrind): the read side uses its locked words, which its own tests cover
        }
        let counters: [[AtomicU64; 8]; 64] = core::array::from_fn(|_| core::array::from_fn(|_| AtomicU64::new(0)));
        let sum = || counters.iter().map(|c| c[2].load(Relaxed)).sum::<u64>();
        // SAFETY: as many elements of 64 bytes as the limit says.
        let count = |limit| unsafe { count_on_cpu::<16>(rseq_offset(), counters.as_ptr().cast(), limit) };
        while !count(64) {}
        assert_eq!(sum(), 1);
        assert!(!count(0));
        assert_eq!(sum(), 1);
        let armed: u64;
        // SAFETY: SYS-2: reads the `rseq_cs` word of this thread's area.
        unsafe { asm!("mov {}, qword ptr fs:[{} + 8]", out(reg) armed, in(reg) rseq_offset()) };
        assert_eq!(armed, 0, "a refused sequence left rseq_cs armed");
    }
}
