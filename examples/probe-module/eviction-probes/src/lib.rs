//! A probe module: what to record of evictions was decided when the application was running.

use storage::{Page, Reason};

#[cfg(not(feature = "second"))]
ringtrace::probe_module! { "eviction-probes", "1.0.0" }

#[cfg(feature = "second")]
ringtrace::probe_module! { "eviction-probes", "2.0.0" }

/// Which pages go.
#[cfg(not(feature = "second"))]
#[derive(ringtrace::Event)]
struct Evicted {
    id: u64,
}

#[cfg(not(feature = "second"))]
#[ringtrace::probe(storage::page_evicted)]
fn record_evicted(page: &Page, _reason: Reason) -> Evicted {
    Evicted { id: page.id }
}

/// Which dirty pages go, and how large they are.
#[cfg(feature = "second")]
#[derive(ringtrace::Event)]
struct Evicted {
    id: u64,
    #[field(unit = "B")]
    bytes: u32,
    capacity: bool,
}

#[cfg(feature = "second")]
#[ringtrace::probe(storage::page_evicted, name = "storage:dirty_page_evicted", level = Notice)]
fn record_evicted(page: &Page, reason: Reason) -> Option<Evicted> {
    let capacity = matches!(reason, Reason::Capacity);
    page.dirty.then_some(Evicted { id: page.id, bytes: page.bytes, capacity })
}
