//! What safe code may use before anything has looked for the thread's area of restartable sequences: a process of its own.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(unsafe_code, reason = "reads a word of the C library's")]

use trace_registry::per_cpu::PerCpu;
use trace_registry::sys;

/// The second word of the thread's control block, which belongs to the C library: where it keeps thread-local storage of what is
/// loaded later. At offset 0 from the thread pointer it would be taken for the word that arms a sequence.
fn of_the_c_library() -> usize {
    let word: usize;
    // SAFETY: each thread has this word.
    unsafe { std::arch::asm!("mov {}, qword ptr fs:[8]", out(reg) word, options(nostack, readonly, preserves_flags)) };
    word
}

#[test]
fn counters_leave_the_thread_alone() {
    assert_eq!(sys::rseq_offset(), 0, "something looked already");
    let before = of_the_c_library();
    let counters = PerCpu::new(4);
    counters.count::<0>();
    assert!(counters.is_turn::<1>(1));
    let after = of_the_c_library();
    assert_eq!(after, before);
    assert_eq!(counters.sum::<0>(), 1);
}
