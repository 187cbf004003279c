//! Threads and processes: who recorded an event, and how they are called.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use trace_ctf::reader::{Event, Field, Trace};

use super::source::Class;

/// The event with which a tracer tells the name of a thread.
pub(super) const THREAD_NAME: &str = "ringtrace:thread_name";

/// A thread, or a CPU where the trace does not tell threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Thread {
    /// The trace it is of: its UUID.
    pub(super) trace: Option<[u8; 16]>,
    /// Its process, where the context of events tells it.
    pub(super) pid: Option<i64>,
    pub(super) tid: Option<i64>,
    /// The CPU, where `tid` is not known.
    pub(super) cpu: Option<u64>,
}

/// Where the contexts of a class tell who recorded its events.
#[derive(Clone, Debug, Default)]
struct Fields {
    pid: Option<Field>,
    tid: Option<Field>,
    name: Option<Field>,
}

/// Where the classes of a trace tell threads and processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Who {
    classes: HashMap<Class, Fields>,
    last: Option<(Class, Fields)>,
}

/// Names of threads and processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    threads: HashMap<(Option<[u8; 16]>, i64), Name>,
    /// By process ID.
    processes: HashMap<(Option<[u8; 16]>, i64), Name>,
    who: Who,
    /// Grows where a name changes.
    version: u64,
    /// The thread that recorded the last event.
    last: Option<Thread>,
}

/// A name; of several, the greatest counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    /// By an event of its own, and not by context.
    is_told: bool,
    since: Option<i64>,
    text: String,
}

impl Who {
    /// The thread that recorded an event.
    pub(super) fn thread(&mut self, event: &Event<'_>) -> Thread {
        let class = Class::of(event.class());
        if self.last.as_ref().is_none_or(|(known, _)| *known != class) {
            let fields = self.classes.entry(class).or_insert_with(|| {
                let find = |name: &&str| Field::find(event.packet().stream_class(), event.class(), name);
                let is_context = |field: &Field| field.scope() != trace_ctf::reader::Scope::Payload;
                let first = |names: &[&str]| names.iter().filter_map(find).find(is_context);
                Fields { pid: first(&["vpid", "pid"]), tid: first(&["vtid", "tid"]), name: first(&["thread_name", "procname"]) }
            });
            self.last = Some((class, fields.clone()));
        }
        let fields = self.last.as_ref().map(|(_, fields)| fields);
        let number = |field: Option<&Field>| event.get(field?)?.as_i64();
        let [pid, tid] =
            [fields.and_then(|fields| fields.pid.as_ref()), fields.and_then(|fields| fields.tid.as_ref())].map(number);
        let cpu = if tid.is_none() { event.packet().info().cpu_id } else { None };
        Thread { trace: event.trace().uuid, pid, tid, cpu }
    }

    /// The name of the thread that recorded an event, which was asked about last.
    fn name(&self, event: &Event<'_>) -> Option<String> {
        let (_, fields) = self.last.as_ref()?;
        Some(event.get(fields.name.as_ref()?)?.as_str()?.into_owned())
    }
}

impl Names {
    /// The thread that recorded an event; learns what the event tells of names.
    pub(super) fn thread(&mut self, event: &Event<'_>) -> Thread {
        let thread = self.who.thread(event);
        let since = event.timestamp();
        if event.name() == THREAD_NAME {
            let tid = event.field("tid").and_then(|tid| tid.as_i64());
            let text = event.field("name").and_then(|name| Some(name.as_str()?.into_owned()));
            if let Some((tid, text)) = tid.zip(text) {
                self.version += u64::from(put(&mut self.threads, (thread.trace, tid), Name { is_told: true, since, text }));
            }
        }
        if self.last != Some(thread) {
            self.last = Some(thread);
            if let Some((tid, text)) = thread.tid.zip(self.who.name(event)) {
                // A process is called as its first thread is.
                if let Some(pid) = thread.pid.filter(|pid| *pid == tid) {
                    let name = Name { is_told: false, since, text: text.clone() };
                    self.version += u64::from(put(&mut self.processes, (thread.trace, pid), name));
                }
                self.version += u64::from(put(&mut self.threads, (thread.trace, tid), Name { is_told: false, since, text }));
            }
        }
        thread
    }

    /// Learns from an event what it tells of names.
    pub(super) fn learn(&mut self, event: &Event<'_>) {
        self.thread(event);
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
        for (key, name) in other.threads {
            put(&mut self.threads, key, name);
        }
        for (key, name) in other.processes {
            put(&mut self.processes, key, name);
        }
    }

    pub(super) fn of(&self, thread: &Thread) -> Option<&str> {
        self.threads.get(&(thread.trace, thread.tid?)).map(|name| name.text.as_str())
    }

    /// Another number than before where names have changed.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// What the process of a thread is called.
    pub(super) fn process(&self, thread: &Thread) -> Option<&str> {
        self.processes.get(&(thread.trace, thread.pid?)).map(|name| name.text.as_str())
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

/// Whether the name is another now.
fn put<K: Eq + Hash>(names: &mut HashMap<K, Name>, key: K, name: Name) -> bool {
    match names.entry(key) {
        Entry::Occupied(mut known) if *known.get() < name => known.insert(name.clone()).text != name.text,
        Entry::Occupied(_) => false,
        Entry::Vacant(place) => {
            place.insert(name);
            true
        }
    }
}
