//! What an event costs where its probe is linked in, and where it was loaded: the median of rounds that take turns.
//!
//! `cost MODULE DIRECTORY`

use ringtrace::{Module, Session};
use std::path::Path;
use std::time::Instant;
use storage::{Page, Reason};

const ROUNDS: usize = 31;
const EVENTS: u32 = 400_000;

#[derive(ringtrace::Event)]
struct Evicted {
    id: u64,
}

/// What the module's probe does.
#[ringtrace::probe(storage::page_evicted, name = "checks:linked")]
fn linked(page: &Page, _reason: Reason) -> Evicted {
    Evicted { id: page.id }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (module, directory) = (arguments.next().expect("a module"), arguments.next().expect("a directory"));
    // SAFETY: the test built the file.
    let _module = unsafe { Module::load(module) }.expect("it fits");
    let rows = [("probe/linked", "checks:linked"), ("probe/loaded", "storage:page_evicted")];
    let mut all = rows.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (times, (_, probe)) in all.iter_mut().zip(rows) {
            times.push(event_ns(probe, Path::new(&directory)));
        }
    }
    let medians = all.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    for ((row, _), median) in rows.iter().zip(medians) {
        let ratio = median / medians[0];
        if std::env::var_os("RINGTRACE_BENCH_JSON").is_some() {
            println!("{{\"name\":\"{row}\",\"threads\":1,\"ns\":{median},\"x_linked\":{ratio}}}");
        } else {
            println!("{row:30} 1 {median:10.3} ns {ratio:10.3} x_linked");
        }
    }
}

/// Time of one event that a probe records.
fn event_ns(probe: &str, directory: &Path) -> f64 {
    let session = Session::builder("cost").enable(probe).overwrite().memory(16 << 20).output(directory.join("trace"));
    let session = session.start().expect("a session");
    let begin = Instant::now();
    for id in 0..u64::from(EVENTS) {
        storage::page_evicted(&Page { id, bytes: 1, dirty: true }, Reason::Lru);
    }
    let time = begin.elapsed();
    let statistics = session.stop().expect("it stops");
    assert_eq!((statistics.events, statistics.lost.total() - statistics.lost.overwritten), (EVENTS.into(), 0));
    drop(session);
    std::fs::remove_dir_all(directory.join("trace")).expect("its directory");
    time.as_nanos() as f64 / f64::from(EVENTS)
}
