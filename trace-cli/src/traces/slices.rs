//! Events that begin and end something: which do, and what is open on each thread.

use std::collections::{HashMap, HashSet};

use trace_ctf::declared::EventClass;
use trace_ctf::reader::Event;

use super::names::Thread;
use super::source::{Class, Classes};

/// Words by which a name tells that something begins, each with those that tell that it ends.
const WORDS: [(&str, &[&str]); 4] = [
    ("entry", &["exit"]),
    ("enter", &["exit", "leave"]),
    ("begin", &["end"]),
    ("start", &["end", "stop", "done", "finish", "exit"]),
];

/// The field that has a future's number.
const FUTURE: &str = "future";

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
}

/// What an event means on its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A slice begins.
    Begin,
    /// So many slices end: that of the event, and those in it whose end is missing.
    End(usize),
    /// Nothing begins or ends.
    Instant,
}

/// Slices that are open, by thread, each with the number of its pair and what else is kept of it.
#[derive(Debug)]
pub(super) struct Open<T>(HashMap<Thread, Vec<(u32, T)>>);

impl<T> Default for Open<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl Slices {
    pub(super) fn new(classes: &Classes<'_>) -> Self {
        let mut by_name: HashMap<&str, Vec<Class>> = HashMap::new();
        classes.iter().for_each(|(_, class)| by_name.entry(&class.name).or_default().push(Class::of(class)));
        let is_exit = |class: &EventClass| is_of_future(class) && has(class, "outcome");
        let futures: HashSet<Class> = classes.iter().filter(|(_, c)| is_exit(c)).map(|(_, c)| Class::of(c)).collect();
        let mut slices = Self::default();
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

    /// The name of the pair that a class belongs to.
    pub(super) fn name(&self, class: &EventClass) -> Option<&str> {
        match self.roles.get(&Class::of(class))? {
            Role::Begin(pair) | Role::End(pair) | Role::BeginFuture(pair) | Role::EndFuture(pair) => {
                self.names.get(*pair as usize).map(String::as_str)
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl<T> Open<T> {
    /// Takes an event into account; `closed` gets what was kept of the slices that end, the innermost first.
    pub(super) fn step(
        &mut self,
        slices: &Slices,
        class: &EventClass,
        thread: Thread,
        keep: impl FnOnce() -> T,
        mut closed: impl FnMut(T),
    ) -> Phase {
        let Some(role) = slices.roles.get(&Class::of(class)) else { return Phase::Instant };
        let stack = self.0.entry(thread).or_default();
        match *role {
            Role::Begin(pair) if stack.len() < DEEPEST => {
                stack.push((pair, keep()));
                Phase::Begin
            }
            Role::Begin(_) | Role::BeginFuture(_) | Role::EndFuture(_) => Phase::Instant,
            Role::End(pair) => match stack.iter().rposition(|(open, _)| *open == pair) {
                Some(place) => {
                    let count = stack.len() - place;
                    stack.drain(place..).rev().for_each(|(_, kept)| closed(kept));
                    Phase::End(count)
                }
                None => Phase::Instant,
            },
        }
    }
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
