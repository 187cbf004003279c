//~ KEY: lifetime may not live long enough
use trace_registry::sys::{self, ThreadBlock};

/// A block outlives its thread.
fn kept() -> Option<&'static ThreadBlock> {
    sys::with_thread(|block| block)
}

fn main() {
    let _ = std::thread::spawn(kept).join();
}
