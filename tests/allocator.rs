//! Tracing from inside the global allocator, of every allocation that the program makes.

mod common;

use ringtrace::{Session, tracepoint};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory was allocated.
#[tracepoint(record, reentrant)]
fn allocated(address: *mut u8, size: usize);

/// Memory was freed.
#[tracepoint(record, reentrant)]
fn freed(address: *mut u8);

struct Traced;

/// Allocations of the threads below; those of the tracer's own threads are not traced.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: hands every call to the system's allocator; a tracepoint allocates nothing.
#[expect(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Traced {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty.
        let memory = unsafe { System.alloc(layout) };
        if COUNTS.get() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        allocated(memory, layout.size());
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        freed(memory);
        // SAFETY: the caller's duty.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Traced = Traced;

/// A filter and limits, which must not allocate either.
const RULES: &str = "allocator:*; allocated if size > 0 && size * 2 < 1 << 60; freed 1 in 1 by address";

#[test]
fn every_allocation_is_recorded_or_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = Session::builder("heap").enable(RULES).memory(64 << 20).output(&path).start().expect("a session");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                COUNTS.set(true);
                let mut kept = Vec::new();
                for size in 1..5_000 {
                    kept.push(vec![0_u8; size % 700 + 1]);
                }
                drop(kept);
                COUNTS.set(false);
            });
        }
    });
    let made = ALLOCATIONS.load(Ordering::Relaxed);
    let statistics = session.stop().expect("it stops");
    assert!(made >= 15_000, "{made}");
    let contents = common::read_by_both(&path);
    assert_eq!(contents.events(), statistics.events);
    assert!(contents.counts["allocator:allocated"] + statistics.lost.total() >= made, "{statistics}");
    assert!(contents.counts["allocator:freed"] > 14_000 || statistics.lost.total() > 0, "{statistics}");
}
