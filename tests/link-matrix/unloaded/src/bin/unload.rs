//! Loads a shared object, has it append, unloads it, and gives the CPU away: 1 000 times.
//!
//! A thread whose rseq area still named a sequence of the object would be killed when it is preempted.

use std::ffi::{CString, c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

const RTLD_NOW: c_int = 2;

fn main() {
    let path = std::env::args().nth(1).expect("the shared object");
    let name = CString::new(path.clone()).expect("a path");
    let is_loaded = || std::fs::read_to_string("/proc/self/maps").expect("the mappings").contains(&path);
    let mut recorded = 0;
    for round in 0..1000 {
        // SAFETY: the function has this type; nothing of the object is used after dlclose.
        unsafe {
            let handle = dlopen(name.as_ptr(), RTLD_NOW);
            assert!(!handle.is_null(), "dlopen failed");
            let append = dlsym(handle, c"append_until_refused".as_ptr());
            let append: extern "C" fn() -> u32 = std::mem::transmute(append);
            recorded += append();
            assert!(round > 0 || is_loaded());
            dlclose(handle);
        }
        assert!(round % 100 > 0 || !is_loaded(), "it was not unloaded");
        std::thread::sleep(std::time::Duration::from_nanos(1)); // another thread, or none: the kernel looks at the area
    }
    println!("recorded: {}", recorded > 0);
}
