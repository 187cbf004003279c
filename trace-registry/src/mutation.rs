//! Mutations of the protocols, for tests that must notice them: `cargo xtask stress --mutate NAME`, those of recovery
//! `cargo xtask crash --mutate NAME`.
//!
//! A test that cannot fail proves nothing. Built with `--cfg ringtrace_mutate`, each step below can be broken at run time, one
//! at a time. Any other build contains nothing of this: the conditions are a constant `false`, the text of the assembly is that
//! of the protocol.
#![cfg_attr(ringtrace_mutate, expect(unsafe_code, reason = "the bytes that assembly names"))]

macro_rules! mutations {
    ($($name:ident: $what:literal;)*) => {
        /// Name, and what is wrong then.
        pub const MUTATIONS: &[(&str, &str)] = &[$((stringify!($name), $what)),*];

        // A byte each, by name for assembly and one behind the other for all else.
        #[cfg(ringtrace_mutate)]
        core::arch::global_asm!(
            ".pushsection .data.ringtrace_mutations, \"aw\", @progbits",
            ".globl ringtrace_mutations",
            ".hidden ringtrace_mutations",
            "ringtrace_mutations:",
            $(
                concat!(".globl ringtrace_mutation_", stringify!($name)),
                concat!(".hidden ringtrace_mutation_", stringify!($name)),
                concat!("ringtrace_mutation_", stringify!($name), ": .byte 0"),
            )*
            ".popsection",
        );
    };
}

mutations! {
    unrestarted: "sequences are not restarted";
    armed_after_commit: "rseq_cs is not cleared after a commit";
    armed_after_refusal: "rseq_cs is not cleared after a refusal or an abort";
    stamp_outside_commit: "the stamp is stored after the sequence, not with the position";
    position_before_bytes: "the position is published before the bytes";
    generation_not_compared: "the sequence does not compare the generation";
    index_read_before: "the index of the buffer is read before the sequence";
    number_given_twice: "by thread: a number is taken from a thread that has not ended";
    record_to_the_end: "a record may end where its sub-buffer ends";
    consumed_ignored: "discard mode: a sub-buffer is opened over one that is not consumed";
    descriptor_after_commit: "what close says of a sub-buffer is stored after its commit";
    copy_not_checked: "overwrite mode: the reader does not look whether its copy was written over";
    fallback_plain_reserve: "the fallback region is reserved by a load and a store";
    fallback_checksum_ignored: "the reader of the fallback region does not look at checksums";
    fallback_consumed_ignored: "the fallback region is written where it is not consumed";
    list_one_phase: "grace periods wait for one phase";
    list_not_loaded_again: "the probe list is that of the gate, not loaded again inside the read side";
    list_mixed_words: "additions by rseq and locked ones go to one word";
    list_no_grace_period: "what is retired is dropped at once";
    aggregate_count_first: "an aggregation counts an event before it stores its figures";
    recovery_last_class_ignored: "recovery does not read the journal's last class";
    recovery_tail_dropped: "recovery delivers closed sub-buffers only";
    recovery_written_again: "recovery delivers what was written and not given back a second time";
    recovery_partial_kept: "recovery goes on behind a partial packet";
}

/// Returns the place of a mutation in the list; at compile time, so that a wrong name does not compile.
#[doc(hidden)]
pub const fn index(name: &str) -> usize {
    let mut at = 0;
    loop {
        let (candidate, name) = (MUTATIONS[at].0.as_bytes(), name.as_bytes());
        let mut same = 0;
        while same < name.len() && same < candidate.len() && name[same] == candidate[same] {
            same += 1;
        }
        if same == name.len() && same == candidate.len() {
            return at;
        }
        at += 1;
    }
}

/// Whether the protocol is broken in this way now.
#[doc(hidden)]
#[macro_export]
macro_rules! is_mutated {
    ($name:ident) => {
        $crate::mutation::is_selected(const { $crate::mutation::index(stringify!($name)) })
    };
}

/// Text of assembly: the lines behind `else`, or, where the mutation is selected, those before. In builds with mutations it
/// changes the flags.
#[cfg(ringtrace_mutate)]
#[doc(hidden)]
#[macro_export]
macro_rules! mutated_asm {
    ($name:ident [$($mutated:expr),*] else [$($line:expr),*]) => {
        concat!(
            "cmp byte ptr [rip + ringtrace_mutation_", stringify!($name), "], 0\n",
            "je 20f\n",
            $($mutated, "\n",)*
            "jmp 21f\n",
            "20:\n",
            $($line, "\n",)*
            "21:\n",
        )
    };
}

/// Text of assembly: the lines behind `else`.
#[cfg(not(ringtrace_mutate))]
#[doc(hidden)]
#[macro_export]
macro_rules! mutated_asm {
    ($name:ident [$($mutated:expr),*] else [$($line:expr),*]) => {
        concat!($($line, "\n",)* "")
    };
}

#[cfg(ringtrace_mutate)]
mod selected {
    use super::MUTATIONS;
    use crate::sync::{AtomicBool, AtomicU32, Ordering};

    unsafe extern "C" {
        #[link_name = "ringtrace_mutations"]
        safe static SELECTED: [AtomicBool; MUTATIONS.len()];
    }

    /// Selects a mutation by name. Returns whether there is one.
    pub fn select(name: &str) -> bool {
        let place = MUTATIONS.iter().position(|(n, _)| *n == name);
        place.map(|place| SELECTED[place].store(true, Ordering::SeqCst)).is_some()
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn is_selected(place: usize) -> bool {
        SELECTED[place].load(Ordering::Relaxed)
    }

    /// Makes the window between two steps of a broken protocol wide enough to be met soon.
    #[doc(hidden)]
    pub fn widen(turns: u32) {
        (0..turns).for_each(|_| core::hint::spin_loop());
    }

    /// True once in `times`, roughly: for what is broken at times only.
    #[doc(hidden)]
    pub fn at_times(times: u32) -> bool {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(times)
    }
}

#[cfg(not(ringtrace_mutate))]
mod selected {
    /// A build without mutations: there is none to select.
    pub const fn select(_: &str) -> bool {
        false
    }

    #[doc(hidden)]
    #[inline(always)]
    pub const fn is_selected(_: usize) -> bool {
        false
    }

    #[doc(hidden)]
    #[inline(always)]
    pub const fn widen(_: u32) {}

    #[doc(hidden)]
    #[inline(always)]
    pub const fn at_times(_: u32) -> bool {
        false
    }
}

pub use selected::*;
