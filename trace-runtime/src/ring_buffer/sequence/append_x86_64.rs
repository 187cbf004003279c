//! The sequence that appends a record, as functions of assembly: one text for all configurations, whose `.if`s the constants
//! decide. A compiler would save and restore every register that a block of this size takes: 30 of 100 instructions.
//!
//! ```text
//! rdi  hot, kept                      rax  index, stamp, scratch              [rsp -  8]  generation
//! rsi  generation; then the position, r10  the buffer's control page          [rsp - 16]  event ID, thread ID above it
//!      then where to write            r11  distance of the rseq area          [rsp - 24]  first piece
//! rdx  IDs; scratch; source           xmm1 stamp                              [rsp - 32]  end of the pieces
//! rcx  next piece                     xmm0, xmm2 scratch                      [rsp - 40]  hot
//! r8   end of the pieces; clock, calibration; bytes of a piece                [rsp - 48]  scratch
//! r9   bytes of all pieces, kept                                              [rsp - 56]  stamp before it was raised
//! ```
//!
//! The short form jumps to the slow path, with its arguments as they came, where the buffer of this CPU is missing, the
//! generation is another, the record does not fit, its stamp or event ID does not fit the form, or the sequence was aborted. It
//! has written nothing that counts then. The extended form returns 0 instead.
//!
//! The invariants RB-… are those of the [module](crate::ring_buffer); SYS-… those of [`trace_registry::sys`].
#![expect(unsafe_code, reason = "restartable sequences need assembly")]

use super::{Hot, index_at};
use crate::clock::Calibration;
use crate::ring_buffer::{ClockKind, Config, HeaderKind, Outcome, Placement};
use core::arch::global_asm;
use core::mem::offset_of;
use trace_registry::field::Piece;
use trace_registry::mutated_asm;
use trace_registry::sys::SIGNATURE;

/// What the extended form returns.
#[repr(C)]
pub(in crate::ring_buffer) struct Extended {
    /// 1: recorded; 0: declined.
    ok: u64,
    /// The stamp before it was raised to the one before.
    unclamped: u64,
}

macro_rules! symbol {
    ($name:ident) => {
        concat!("ringtrace_", stringify!($name), "_", env!("CARGO_PKG_VERSION"))
    };
}

