//! The names of the program's threads: for `ringtrace:thread_name` events, and for records and filters.
//!
//! On the event path a name is what the kernel said when this thread asked, in its first event that wants to know. The consumer's
//! thread looks whether names change, and if so, has the threads that it may concern ask again: those whose IDs share the last
//! bits with the ID of the one that changed.

use crate::storage::OwnFile;
use crate::{process, sys};
use rustix::fs::{CWD, Mode, OFlags, RawDir};
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};
use trace_registry::sync::{AtomicBool, AtomicU32, Ordering};
use trace_registry::sys::ThreadBlock;

/// A name as records have it: up to 16 bytes, filled up with zeroes; the kernel's have 15, pthread_setname_np(3).
pub(crate) type Name = [u32; 4];

const GROUPS: usize = 64;

/// By the last bits of a thread ID: another number when one of these threads may have another name. Odd, so that no thread that
/// never asked has it.
static STATES: [AtomicU32; GROUPS] = [const { AtomicU32::new(1) }; GROUPS];

/// Whether anything asks for names on the event path.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

fn state(tid: u32) -> &'static AtomicU32 {
    &STATES[tid as usize % GROUPS]
}

/// Says that names are asked for on the event path, from now on.
pub(crate) fn want_names() {
    // Relaxed: names are looked at a moment later.
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// Returns the name of this thread.
///
/// # Signal safety
///
/// Async-signal-safe and wait-free. A system call in a thread's first event, and in its next one after its name, or that of a
/// thread of the same group, was seen to have changed.
#[inline]
pub(crate) fn name() -> Name {
    let name = trace_registry::sys::with_thread(|thread| {
        // Relaxed: whoever reads an old number has an old name a moment longer; the rest are this thread's own words.
        let state = state(process::thread_id()).load(Ordering::Relaxed);
        if thread.named.load(Ordering::Relaxed) != state {
            ask(thread, state);
        }
        thread.name.each_ref().map(|word| word.load(Ordering::Relaxed))
    });
    name.unwrap_or_default()
}

/// A handler that interrupts this asks for itself; what is older than that is corrected as every change is.
#[cold]
fn ask(thread: &ThreadBlock, state: u32) {
    for (word, now) in thread.name.iter().zip(sys::thread_name()) {
        word.store(now, Ordering::Relaxed);
    }
    thread.named.store(state, Ordering::Relaxed);
}

/// The bytes of a name as text.
pub(crate) fn bytes(name: &[u8; 16]) -> &[u8] {
    name.split(|b| *b == 0).next().unwrap_or_default()
}

/// The same name in bytes.
pub(crate) fn in_bytes(name: Name) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(name.iter().flat_map(|word| word.to_ne_bytes())).for_each(|(to, from)| *to = from);
    bytes
}

/// The beginning of `name`.
pub(crate) fn fitting(name: &str) -> Name {
    let end = (0..=name.len().min(size_of::<Name>())).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    let byte = |at: usize| name.as_bytes()[..end].get(at).copied().unwrap_or(0);
    std::array::from_fn(|word| u32::from_ne_bytes(std::array::from_fn(|at| byte(word * 4 + at))))
}

/// Looks for changes of names while events ask for them; for the consumer's thread, often.
#[derive(Debug, Default)]
pub(crate) struct Lookout(ThreadNames);

impl Lookout {
    pub(crate) fn look(&mut self) {
        if IS_WANTED.load(Ordering::Relaxed) {
            for (tid, _) in self.0.news(false) {
                // Relaxed: the kernel has the name already.
                state(tid).fetch_add(2, Ordering::Relaxed);
            }
        }
    }
}

/// Threads are looked for so often; those that are known are looked at again every [`RENAMED`], and new ones the next
/// [`LOOKS`] times: most threads are named when they have just begun.
const SOUGHT: Duration = Duration::from_millis(100);
const RENAMED: Duration = Duration::from_secs(1);
const LOOKS: u8 = 3;

/// What is known of the threads.
#[derive(Debug, Default)]
pub(crate) struct ThreadNames {
    known: HashMap<u32, Known>,
    sought: Option<Instant>,
    renamed: Option<Instant>,
}

#[derive(Debug, Default)]
struct Known {
    name: String,
    looks: u8,
    /// Whether it was there since the dead were last forgotten.
    is_alive: bool,
}

impl ThreadNames {
    /// Returns the names that are new since the last call; none if that was a moment ago, unless `now`.
    pub(crate) fn news(&mut self, now: bool) -> Vec<(u32, String)> {
        let is_due = |last: Option<Instant>, every| last.is_none_or(|l| l.elapsed() >= every);
        if !now && !is_due(self.sought, SOUGHT) {
            return Vec::new();
        }
        self.sought = Some(Instant::now());
        let all = now || is_due(self.renamed, RENAMED);
        if all {
            self.renamed = self.sought;
        }
        let mut news = Vec::new();
        for tid in thread_ids().unwrap_or_default() {
            let known = self.known.entry(tid).or_default();
            known.is_alive = true;
            if !all && known.looks >= LOOKS {
                continue;
            }
            let Ok(name) = sys::read_kernel_file(&format!("/proc/self/task/{tid}/comm")) else { continue };
            known.looks = known.looks.saturating_add(1);
            let name = name.trim_end_matches('\n');
            if known.name != name {
                name.clone_into(&mut known.name);
                news.push((tid, name.to_owned()));
            }
        }
        if all {
            self.known.retain(|_, known| std::mem::take(&mut known.is_alive));
        }
        news
    }
}

/// Numbers of the threads of the process, proc_pid_task(5). Where /proc is missing, there are none, and threads have no names.
fn thread_ids() -> io::Result<Vec<u32>> {
    // Not `read_dir`, which panics where the program closed its descriptor.
    let tasks = OwnFile::open(CWD, "/proc/self/task", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let mut room = Vec::with_capacity(4096);
    let mut entries = RawDir::new(&*tasks, room.spare_capacity_mut());
    let mut ids = Vec::new();
    while let Some(entry) = entries.next() {
        // Two of them are `.` and `..`.
        ids.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_is_news_once_and_forgotten_when_it_has_ended() {
        let (alive, begun) = channel();
        let (end, ending) = channel::<()>();
        let body = move || {
            let _ = alive.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
            let _ = ending.recv();
        };
        let thread = std::thread::Builder::new().name("a-mayfly".to_owned()).spawn(body).expect("a thread");
        let tid = begun.recv().expect("its number");
        let mut names = ThreadNames::default();
        assert!(names.news(true).contains(&(tid, "a-mayfly".to_owned())));
        assert!(names.known.contains_key(&tid));
        assert!(!names.news(true).iter().any(|(t, _)| *t == tid));
        drop(end);
        thread.join().expect("it ends");
        // The kernel removes it from /proc a moment after it woke the joiner.
        while std::path::Path::new(&format!("/proc/self/task/{tid}")).exists() {
            std::thread::yield_now();
        }
        // In the first pass it may still count as seen since the last one.
        names.news(true);
        assert!(!names.known.contains_key(&tid));
    }
}
