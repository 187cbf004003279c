//! Events that begin and end something: which do, and what is open on each thread.
//!
//! Where events may be missing, an end that is found may be that of a later slice, whose begin is missing, as the end of this one
//! is. The exit of a traced function says how long the call was: that tells them apart. Other pairs are not believed across a
//! [hole](super::whole): the begin has lost its end, and the end its begin.
//!
//! A span has a number, which tells its exit whatever is missing. It may be held across an `.await`: then it outlives what it
//! began in, on whatever threads. So it is open on the thread on which it began, as a call is, until what is around it ends
//! there. From then on it is *apart*, of no thread, until its own exit.

use std::cmp::Reverse;
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

/// The field that has the number of the future inside of which one began; 0: of none.
const PARENT: &str = "parent_future";

/// The field by which an exit says how long its call was, and one that no other event with such a field has.
const DURATION: &str = "duration";
const OUTCOME: &str = "outcome";

/// The field that has the number of a `span!`.
const SPAN: &str = "span";

/// Spans that are remembered apart from the threads; where there are more, the older half is forgotten.
const APART: usize = 1 << 16;

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
    /// The same of a span, which has a number too, and begins on a thread.
    BeginSpan(u32),
    EndSpan(u32),
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
    /// The pairs that are calls and polls: each has its exit, unless that is lost.
    calls: HashSet<u32>,
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
    /// A span ends that is not open on this thread, or not the innermost there.
    Apart,
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
    /// On its thread, at some time: it is a span, of which the end is told by [`End::Apart`], before or after.
    Left(i64),
    /// With its own event, which is not of its thread any more.
    Apart,
}

/// Slices that are open, by thread.
#[derive(Debug)]
pub(super) struct Open<T> {
    whole: Arc<Whole>,
    threads: HashMap<Thread, Vec<Slice<T>>>,
    spans: Spans<T>,
}

/// A span: its trace, the number of its pair, its own number.
type Numbered = (Option<[u8; 16]>, u32, u64);

/// Where spans are that have not ended.
#[derive(Debug)]
struct Spans<T> {
    /// Those that are open on a thread.
    threads: HashMap<Numbered, Thread>,
    /// Those whose thread has left what they began in: the poll of a future, say.
    apart: HashMap<Numbered, Slice<T>>,
}

/// A slice that is open.
#[derive(Debug)]
struct Slice<T> {
    pair: u32,
    /// Of a span.
    number: Option<u64>,
    begin: i64,
    /// It surely had not ended then.
    sure: i64,
    /// When the span ended, on another thread or in a call that has not ended: it stands for what is around that call.
    over: Option<i64>,
    /// What else is kept of it.
    kept: T,
}

impl<T> Slice<T> {
    /// How it ends without an event of its own, before `time`.
    fn end(&self, holes: &Holes, time: i64) -> End {
        holes.between(self.sure, time).map_or(End::Around, |hole| End::Lost(hole.begin.max(self.sure)))
    }

    /// Whether it is that span, and open.
    fn is(&self, (_, pair, number): &Numbered) -> bool {
        self.pair == *pair && self.number == Some(*number) && self.over.is_none()
    }
}

impl Slices {
    pub(super) fn new(classes: &Classes<'_>) -> Self {
        let mut by_name: HashMap<&str, Vec<Class>> = HashMap::new();
        classes.iter().for_each(|(_, class)| by_name.entry(&class.name).or_default().push(Class::of(class)));
        let is_exit = |class: &EventClass| is_of_future(class) && has(class, OUTCOME);
        let futures: HashSet<Class> = classes.iter().filter(|(_, c)| is_exit(c)).map(|(_, c)| Class::of(c)).collect();
        let polls: HashSet<Class> = classes.iter().filter(|(_, c)| is_of_future(c)).map(|(_, c)| Class::of(c)).collect();
        let spans: HashSet<Class> = classes.iter().filter(|(_, c)| is_of_span(c)).map(|(_, c)| Class::of(c)).collect();
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
            if ends.iter().all(|class| slices.durations.contains_key(class) || polls.contains(class)) {
                slices.calls.insert(pair);
            }
            let have = |of: &HashSet<Class>, classes: &[Class]| classes.iter().all(|class| of.contains(class));
            let (begin, end) = if have(&futures, ends) {
                (Role::BeginFuture(pair), Role::EndFuture(pair))
            } else if have(&spans, ends) && have(&spans, &by_name[name]) {
                (Role::BeginSpan(pair), Role::EndSpan(pair))
            } else {
                (Role::Begin(pair), Role::End(pair))
            };
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
            Role::End(_) | Role::BeginSpan(_) | Role::EndSpan(_) => None,
        }
    }

    /// The number of the future inside of which one began.
    pub(super) fn parent_future(event: &Event<'_>) -> Option<u64> {
        event.field(PARENT)?.as_u64().filter(|number| *number != 0)
    }

    /// The number of the pair that a class belongs to.
    pub(super) fn pair(&self, class: &EventClass) -> Option<u32> {
        let (Role::Begin(pair)
        | Role::End(pair)
        | Role::BeginFuture(pair)
        | Role::EndFuture(pair)
        | Role::BeginSpan(pair)
        | Role::EndSpan(pair)) = self.roles.get(&Class::of(class))?;
        Some(*pair)
    }

    /// What all pairs are called.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.names.iter().map(String::as_str)
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