macro_rules! define {
    ($name:ident($($stamp:ident)?) -> $returned:ty,
     $clock:ident $header:ident $placement:ident $extended:literal) => {
        unsafe extern "C" {
            #[link_name = symbol!($name)]
            fn $name(
                hot: *const Hot,
                generation: u64,
                ids: u64,
                pieces: *const Piece,
                end: *const Piece,
                total: usize,
                $($stamp: u64)?
            ) -> $returned;
        }

        global_asm!(
            concat!(".pushsection \".text.", symbol!($name), "\",\"ax\",@progbits"),
            ".balign 64",
            concat!(".globl \"", symbol!($name), "\""),
            concat!(".hidden \"", symbol!($name), "\""),
            concat!(".type \"", symbol!($name), "\", @function"),
            concat!("\"", symbol!($name), "\":"),
            ".cfi_startproc",
            ".if {extended} == 0",
            "cmp edx, {largest_short_id}",
            "ja 45f",
            // RB-4: the length.
            "cmp r9, qword ptr [rdi + {limit}]",
            "ja 45f",
            // RB-9: 0 is what a forked child finds in place of the generation.
            "test rsi, rsi",
            "jz 45f",
            ".endif",
            // The buffer of this CPU; of this concurrency ID, where the thread is registered. Where there is none, the table has
            // one that is closed.
            "mov r11, qword ptr [rdi + {rseq_offset}]",
            "mov eax, dword ptr fs:[r11 + {index_at}]",
            ".if {by_cid}",
            "cmp dword ptr fs:[r11 + 4], 0",
            "jl 45f",
            ".endif",
            "cmp rax, qword ptr [rdi + {entries}]",
            "jae 45f",
            "mov r10, qword ptr [rdi + {table}]",
            "mov r10, qword ptr [r10 + rax * 8]",
            mutated_asm!(index_not_compared ["mov r11d, 4000", "19:", "dec r11d", "jnz 19b", "mov r11, qword ptr [rdi + {rseq_offset}]"] else []),
            "mov qword ptr [rsp - 8], rsi",
            "mov qword ptr [rsp - 16], rdx",
            "mov qword ptr [rsp - 24], rcx",
            "mov qword ptr [rsp - 32], r8",
            "mov qword ptr [rsp - 40], rdi",
            // Start of the sequence; the sections are those of `rseq_enter!`.
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "77:",
            ".long 0, 0",
            ".quad 22f, 55f - 22f, 44f",
            ".popsection",
            ".pushsection __rseq_cs_ptr_array, \"aw\"",
            ".quad 77b",
            ".popsection",
            ".pushsection __rseq_exit_point_array, \"aw\"",
            ".quad 22f, 44f",
            ".popsection",
            "lea rdx, [rip + 77b]",
            "mov qword ptr fs:[r11 + 8], rdx",
            "22:",
            mutated_asm!(unrestarted ["mov qword ptr fs:[r11 + 8], 0"] else []),
            mutated_asm!(index_not_compared [] else ["cmp eax, dword ptr fs:[r11 + {index_at}]", "jne 44f"]),
            // RB-9: the generation.
            "mov rax, qword ptr [rdi + {generation}]",
            mutated_asm!(generation_not_compared [] else ["cmp rsi, qword ptr [rax]", "jne 44f"]),
            // RB-5: (position - 1) % size + 1 + length < size.
            "mov rsi, qword ptr [r10]",
            "lea rdx, [rsi - 1]",
            "and rdx, qword ptr [rdi + {sub_buffer_mask}]",
            mutated_asm!(record_to_the_end ["lea rdx, [rdx + r9 + {header_len}]"] else ["lea rdx, [rdx + r9 + 1 + {header_len}]"]),
            "cmp rdx, qword ptr [rdi + {sub_buffer_mask}]",
            "ja 44f",
            // rsi: where the record goes.
            "and rsi, qword ptr [rdi + {ring_mask}]",
            "add rsi, r10",
            "add rsi, qword ptr [rdi + {data}]",
            // rax: the stamp.
            ".if {counter}",
            "mov r8, qword ptr [rdi + {clock}]",
            "mov r8, qword ptr [r8]",
            ".if {ordered}",
            "lfence",
            ".endif",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "sub rax, qword ptr [r8 + {counter0}]",
            // CL-5: signed.
            "imul qword ptr [r8 + {scale}]",
            "shrd rax, rdx, 32",
            "add rax, qword ptr [r8 + {ns0}]",
            ".elseif {given}",
            "mov rax, qword ptr [rsp + 8]",
            ".else",
            "xor eax, eax",
            ".endif",
            ".if {extended}",
            "mov qword ptr [rsp - 56], rax",
            "cmp rax, qword ptr [r10 + 8]",
            "cmovl rax, qword ptr [r10 + 8]",
            ".elseif {stamped}",
            // Also true for a stamp below the one before.
            "mov rdx, rax",
            "sub rdx, qword ptr [r10 + 8]",
            "shr rdx, {stamp_bits}",
            "jnz 44f",
            ".endif",
            "movq xmm1, rax",
            // The header.
            ".if {extended}",
            "mov edx, dword ptr [rsp - 16]",
            ".if {large}",
            "mov word ptr [rsi], -1",
            "mov dword ptr [rsi + 2], edx",
            "mov qword ptr [rsi + 6], rax",
            ".else",
            "mov byte ptr [rsi], 0x1f",
            "mov dword ptr [rsi + 1], edx",
            "mov qword ptr [rsi + 5], rax",
            ".endif",
            ".elseif {large}",
            "mov edx, dword ptr [rsp - 16]",
            "mov word ptr [rsi], dx",
            "mov dword ptr [rsi + 2], eax",
            ".else",
            "shl eax, 5",
            "or eax, dword ptr [rsp - 16]",
            "mov dword ptr [rsi], eax",
            ".endif",
            "add rsi, {header_len}",
            mutated_asm!(position_before_bytes [
                "mov rdx, qword ptr [r10]",
                "lea rdx, [rdx + r9 + {header_len}]",
                "add rdx, qword ptr [rdi + {one_record}]",
                "mov qword ptr [r10], rdx"
            ] else []),
            // The pieces, straight from where they are: never a byte beyond either end (RB-4).
            "cmp rcx, qword ptr [rsp - 32]",
            "je 38f",
            "31:",
            "mov rdx, qword ptr [rcx]",
            "mov r8, qword ptr [rcx + 8]",
            "add rcx, 16",
            "cmp r8, 16",
            "ja 33f",
            "cmp r8d, 8",
            "jb 32f",
            "mov rax, qword ptr [rdx]", // 8..=16: two words that overlap
            "mov rdx, qword ptr [rdx + r8 - 8]",
            "mov qword ptr [rsi], rax",
            "mov qword ptr [rsi + r8 - 8], rdx",
            "37:",
            "add rsi, r8",
            "30:",
            "cmp rcx, qword ptr [rsp - 32]",
            "je 38f",
            "jmp 31b",
            "32:",
            "cmp r8d, 4",
            "jb 34f",
            "mov eax, dword ptr [rdx]", // 4..8
            "mov edx, dword ptr [rdx + r8 - 4]",
            "mov dword ptr [rsi], eax",
            "mov dword ptr [rsi + r8 - 4], edx",
            "jmp 37b",
            "34:",
            "test r8d, r8d",
            "jz 30b",
            "movzx eax, byte ptr [rdx]", // 1..4: a byte, and two behind it or over it
            "mov byte ptr [rsi], al",
            "cmp r8d, 2",
            "jb 37b",
            "movzx eax, word ptr [rdx + r8 - 2]",
            "mov word ptr [rsi + r8 - 2], ax",
            "jmp 37b",
            "33:",
            "cmp r8, 32",
            "ja 35f",
            "movups xmm0, xmmword ptr [rdx]", // 17..=32
            "movups xmm2, xmmword ptr [rdx + r8 - 16]",
            "movups xmmword ptr [rsi], xmm0",
            "movups xmmword ptr [rsi + r8 - 16], xmm2",
            "jmp 37b",
            "35:",
            "cmp r8, 2048",
            "ja 39f",
            "movups xmm2, xmmword ptr [rdx + r8 - 16]", // 33..=2048
            "lea rax, [rsi + r8 - 16]",
            "36:",
            "movups xmm0, xmmword ptr [rdx]",
            "movups xmmword ptr [rsi], xmm0",
            "add rdx, 16",
            "add rsi, 16",
            "cmp rsi, rax",
            "jb 36b",
            "movups xmmword ptr [rax], xmm2",
            "lea rsi, [rax + 16]",
            "jmp 30b",
            "39:",
            "mov qword ptr [rsp - 48], rcx", // above
            "mov rcx, r8",
            "mov rdi, rsi",
            "mov rsi, rdx",
            "rep movsb",
            "mov rsi, rdi",
            "mov rdi, qword ptr [rsp - 40]",
            "mov rcx, qword ptr [rsp - 48]",
            "jmp 30b",
            "38:",
            // RB-3: the commit, last.
            "mov rcx, qword ptr [r10]",
            mutated_asm!(position_before_bytes [] else [
                "lea rcx, [rcx + r9 + {header_len}]",
                "add rcx, qword ptr [rdi + {one_record}]"
            ]),
            ".if {stamped}",
            "movq xmm0, rcx",
            mutated_asm!(stamp_outside_commit [
                "movq qword ptr [rsp - 48], xmm1",
                "movq xmm1, qword ptr [r10 + 8]"
            ] else []),
            "punpcklqdq xmm0, xmm1",
            "movaps xmmword ptr [r10], xmm0",
            ".else",
            "mov qword ptr [r10], rcx",
            ".endif",
            "55:",
            mutated_asm!(stamp_outside_commit ["mov rcx, qword ptr [rsp - 48]", "mov qword ptr [r10 + 8], rcx"] else []),
            mutated_asm!(armed_after_commit [] else ["mov qword ptr fs:[r11 + 8], 0"]), // SYS-3
            ".if {extended}",
            "mov eax, 1",
            "mov rdx, qword ptr [rsp - 56]",
            ".else",
            "xor eax, eax",
            ".endif",
            "ret",
            "45:",
            ".if {extended}",
            "xor eax, eax",
            "ret",
            ".else",
            "jmp qword ptr [rdi + {slow}]",
            ".endif",
            ".cfi_endproc",
            concat!(".size \"", symbol!($name), "\", . - \"", symbol!($name), "\""),
            ".popsection",
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d", // ud1 signature(%rip), %edi (SYS-4)
            ".long {signature}",
            "44:",
            mutated_asm!(armed_after_refusal [] else ["mov qword ptr fs:[r11 + 8], 0"]), // SYS-3
            ".if {extended}",
            "xor eax, eax",
            "ret",
            ".else",
            "mov rdi, qword ptr [rsp - 40]",
            "mov rsi, qword ptr [rsp - 8]",
            "mov rdx, qword ptr [rsp - 16]",
            "mov rcx, qword ptr [rsp - 24]",
            "mov r8, qword ptr [rsp - 32]",
            "jmp qword ptr [rdi + {slow}]",
            ".endif",
            ".popsection",
            largest_short_id = const HeaderKind::$header.largest_short_id(),
            limit = const offset_of!(Hot, limit),
            rseq_offset = const offset_of!(Hot, rseq_offset),
            index_at = const index_at(Placement::$placement),
            by_cid = const matches!(Placement::$placement, Placement::MmCid) as u32,
            entries = const offset_of!(Hot, entries),
            table = const offset_of!(Hot, table),
            generation = const offset_of!(Hot, generation),
            sub_buffer_mask = const offset_of!(Hot, sub_buffer_mask),
            ring_mask = const offset_of!(Hot, ring_mask),
            data = const offset_of!(Hot, data),
            clock = const offset_of!(Hot, clock),
            one_record = const offset_of!(Hot, one_record),
            slow = const offset_of!(Hot, slow),
            header_len = const HeaderKind::$header.len($extended),
            counter = const ClockKind::$clock.is_counter() as u32,
            ordered = const matches!(ClockKind::$clock, ClockKind::Ordered) as u32,
            given = const matches!(ClockKind::$clock, ClockKind::Os) as u32,
            stamped = const !matches!(ClockKind::$clock, ClockKind::None) as u32,
            counter0 = const offset_of!(Calibration, counter0),
            scale = const offset_of!(Calibration, scale),
            ns0 = const offset_of!(Calibration, ns0),
            extended = const $extended as u32,
            large = const matches!(HeaderKind::$header, HeaderKind::Large) as u32,
            stamp_bits = const HeaderKind::$header.stamp_bits(),
            signature = const SIGNATURE,
        );
    };
}

