//! Loads a shared object, has a function of it append, unloads it, and gives the CPU away: 1 000 times.
//!
//! ```text
//! unload OBJECT FUNCTION
//! ```
//!
//! A thread whose rseq area still names a sequence of the object is killed when it is preempted.

use std::ffi::{CString, c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

const RTLD_NOW: c_int = 2;

fn main() {
    let [path, function] = [1, 2].map(|n| std::env::args().nth(n).expect("the shared object, and a function"));
    let [path_c, function] = [&path, &function].map(|text| CString::new(text.as_str()).expect("no zero"));
    let is_loaded = || std::fs::read_to_string("/proc/self/maps").expect("the mappings").contains(&path);
    let mut rounds = 0;
    for round in 0..1000 {
        // SAFETY: the function has this type; nothing of the object is used after dlclose.
        unsafe {
            let handle = dlopen(path_c.as_ptr(), RTLD_NOW);
            assert!(!handle.is_null(), "dlopen failed");
            let append = dlsym(handle, function.as_ptr());
            assert!(!append.is_null(), "no such function");
            let append: extern "C" fn() -> bool = std::mem::transmute(append);
            rounds += u32::from(append());
            assert!(round > 0 || is_loaded());
            dlclose(handle);
        }
        assert!(round % 100 > 0 || !is_loaded(), "it was not unloaded");
        std::thread::sleep(std::time::Duration::from_nanos(1)); // another thread, or none: the kernel looks at the area
    }
    println!("rounds: {rounds}");
}
