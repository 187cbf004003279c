//! The sequences of the cold path for x86-64 Linux, and which buffer a thread is to use.
//!
//! The invariants RB-… are those of the [module](crate::ring_buffer); SYS-… those of [`trace_registry::sys`].
#![expect(unsafe_code, reason = "restartable sequences need assembly")]

use super::{PerCpu, Store, Switch};
use crate::clock::Calibration;
use crate::ring_buffer::{ClockKind, Config, Placement};
use core::arch::asm;
use core::arch::x86_64::_mm_cvtsi64_si128;
use core::mem::offset_of;
use trace_registry::sys::{ThreadBlock, block_offset, cpu_id, rseq_offset};
use trace_registry::{rseq_enter, rseq_leave};

/// Distance from the thread pointer of the word that is the index of the buffer.
#[inline]
pub(in crate::ring_buffer) fn index_distance(placement: Placement) -> isize {
    match placement {
        // SYS-2: the rseq area has 32 bytes.
        Placement::Cpu | Placement::Global => rseq_offset() + 4,
        Placement::MmCid => rseq_offset() + 24,
        Placement::Thread => block_offset() + ThreadBlock::NUMBER_AT as isize,
    }
}

/// Returns the index of the buffer to use. `None`: the thread is not registered, or this placement has no buffers.
#[inline]
pub(in crate::ring_buffer) fn index<C: Config>() -> Option<u32> {
    index_by(C::PLACEMENT)
}

/// Returns the index of the buffer that a channel of this placement uses. `None`: the thread is not registered, or there are none.
#[inline]
pub(in crate::ring_buffer) fn index_by(placement: Placement) -> Option<u32> {
    if (cpu_id() as i32) < 0 || placement == Placement::Global {
        return None;
    }
    let index: u32;
    // SAFETY: SYS-1, SYS-2: a word of this thread. Not `pure`: the kernel changes it.
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{1}]", out(reg) index, in(reg) index_distance(placement),
             options(readonly, nostack, preserves_flags));
    }
    Some(index)
}

/// Distance of the word that holds the thread's ID from the thread pointer.
pub(in crate::ring_buffer) fn tid_offset() -> i32 {
    let offset = block_offset() + offset_of!(ThreadBlock, tid) as isize;
    i32::try_from(offset).unwrap_or_else(|_| unreachable!("thread-local storage beyond 2 GiB"))
}

/// Whether the kernel keeps concurrency IDs (`AT_RSEQ_FEATURE_SIZE` reaches beyond them).
pub(in crate::ring_buffer) fn has_mm_cid() -> bool {
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) >= 28 }
}

/// Closes or opens a sub-buffer: checks, takes the stamp (not below the last one), makes the stores, commits word and stamp.
/// Returns whether it did.
///
/// # Safety
///
/// RB-1 for `cpu` and `switch.control`. Every store is to the descriptor or the opening word of a sub-buffer that is not
/// readable while the commit word is `switch.expected` (RB-3).
#[inline(never)]
pub(in crate::ring_buffer) unsafe fn switch<C: Config>(
    cpu: &PerCpu,
    generation: u64,
    index: u32,
    switch: &Switch<'_>,
    stamp: u64,
) -> bool {
    const { assert!(size_of::<Store>() == 16) };
    let ok: u64;
    // SAFETY: RB-1, SYS-2 to SYS-4; the caller's duty for the stores.
    unsafe {
        asm!(
            rseq_enter!(),
            "cmp {index:e}, dword ptr fs:[{index_at}]",
            "jne 44f",
            "mov {tmp}, qword ptr [{cpu} + {generation_at}]",
            "cmp rdx, qword ptr [{tmp}]",
            "jne 44f",
            "cmp rsi, qword ptr [{reg}]",
            "jne 44f",
            ".if {counter}",
            ".if {ordered}",
            "lfence",
            ".endif",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "mov {tmp}, qword ptr [{cpu} + {clock}]",
            "mov {tmp}, qword ptr [{tmp}]",
            "sub rax, qword ptr [{tmp} + {counter0}]",
            "imul qword ptr [{tmp} + {scale}]",
            "shrd rax, rdx, 32",
            "add rax, qword ptr [{tmp} + {ns0}]",
            ".endif",
            "cmp rax, qword ptr [{reg} + 8]",
            "cmovl rax, qword ptr [{reg} + 8]",
            "test {ok}, {ok}",
            "jz 38f",
            "31:",
            "mov {tmp}, qword ptr [rcx]",
            "mov rdx, qword ptr [rcx + 8]",
            "mov qword ptr [{tmp}], rdx",
            "add rcx, 16",
            "dec {ok}",
            "jnz 31b",
            "38:",
            "mov qword ptr [rdi], rax",
            "movq xmm1, rax",
            "punpcklqdq xmm0, xmm1",
            "movaps xmmword ptr [{reg}], xmm0",
            rseq_leave!(),
            off = in(reg) rseq_offset(),
            cpu = in(reg) std::ptr::from_ref(cpu),
            index = in(reg) index,
            reg = in(reg) switch.control,
            index_at = in(reg) index_distance(C::PLACEMENT),
            ok = inout(reg) switch.stores.len() as u64 => ok,
            tmp = out(reg) _,
            inout("rax") stamp => _,
            inout("rcx") switch.stores.as_ptr() => _,
            inout("rdx") generation => _,
            in("rsi") switch.expected,
            in("rdi") switch.stamp_at,
            inout("xmm0") _mm_cvtsi64_si128(switch.new as i64) => _,
            out("xmm1") _,
            generation_at = const offset_of!(PerCpu, generation),
            clock = const offset_of!(PerCpu, clock),
            counter = const C::CLOCK.is_counter() as u32,
            ordered = const matches!(C::CLOCK, ClockKind::Ordered) as u32,
            counter0 = const offset_of!(Calibration, counter0),
            scale = const offset_of!(Calibration, scale),
            ns0 = const offset_of!(Calibration, ns0),
            options(nostack)
        );
    }
    ok != 0
}
