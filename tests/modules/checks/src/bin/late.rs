//! Loads a shared library of its own with tracepoints, uses it, and unloads it, while rules are in force and other threads fire.
//!
//! `late LIBRARY ROUNDS DIRECTORY`

use ringtrace::Session;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

const RTLD_NOW: c_int = 2;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (library, rounds, directory) = (arguments.next(), arguments.next(), arguments.next());
    let library = CString::new(library.expect("a library")).expect("a path");
    let rounds: u64 = rounds.and_then(|r| r.parse().ok()).expect("a number");
    // Nothing that the rule matches is there yet.
    let session = Session::builder("late").enable("plugin:*; storage:*").output(directory.expect("a directory"));
    let session = session.start().expect("a session");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                storage::evict(1);
                storage::read(1);
            }
        });
        for round in 0..rounds {
            // SAFETY: the library has this function; nothing of it is used after dlclose.
            unsafe {
                let handle = dlopen(library.as_ptr(), RTLD_NOW);
                assert!(!handle.is_null(), "dlopen failed");
                let call = dlsym(handle, c"call".as_ptr());
                let call: extern "C" fn(u64) = std::mem::transmute(call);
                call(round);
                session.disable("plugin:called").expect("it is known");
                call(u64::MAX);
                session.enable("plugin:called").expect("it is known");
                dlclose(handle);
            }
            assert!(session.disable("plugin:called").is_err(), "it is known after dlclose");
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("events: {}", session.stop().expect("it stops").events);
}
