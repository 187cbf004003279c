//! What an event costs when its probe was loaded, beside one whose probe is linked in: `cost MODULE`, in nanoseconds.
//!
//! The two record the same field of the same argument, are measured in turn, and each figure is the median of its repetitions.

use ringtrace::{Module, Session};
use std::time::Instant;
use storage::{Page, Reason};

/// As `storage::page_evicted`.
#[ringtrace::tracepoint]
fn linked(page: &Page, reason: Reason);

#[derive(ringtrace::Event)]
struct Evicted {
    id: u64,
}

#[ringtrace::probe(linked)]
fn record_linked(page: &Page, _reason: Reason) -> Evicted {
    Evicted { id: page.id }
}

const EVENTS: u64 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let module = std::env::args().nth(1).ok_or("cost MODULE")?;
    let directory = std::env::temp_dir().join(format!("ringtrace-cost-{}", std::process::id()));
    let session = Session::builder("cost").enable("*").overwrite().memory(16 << 20).output(&directory).start()?;
    // SAFETY: the module has probes, and nothing else.
    let _module = unsafe { Module::load(module)? };
    let events: [(&str, fn(&Page)); 2] =
        [("linked in", |page| linked(page, Reason::Lru)), ("loaded", |page| storage::page_evicted(page, Reason::Lru))];
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..61 {
        for ((_, fire), figures) in events.iter().zip(&mut figures) {
            let before = session.statistics().events;
            let begin = Instant::now();
            (0..EVENTS).for_each(|id| fire(&Page { id, bytes: 0, dirty: false }));
            figures.push(begin.elapsed().as_nanos() as f64 / EVENTS as f64);
            if session.statistics().events != before + EVENTS {
                return Err("an event did not arrive".into());
            }
        }
    }
    for ((name, _), mut figures) in events.iter().zip(figures) {
        figures.sort_by(f64::total_cmp);
        println!("{name:<10} {:>8.3} ns", figures[figures.len() / 2]);
    }
    drop(session);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
