//! The sequences for x86-64 Linux: one block of assembly for all configurations, whose `.if`s the constants decide.
//!
//! The invariants RB-… are those of the [module](crate::ring_buffer); SYS-… those of [`trace_registry::sys`].
#![expect(unsafe_code, reason = "restartable sequences need assembly")]

use super::{Hot, Store, Switch};
use crate::clock::Calibration;
use crate::ring_buffer::position::CommitWord;
use crate::ring_buffer::{ClockKind, Config, HeaderKind, Placement};
use core::arch::asm;
use core::mem::offset_of;
use trace_registry::field::Piece;
use trace_registry::sys::{cpu_id, rseq_offset};
use trace_registry::{rseq_enter, rseq_leave};

/// Where the rseq area holds the index of the buffer.
const fn index_at<C: Config>() -> u32 {
    match C::PLACEMENT {
        Placement::Cpu => 4,
        Placement::MmCid => 24,
    }
}

/// Returns the index of the buffer to use. `None`: the thread is not registered.
#[inline]
pub(in crate::ring_buffer) fn index<C: Config>() -> Option<u32> {
    let cpu = cpu_id();
    if cpu as i32 >= 0 && C::PLACEMENT == Placement::MmCid {
        let cid: u32;
        // SAFETY: SYS-2: the area has 32 bytes. Not `pure`: the kernel changes the word.
        unsafe {
            asm!("mov {0:e}, dword ptr fs:[{1} + 24]", out(reg) cid, in(reg) rseq_offset(),
                 options(readonly, nostack, preserves_flags));
        }
        return Some(cid);
    }
    (cpu as i32 >= 0).then_some(cpu)
}

/// Whether the kernel keeps concurrency IDs (`AT_RSEQ_FEATURE_SIZE` reaches beyond them).
pub(in crate::ring_buffer) fn has_mm_cid() -> bool {
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) >= 28 }
}

