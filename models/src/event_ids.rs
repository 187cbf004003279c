//! JR-1: an event ID is described before the first list in which it stands is published.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use trace_registry::event_id::{EventIds, EventKey};
use trace_registry::tracepoint::Location;
use trace_registry::{EventClass, Level};

static CLASS: EventClass =
    EventClass { name: "Class", module_path: "models", location: Location { file: "event_ids.rs", line: 1 }, fields: &[] };

#[derive(Default)]
struct Shared {
    /// Under the control lock.
    ids: Mutex<EventIds>,
    /// The journal: how many IDs are described.
    described: AtomicU32,
    /// The gate of each tracepoint: the ID in its list, plus 1; 0: closed.
    gates: [AtomicU32; 2],
}

/// Two threads enable tracepoints, of which one shares its class, while a third fires both.
///
/// With the mutation, the list is published before the description.
pub fn described_before_published(published_first: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new(Shared::default());
        let enabling: Vec<_> = (0..2)
            .map(|tracepoint: usize| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let mut ids = shared.ids.lock().expect("the control lock");
                    let mut given = Vec::new();
                    for name in ["shared", ["first", "second"][tracepoint]] {
                        let key = EventKey { name: name.to_owned(), level: Level::Info, class: &CLASS };
                        let (id, is_new) = ids.assign(key);
                        // Release: the swap of the gate. Pairs with the Acquire load of the emitter.
                        let publish = || shared.gates[tracepoint].store(id + 1, Ordering::Release);
                        if published_first {
                            publish();
                        }
                        if is_new {
                            // Relaxed: published by the gate.
                            shared.described.store(id + 1, Ordering::Relaxed);
                        }
                        publish();
                        given.push(id);
                    }
                    given
                })
            })
            .collect();
        for gate in &shared.gates {
            let id = gate.load(Ordering::Acquire);
            assert!(id <= shared.described.load(Ordering::Relaxed), "an ID that is not described");
        }
        let given: Vec<Vec<u32>> = enabling.into_iter().map(|t| t.join().expect("a thread")).collect();
        assert_eq!(given[0][0], given[1][0], "one class, two IDs");
        assert_ne!(given[0][1], given[1][1], "one ID, two classes");
    });
}
