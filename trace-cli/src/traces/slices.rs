//! Events that begin and end something: which do, and what is open on each thread.
//!
//! Where events may be missing, an end that is found may be that of a later slice, whose begin is missing, as the end of this one
//! is. The exit of a traced function says how long the call was: that tells them apart. Other pairs are not believed across a
//! [hole](super::whole): the begin has lost its end, and the end its begin.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use trace_ctf::declared::{EventClass, StreamClass};
use trace_ctf::reader::{Event, Field};

use super::names::Thread;
use super::source::{Class, Classes};
use super::whole::{Holes, Whole};

/// Words by which a name tells that something begins, each with those that tell that it ends.
const WORDS: [(&str, &[&str]); 4] = [
    ("entry", &["exit"]),
    ("enter", &["exit", "leave"]),
    ("begin", &["end"]),
    ("start", &["end", "stop", "done", "finish", "exit"]),
];

/// The field that has a future's number.
const FUTURE: &str = "future";

/// The field by which an exit says how long its call was, and one that no other event with such a field has.
const DURATION: &str = "duration";
const OUTCOME: &str = "outcome";

/// How deep slices are followed.
const DEEPEST: usize = 4096;

/// What an event does to a slice, by the number of its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Begin(u32),
    End(u32),
    /// The same of a future, which is not of one thread: its events have its number.
    BeginFuture(u32),
    EndFuture(u32),
}

/// What an event means for a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Future {
    Begin(u64),
    End(u64),
    /// It is polled: what happens on this thread until the end of the slice happens in it.
    Poll(u64),
}

/// Which classes are pairs: `a:request_begin` and `a:request_end`, `syscall_entry_open` and `syscall_exit_open`.
#[derive(Debug, Default)]
pub(super) struct Slices {
    roles: HashMap<Class, Role>,
    /// What each pair is called: `a:request`, `syscall_open`.
    names: Vec<String>,
    /// Where exits say how long their calls were.
    durations: HashMap<Class, Field>,
}

/// What an event means on its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A slice begins.
    Begin,
    /// A slice ends.
    End,
    /// A slice ends whose begin is lost.
    Alone(Begin),
    /// Nothing begins or ends.
    Instant,
}

/// When a slice began whose begin is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) at: i64,
    /// Its end says so; otherwise it began before: this is when the last hole before the end is over.
    pub(super) is_known: bool,
}

/// How a slice ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With its own event.
    Own,
    /// With the slice around it: there is no event of its own.
    Around,
    /// At some time: its event is lost. This is when the hole begins.
    Lost(i64),
}

/// Slices that are open, by thread.
#[derive(Debug)]
pub(super) struct Open<T> {
    whole: Arc<Whole>,
    threads: HashMap<Thread, Vec<Slice<T>>>,
}

/// A slice that is open.
#[derive(Debug)]
struct Slice<T> {
    pair: u32,
    begin: i64,
    /// It surely had not ended then.
    sure: i64,
    /// What else is kept of it.
    kept: T,
}

impl<T> Slice<T> {
    /// How it ends without an event of its own, before `time`.
    fn end(&self, holes: &Holes, time: i64) -> End {
        holes.between(self.sure, time).map_or(End::Around, |hole| End::Lost(hole.begin.max(self.sure)))
    }
}

impl Slices {
    pub(super) fn new(classes: &Classes<'_>) -> Self {
        let mut by_name: HashMap<&str, Vec<Class>> = HashMap::new();
        classes.iter().for_each(|(_, class)| by_name.entry(&class.name).or_default().push(Class::of(class)));
        let is_exit = |class: &EventClass| is_of_future(class) && has(class, OUTCOME);
        let futures: HashSet<Class> = classes.iter().filter(|(_, c)| is_exit(c)).map(|(_, c)| Class::of(c)).collect();
        let durations = classes.iter().filter_map(|(stream, class)| Some((Class::of(class), own_duration(stream, class)?)));
        let mut slices = Self { durations: durations.collect(), ..Self::default() };
        let mut sorted: Vec<_> = by_name.keys().copied().collect();
        sorted.sort_unstable();
        for name in sorted {
            let ends = WORDS.iter().flat_map(|(begin, ends)| {
                ends.iter().filter_map(move |end| Some((replaced(name, begin, end)?, replaced(name, begin, "")?)))
            });
            let Some((end, own)) = ends.into_iter().find(|(end, _)| by_name.contains_key(end.as_str())) else { continue };
            // `start::exit` ends `start`, and does not begin `end::exit`.
            if by_name[name].iter().any(|class| slices.roles.contains_key(class)) {
                continue;
            }
            let pair = slices.names.len() as u32;
            slices.names.push(own);
            let ends = &by_name[end.as_str()];
            let of_future = ends.iter().all(|class| futures.contains(class));
            let (begin, end) =
                if of_future { (Role::BeginFuture(pair), Role::EndFuture(pair)) } else { (Role::Begin(pair), Role::End(pair)) };
            slices.roles.extend(by_name[name].iter().map(|class| (*class, begin)));
            slices.roles.extend(ends.iter().map(|class| (*class, end)));
        }
        slices
    }

