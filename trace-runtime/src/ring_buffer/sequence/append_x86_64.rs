//! The sequences that append a record, as functions of assembly: one text for all configurations, whose `.if`s the constants
//! decide. A compiler would save and restore every register that a block of this size takes: 30 of 100 instructions.
//!
//! The short forms go to the slow path, with their arguments as they came, where the buffer of this CPU is missing, the
//! generation is another, the record does not fit, its stamp or event ID does not fit the form, or the sequence was aborted.
//! They have written nothing that counts then. The extended form returns 0 instead.
//!
//! One file, because all forms are made of the same parts, which are macros.
//!
//! The invariants RB-… are those of the [module](crate::ring_buffer); SYS-… those of [`trace_registry::sys`].
#![expect(unsafe_code, reason = "restartable sequences need assembly")]

use super::{AppendPieces, AppendTail, AppendWords, Appender, PerCpu};
use crate::clock::Calibration;
use crate::ring_buffer::position::CommitWord;
use crate::ring_buffer::{ClockKind, Config, HeaderKind, Placement};
use core::arch::global_asm;
use core::mem::offset_of;
use trace_registry::field::Piece;
use trace_registry::sys::SIGNATURE;
use trace_registry::{mutated_asm, read_side, rseq_sections};

/// What the extended form returns.
#[repr(C)]
pub(in crate::ring_buffer) struct Extended {
    /// 1: recorded; 0: declined.
    ok: u64,
    /// The stamp before it was raised to the one before.
    unclamped: u64,
}

/// The placements that a function serves: by CPU, whose number the rseq area holds, or by another word of the thread.
macro_rules! placement {
    (Cpu) => {
        Placement::Cpu
    };
    (Word) => {
        Placement::MmCid | Placement::Thread
    };
}

macro_rules! symbol {
    ($name:ident) => {
        concat!("ringtrace_", stringify!($name), "_", env!("CARGO_PKG_VERSION"))
    };
}

/// Defines a function of assembly: its text, what follows it in the section of abort handlers, and its constants.
macro_rules! function {
    ($name:ident, $clock:ident $header:ident $placement:ident; [$($text:expr),* $(,)?] [$($aborted:expr),* $(,)?] $($constants:tt)*) => {
        global_asm!(
            concat!(".pushsection \".text.", symbol!($name), "\",\"ax\",@progbits"),
            ".balign 64",
            concat!(".globl \"", symbol!($name), "\""),
            concat!(".hidden \"", symbol!($name), "\""),
            concat!(".type \"", symbol!($name), "\", @function"),
            concat!("\"", symbol!($name), "\":"),
            ".cfi_startproc",
            $($text,)*
            ".cfi_endproc",
            concat!(".size \"", symbol!($name), "\", . - \"", symbol!($name), "\""),
            ".popsection",
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d", // ud1 signature(%rip), %edi (SYS-4)
            ".long {signature}",
            "44:",
            $($aborted,)*
            ".popsection",
            table = const offset_of!(Appender, table),
            entries = const offset_of!(Appender, entries),
            id = const offset_of!(Appender, id),
            state = sym read_side::STATE,
            rseq_offset = const read_side::State::RSEQ_OFFSET,
            own_generation = const offset_of!(Appender, generation),
            tid = const offset_of!(Appender, tid),
            prefix = const offset_of!(Appender, prefix),
            slow = const offset_of!(Appender, slow),
            control = const offset_of!(PerCpu, control),
            ring = const offset_of!(PerCpu, ring),
            generation = const offset_of!(PerCpu, generation),
            clock = const offset_of!(PerCpu, clock),
            sub_buffer_mask = const offset_of!(PerCpu, sub_buffer_mask),
            ring_mask = const offset_of!(PerCpu, ring_mask),
            counter0 = const offset_of!(Calibration, counter0),
            scale = const offset_of!(Calibration, scale),
            ns0 = const offset_of!(Calibration, ns0),
            index = const offset_of!(Appender, index),
            by_cpu = const matches!(Placement::Cpu, placement!($placement)) as u32,
            counter = const ClockKind::$clock.is_counter() as u32,
            ordered = const matches!(ClockKind::$clock, ClockKind::Ordered) as u32,
            stamped = const !matches!(ClockKind::$clock, ClockKind::None) as u32,
            large = const matches!(HeaderKind::$header, HeaderKind::Large) as u32,
            stamp_bits = const HeaderKind::$header.stamp_bits(),
            signature = const SIGNATURE,
            $($constants)*
        );
    };
}

