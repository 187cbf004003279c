//! The names of the program's threads, for `ringtrace:thread_name` events.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

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
        // proc_pid_task(5). Where /proc is missing, threads have no names.
        for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let Some(tid) = task.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
            let known = self.known.entry(tid).or_default();
            known.is_alive = true;
            if !all && known.looks >= LOOKS {
                continue;
            }
            let Ok(name) = fs::read_to_string(task.path().join("comm")) else { continue };
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