impl<T: Copy> Open<T> {
    pub(super) fn new(whole: Arc<Whole>) -> Self {
        Self { whole, threads: HashMap::new(), spans: Spans { threads: HashMap::new(), apart: HashMap::new() } }
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
        let time = event.timestamp().unwrap_or_default();
        let span = match *role {
            Role::BeginSpan(pair) | Role::EndSpan(pair) => {
                let number = event.field(SPAN).and_then(|number| number.as_u64());
                number.map(|number| (thread.trace, pair, number))
            }
            _ => None,
        };
        let is_end = matches!(role, Role::EndSpan(_));
        if let Some(kept) = span.filter(|_| is_end).and_then(|span| self.end_apart(&span, &thread, time)) {
            closed(kept, End::Apart);
            return Phase::Apart;
        }
        let Self { whole, threads, spans } = self;
        let stack = threads.entry(thread).or_default();
        let holes = whole.of_trace(thread.trace);
        settle(stack, holes, |kept, at| closed(kept, End::Left(at)));
        let mut leave = |slice: Slice<T>, end: End| closed(slice.kept, spans.leave(thread.trace, slice, end, time));
        let phase = match *role {
            Role::Begin(pair) | Role::BeginSpan(pair) => {
                // What has begun before a hole and begins anew behind it has ended in it, rather than that it calls itself.
                let doubtful = stack.iter().position(|open| open.pair == pair && holes.between(open.sure, time).is_some());
                // Other tasks have spans of that name: this one says nothing of the calls inside of the first, which may
                // still end.
                let is_over = |place: &usize| span.is_none() || stack[*place..].iter().all(|open| open.number.is_some());
                if let Some(place) = doubtful.filter(is_over) {
                    close_doubtful(stack, place, holes, time, &mut leave);
                }
                if stack.len() >= DEEPEST {
                    Phase::Instant
                } else {
                    let number = span.map(|(.., number)| number);
                    stack.push(Slice { pair, number, begin: time, sure: time, over: None, kept: keep() });
                    spans.threads.extend(span.map(|span| (span, thread)));
                    Phase::Begin
                }
            }
            Role::BeginFuture(_) | Role::EndFuture(_) => Phase::Instant,
            Role::End(pair) => {
                let duration = slices.duration(event);
                let latest = Holes::latest_begin(time, duration);
                let found = stack.iter().rposition(|open| open.pair == pair && open.begin <= latest);
                match found {
                    Some(place) if holes.are_pair(stack[place].begin, time, duration) => {
                        let own = end(stack, place, holes, time, &mut leave);
                        own.into_iter().for_each(|own| closed(own.kept, End::Own));
                        Phase::End
                    }
                    None if duration.is_none() => Phase::Instant,
                    found => {
                        let is_known = duration.is_some();
                        let at = if is_known { began(time, duration) } else { holes.last_before(time).unwrap_or(time) };
                        // What began in it is over, and the one that was taken for it has ended before.
                        if let Some(place) = stack.iter().position(|open| is_known && open.begin > at) {
                            close(stack, place, holes, time, &mut leave);
                        }
                        if let Some(place) = found.filter(|place| *place < stack.len()) {
                            close_doubtful(stack, place, holes, time, &mut leave);
                        }
                        Phase::Alone(Begin { at, is_known })
                    }
                }
            }
            // The number alone tells them to be a pair, whatever is missing between them.
            Role::EndSpan(_) => match span.and_then(|span| stack.iter().rposition(|open| open.is(&span))) {
                // It was given to a call that is not over.
                Some(place)
                    if stack[place + 1..].iter().any(|open| open.number.is_none() && slices.calls.contains(&open.pair)) =>
                {
                    stack[place].over = Some(time);
                    closed(stack[place].kept, End::Apart);
                    span.map(|span| spans.threads.remove(&span));
                    Phase::Apart
                }
                Some(place) => {
                    let own = end(stack, place, holes, time, &mut leave);
                    own.into_iter().for_each(|own| closed(own.kept, End::Own));
                    span.map(|span| spans.threads.remove(&span));
                    Phase::End
                }
                None => match slices.duration(event) {
                    Some(duration) => Phase::Alone(Begin { at: began(time, Some(duration)), is_known: true }),
                    None => Phase::Instant,
                },
            },
        };
        // What was in it has ended now.
        if let Some(over) = stack.last_mut().and_then(|last| last.over.as_mut()) {
            *over = time;
        }
        phase
    }