/// Starts the sequence, reads the counter, and checks CPU and generation. r10: what is per CPU; in the register that is given: the
/// buffer's control page; rax: the counter; r11: the distance of the rseq area, if that register is another. Clobbers rdx, r8.
///
/// The counter comes first: a processor that makes it wait for the loads before it (Intel's do) then does all the others
/// meanwhile.
macro_rules! start {
    ($control:literal) => {
        concat!(
            "mov r11, qword ptr [rip + {state} + {rseq_offset}]\n",
            mutated_asm!(index_read_before [
                "movsxd r8, dword ptr [rdi + {index}]",
                "mov r8d, dword ptr fs:[r8]",
                "mov r10d, 4000",
                "19:",
                "dec r10d",
                "jnz 19b"
            ] else []),
            rseq_sections!(),
            "lea rdx, [rip + 77b]\n",
            "mov qword ptr fs:[r11 + 8], rdx\n",
            "22:\n",
            mutated_asm!(unrestarted ["mov qword ptr fs:[r11 + 8], 0"] else []),
            ".if {by_cpu} == 0\n",
            // Where the thread is registered.
            "cmp dword ptr fs:[r11 + 4], 0\n",
            "jl 44f\n",
            ".endif\n",
            mutated_asm!(index_read_before [] else [
                ".if {by_cpu}",
                "mov r8d, dword ptr fs:[r11 + 4]",
                ".else",
                "movsxd r8, dword ptr [rdi + {index}]",
                "mov r8d, dword ptr fs:[r8]",
                ".endif"
            ]),
            ".if {counter}\n",
            ".if {ordered}\n",
            "lfence\n",
            ".endif\n",
            "rdtsc\n",
            "shl rdx, 32\n",
            "or rax, rdx\n",
            ".endif\n",
            // Above the entries: the thread is not registered or not numbered, or the CPU is new.
            "cmp r8d, dword ptr [rdi + {entries}]\n",
            "jae 44f\n",
            "shl r8, 6\n",
            "mov r10, qword ptr [rdi + {table}]\n",
            "add r10, r8\n",
            // RB-9: the generation. 0 is what a forked child finds in its place.
            "mov r8, qword ptr [rdi + {own_generation}]\n",
            "mov ",
            $control,
            ", qword ptr [r10 + {generation}]\n",
            mutated_asm!(generation_not_compared [] else [concat!("cmp r8, qword ptr [", $control, "]"), "jne 44f"]),
            "mov ",
            $control,
            ", qword ptr [r10 + {control}]\n",
        )
    };
}

/// rax: the stamp, from the counter in it, by the calibration whose address is put into a register. Clobbers rdx.
macro_rules! convert {
    ($calibration:literal) => {
        concat!(
            "mov ",
            $calibration,
            ", qword ptr [r10 + {clock}]\n",
            "mov ",
            $calibration,
            ", qword ptr [",
            $calibration,
            "]\n",
            "sub rax, qword ptr [",
            $calibration,
            " + {counter0}]\n",
            // CL-5: signed.
            "imul qword ptr [",
            $calibration,
            " + {scale}]\n",
            "shrd rax, rdx, 32\n",
            "add rax, qword ptr [",
            $calibration,
            " + {ns0}]\n",
        )
    };
}

/// Leaves the sequence unless the stamp in rax fits the short form: not below the one before, which lies in the control page, nor too
/// far above. Clobbers rdx.
macro_rules! check_stamp {
    ($control:literal) => {
        concat!("mov rdx, rax\n", "sub rdx, qword ptr [", $control, " + 8]\n", "shr rdx, {stamp_bits}\n", "jnz 44f\n",)
    };
}

/// Writes the header's short form, of the stamp in rax, to the address in a register. Clobbers rax, rdx.
macro_rules! short_header {
    ($to:literal) => {
        concat!(
            ".if {large}\n",
            "mov edx, dword ptr [rdi + {id}]\n",
            "mov word ptr [",
            $to,
            "], dx\n",
            "mov dword ptr [",
            $to,
            " + 2], eax\n",
            ".else\n",
            "shl eax, 5\n",
            "or eax, dword ptr [rdi + {id}]\n",
            "mov dword ptr [",
            $to,
            "], eax\n",
            ".endif\n",
        )
    };
}