/// Defines the functions of all configurations, and what chooses among them.
macro_rules! define_all {
    ($($clock:ident($($stamp:ident)?) $header:ident $placement:ident $short:ident $extended:ident;)*) => {
        $(
            define!($short($($stamp)?) -> Outcome, $clock $header $placement false);
            define!($extended($($stamp)?) -> Extended, $clock $header $placement true);
        )*

        /// Appends one record in the short form, or takes the slow path.
        ///
        /// # Safety
        ///
        /// RB-1: `hot` belongs to a channel that `C` created, and that stays until this returns. The pieces are readable and
        /// their lengths add up to `total` (RB-4).
        #[inline(always)]
        pub(in crate::ring_buffer) unsafe fn append<C: Config>(
            hot: *const Hot,
            generation: u64,
            ids: u64,
            pieces: &[Piece],
            total: usize,
            stamp: impl FnOnce() -> u64,
        ) -> Outcome {
            let pieces = pieces.as_ptr_range();
            match (C::CLOCK, C::HEADER, C::PLACEMENT) {
                $((ClockKind::$clock, HeaderKind::$header, Placement::$placement) => {
                    // SAFETY: the caller's duty. Everything is written beyond the committed position and inside the record's
                    // extent (RB-3, RB-4), which only this CPU's sequences write (RB-2); masks are private (RB-8).
                    unsafe {
                        $short(hot, generation, ids, pieces.start, pieces.end, total, $({ let $stamp = stamp(); $stamp })?)
                    }
                })*
            }
        }

        /// Appends one record in the extended form, its stamp not below the one before. Returns the stamp as it was taken.
        /// `None`: it declined.
        ///
        /// # Safety
        ///
        /// As for [`append`]; `total` is at most `hot.limit`.
        #[inline]
        pub(in crate::ring_buffer) unsafe fn append_extended<C: Config>(
            hot: *const Hot,
            generation: u64,
            ids: u64,
            pieces: &[Piece],
            total: usize,
            stamp: impl FnOnce() -> u64,
        ) -> Option<u64> {
            let pieces = pieces.as_ptr_range();
            let Extended { ok, unclamped } = match (C::CLOCK, C::HEADER, C::PLACEMENT) {
                $((ClockKind::$clock, HeaderKind::$header, Placement::$placement) => {
                    // SAFETY: as above.
                    unsafe {
                        $extended(hot, generation, ids, pieces.start, pieces.end, total, $({ let $stamp = stamp(); $stamp })?)
                    }
                })*
            };
            (ok != 0).then_some(unclamped)
        }
    };
}

