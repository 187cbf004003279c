//! Tries to load modules, and says what became of each.

use ringtrace::{Module, Session};
use std::time::Duration;

fn main() {
    let directory = std::env::temp_dir().join(format!("ringtrace-try-{}", std::process::id()));
    let session = Session::builder("try").enable("*").output(&directory).start().expect("a session");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut loaded = Vec::new();
    for path in &arguments {
        // SAFETY: the test built the file.
        match unsafe { Module::load(path) } {
            Ok(module) => {
                println!("loaded {} {}: {}", module.name(), module.version(), module.probes().join(", "));
                loaded.push(module);
            }
            Err(error) => {
                assert!(error.is_module() || error.is_io());
                println!("refused: {error}");
            }
        }
    }
    println!("attached: {} {}", storage::page_evicted::enabled(), storage::row_read::enabled());
    (0..10).for_each(storage::evict);
    storage::read(7);
    for module in loaded.iter().rev() {
        module.unload(Duration::from_secs(60)).expect("it is unloaded");
        let error = module.unload(Duration::from_secs(60)).expect_err("it is unloaded");
        assert!(error.to_string().contains("unloaded already"), "{error}");
    }
    println!("after: {} {}", storage::page_evicted::enabled(), storage::row_read::enabled());
    println!("events: {}", session.stop().expect("it stops").events);
    drop(session);
    let _ = std::fs::remove_dir_all(directory);
}
