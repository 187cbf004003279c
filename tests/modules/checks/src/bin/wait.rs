//! Unloads a module while one of its probes waits for a line of the input.
//!
//! `wait MODULE`

use ringtrace::{Module, Session};
use std::fs;
use std::time::Duration;

fn main() {
    let path = std::env::args().nth(1).expect("a module");
    let directory = std::env::temp_dir().join(format!("ringtrace-wait-{}", std::process::id()));
    let session = Session::builder("wait").enable("stuck:*").output(&directory).start().expect("a session");
    // SAFETY: the test built the file.
    let load = || unsafe { Module::load(&path).expect("it fits") };
    let module = load();
    let firing = std::thread::spawn(|| storage::evict(1));
    // read(2) is system call 0.
    let waits = |task: fs::DirEntry| fs::read_to_string(task.path().join("syscall")).is_ok_and(|text| text.starts_with("0 0x0 "));
    while !fs::read_dir("/proc/self/task").expect("threads").flatten().any(waits) {
        std::thread::yield_now();
    }
    let error = module.unload(Duration::from_millis(20)).expect_err("a probe waits");
    println!("{error}");
    assert!(error.is_module() && !storage::page_evicted::enabled() && Module::loaded().is_empty());
    let is_mapped = || fs::read_to_string("/proc/self/maps").expect("the mappings").contains(&path);
    assert!(is_mapped());
    println!("now");
    firing.join().expect("it returns");
    while is_mapped() {
        std::thread::yield_now(); // until the tracer's thread has unloaded it
    }
    // A panic detaches a probe of a module, until that is loaded again.
    let module = load();
    session.enable("stuck:panics").and_then(|()| session.enable("!stuck:waits")).expect("they are there");
    storage::evict(7);
    while storage::page_evicted::enabled() && !session.warnings().iter().any(|w| w.contains("stuck:panics")) {
        std::thread::yield_now();
    }
    module.unload(Duration::from_secs(60)).expect("it is unloaded");
    println!("{}", session.warnings().join("; "));
    drop(session);
    let _ = fs::remove_dir_all(directory);
}
