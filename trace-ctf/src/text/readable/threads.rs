//! Names of threads, as `ringtrace:thread_name` events tell them.

use std::collections::HashMap;

use crate::reader::{Event, Trace};

/// The event with which a tracer tells the name of a thread.
const THREAD_NAME: &str = "ringtrace:thread_name";

/// A trace and a thread ID in it.
type Thread = (Option<[u8; 16]>, i64);

/// Names by thread, each with the time since when it is known; IDs are used again, and threads are renamed.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads(HashMap<Thread, Vec<(i64, String)>>);

impl Threads {
    /// Learns from the streams of a trace that may tell names.
    pub(super) fn read(&mut self, trace: &Trace) {
        let declared = trace.declarations();
        let tells = |class: u64| declared.events().iter().any(|event| event.stream_id == class && event.name == THREAD_NAME);
        for stream in trace.streams().iter().filter(|stream| tells(stream.class_id())) {
            for (packet, _) in trace.packets(stream).map_while(Result::ok) {
                let mut events = packet.events();
                while let Some(Ok(event)) = events.next_event() {
                    self.learn(&event);
                }
            }
        }
    }

    pub(super) fn learn(&mut self, event: &Event<'_>) {
        if event.name() != THREAD_NAME {
            return;
        }
        let payload = event.payload();
        let (tid, name) =
            (payload.member("tid").and_then(|tid| tid.as_i64()), payload.member("name").and_then(|name| name.as_str()));
        let (Some(tid), Some(name)) = (tid, name) else { return };
        let since = event.timestamp().unwrap_or(i64::MIN);
        let names = self.0.entry((event.trace().uuid, tid)).or_default();
        let place = names.partition_point(|(time, _)| *time <= since);
        if place == 0 || names[place - 1].1 != name {
            names.insert(place, (since, name.to_owned()));
        }
    }

    /// The name of a thread when `event` was recorded, or the first one that is known.
    pub(super) fn name(&self, event: &Event<'_>, tid: i64) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        let names = self.0.get(&(event.trace().uuid, tid))?;
        let place = names.partition_point(|(time, _)| *time <= event.timestamp().unwrap_or(i64::MAX));
        names.get(place.saturating_sub(1)).map(|(_, name)| name.as_str())
    }
}
