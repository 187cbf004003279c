//! Loads and unloads shared libraries of its own while something hangs.
//!
//! `held output PLUGIN`: nobody reads stderr, where a session prints. `held probe PROVIDER`: a probe of the library waits for a line of
//! the input. `held rings PLUGIN DIRECTORY`: a session keeps its rings in a directory, whose disk is not waited for either.

use ringtrace::Session;
use std::ffi::{CString, c_char, c_int, c_void};
use std::fs;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

const RTLD_NOW: c_int = 2;

struct Library(*mut c_void);

impl Library {
    fn open(path: &str) -> Library {
        let path = CString::new(path).expect("a path");
        // SAFETY: the test built the file.
        let handle = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
        assert!(!handle.is_null(), "dlopen failed");
        Library(handle)
    }

    fn call(&self, id: u64) {
        // SAFETY: the library has this function.
        let call: extern "C" fn(u64) = unsafe { std::mem::transmute(dlsym(self.0, c"call".as_ptr())) };
        call(id);
    }

    fn close(self) {
        // SAFETY: nothing of it is used by this program any more.
        assert_eq!(unsafe { dlclose(self.0) }, 0);
    }
}

/// Whether a thread of this name, or of any, is in a system call, as proc_pid_syscall(5) has them.
fn is_in(name: Option<&str>, call: &str) -> bool {
    let of = |task: &fs::DirEntry, file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
    let is_it = |task: fs::DirEntry| {
        name.is_none_or(|name| of(&task, "comm").trim() == name) && of(&task, "syscall").starts_with(call)
    };
    fs::read_dir("/proc/self/task").expect("threads").flatten().any(is_it)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = &arguments[1];
    match arguments[0].as_str() {
        "output" => {
            let session = Session::builder("held").enable("plugin:called").print();
            let plugin = Library::open(path);
            let session = session.start().expect("a session");
            // ppoll(2) is system call 271; the consumer's thread waits there for room.
            while !is_in(Some("ringtrace"), "271 ") {
                plugin.call(1);
            }
            plugin.close();
            let plugin = Library::open(path);
            plugin.call(2);
            plugin.close();
            println!("returned");
            std::mem::forget(session);
        }
        "probe" => {
            let session = Session::builder("held").enable("provider:*").print().start().expect("a session");
            let provider = Library::open(path);
            let firing = std::thread::spawn(|| storage::evict(1));
            while !is_in(None, "0 0x0 ") {
                std::thread::yield_now();
            }
            provider.close();
            println!("returned");
            // Into the library's code, when the line has come.
            firing.join().expect("it returns");
            assert!(fs::read_to_string("/proc/self/maps").expect("the mappings").contains(path));
            drop(session);
        }
        _ => {
            let builder = Session::builder("held").enable("plugin:*").rings(&arguments[2]);
            let session = builder.output(format!("{}/trace", arguments[2])).start().expect("a session");
            let plugin = Library::open(path);
            // Recorded from the moment on when its class is described.
            while session.statistics().events == 0 {
                plugin.call(3);
            }
            plugin.close();
            session.stop().expect("it stops");
            println!("returned");
        }
    }
}
