//! Threads and processes: who recorded an event, and how they are called.

use std::collections::HashMap;

use trace_ctf::reader::{Event, Field, Trace};

use super::source::Class;

/// The event with which a tracer tells the name of a thread.
pub(super) const THREAD_NAME: &str = "ringtrace:thread_name";

/// A thread, or a CPU where the trace does not tell threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Thread {
    /// The trace it is of: its UUID.
    pub(super) trace: Option<[u8; 16]>,
    pub(super) tid: Option<i64>,
    /// The CPU, where `tid` is not known.
    pub(super) cpu: Option<u64>,
}

/// Where the classes of a trace tell threads and processes.
#[derive(Debug, Default)]
pub(super) struct Who {
    tids: HashMap<Class, Option<Field>>,
    last: Option<(Class, Option<Field>)>,
}

/// Names of threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(HashMap<(Option<[u8; 16]>, i64), String>);

impl Who {
    /// The thread that recorded an event.
    pub(super) fn thread(&mut self, event: &Event<'_>) -> Thread {
        let class = Class::of(event.class());
        if self.last.as_ref().is_none_or(|(known, _)| *known != class) {
            let field = self.tids.entry(class).or_insert_with(|| {
                let find = |name| Field::find(event.packet().stream_class(), event.class(), name);
                let is_context = |field: &Field| field.scope() != trace_ctf::reader::Scope::Payload;
                ["vtid", "tid"].into_iter().filter_map(find).find(is_context)
            });
            self.last = Some((class, field.clone()));
        }
        let field = self.last.as_ref().and_then(|(_, field)| field.as_ref());
        let tid = field.and_then(|field| event.get(field)).and_then(|tid| tid.as_i64());
        let cpu = if tid.is_none() { event.packet().info().cpu_id } else { None };
        Thread { trace: event.trace().uuid, tid, cpu }
    }
}

impl Names {
    /// Learns from an event, if it is one that tells a name: the last one counts.
    pub(super) fn learn(&mut self, event: &Event<'_>) {
        if event.name() != THREAD_NAME {
            return;
        }
        let tid = event.field("tid").and_then(|tid| tid.as_i64());
        let name = event.field("name").and_then(|name| Some(name.as_str()?.into_owned()));
        if let (Some(tid), Some(name)) = (tid, name) {
            self.0.insert((event.trace().uuid, tid), name);
        }
    }

    /// Learns from the streams of a trace that may tell names.
    pub(super) fn read(&mut self, trace: &Trace) {
        let declared = trace.declarations();
        let tells =
            |class: u64| declared.stream(class).is_some_and(|class| class.events().any(|event| event.name == THREAD_NAME));
        for stream in trace.streams().iter().filter(|stream| tells(stream.class_id())) {
            for (packet, _) in trace.packets(stream).map_while(Result::ok) {
                let mut events = packet.events();
                while let Some(Ok(event)) = events.next_event() {
                    self.learn(&event);
                }
            }
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn of(&self, thread: &Thread) -> Option<&str> {
        self.0.get(&(thread.trace, thread.tid?)).map(String::as_str)
    }

    /// What a thread is called: its name and ID, or the CPU.
    pub(super) fn show(&self, thread: &Thread) -> String {
        match (thread.tid, self.of(thread), thread.cpu) {
            (Some(tid), Some(name), _) => format!("{} {tid}", name.escape_debug()),
            (Some(tid), None, _) => tid.to_string(),
            (None, _, Some(cpu)) => format!("cpu {cpu}"),
            _ => "?".to_owned(),
        }
    }
}