/// The same, with the thread's ID behind it; where records do not carry that, the payload goes over it. Without a clock, rax need not
/// be set. Clobbers rax, rdx.
macro_rules! short_header_and_tid {
    ($to:literal) => {
        concat!(
            "movsxd rdx, dword ptr [rdi + {tid}]\n",
            "mov edx, dword ptr fs:[rdx]\n",
            ".if {large}\n",
            "mov dword ptr [",
            $to,
            " + {header_len}], edx\n",
            ".if {stamped} == 0\n",
            "xor eax, eax\n",
            ".endif\n",
            short_header!($to),
            ".else\n",
            "shl rdx, 32\n",
            ".if {stamped}\n",
            "shl eax, 5\n",
            "or eax, dword ptr [rdi + {id}]\n",
            ".else\n",
            "mov eax, dword ptr [rdi + {id}]\n",
            ".endif\n",
            "or rax, rdx\n",
            "mov qword ptr [",
            $to,
            "], rax\n",
            ".endif\n",
        )
    };
}

/// Stores the commit word, and the stamp that is in xmm1 (RB-3: last), and ends the sequence. Clobbers r11, if that is the control
/// page.
macro_rules! commit {
    ($word:literal) => {
        concat!(commit!(@store $word, "r11"), "mov r11, qword ptr [rip + {state} + {rseq_offset}]\n", commit!(@disarm))
    };
    ($word:literal, $control:literal) => {
        concat!(commit!(@store $word, $control), commit!(@disarm))
    };
    (@store $word:literal, $control:literal) => {
        concat!(
            ".if {stamped}\n",
            "movq xmm0, ", $word, "\n",
            mutated_asm!(stamp_outside_commit [
                "movq qword ptr [rsp - 48], xmm1",
                concat!("movq xmm1, qword ptr [", $control, " + 8]")
            ] else []),
            "punpcklqdq xmm0, xmm1\n",
            "movaps xmmword ptr [", $control, "], xmm0\n",
            ".else\n",
            "mov qword ptr [", $control, "], ", $word, "\n",
            ".endif\n",
            "55:\n",
            mutated_asm!(stamp_outside_commit [
                "mov rax, qword ptr [rsp - 48]",
                concat!("mov qword ptr [", $control, " + 8], rax")
            ] else []),
        )
    };
    (@disarm) => {
        mutated_asm!(armed_after_commit [] else ["mov qword ptr fs:[r11 + 8], 0"]) // SYS-3
    };
}

/// Defines a function that appends a payload in words.
///
/// ```text
/// rdi  appender, kept         rax, rdx  scratch, stamp     r8   where the record goes     r10  what is per CPU; calibration
/// rsi  first word, kept       xmm2      second word        rcx  commit word               r11  distance of the rseq area
///                             xmm3      third word         r9   control page
/// ```
macro_rules! define_words {
    ($name:ident, $clock:ident $header:ident $placement:ident $words:literal) => {
        unsafe extern "C" {
            #[link_name = symbol!($name)]
            fn $name(appender: *const Appender, first: u64, second: u64, third: u64) -> u8;
        }

        function!($name, $clock $header $placement; [
            ".if {words} > 1",
            "movq xmm2, rdx",
            ".endif",
            ".if {words} > 2",
            "movq xmm3, rcx",
            ".endif",
            start!("r9"),
            // RB-5: (position - 1) % size + 1 + length < size.
            "mov rcx, qword ptr [r9]",
            "lea rdx, [rcx - 1]",
            "and rdx, qword ptr [r10 + {sub_buffer_mask}]",
            "add rdx, qword ptr [rdi + {reach}]",
            mutated_asm!(record_to_the_end ["dec rdx"] else []),
            "cmp rdx, qword ptr [r10 + {sub_buffer_mask}]",
            "ja 44f",
            "mov r8, qword ptr [r10 + {ring_mask}]",
            "and r8, rcx",
            "add r8, qword ptr [r10 + {ring}]",
            mutated_asm!(position_before_bytes ["add rcx, qword ptr [rdi + {advance}]", "mov qword ptr [r9], rcx"] else []),
            ".if {counter}",
            convert!("r10"),
            check_stamp!("r9"),
            "movq xmm1, rax",
            ".endif",
            short_header_and_tid!("r8"),
            "mov edx, dword ptr [rdi + {prefix}]",
            "mov qword ptr [r8 + rdx], rsi",
            ".if {words} > 1",
            "movq qword ptr [r8 + rdx + 8], xmm2",
            ".endif",
            ".if {words} > 2",
            "movq qword ptr [r8 + rdx + 16], xmm3",
            ".endif",
            mutated_asm!(position_before_bytes [] else ["add rcx, qword ptr [rdi + {advance}]"]),
            commit!("rcx", "r9"),
            "xor eax, eax",
            "ret",
            "45:",
            // The slow path takes pieces.
            "sub rsp, 40",
            ".cfi_adjust_cfa_offset 40",
            "mov qword ptr [rsp], rsi",
            ".if {words} > 1",
            "movq qword ptr [rsp + 8], xmm2",
            ".endif",
            ".if {words} > 2",
            "movq qword ptr [rsp + 16], xmm3",
            ".endif",
            "mov ecx, dword ptr [rdi + {behind}]",
            "sub ecx, dword ptr [rdi + {prefix}]",
            "mov qword ptr [rsp + 24], rsp",
            "mov qword ptr [rsp + 32], rcx",
            "lea rsi, [rsp + 24]",
            "mov edx, 1",
            "call qword ptr [rdi + {slow}]",
            "add rsp, 40",
            ".cfi_adjust_cfa_offset -40",
            "ret",
        ] [
            "mov r11, qword ptr [rip + {state} + {rseq_offset}]",
            mutated_asm!(armed_after_refusal [] else ["mov qword ptr fs:[r11 + 8], 0"]), // SYS-3
            "jmp 45b",
        ]
            words = const $words,
            reach = const offset_of!(Appender, reach),
            advance = const offset_of!(Appender, advance),
            header_len = const HeaderKind::$header.len(false),
            behind = const offset_of!(Appender, behind),
        );
    };
}

