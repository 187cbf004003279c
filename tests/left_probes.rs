//! Probes that are left without a return: by what longjmp(3) does, and by a thread that is ended in the middle.
//!
//! Then reclaiming stops, since nobody can tell such a reader from one that is slow. Nothing else does: events are recorded, or
//! counted as lost, and sessions stop and are delivered.
#![expect(unsafe_code, reason = "leaves frames by setcontext(3)")]

mod common;

use ringtrace::{Session, probe, tracepoint};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt as _;

#[tracepoint(record)]
fn numbered(number: u64);

#[tracepoint]
fn leaving(how: u64);

/// Where the thread goes on.
struct Back(UnsafeCell<MaybeUninit<libc::ucontext_t>>);

// SAFETY: one thread uses it.
unsafe impl Sync for Back {}

static BACK: Back = Back(UnsafeCell::new(MaybeUninit::uninit()));

#[probe(leaving)]
fn leave(_how: u64) {
    // SAFETY: `leave_a_probe` filled it, and its frame is there. The frames that are left have no destructors.
    unsafe { libc::setcontext(BACK.0.get().cast()) };
}

extern "C" fn inside() {
    leaving(1);
}

/// Fires `leaving` on a stack of its own, and goes on here when its probe jumps.
fn leave_a_probe() {
    let mut stack = vec![0_u8; 256 << 10];
    let mut other = MaybeUninit::<libc::ucontext_t>::uninit();
    // SAFETY: the contexts and the stack live until the thread is back.
    unsafe {
        assert_eq!(libc::getcontext(other.as_mut_ptr()), 0);
        (*other.as_mut_ptr()).uc_stack.ss_sp = stack.as_mut_ptr().cast();
        (*other.as_mut_ptr()).uc_stack.ss_size = stack.len();
        // Where the probe is not run any more: too many were left.
        (*other.as_mut_ptr()).uc_link = BACK.0.get().cast();
        libc::makecontext(other.as_mut_ptr(), inside, 0);
        assert_eq!(libc::swapcontext(BACK.0.get().cast(), other.as_ptr()), 0);
    }
    drop(stack);
}

#[test]
fn a_jump_out_of_a_probe_stops_nothing_but_reclaiming() {
    let name = "a_jump_out_of_a_probe_stops_nothing_but_reclaiming";
    if !common::is_child(name) {
        let here = tempfile::tempdir().expect("a directory");
        let output = common::child(name).current_dir(here.path()).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let contents = common::read_by_both(&here.path().join("trace"));
        assert_eq!(contents.events() + contents.discarded, 1_300);
        assert!(contents.events() >= 500, "{}", contents.events());
        return;
    }
    let session = Session::builder("left").enable("left_probes:*").memory(2 << 20).output("trace").start().expect("a session");
    let fire = || (0..100).for_each(numbered);
    fire();
    for _ in 0..8 {
        leave_a_probe();
        fire(); // the thread counts as inside of one more tracepoint each time, until that is too many
    }
    // Other threads are not concerned, and rules can be changed.
    std::thread::spawn(move || (0..200).for_each(numbered)).join().expect("it ends");
    session.disable("left_probes:numbered").expect("a rule");
    session.enable("left_probes:numbered").expect("a rule");
    std::thread::spawn(move || (0..200).for_each(numbered)).join().expect("it ends");
    // From another thread: this one seems to be in a probe for ever.
    std::thread::spawn(move || {
        let error = session.stop().expect_err("a probe seems to run");
        assert!(error.to_string().contains("has not returned"), "{error}");
    })
    .join()
    .expect("it ends");
}

#[tracepoint]
fn ended();

#[probe(ended)]
fn end_the_thread() {
    unsafe extern "C-unwind" {
        fn pthread_exit(value: *mut libc::c_void) -> !;
    }
    // SAFETY: as the test wants it: it unwinds as far as it comes.
    unsafe { pthread_exit(std::ptr::null_mut()) }
}

#[test]
fn a_probe_that_ends_its_thread_is_named_before_the_program_is_aborted() {
    let name = "a_probe_that_ends_its_thread_is_named_before_the_program_is_aborted";
    if !common::is_child(name) {
        let here = tempfile::tempdir().expect("a directory");
        let output = common::child(name).current_dir(here.path()).output().expect("it starts");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("ringtrace: a probe was left by what is no panic (pthread_exit"), "{errors}");
        return;
    }
    let _session = Session::builder("ended").enable("left_probes:*").memory(2 << 20).output("trace").start().expect("a session");
    ended();
}
