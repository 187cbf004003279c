//! Loads and unloads two versions of a module, in turn, while several threads fire the tracepoint that they record.
//!
//! `reload FIRST SECOND ROUNDS DIRECTORY`

use ringtrace::{Module, Session};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let [first, second, rounds, directory] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "reload FIRST SECOND ROUNDS DIRECTORY")?;
    let rounds: u64 = rounds.parse()?;
    // Rules match what is not there yet.
    let session = Session::builder("reload").enable("storage:*").memory(16 << 20).output(directory).start()?;
    let (stop, next) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| -> Result<()> {
        let _stop = SetOnDrop(&stop);
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    (0..50).for_each(|_| storage::evict(next.fetch_add(1, Ordering::Relaxed)));
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let mut settled = None;
        for round in 0..rounds {
            let path = if round % 2 == 0 { &first } else { &second };
            // SAFETY: the module has probes, and nothing else.
            let module = unsafe { Module::load(path)? };
            if module.version() != ["1.0.0", "2.0.0"][(round % 2) as usize] {
                return Err(format!("{path} is version {}", module.version()).into());
            }
            let before = session.statistics().events;
            while session.statistics().events < before + 10 {
                std::thread::yield_now();
            }
            module.unload(Duration::from_secs(60))?;
            if storage::page_evicted::enabled() || mapped(path)? {
                return Err(format!("round {round}: {path} was not unloaded").into());
            }
            // Caches and the like have their size by then.
            if round == rounds / 4 {
                settled = Some(memory()?);
            }
        }
        let (before, after) = (settled.unwrap_or_default(), memory()?);
        println!("{rounds} rounds, {} events; memory {before} KiB, then {after} KiB", session.statistics().events);
        if after > before + 4096 {
            return Err("memory leaks".into());
        }
        Ok(())
    })?;
    session.stop()?;
    Ok(())
}

/// Whether a file is mapped.
fn mapped(path: &str) -> Result<bool> {
    let path = fs::canonicalize(path)?;
    Ok(fs::read_to_string("/proc/self/maps")?.contains(&*path.to_string_lossy()))
}

/// Resident memory without that of files, in KiB.
fn memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).ok_or("no RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