/// Defines a function that appends a payload in words, and a piece behind them.
///
/// ```text
/// rdi  appender, kept         rax, rdx  scratch, stamp     r8   where the record goes     r10  what is per CPU; calibration;
/// rsi  first word, kept       xmm2 second word             rcx  the piece, kept                scratch
///                             xmm3 third word              r9   its bytes, kept           r11  control page
/// ```
macro_rules! define_tail {
    ($name:ident, $clock:ident $header:ident $placement:ident $words:literal) => {
        unsafe extern "C" {
            #[link_name = symbol!($name)]
            fn $name(appender: *const Appender, first: u64, second: u64, third: u64, piece: *const u8, len: usize) -> u8;
        }

        function!($name, $clock $header $placement; [
            "movq xmm2, rdx",
            "movq xmm3, rcx",
            "mov rcx, r8",
            start!("r11"),
            // RB-5: (position - 1) % size + 1 + length < size.
            "mov r8, qword ptr [r11]",
            "lea rdx, [r8 - 1]",
            "and rdx, qword ptr [r10 + {sub_buffer_mask}]",
            "add rdx, qword ptr [rdi + {reach}]",
            "add rdx, r9",
            mutated_asm!(record_to_the_end ["dec rdx"] else []),
            "cmp rdx, qword ptr [r10 + {sub_buffer_mask}]",
            "ja 44f",
            "and r8, qword ptr [r10 + {ring_mask}]",
            "add r8, qword ptr [r10 + {ring}]",
            mutated_asm!(position_before_bytes [
                "mov rdx, qword ptr [r11]",
                "add rdx, qword ptr [rdi + {advance}]",
                "add rdx, r9",
                "mov qword ptr [r11], rdx"
            ] else []),
            ".if {counter}",
            convert!("r10"),
            check_stamp!("r11"),
            "movq xmm1, rax",
            ".endif",
            short_header_and_tid!("r8"),
            "mov edx, dword ptr [rdi + {prefix}]",
            "mov qword ptr [r8 + rdx], rsi",
            ".if {words} > 1",
            "movq qword ptr [r8 + rdx + 8], xmm2",
            ".endif",
            ".if {words} > 2",
            "movq qword ptr [r8 + rdx + 16], xmm3",
            ".endif",
            // The piece, straight from where it is, over what the words have too much: never a byte beyond either end (RB-4).
            "mov edx, dword ptr [rdi + {behind}]",
            "add r8, rdx",
            "cmp r9, 16",
            "ja 33f",
            "cmp r9d, 8",
            "jae 32f",
            "cmp r9d, 4",
            "jb 31f",
            "mov eax, dword ptr [rcx]", // 4..8: two words that overlap
            "mov edx, dword ptr [rcx + r9 - 4]",
            "mov dword ptr [r8], eax",
            "mov dword ptr [r8 + r9 - 4], edx",
            "jmp 38f",
            "31:",
            "test r9d, r9d",
            "jz 38f",
            "movzx eax, byte ptr [rcx]", // 1..4: a byte, and two behind it or over it
            "mov byte ptr [r8], al",
            "cmp r9d, 2",
            "jb 38f",
            "movzx eax, word ptr [rcx + r9 - 2]",
            "mov word ptr [r8 + r9 - 2], ax",
            "jmp 38f",
            "32:",
            "mov rax, qword ptr [rcx]", // 8..=16
            "mov rdx, qword ptr [rcx + r9 - 8]",
            "mov qword ptr [r8], rax",
            "mov qword ptr [r8 + r9 - 8], rdx",
            "jmp 38f",
            "33:",
            "movups xmm4, xmmword ptr [rcx + r9 - 16]", // 17 and more
            "lea rdx, [r8 + r9 - 16]",
            "mov r10, rcx",
            "34:",
            "movups xmm0, xmmword ptr [r10]",
            "movups xmmword ptr [r8], xmm0",
            "add r10, 16",
            "add r8, 16",
            "cmp r8, rdx",
            "jb 34b",
            "movups xmmword ptr [rdx], xmm4",
            "38:",
            "mov rdx, qword ptr [r11]",
            mutated_asm!(position_before_bytes [] else ["add rdx, qword ptr [rdi + {advance}]", "add rdx, r9"]),
            commit!("rdx"),
            "xor eax, eax",
            "ret",
            "45:",
            // The slow path takes pieces.
            "sub rsp, 56",
            ".cfi_adjust_cfa_offset 56",
            "mov qword ptr [rsp], rsi",
            "movq qword ptr [rsp + 8], xmm2",
            "movq qword ptr [rsp + 16], xmm3",
            "mov eax, dword ptr [rdi + {behind}]",
            "sub eax, dword ptr [rdi + {prefix}]",
            "mov qword ptr [rsp + 24], rsp",
            "mov qword ptr [rsp + 32], rax",
            "mov qword ptr [rsp + 40], rcx",
            "mov qword ptr [rsp + 48], r9",
            "lea rcx, [rax + r9]",
            "lea rsi, [rsp + 24]",
            "mov edx, 2",
            "call qword ptr [rdi + {slow}]",
            "add rsp, 56",
            ".cfi_adjust_cfa_offset -56",
            "ret",
        ] [
            "mov r11, qword ptr [rip + {state} + {rseq_offset}]",
            mutated_asm!(armed_after_refusal [] else ["mov qword ptr fs:[r11 + 8], 0"]), // SYS-3
            "jmp 45b",
        ]
            words = const $words,
            reach = const offset_of!(Appender, reach),
            advance = const offset_of!(Appender, advance),
            header_len = const HeaderKind::$header.len(false),
            behind = const offset_of!(Appender, behind),
        );
    };
}

