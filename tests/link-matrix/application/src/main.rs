//! Prints what its registry has; with an argument, what that shared object's has, and its own again.

use probes as _;
use ringtrace::Tracepoint;
use std::ffi::{CString, c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

const RTLD_NOW: c_int = 2;

/// Fired in `main`.
#[ringtrace::tracepoint(record)]
fn started(arguments: u64);

fn main() {
    started(std::env::args().count() as u64);
    library::opened(1);
    library::generic(1_u8);
    library::generic(1_u64);
    gate();
    list("application");
    if let Some(path) = std::env::args().nth(1) {
        plugin(&path);
        list("application after dlclose");
    }
}

/// An open gate counts as on, unless the program is built with `--cfg ringtrace_off`.
fn gate() {
    let gate = library::opened::descriptor().gate;
    print!("gate closed: {}", library::opened::enabled());
    // SAFETY: never read: nothing fires while it is there.
    unsafe { gate.publish(std::ptr::dangling_mut()) };
    print!(", open: {}", library::opened::enabled());
    // SAFETY: null.
    unsafe { gate.publish(std::ptr::null_mut()) };
    println!(", closed: {}", library::opened::enabled());
}

fn list(whose: &str) {
    for tracepoint in ringtrace::__private::TRACEPOINTS {
        println!("{whose}: tracepoint {}", tracepoint.name);
    }
    for probe in ringtrace::__private::PROBES {
        println!("{whose}: probe {}", probe.name());
    }
}

fn plugin(path: &str) {
    let path = CString::new(path).expect("a path");
    // SAFETY: the plugin's `plugin_names` has this type; nothing of it is used after dlclose.
    unsafe {
        let handle = dlopen(path.as_ptr(), RTLD_NOW);
        assert!(!handle.is_null(), "dlopen failed");
        let names = dlsym(handle, c"plugin_names".as_ptr());
        assert!(!names.is_null(), "no plugin_names");
        let names: extern "C" fn(extern "C" fn(*const c_char, usize)) = std::mem::transmute(names);
        list("application after dlopen");
        names(each);
        dlclose(handle);
    }
}

extern "C" fn each(name: *const c_char, length: usize) {
    // SAFETY: the plugin passes a string that lives until this returns.
    let name = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), length) };
    println!("plugin: {}", String::from_utf8_lossy(name));
}