    /// What an event means for the future whose number it has.
    pub(super) fn future(&self, event: &Event<'_>) -> Option<Future> {
        let role = self.roles.get(&Class::of(event.class()))?;
        let number = || event.field(FUTURE).and_then(|number| number.as_u64());
        match role {
            Role::BeginFuture(_) => number().map(Future::Begin),
            Role::EndFuture(_) => number().map(Future::End),
            Role::Begin(_) => number().map(Future::Poll),
            Role::End(_) => None,
        }
    }

    /// The number of the pair that a class belongs to.
    pub(super) fn pair(&self, class: &EventClass) -> Option<u32> {
        match self.roles.get(&Class::of(class))? {
            Role::Begin(pair) | Role::End(pair) | Role::BeginFuture(pair) | Role::EndFuture(pair) => Some(*pair),
        }
    }

    /// What a pair is called.
    pub(super) fn pair_name(&self, pair: u32) -> Option<&str> {
        self.names.get(pair as usize).map(String::as_str)
    }

    /// The name of the pair that a class belongs to.
    pub(super) fn name(&self, class: &EventClass) -> Option<&str> {
        self.pair_name(self.pair(class)?)
    }

    /// How long a call was, as its exit says.
    pub(super) fn duration(&self, event: &Event<'_>) -> Option<u64> {
        event.get(self.durations.get(&Class::of(event.class()))?)?.as_u64()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl<T> Open<T> {
    pub(super) fn new(whole: Arc<Whole>) -> Self {
        Self { whole, threads: HashMap::new() }
    }

    /// Takes an event into account; `closed` gets what was kept of the slices that end, the innermost first, and how.
    pub(super) fn step(
        &mut self,
        slices: &Slices,
        event: &Event<'_>,
        thread: Thread,
        keep: impl FnOnce() -> T,
        mut closed: impl FnMut(T, End),
    ) -> Phase {
        let Some(role) = slices.roles.get(&Class::of(event.class())) else { return Phase::Instant };
        let stack = self.threads.entry(thread).or_default();
        let holes = self.whole.of_trace(thread.trace);
        let time = event.timestamp().unwrap_or_default();
        match *role {
            Role::Begin(pair) => {
                // What has begun before a hole and begins anew behind it has ended in it, rather than that it calls itself.
                if let Some(place) = stack.iter().position(|open| open.pair == pair && holes.between(open.sure, time).is_some()) {
                    close_doubtful(stack, place, holes, time, &mut closed);
                }
                if stack.len() >= DEEPEST {
                    return Phase::Instant;
                }
                stack.push(Slice { pair, begin: time, sure: time, kept: keep() });
                Phase::Begin
            }
            Role::BeginFuture(_) | Role::EndFuture(_) => Phase::Instant,
            Role::End(pair) => {
                let duration = slices.duration(event);
                let latest = Holes::latest_begin(time, duration);
                let found = stack.iter().rposition(|open| open.pair == pair && open.begin <= latest);
                match found {
                    Some(place) if holes.are_pair(stack[place].begin, time, duration) => {
                        close(stack, place + 1, holes, time, &mut closed);
                        if let Some(own) = stack.pop() {
                            grow(stack, holes, own.begin, time);
                            closed(own.kept, End::Own);
                        }
                        Phase::End
                    }
                    None if duration.is_none() => Phase::Instant,
                    found => {
                        let is_known = duration.is_some();
                        let at = if is_known { began(time, duration) } else { holes.last_before(time).unwrap_or(time) };
                        // What began in it is over, and the one that was taken for it has ended before.
                        if let Some(place) = stack.iter().position(|open| is_known && open.begin > at) {
                            close(stack, place, holes, time, &mut closed);
                        }
                        if let Some(place) = found.filter(|place| *place < stack.len()) {
                            close_doubtful(stack, place, holes, time, &mut closed);
                        }
                        Phase::Alone(Begin { at, is_known })
                    }
                }
            }
        }
    }

    /// How many slices are open on a thread.
    pub(super) fn depth(&self, thread: &Thread) -> usize {
        self.threads.get(thread).map_or(0, Vec::len)
    }

    /// Gives the slices whose end is lost at the end of the trace, the innermost of each thread first.
    pub(super) fn finish(&mut self, mut lost: impl FnMut(&Thread, T, i64)) {
        for (thread, stack) in &mut self.threads {
            let holes = self.whole.of_trace(thread.trace);
            close_doubtful(stack, 0, holes, i64::MAX, &mut |kept, end| {
                if let End::Lost(at) = end {
                    lost(thread, kept, at);
                }
            });
        }
    }
}

/// Ends slices from one on, none of which has an event that says so.
fn close<T>(stack: &mut Vec<Slice<T>>, from: usize, holes: &Holes, time: i64, closed: &mut impl FnMut(T, End)) {
    while stack.len() > from {
        let Some(slice) = stack.pop() else { return };
        let end = slice.end(holes, time);
        grow(stack, holes, slice.begin, slice.sure);
        closed(slice.kept, end);
    }
}

/// Ends slices from one on whose end may be lost, up to the first that is surely open.
fn close_doubtful<T>(stack: &mut Vec<Slice<T>>, from: usize, holes: &Holes, time: i64, closed: &mut impl FnMut(T, End)) {
    for place in (1..stack.len()).rev() {
        let Slice { begin, sure, .. } = stack[place];
        grow(&mut stack[..place], holes, begin, sure);
    }
    let doubtful = stack[from..].iter().take_while(|open| holes.between(open.sure, time).is_some()).count();
    for slice in stack.drain(from..from + doubtful).rev() {
        let end = slice.end(holes, time);
        closed(slice.kept, end);
    }
}

/// The slice that others are in was open as long as they were, if it was open when they began.
fn grow<T>(stack: &mut [Slice<T>], holes: &Holes, begin: i64, end: i64) {
    if let Some(around) = stack.last_mut().filter(|around| holes.between(around.sure, begin).is_none()) {
        around.sure = around.sure.max(end);
    }
}

/// When a call of some duration began.
pub(super) fn began(end: i64, duration: Option<u64>) -> i64 {
    end.saturating_sub_unsigned(duration.unwrap_or_default())
}

/// Where events of a class say how long a call was, in nanoseconds: those by which traced functions and spans end.
pub(super) fn own_duration(stream: &StreamClass, class: &EventClass) -> Option<Field> {
    if !has(class, OUTCOME) {
        return None;
    }
    let field = Field::find(stream, class, DURATION)?;
    let member = field.member(stream, class)?;
    (member.unit.as_deref() == Some("ns") && field.scope() == trace_ctf::reader::Scope::Payload).then_some(field)
}

/// Whether events of a class have the number of a future.
pub(super) fn is_of_future(class: &EventClass) -> bool {
    has(class, FUTURE)
}

fn has(class: &EventClass, field: &str) -> bool {
    class.fields.as_ref().is_some_and(|fields| fields.structure.members.iter().any(|member| member.name() == field))
}

/// A name with another word in the place of one, or, where that is empty, without it and the character that sets it apart.
fn replaced(name: &str, word: &str, other: &str) -> Option<String> {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let is_word = |at: &usize| !is_part(at.checked_sub(1).and_then(|at| bytes.get(at))) && !is_part(bytes.get(at + word.len()));
    let at = name.rmatch_indices(word).map(|(at, _)| at).find(is_word)?;
    let (before, after) = (&name[..at], &name[at + word.len()..]);
    if !other.is_empty() {
        return Some(format!("{before}{other}{after}"));
    }
    let short = before.trim_end_matches(['_', ':', '.', '-']);
    Some(if short.is_empty() { after.trim_start_matches(['_', ':', '.', '-']).to_owned() } else { format!("{short}{after}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pairs() {
        let of = |name, word, other| replaced(name, word, other);
        assert_eq!(of("shop:request_begin", "begin", "end").as_deref(), Some("shop:request_end"));
        assert_eq!(of("shop:request_begin", "begin", "").as_deref(), Some("shop:request"));
        assert_eq!(of("syscall_entry_open", "entry", "").as_deref(), Some("syscall_open"));
        assert_eq!(of("app:parse::entry", "entry", "").as_deref(), Some("app:parse"));
        assert_eq!(of("start_up", "start", "").as_deref(), Some("up"));
        assert_eq!(of("app:beginner", "begin", "end"), None);
    }
}
