//! Probes that are left without a return: by what longjmp(3) does, and by a thread that is ended in the middle.
//!
//! Then reclaiming stops, since nobody can tell such a reader from one that is slow. Nothing else does: events are recorded, or
//! counted as lost, sessions stop and are delivered, and a thread that ends cleans up and ends.
#![expect(unsafe_code, reason = "leaves frames by setcontext(3), pthread_exit(3) and an exception")]

mod common;

use ringtrace::{Session, probe, tracepoint};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

unsafe extern "C-unwind" {
    fn pthread_exit(value: *mut libc::c_void) -> !;
    fn pthread_testcancel();
}

#[tracepoint]
fn ended(how: u64);

#[derive(ringtrace::Event)]
struct Ended {
    how: u64,
}

const BY_EXIT: u64 = 0;
const BY_CANCELLATION: u64 = 1;
const IN_A_CLOSURE: u64 = 2;

#[probe(ended)]
fn end_the_thread(how: u64) -> Ended {
    if how == BY_EXIT {
        // SAFETY: it unwinds through frames that allow it.
        unsafe { pthread_exit(std::ptr::without_provenance_mut(7)) };
    }
    if how == BY_CANCELLATION {
        // SAFETY: as above.
        unsafe {
            libc::pthread_cancel(libc::pthread_self());
            pthread_testcancel();
        }
    }
    Ended { how }
}

static CLEANED_UP: AtomicU64 = AtomicU64::new(0);

struct CleanUp(u64);

impl Drop for CleanUp {
    fn drop(&mut self) {
        numbered(self.0);
        CLEANED_UP.fetch_add(self.0, Relaxed);
    }
}

extern "C-unwind" fn fire_once(how: *mut libc::c_void) -> *mut libc::c_void {
    let _outer = CleanUp(1);
    fire_inside(how.addr() as u64);
    std::ptr::without_provenance_mut(9)
}

#[inline(never)]
fn fire_inside(how: u64) {
    let _inner = CleanUp(2);
    let mut kept = [how; 5];
    std::hint::black_box(&mut kept);
    ended(how);
    std::hint::black_box(&mut kept);
}

/// Fires in a thread that the C library started, and returns what it ended with.
fn fire_in_a_thread(how: u64) -> usize {
    type Start = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;
    let mut thread = MaybeUninit::uninit();
    let mut value = std::ptr::null_mut();
    // SAFETY: the start function takes and returns a pointer, and may be unwound, which its type here cannot say.
    unsafe {
        let start = std::mem::transmute::<extern "C-unwind" fn(*mut libc::c_void) -> *mut libc::c_void, Start>(fire_once);
        let how = std::ptr::without_provenance_mut(how as usize);
        assert_eq!(libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), start, how), 0);
        assert_eq!(libc::pthread_join(thread.assume_init(), &raw mut value), 0);
    }
    value.addr()
}

#[test]
fn a_thread_that_ends_in_a_probe_ends_and_nothing_else_does() {
    let name = "a_thread_that_ends_in_a_probe_ends_and_nothing_else_does";
    if !common::is_child(name) {
        let here = tempfile::tempdir().expect("a directory");
        let output = common::child(name).current_dir(here.path()).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let contents = common::read_by_both(&here.path().join("trace"));
        // From each of 31 threads two; and one of each whose probe returned.
        assert_eq!(contents.events(), 31 * 2 + 11);
        return;
    }
    let session = Session::builder("ended").enable("left_probes:*").memory(2 << 20).output("trace").start().expect("a session");
    for _ in 0..10 {
        assert_eq!(fire_in_a_thread(BY_EXIT), 7);
        assert_eq!(fire_in_a_thread(BY_CANCELLATION), usize::MAX); // PTHREAD_CANCELED
    }
    assert_eq!(fire_in_a_thread(100), 9);
    assert_eq!(session.statistics().lost.panicked, 20);
    let closure = ended::attach(|how| {
        if how == IN_A_CLOSURE {
            // SAFETY: as above.
            unsafe { pthread_exit(std::ptr::without_provenance_mut(8)) };
        }
    });
    for _ in 0..10 {
        assert_eq!(fire_in_a_thread(IN_A_CLOSURE), 8);
    }
    drop(closure);
    assert_eq!(CLEANED_UP.load(Relaxed), 31 * 3);
    let error = session.stop().expect_err("a probe seems to run");
    assert!(error.to_string().contains("has not returned"), "{error}");
}

/// Throws an `int`, as C++ does.
fn throw() {
    type Allocate = extern "C" fn(usize) -> *mut libc::c_int;
    type Throw = extern "C-unwind" fn(*mut libc::c_int, *const libc::c_void, *const libc::c_void) -> !;
    // SAFETY: the functions of the C++ ABI with their types; `_ZTIi` describes `int`, which needs no destructor.
    unsafe {
        let library = libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "libstdc++ is part of every distribution");
        let find = |name: &std::ffi::CStr| libc::dlsym(library, name.as_ptr());
        let allocate = std::mem::transmute::<*mut libc::c_void, Allocate>(find(c"__cxa_allocate_exception"));
        let throw = std::mem::transmute::<*mut libc::c_void, Throw>(find(c"__cxa_throw"));
        throw(allocate(size_of::<libc::c_int>()), find(c"_ZTIi"), std::ptr::null());
    }
}

#[tracepoint]
fn threw();

#[probe(threw)]
fn throw_in_a_probe() {
    throw();
}

#[test]
fn an_exception_of_another_language_is_named_before_the_program_is_aborted() {
    let name = "an_exception_of_another_language_is_named_before_the_program_is_aborted";
    if !common::is_child(name) {
        let here = tempfile::tempdir().expect("a directory");
        let output = common::child(name).current_dir(here.path()).output().expect("it starts");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("ringtrace: a probe was left by an exception of another language"), "{errors}");
        return;
    }
    let _session = Session::builder("threw").enable("left_probes:*").memory(2 << 20).output("trace").start().expect("a session");
    threw();
}