/// Defines a function that appends a payload in pieces.
///
/// ```text
/// rdi  appender, kept            rax  scratch, stamp      [rsp -  8] first piece        [rsp - 40] appender
/// rsi  where to write            rdx  scratch, source     [rsp - 16] number of pieces   [rsp - 48] scratch
/// rcx  next piece                r10  what is per CPU     [rsp - 24] their bytes        [rsp - 56] stamp before it was raised
/// r8   calibration; bytes of     r11  control page        [rsp - 32] end of the pieces  [rsp - 64] stamp that is given
///      a piece                   xmm1 stamp
/// r9   bytes of the record       xmm0, xmm2 scratch
/// ```
macro_rules! define_pieces {
    ($name:ident($($stamp:ident)?) -> $returned:ty,
     $clock:ident $header:ident $placement:ident $extended:literal) => {
        unsafe extern "C" {
            #[link_name = symbol!($name)]
            fn $name(
                appender: *const Appender,
                pieces: *const Piece,
                count: usize,
                total: usize,
                $($stamp: u64)?
            ) -> $returned;
        }

        function!($name, $clock $header $placement; [
            ".if {extended} == 0",
            "mov r10, qword ptr [rdi + {table}]",
            "cmp dword ptr [rdi + {id}], {largest_short_id}",
            "ja 45f",
            // RB-4: the length.
            "cmp rcx, qword ptr [r10 + {limit}]",
            "ja 45f",
            ".endif",
            "mov qword ptr [rsp - 8], rsi",
            "mov qword ptr [rsp - 16], rdx",
            "mov qword ptr [rsp - 24], rcx",
            "mov qword ptr [rsp - 40], rdi",
            ".if {given}",
            "mov qword ptr [rsp - 64], r8",
            ".endif",
            "mov r9d, dword ptr [rdi + {prefix}]",
            "add r9, rcx",
            "mov rcx, rsi",
            "shl rdx, 4",
            "add rdx, rsi",
            "mov qword ptr [rsp - 32], rdx",
            start!("r11"),
            ".if {counter}",
            convert!("r8"),
            ".elseif {given}",
            "mov rax, qword ptr [rsp - 64]",
            ".else",
            "xor eax, eax",
            ".endif",
            ".if {extended}",
            "mov qword ptr [rsp - 56], rax",
            "cmp rax, qword ptr [r11 + 8]",
            "cmovl rax, qword ptr [r11 + 8]",
            ".elseif {stamped}",
            check_stamp!("r11"),
            ".endif",
            "movq xmm1, rax",
            // RB-5: (position - 1) % size + 1 + length < size.
            "mov rsi, qword ptr [r11]",
            "lea rdx, [rsi - 1]",
            "and rdx, qword ptr [r10 + {sub_buffer_mask}]",
            mutated_asm!(record_to_the_end ["lea rdx, [rdx + r9]"] else ["lea rdx, [rdx + r9 + 1]"]),
            "cmp rdx, qword ptr [r10 + {sub_buffer_mask}]",
            "ja 44f",
            "and rsi, qword ptr [r10 + {ring_mask}]",
            "add rsi, qword ptr [r10 + {ring}]",
            ".if {extended}",
            "mov edx, dword ptr [rdi + {id}]",
            ".if {large}",
            "mov word ptr [rsi], -1",
            "mov dword ptr [rsi + 2], edx",
            "mov qword ptr [rsi + 6], rax",
            ".else",
            "mov byte ptr [rsi], 0x1f",
            "mov dword ptr [rsi + 1], edx",
            "mov qword ptr [rsi + 5], rax",
            ".endif",
            ".else",
            short_header!("rsi"),
            ".endif",
            "add rsi, {header_len}",
            "movsxd rax, dword ptr [rdi + {tid}]",
            "test eax, eax",
            "jz 29f",
            "mov eax, dword ptr fs:[rax]",
            "mov dword ptr [rsi], eax",
            "add rsi, 4",
            "29:",
            mutated_asm!(position_before_bytes [
                "mov rdx, qword ptr [r11]",
                "add rdx, r9",
                "movabs rax, {one_record}",
                "add rdx, rax",
                "mov qword ptr [r11], rdx"
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
            "mov rcx, qword ptr [r11]",
            mutated_asm!(position_before_bytes [] else ["add rcx, r9", "movabs rax, {one_record}", "add rcx, rax"]),
            commit!("rcx"),
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
        ] [
            "mov rdi, qword ptr [rsp - 40]",
            "mov r11, qword ptr [rip + {state} + {rseq_offset}]",
            mutated_asm!(armed_after_refusal [] else ["mov qword ptr fs:[r11 + 8], 0"]), // SYS-3
            ".if {extended}",
            "xor eax, eax",
            "ret",
            ".else",
            "mov rsi, qword ptr [rsp - 8]",
            "mov rdx, qword ptr [rsp - 16]",
            "mov rcx, qword ptr [rsp - 24]",
            "jmp qword ptr [rdi + {slow}]",
            ".endif",
        ]
            largest_short_id = const HeaderKind::$header.largest_short_id(),
            limit = const offset_of!(PerCpu, limit),
            one_record = const CommitWord::ONE_RECORD,
            header_len = const HeaderKind::$header.len($extended),
            given = const matches!(ClockKind::$clock, ClockKind::Os) as u32,
            extended = const $extended as u32,
        );
    };
}

/// Defines the functions of all configurations, and what chooses among them.
macro_rules! define_all {
    ($($clock:ident($($stamp:ident)?) $header:ident $placement:ident $short:ident $extended:ident $([$one:ident $two:ident $three:ident] [$tail1:ident $tail2:ident $tail3:ident])?;)*) => {
        $(
            define_pieces!($short($($stamp)?) -> u8, $clock $header $placement false);
            define_pieces!($extended($($stamp)?) -> Extended, $clock $header $placement true);
            $(
                define_words!($one, $clock $header $placement 1);
                define_words!($two, $clock $header $placement 2);
                define_words!($three, $clock $header $placement 3);
                define_tail!($tail1, $clock $header $placement 1);
                define_tail!($tail2, $clock $header $placement 2);
                define_tail!($tail3, $clock $header $placement 3);
            )?
        )*

        /// The function that appends payloads of `bytes` bytes in words. `None`: they go in pieces.
        pub(in crate::ring_buffer) fn direct_words<C: Config>(bytes: usize) -> Option<AppendWords> {
            match (C::CLOCK, C::HEADER, C::PLACEMENT) {
                $($(
                    (ClockKind::$clock, HeaderKind::$header, placement!($placement)) => match bytes {
                        0..=8 => Some($one),
                        9..=16 => Some($two),
                        17..=24 => Some($three),
                        _ => None,
                    },
                )?)*
                _ => None,
            }
        }

        /// The function that appends payloads of `bytes` bytes in words and a piece behind them. `None`: they go in pieces.
        pub(in crate::ring_buffer) fn direct_tail<C: Config>(bytes: usize) -> Option<AppendTail> {
            match (C::CLOCK, C::HEADER, C::PLACEMENT) {
                $($(
                    (ClockKind::$clock, HeaderKind::$header, placement!($placement)) => match bytes {
                        0..=8 => Some($tail1),
                        9..=16 => Some($tail2),
                        17..=24 => Some($tail3),
                        _ => None,
                    },
                )?)*
                _ => None,
            }
        }

        /// Appends one record in the short form, or takes the slow path.
        ///
        /// # Safety
        ///
        /// RB-1: `appender` is of a channel that `C` created, and that stays until this returns. The pieces are readable and
        /// their lengths add up to `total` (RB-4). Its thread ID, where it has one, is that of this thread.
        #[inline(always)]
        pub(in crate::ring_buffer) unsafe fn append<C: Config>(
            appender: &Appender,
            pieces: &[Piece],
            total: usize,
            stamp: impl FnOnce() -> u64,
        ) -> u8 {
            let (start, count) = (pieces.as_ptr(), pieces.len());
            match (C::CLOCK, C::HEADER, C::PLACEMENT) {
                $((ClockKind::$clock, HeaderKind::$header, placement!($placement)) => {
                    // SAFETY: the caller's duty. Everything is written beyond the committed position and inside the record's
                    // extent (RB-3, RB-4), which only this CPU's sequences write (RB-2); masks are private (RB-8).
                    unsafe { $short(appender, start, count, total, $({ let $stamp = stamp(); $stamp })?) }
                })*
                // SAFETY: the caller's duty.
                (_, _, Placement::Global) => unsafe { (appender.slow)(appender, start, count, total) },
            }
        }

        /// Appends one record in the extended form, its stamp not below the one before. Returns the stamp as it was taken.
        /// `None`: it declined.
        ///
        /// # Safety
        ///
        /// As for [`append`]; `total` is at most the limit, and the appender's prefix is that of the extended form.
        #[inline]
        pub(in crate::ring_buffer) unsafe fn append_extended<C: Config>(
            appender: &Appender,
            pieces: &[Piece],
            total: usize,
            stamp: impl FnOnce() -> u64,
        ) -> Option<u64> {
            let (start, count) = (pieces.as_ptr(), pieces.len());
            let Extended { ok, unclamped } = match (C::CLOCK, C::HEADER, C::PLACEMENT) {
                $((ClockKind::$clock, HeaderKind::$header, placement!($placement)) => {
                    // SAFETY: as above.
                    unsafe { $extended(appender, start, count, total, $({ let $stamp = stamp(); $stamp })?) }
                })*
                (_, _, Placement::Global) => return None, // not reached: it has no buffers
            };
            (ok != 0).then_some(unclamped)
        }
    };
}

/// The function that appends payloads in pieces. `None`: it is not one function, as it needs a stamp.
pub(in crate::ring_buffer) fn direct_pieces<C: Config>() -> Option<AppendPieces> {
    match (C::CLOCK, C::HEADER, C::PLACEMENT) {
        (ClockKind::Raw, HeaderKind::Compact, placement!(Cpu)) => Some(append_raw_compact_cpu),
        (ClockKind::Raw, HeaderKind::Compact, placement!(Word)) => Some(append_raw_compact_word),
        (ClockKind::Raw, HeaderKind::Large, placement!(Cpu)) => Some(append_raw_large_cpu),
        (ClockKind::Raw, HeaderKind::Large, placement!(Word)) => Some(append_raw_large_word),
        (ClockKind::Ordered, HeaderKind::Compact, placement!(Cpu)) => Some(append_ordered_compact_cpu),
        (ClockKind::Ordered, HeaderKind::Compact, placement!(Word)) => Some(append_ordered_compact_word),
        (ClockKind::Ordered, HeaderKind::Large, placement!(Cpu)) => Some(append_ordered_large_cpu),
        (ClockKind::Ordered, HeaderKind::Large, placement!(Word)) => Some(append_ordered_large_word),
        (ClockKind::None, HeaderKind::Compact, placement!(Cpu)) => Some(append_none_compact_cpu),
        (ClockKind::None, HeaderKind::Compact, placement!(Word)) => Some(append_none_compact_word),
        (ClockKind::None, HeaderKind::Large, placement!(Cpu)) => Some(append_none_large_cpu),
        (ClockKind::None, HeaderKind::Large, placement!(Word)) => Some(append_none_large_word),
        (ClockKind::Os, _, _) | (_, _, Placement::Global) => None,
    }
}

define_all! {
    Raw() Compact Cpu append_raw_compact_cpu append_raw_compact_cpu_extended [append1_raw_compact_cpu append2_raw_compact_cpu append3_raw_compact_cpu]
        [tail1_raw_compact_cpu tail2_raw_compact_cpu tail3_raw_compact_cpu];
    Raw() Compact Word append_raw_compact_word append_raw_compact_word_extended [append1_raw_compact_word append2_raw_compact_word append3_raw_compact_word]
        [tail1_raw_compact_word tail2_raw_compact_word tail3_raw_compact_word];
    Raw() Large Cpu append_raw_large_cpu append_raw_large_cpu_extended [append1_raw_large_cpu append2_raw_large_cpu append3_raw_large_cpu]
        [tail1_raw_large_cpu tail2_raw_large_cpu tail3_raw_large_cpu];
    Raw() Large Word append_raw_large_word append_raw_large_word_extended [append1_raw_large_word append2_raw_large_word append3_raw_large_word]
        [tail1_raw_large_word tail2_raw_large_word tail3_raw_large_word];
    Ordered() Compact Cpu append_ordered_compact_cpu append_ordered_compact_cpu_extended [append1_ordered_compact_cpu append2_ordered_compact_cpu append3_ordered_compact_cpu]
        [tail1_ordered_compact_cpu tail2_ordered_compact_cpu tail3_ordered_compact_cpu];
    Ordered() Compact Word append_ordered_compact_word append_ordered_compact_word_extended [append1_ordered_compact_word append2_ordered_compact_word append3_ordered_compact_word]
        [tail1_ordered_compact_word tail2_ordered_compact_word tail3_ordered_compact_word];
    Ordered() Large Cpu append_ordered_large_cpu append_ordered_large_cpu_extended [append1_ordered_large_cpu append2_ordered_large_cpu append3_ordered_large_cpu]
        [tail1_ordered_large_cpu tail2_ordered_large_cpu tail3_ordered_large_cpu];
    Ordered() Large Word append_ordered_large_word append_ordered_large_word_extended [append1_ordered_large_word append2_ordered_large_word append3_ordered_large_word]
        [tail1_ordered_large_word tail2_ordered_large_word tail3_ordered_large_word];
    Os(stamp) Compact Cpu append_os_compact_cpu append_os_compact_cpu_extended;
    Os(stamp) Compact Word append_os_compact_word append_os_compact_word_extended;
    Os(stamp) Large Cpu append_os_large_cpu append_os_large_cpu_extended;
    Os(stamp) Large Word append_os_large_word append_os_large_word_extended;
    None() Compact Cpu append_none_compact_cpu append_none_compact_cpu_extended [append1_none_compact_cpu append2_none_compact_cpu append3_none_compact_cpu]
        [tail1_none_compact_cpu tail2_none_compact_cpu tail3_none_compact_cpu];
    None() Compact Word append_none_compact_word append_none_compact_word_extended [append1_none_compact_word append2_none_compact_word append3_none_compact_word]
        [tail1_none_compact_word tail2_none_compact_word tail3_none_compact_word];
    None() Large Cpu append_none_large_cpu append_none_large_cpu_extended [append1_none_large_cpu append2_none_large_cpu append3_none_large_cpu]
        [tail1_none_large_cpu tail2_none_large_cpu tail3_none_large_cpu];
    None() Large Word append_none_large_word append_none_large_word_extended [append1_none_large_word append2_none_large_word append3_none_large_word]
        [tail1_none_large_word tail2_none_large_word tail3_none_large_word];
}