    /// Ends a span that is not open on the thread of its exit. Returns what was kept of it.
    fn end_apart(&mut self, span: &Numbered, thread: &Thread, time: i64) -> Option<T> {
        if let Some(slice) = self.spans.apart.remove(span) {
            return Some(slice.kept);
        }
        let other = *self.spans.threads.get(span).filter(|other| *other != thread)?;
        self.spans.threads.remove(span);
        let slice = self.threads.get_mut(&other)?.iter_mut().rev().find(|open| open.is(span))?;
        slice.over = Some(time);
        Some(slice.kept)
    }

    /// How many slices are open on a thread.
    pub(super) fn depth(&self, thread: &Thread) -> usize {
        self.threads.get(thread).map_or(0, Vec::len)
    }

    /// Gives the slices that end on their thread before the trace does, without an event, the innermost of each thread first.
    pub(super) fn finish(&mut self, mut closed: impl FnMut(&Thread, T, End)) {
        for (thread, stack) in &mut self.threads {
            let holes = self.whole.of_trace(thread.trace);
            settle(stack, holes, |kept, at| closed(thread, kept, End::Left(at)));
            close_doubtful(stack, 0, holes, i64::MAX, &mut |slice, end| match (end, slice.over) {
                (End::Lost(at), Some(_)) => closed(thread, slice.kept, End::Left(at)),
                (End::Lost(_), None) => closed(thread, slice.kept, end),
                _ => {}
            });
        }
    }

    /// Gives the spans that are of no thread and whose end may be lost, the last begun first, with when the hole begins.
    pub(super) fn finish_apart(&mut self) -> Vec<(T, i64)> {
        let mut all: Vec<_> = self.spans.apart.drain().collect();
        all.sort_unstable_by_key(|(span, slice)| Reverse((slice.begin, *span)));
        let lost = all.into_iter().filter_map(|((trace, ..), slice)| match slice.end(self.whole.of_trace(trace), i64::MAX) {
            End::Lost(at) => Some((slice.kept, at)),
            _ => None,
        });
        lost.collect()
    }
}

impl<T> Spans<T> {
    /// Takes a slice from its thread that has no event there that ends it. A span is put apart, unless it is over. Returns how
    /// it ends.
    fn leave(&mut self, trace: Option<[u8; 16]>, mut slice: Slice<T>, end: End, time: i64) -> End {
        let Some(number) = slice.number else { return end };
        slice.sure = if let End::Lost(at) = end { at } else { time };
        let at = slice.sure;
        if slice.over.is_none() {
            let span = (trace, slice.pair, number);
            self.threads.remove(&span);
            if self.apart.len() >= APART {
                self.forget();
            }
            self.apart.insert(span, slice);
        }
        End::Left(at)
    }

    /// Forgets the older half of those that are of no thread: their exits may be lost.
    fn forget(&mut self) {
        let mut times: Vec<i64> = self.apart.values().map(|slice| slice.begin).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        self.apart.retain(|_, slice| slice.begin > median);
    }
}

/// Takes spans from a thread that have ended, and have nothing in them there any more.
fn settle<T>(stack: &mut Vec<Slice<T>>, holes: &Holes, mut left: impl FnMut(T, i64)) {
    let mut inner = i64::MIN;
    while let Some(over) = stack.last().and_then(|last| last.over) {
        inner = inner.max(over);
        let Some(slice) = stack.pop() else { return };
        grow(stack, holes, slice.begin, slice.sure);
        left(slice.kept, inner);
    }
}

/// Ends a slice by its own event, and before that those in it, which have none.
fn end<T>(
    stack: &mut Vec<Slice<T>>,
    place: usize,
    holes: &Holes,
    time: i64,
    closed: &mut impl FnMut(Slice<T>, End),
) -> Option<Slice<T>> {
    close(stack, place + 1, holes, time, closed);
    let own = stack.pop()?;
    grow(stack, holes, own.begin, time);
    Some(own)
}

/// Ends slices from one on, none of which has an event that says so.
fn close<T>(stack: &mut Vec<Slice<T>>, from: usize, holes: &Holes, time: i64, closed: &mut impl FnMut(Slice<T>, End)) {
    while stack.len() > from {
        let Some(slice) = stack.pop() else { return };
        let end = slice.end(holes, time);
        grow(stack, holes, slice.begin, slice.sure);
        closed(slice, end);
    }
}

/// Ends slices from one on whose end may be lost, up to the first that is surely open.
fn close_doubtful<T>(stack: &mut Vec<Slice<T>>, from: usize, holes: &Holes, time: i64, closed: &mut impl FnMut(Slice<T>, End)) {
    for place in (1..stack.len()).rev() {
        let Slice { begin, sure, .. } = stack[place];
        grow(&mut stack[..place], holes, begin, sure);
    }
    let doubtful = stack[from..].iter().take_while(|open| holes.between(open.sure, time).is_some()).count();
    for slice in stack.drain(from..from + doubtful).rev() {
        let end = slice.end(holes, time);
        closed(slice, end);
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

/// Whether events of a class have the number of a span.
pub(super) fn is_of_span(class: &EventClass) -> bool {
    has(class, SPAN) && (has(class, OUTCOME) || class.name.ends_with("::entry"))
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