define_all! {
    Raw() Compact Cpu append_raw_compact_cpu append_raw_compact_cpu_extended;
    Raw() Compact MmCid append_raw_compact_cid append_raw_compact_cid_extended;
    Raw() Large Cpu append_raw_large_cpu append_raw_large_cpu_extended;
    Raw() Large MmCid append_raw_large_cid append_raw_large_cid_extended;
    Ordered() Compact Cpu append_ordered_compact_cpu append_ordered_compact_cpu_extended;
    Ordered() Compact MmCid append_ordered_compact_cid append_ordered_compact_cid_extended;
    Ordered() Large Cpu append_ordered_large_cpu append_ordered_large_cpu_extended;
    Ordered() Large MmCid append_ordered_large_cid append_ordered_large_cid_extended;
    Os(stamp) Compact Cpu append_os_compact_cpu append_os_compact_cpu_extended;
    Os(stamp) Compact MmCid append_os_compact_cid append_os_compact_cid_extended;
    Os(stamp) Large Cpu append_os_large_cpu append_os_large_cpu_extended;
    Os(stamp) Large MmCid append_os_large_cid append_os_large_cid_extended;
    None() Compact Cpu append_none_compact_cpu append_none_compact_cpu_extended;
    None() Compact MmCid append_none_compact_cid append_none_compact_cid_extended;
    None() Large Cpu append_none_large_cpu append_none_large_cpu_extended;
    None() Large MmCid append_none_large_cid append_none_large_cid_extended;
}
