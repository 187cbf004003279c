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
    println!("{}", session.warnings().join("; "));
    // Its state dumps run while it is loaded. A panic stays in the module, and an event in the trace.
    session.enable("stuck:state; stuck:broken").expect("they are there");
    assert!(session.warnings().iter().any(|w| w == "the state dump stuck:broken panicked"), "{:?}", session.warnings());
    assert_eq!(session.statistics().events, 1);
    // One that runs keeps the module.
    let file = std::env::var_os("STUCK_WHILE").expect("a path");
    std::thread::scope(|scope| {
        scope.spawn(|| session.enable("stuck:dump_waits").expect("it is there"));
        while !fs::exists(&file).expect("a directory") {
            std::thread::yield_now();
        }
        let error = module.unload(Duration::from_millis(20)).expect_err("a dump waits").to_string();
        assert!(error.contains("a probe or state dump of it (stuck:dump_waits) has not returned") && is_mapped(), "{error}");
        fs::remove_file(&file).expect("it is there");
    });
    while is_mapped() {
        std::thread::yield_now();
    }
    session.enable("stuck:state").expect_err("it is gone");
    session.stop().expect("it stops");
    let metadata = fs::read(directory.join("metadata")).expect("a trace");
    assert!(String::from_utf8_lossy(&metadata).contains("stuck:Held"));
    drop(session);
    let _ = fs::remove_dir_all(directory);
}