/// Appends one record: everything from the choice of the buffer to the commit. Returns whether it did, and for the extended
/// form the stamp before it was raised to the one before.
///
/// It declines, having written nothing that counts, where the buffer of this CPU is missing, the generation is another, the
/// record does not fit, the short form's stamp or event ID does not suffice, or the sequence was aborted.
///
/// # Safety
///
/// RB-1: `hot` describes a channel that `C` created, and that stays until this returns. The pieces are readable and their
/// lengths add up to `total`, at most `hot.limit` (RB-4).
#[inline(always)]
pub(in crate::ring_buffer) unsafe fn append<C: Config, const EXTENDED: bool>(
    hot: &Hot,
    generation: u64,
    id: u32,
    pieces: &[Piece],
    total: usize,
    stamp: u64,
) -> (bool, u64) {
    let ok: u64;
    let unclamped: u64;
    // SAFETY: RB-1 for what is read through `hot`; SYS-2 to SYS-4. Everything is written beyond the committed position and
    // inside the record's extent (RB-3, RB-4), which only this CPU's sequences write (RB-2); masks are private (RB-8).
    unsafe {
        asm!(
            // The buffer of this CPU; of this concurrency ID, where the thread is registered.
            "mov {pos:e}, dword ptr fs:[{off} + {index_at}]",
            ".if {by_cid}",
            "cmp dword ptr fs:[{off} + 4], 0",
            "jl 44f",
            ".endif",
            "cmp {pos}, qword ptr [{hot} + {entries}]",
            "jae 44f",
            "mov {reg}, qword ptr [{hot} + {table}]",
            "mov {reg}, qword ptr [{reg} + {pos} * 8]",
            "test {reg}, {reg}",
            "jz 44f",
            rseq_enter!(),
            ".if {disarmed}",
            "mov qword ptr fs:[{off} + 8], 0",
            ".endif",
            "cmp {pos:e}, dword ptr fs:[{off} + {index_at}]",
            "jne 44f",
            // RB-9: the generation.
            "mov {tmp}, qword ptr [{hot} + {generation_at}]",
            "cmp rdx, qword ptr [{tmp}]",
            "jne 44f",
            // RB-5: (pos - 1) % size + 1 + length < size.
            "mov {pos}, qword ptr [{reg}]",
            "lea {tmp}, [{pos} - 1]",
            "and {tmp}, qword ptr [{hot} + {sub_buffer_mask}]",
            "lea {tmp}, [{tmp} + rcx + 1 + {header_len}]",
            "cmp {tmp}, qword ptr [{hot} + {sub_buffer_mask}]",
            "ja 44f",
            // rsi: where the record goes.
            "mov rsi, {pos}",
            "and rsi, qword ptr [{hot} + {ring_mask}]",
            "add rsi, {reg}",
            "add rsi, qword ptr [{hot} + {data}]",
            // rax: the stamp.
            ".if {counter}",
            ".if {ordered}",
            "lfence",
            ".endif",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "mov {tmp}, qword ptr [{hot} + {clock}]",
            "mov {tmp}, qword ptr [{tmp}]",
            "sub rax, qword ptr [{tmp} + {counter0}]",
            "mul qword ptr [{tmp} + {scale}]",
            "shrd rax, rdx, 32",
            "add rax, qword ptr [{tmp} + {ns0}]",
            ".endif",
            ".if {extended}",
            "mov {hot}, rax",
            "cmp rax, qword ptr [{reg} + 8]",
            "cmovb rax, qword ptr [{reg} + 8]",
            ".elseif {stamped}",
            // Also true for a stamp below the one before.
            "mov rdx, rax",
            "sub rdx, qword ptr [{reg} + 8]",
            "shr rdx, {stamp_bits}",
            "jnz 44f",
            ".endif",
            // The header.
            ".if {extended}",
            ".if {large}",
            "mov word ptr [rsi], -1",
            "mov dword ptr [rsi + 2], edi",
            "mov qword ptr [rsi + 6], rax",
            ".else",
            "mov byte ptr [rsi], 0x1f",
            "mov dword ptr [rsi + 1], edi",
            "mov qword ptr [rsi + 5], rax",
            ".endif",
            ".else",
            ".if {large}",
            "mov word ptr [rsi], di",
            "mov dword ptr [rsi + 2], eax",
            ".else",
            "mov edx, eax",
            "shl edx, 5",
            "or edx, edi",
            "mov dword ptr [rsi], edx",
            ".endif",
            ".endif",
            "lea {pos}, [{pos} + rcx + {header_len}]",
            "mov rdx, {one_record}",
            "add {pos}, rdx",
            "lea rdi, [rsi + {header_len}]",
            // The pieces, straight from where they are: never a byte beyond either end.
            "test {ok}, {ok}",
            "jz 38f",
            "31:",
            "mov rsi, qword ptr [{pieces}]",
            "mov rcx, qword ptr [{pieces} + 8]",
            "add {pieces}, 16",
            "cmp rcx, 16",
            "ja 33f",
            "cmp ecx, 8",
            "jb 32f",
            "mov {tmp}, qword ptr [rsi]", // 8..=16: two words that overlap
            "mov rdx, qword ptr [rsi + rcx - 8]",
            "mov qword ptr [rdi], {tmp}",
            "mov qword ptr [rdi + rcx - 8], rdx",
            "add rdi, rcx",
            "jmp 37f",
            "32:",
            "cmp ecx, 4",
            "jb 39f",
            "mov {tmp:e}, dword ptr [rsi]", // 4..8
            "mov edx, dword ptr [rsi + rcx - 4]",
            "mov dword ptr [rdi], {tmp:e}",
            "mov dword ptr [rdi + rcx - 4], edx",
            "add rdi, rcx",
            "jmp 37f",
            "39:",
            "test ecx, ecx",
            "jz 37f",
            "movzx edx, byte ptr [rsi]", // 1..4: a byte, and two that overlap it
            "mov byte ptr [rdi], dl",
            "cmp ecx, 2",
            "jb 40f",
            "movzx edx, word ptr [rsi + rcx - 2]",
            "mov word ptr [rdi + rcx - 2], dx",
            "40:",
            "add rdi, rcx",
            "jmp 37f",
            "33:",
            "cmp rcx, 2048",
            "ja 36f",
            "movups xmm1, xmmword ptr [rsi + rcx - 16]", // 17..=2048
            "lea rdx, [rdi + rcx - 16]",
            "35:",
            "movups xmm0, xmmword ptr [rsi]",
            "movups xmmword ptr [rdi], xmm0",
            "add rsi, 16",
            "add rdi, 16",
            "cmp rdi, rdx",
            "jb 35b",
            "movups xmmword ptr [rdx], xmm1",
            "lea rdi, [rdx + 16]",
            "jmp 37f",
            "36:",
            "rep movsb",
            "37:",
            "dec {ok}",
            "jnz 31b",
            "38:",
            // RB-3: the commit, last.
            ".if {stamped}",
            "movq xmm0, {pos}",
            "movq xmm1, rax",
            "punpcklqdq xmm0, xmm1",
            "movaps xmmword ptr [{reg}], xmm0",
            ".else",
            "mov qword ptr [{reg}], {pos}",
            ".endif",
            rseq_leave!(),
            off = in(reg) rseq_offset(),
            hot = inout(reg) std::ptr::from_ref(hot) => unclamped,
            pieces = inout(reg) pieces.as_ptr() => _,
            ok = inout(reg) pieces.len() as u64 => ok,
            reg = out(reg) _,
            pos = out(reg) _,
            tmp = out(reg) _,
            inout("rax") stamp => _,
            inout("rcx") total => _,
            inout("rdx") generation => _,
            out("rsi") _,
            inout("rdi") u64::from(id) => _,
            out("xmm0") _,
            out("xmm1") _,
            index_at = const index_at::<C>(),
            by_cid = const matches!(C::PLACEMENT, Placement::MmCid) as u32,
            disarmed = const C::DISARMED as u32,
            entries = const offset_of!(Hot, entries),
            table = const offset_of!(Hot, table),
            generation_at = const offset_of!(Hot, generation),
            clock = const offset_of!(Hot, clock),
            sub_buffer_mask = const offset_of!(Hot, sub_buffer_mask),
            ring_mask = const offset_of!(Hot, ring_mask),
            data = const offset_of!(Hot, data),
            counter = const C::CLOCK.is_counter() as u32,
            ordered = const matches!(C::CLOCK, ClockKind::Ordered) as u32,
            stamped = const !matches!(C::CLOCK, ClockKind::None) as u32,
            counter0 = const offset_of!(Calibration, counter0),
            scale = const offset_of!(Calibration, scale),
            ns0 = const offset_of!(Calibration, ns0),
            extended = const EXTENDED as u32,
            large = const matches!(C::HEADER, HeaderKind::Large) as u32,
            stamp_bits = const C::HEADER.stamp_bits(),
            header_len = const C::HEADER.len(EXTENDED),
            one_record = const CommitWord::ONE_RECORD,
            options(nostack)
        );
    }
    (ok != 0, unclamped)
}

/// Closes or opens a sub-buffer: checks, takes the stamp (not below the last one), makes the stores, commits word and stamp.
/// Returns whether it did.
///
/// # Safety
///
/// RB-1 for `hot` and `switch.control`. Every store is to the descriptor or the opening word of a sub-buffer that is not
/// readable while the commit word is `switch.expected` (RB-3).
#[inline(never)]
pub(in crate::ring_buffer) unsafe fn switch<C: Config>(
    hot: &Hot,
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
            ".if {disarmed}",
            "mov qword ptr fs:[{off} + 8], 0",
            ".endif",
            "cmp {index:e}, dword ptr fs:[{off} + {index_at}]",
            "jne 44f",
            "mov {tmp}, qword ptr [{hot} + {generation_at}]",
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
            "mov {tmp}, qword ptr [{hot} + {clock}]",
            "mov {tmp}, qword ptr [{tmp}]",
            "sub rax, qword ptr [{tmp} + {counter0}]",
            "mul qword ptr [{tmp} + {scale}]",
            "shrd rax, rdx, 32",
            "add rax, qword ptr [{tmp} + {ns0}]",
            ".endif",
            "cmp rax, qword ptr [{reg} + 8]",
            "cmovb rax, qword ptr [{reg} + 8]",
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
            "movq xmm0, {new}",
            "movq xmm1, rax",
            "punpcklqdq xmm0, xmm1",
            "movaps xmmword ptr [{reg}], xmm0",
            rseq_leave!(),
            off = in(reg) rseq_offset(),
            hot = in(reg) std::ptr::from_ref(hot),
            index = in(reg) index,
            reg = in(reg) switch.control,
            new = in(reg) switch.new,
            ok = inout(reg) switch.stores.len() as u64 => ok,
            tmp = out(reg) _,
            inout("rax") stamp => _,
            inout("rcx") switch.stores.as_ptr() => _,
            inout("rdx") generation => _,
            in("rsi") switch.expected,
            in("rdi") switch.stamp_at,
            out("xmm0") _,
            out("xmm1") _,
            index_at = const index_at::<C>(),
            disarmed = const C::DISARMED as u32,
            generation_at = const offset_of!(Hot, generation),
            clock = const offset_of!(Hot, clock),
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
